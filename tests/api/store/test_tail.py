"""One reader for all who follow: what is written here is known at once, what others write is read
once, and what is told in memory is what the database says."""

import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from api.store import tail as module
from api.store.engine import Database
from api.store.events import current_revision, list_events
from api.store.jobs import submit_job
from api.store.schema import open_database
from api.store.tail import Piece
from api.store.views import EventView, Page
from tests.api.store.build import NOW_S, load_cluster, make_spec, submit


@pytest.fixture
def other(database: Database) -> Iterator[Database]:
    """The same database, as another process has it."""
    with closing(open_database(database.url)) as found:
        yield found


def refuse(*_args: object) -> None:
    raise AssertionError("the database was read")


def test_own_events_are_known_without_a_look(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_cluster(database)
    before = current_revision(database)
    for name in "abc":
        submit(database, name)
    expected = list(list_events(database, before).items)
    monkeypatch.setattr(database.tail, "_read", refuse)
    assert database.tail.after(before, 100) == expected
    assert database.tail.after(before + 1, 100) == expected[1:]
    assert database.tail.after(before, 2) == expected[:2]
    assert database.tail.span(before, before + 2) == expected[:2]


def test_large_jobs_that_were_told_of_are_kept_by_their_bytes(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEPT_BYTES", 200_000)
    load_cluster(database)
    before = current_revision(database)
    for number in range(20):
        submit_job(database, make_spec(f"j{number}"), {"note": "x" * 50_000}, now_s=NOW_S)
    assert 100_000 < database.tail.size_bytes <= 200_000
    assert database.tail.told_since(before) is None
    assert database.tail.told_since(before + 18) is not None


def test_events_of_others_are_read_once_and_stand_in_order(
    database: Database, other: Database
) -> None:
    load_cluster(database)
    before = current_revision(database)
    submit(database, "mine")
    submit(other, "theirs")
    submit(database, "mine-too")
    assert database.tail.is_all_after(before, before + 3) is None
    reads: list[int] = []
    read = database.tail._read

    def counted(since: int, limit: int) -> Page[EventView]:
        reads.append(since)
        return read(since, limit)

    database.tail._read = counted
    expected = list(list_events(database, before).items)
    for _ in range(2):
        found = database.tail.after(before, 100)
        found += database.tail.after(found[-1].revision, 100)
        found += database.tail.after(found[-1].revision, 100)
        assert found[:3] == expected
    assert len(reads) == 1
    assert database.tail.is_all_after(before, before + 3) is not None


def test_world_is_not_told_what_another_process_wrote(database: Database, other: Database) -> None:
    load_cluster(database)
    before = current_revision(database)
    submit(database, "mine")
    assert database.tail.told_since(before) is not None
    submit(other, "theirs")
    submit(database, "mine-too")
    assert database.tail.told_since(before) is None


def test_listener_hears_of_both_and_those_who_leave_of_neither(
    database: Database, other: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOK_S", 0.01)
    load_cluster(database)
    heard, names = threading.Condition(), list[str]()

    def hear(piece: Piece | None) -> None:
        with heard:
            names.extend([] if piece is None else [view.name for view in piece.views])
            heard.notify_all()

    database.tail.listen(hear)
    submit(database, "mine")
    submit(other, "theirs")
    with heard:
        assert heard.wait_for(lambda: {"mine", "theirs"} <= set(names), timeout=20)
    database.tail.leave(hear)
    submit(database, "later")
    assert "later" not in names


def test_first_listener_after_a_restart_is_told_nothing_of_what_was_before(
    database: Database,
) -> None:
    """All of the history that is kept would be read while the first decisions are due."""
    load_cluster(database)
    submit(database, "before")
    heard: list[EventView] = []
    came = threading.Event()

    def hear(piece: Piece | None) -> None:
        heard.extend([] if piece is None else piece.views)
        came.set()

    with closing(open_database(database.url)) as restarted:
        restarted.tail.listen(hear)
        submit(database, "after")
        assert came.wait(10)
    assert {view.name for view in heard} == {"after"}


def test_only_so_many_events_stay_in_memory(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEPT_EVENTS", 4)
    load_cluster(database)
    before = current_revision(database)
    for number in range(12):
        submit(database, f"j{number}")
    assert sum(map(len, database.tail._pieces)) <= 5
    assert database.tail.is_all_after(before, before + 12) is None
    # Who is further behind reads, and is told the same.
    assert database.tail.after(before, 3) == list(list_events(database, before, 3).items)


def test_transaction_with_an_event_nobody_accounts_for_is_read(database: Database) -> None:
    load_cluster(database)
    before = current_revision(database)
    submit_job(database, make_spec("a"), {}, now_s=NOW_S)
    with database.write(NOW_S) as tx:
        tx.emit("policy.changed", subject_kind="policy")
    assert database.tail.told_since(before) is None
