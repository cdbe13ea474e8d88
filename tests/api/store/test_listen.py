"""Commits of other processes are heard of at once, and found by looking where nobody hears."""

import threading
from collections.abc import Iterator
from contextlib import closing

import pytest
import sqlalchemy as sa

from api.store import listen, notify
from api.store.engine import Database
from api.store.listen import Listener
from api.store.notify import POLL_S, Notifier
from api.store.schema import open_database
from api.store.tail import Piece, Tail
from api.store.views import EventView, Page
from tests.api.store.build import submit
from tests.crash.service import until

of_postgresql = pytest.mark.parametrize("database_kind", ["postgresql"], indirect=True)


@pytest.fixture
def other(database_url: str) -> Iterator[Database]:
    """The database as another process has it."""
    with closing(open_database(database_url)) as opened:
        yield opened


@pytest.fixture
def listener(database: Database) -> Listener:
    """Of the database, started; it ends with the database."""
    assert database.listener is not None
    database.listener.start()
    until(lambda: database.notifier.pause_s > POLL_S, "it listens")
    return database.listener


@of_postgresql
@pytest.mark.usefixtures("listener")
def test_commit_of_another_process_is_heard_without_a_look(
    database: Database, other: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.notifier.wait(-1, 0.0)
    monkeypatch.setattr(database.notifier, "_poll", lambda: None)
    submit(other, "a")
    revision = other.notifier.known
    assert database.notifier.wait(revision - 1, 30.0) == revision


@of_postgresql
@pytest.mark.usefixtures("listener")
def test_own_commit_is_not_heard_of_as_if_another_had_made_it(
    database: Database, other: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be read back before whoever made it could say what is in it."""
    heard, publish = list[int](), database.notifier.publish

    def note(revision: int) -> None:
        if threading.current_thread().name == "podyard-listener":
            heard.append(revision)
        publish(revision)

    monkeypatch.setattr(database.notifier, "publish", note)
    submit(database, "mine")
    submit(other, "theirs")
    theirs = other.notifier.known
    until(lambda: theirs in heard, "the other's is heard of")
    assert heard == [theirs]


@of_postgresql
@pytest.mark.usefixtures("listener")
def test_what_waits_is_woken_by_another_process(database: Database, other: Database) -> None:
    before, found = database.notifier.wait(-1, 0.0), list[int]()
    waiting = threading.Thread(target=lambda: found.append(database.notifier.wait(before, 30.0)))
    waiting.start()
    submit(other, "a")
    waiting.join(30)
    assert found
    assert found[0] > before


@of_postgresql
@pytest.mark.usefixtures("listener")
def test_listener_that_was_cut_off_listens_again_and_nothing_is_missed(
    database: Database, other: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listen, "AGAIN_S", 0.01)
    heard: list[bool] = []
    hears = database.notifier.hears

    def note(*, is_so: bool) -> None:
        heard.append(is_so)
        hears(is_so=is_so)

    monkeypatch.setattr(database.notifier, "hears", note)
    query = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE query LIKE 'LISTEN%' AND datname = current_database()"
    )
    with other.engine.begin() as connection:
        assert len(connection.execute(sa.text(query)).all()) == 1
    submit(other, "a")
    revision = other.notifier.known
    assert database.notifier.wait(revision - 1, 30.0) >= revision
    until(lambda: heard == [False, True], "it listens again")


@of_postgresql
def test_listener_that_hears_nothing_ends_at_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listen, "LOOK_S", 600.0)
    assert database.listener is not None
    before = set(threading.enumerate())
    database.listener.start()
    until(lambda: database.notifier.pause_s > POLL_S, "it listens")
    begun = set(threading.enumerate()) - before
    (listening,) = (thread for thread in begun if thread.name == "podyard-listener")
    stopping = threading.Thread(target=database.listener.stop, daemon=True)
    stopping.start()
    stopping.join(30)
    assert not stopping.is_alive()
    assert not listening.is_alive()


@of_postgresql
@pytest.mark.usefixtures("listener")
def test_listener_that_always_hears_something_asks_all_the_same(
    other: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others take a process that asks nothing for gone."""
    monkeypatch.setattr(listen, "LOOK_S", 0.2)
    asked = sa.text(
        "SELECT query_start FROM pg_stat_activity WHERE query = :alive "
        "AND datname = current_database()"
    )
    ends, seen = threading.Event(), set[object]()

    def talk() -> None:
        with other.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            while not ends.is_set():
                connection.execute(sa.text(f"NOTIFY {notify.CHANNEL}, 'nothing'"))

    def asks_again() -> bool:
        with other.engine.connect() as connection:
            seen.update(connection.execute(asked, {"alive": listen.ALIVE}).scalars())
        return len(seen) > 1

    talking = threading.Thread(target=talk)
    talking.start()
    try:
        until(asks_again, "it asks twice")
    finally:
        ends.set()
        talking.join()


def test_looks_are_rare_only_while_commits_are_heard() -> None:
    notifier = Notifier(lambda: 7)
    assert notifier.pause_s == POLL_S
    notifier.hears(is_so=True)
    assert notifier.pause_s == notify.HEARING_POLL_S > POLL_S
    notifier.hears(is_so=False)
    assert notifier.pause_s == POLL_S


def test_event_that_is_noted_while_it_is_read_is_kept_once() -> None:
    """A commit of this process is heard of before it is noted, and somebody reads it meanwhile."""

    def view(revision: int) -> EventView:
        return EventView(revision, 0.0, "job.bound", "job", "default", "a", "u", "", {})

    def read(after: int, _limit: int) -> Page[EventView]:
        tail._put(Piece(views=[view(2)]))
        return Page((view(2),), 2, None)

    notifier = Notifier(lambda: 2)
    tail = Tail(read, notifier)
    tail._put(Piece(views=[view(1)]))
    notifier.publish(2)
    assert [v.revision for v in tail.after(1, 10)] == [2]
    assert [v.revision for v in tail.after(0, 10)] == [1, 2]
