"""Write transactions: revisions, sharing, failing; and waiting for them."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from api.store.engine import Database, Settle, Transaction
from api.store.errors import Conflict
from api.store.events import current_revision, list_events, wait_for_revision
from api.store.schema import open_database
from api.store.tables import meta
from tests.crash.service import until


def emit(tx: Transaction, name: str = "n") -> int:
    return tx.emit("test.happened", subject_kind="test", name=name)


def test_every_event_takes_one_revision(database: Database) -> None:
    with database.write(5.0) as tx:
        assert [emit(tx, "a"), emit(tx, "b")] == [1, 2]
    with database.write(6.0) as tx:
        assert emit(tx, "c") == 3
    page = list_events(database, 0)
    assert [(e.revision, e.name, e.at) for e in page.items] == [
        (1, "a", 5.0),
        (2, "b", 5.0),
        (3, "c", 6.0),
    ]
    assert current_revision(database) == 3


def test_write_without_an_event_takes_no_revision(database: Database) -> None:
    with database.write(0.0) as tx:
        tx.connection.execute(sa.insert(meta), {"key": "a", "value": "b"})
    assert current_revision(database) == 0


def test_failed_write_leaves_nothing_and_its_revision_is_given_again(database: Database) -> None:
    with pytest.raises(ZeroDivisionError):
        _write_and_fail(database)
    assert current_revision(database) == 0
    assert _keys(database) == {"program"}
    with database.write(0.0) as tx:
        assert emit(tx) == 1


def test_reader_keeps_its_snapshot_while_others_write(database: Database) -> None:
    query = sa.text("SELECT revision FROM counter")
    with database.read() as connection:
        before = connection.execute(query).scalar_one()
        with database.write(0.0) as tx:
            emit(tx)
        assert connection.execute(query).scalar_one() == before
    assert current_revision(database) == before + 1


def test_writes_that_come_together_share_a_transaction(database: Database) -> None:
    """The first holds the gate until all others are queued; they then make one more transaction."""
    transactions: set[int] = set()
    queued = threading.Event()

    def work(tx: Transaction) -> int:
        transactions.add(id(tx.connection))
        assert queued.wait(10)
        return emit(tx)

    revisions: list[int] = []
    threads = [
        threading.Thread(target=lambda: revisions.append(database.grouped(work, 0.0)))
        for _ in range(9)
    ]
    threads[0].start()
    until(lambda: bool(transactions), "the first writes")
    for thread in threads[1:]:
        thread.start()
    until(partial(has_queued, database, 8), "the others stand in line")
    queued.set()
    for thread in threads:
        thread.join(10)
    assert sorted(revisions) == list(range(1, 10))
    assert len(list_events(database, 0).items) == 9


def test_refusal_of_one_write_does_not_touch_those_that_share_its_transaction(
    database: Database,
) -> None:
    outcomes = _together(database, [_write_key("a"), _refuse, _write_key("b")])
    assert isinstance(outcomes[1], Conflict)
    assert outcomes[0] is None
    assert outcomes[2] is None
    assert _keys(database) == {"program", "a", "b"}


def test_database_error_of_one_write_does_not_touch_those_that_share_its_transaction(
    database: Database,
) -> None:
    outcomes = _together(database, [_write_key("a"), _write_key("program"), _write_key("b")])
    assert isinstance(outcomes[1], IntegrityError)
    assert outcomes[0] is None
    assert outcomes[2] is None
    assert _keys(database) == {"program", "a", "b"}


def test_refusal_after_a_write_takes_the_write_back(database: Database) -> None:
    def late(tx: Transaction) -> None:
        _write_key("late")(tx)
        raise Conflict("", "too late")

    outcomes = _together(database, [_write_key("a"), late])
    assert isinstance(outcomes[1], Conflict)
    assert _keys(database) == {"program", "a"}


def test_waiting_ends_when_this_process_commits(database: Database) -> None:
    found: list[int] = []
    waiter = threading.Thread(target=lambda: found.append(wait_for_revision(database, 0, 10.0)))
    waiter.start()
    with database.write(0.0) as tx:
        emit(tx)
    waiter.join(10)
    assert found == [1]


def test_waiting_ends_when_another_process_commits(database: Database, database_url: str) -> None:
    began = time.monotonic()
    with closing(open_database(database_url)) as other:
        found: list[int] = []
        waiter = threading.Thread(target=lambda: found.append(wait_for_revision(database, 0, 10.0)))
        waiter.start()
        with other.write(0.0) as tx:
            emit(tx)
        waiter.join(10)
    assert found == [1]
    assert time.monotonic() - began < 5


def test_waiting_ends_when_time_is_up_or_the_database_is_closed(database: Database) -> None:
    assert wait_for_revision(database, 0, 0.01) == 0
    waiter = threading.Thread(target=lambda: wait_for_revision(database, 0, 60.0))
    waiter.start()
    database.notifier.close()
    waiter.join(10)
    assert not waiter.is_alive()


@pytest.mark.parametrize("database_kind", ["postgresql"], indirect=True)
def test_connection_that_was_cut_while_idle_is_replaced_unseen(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.store.connect.TRUSTED_S", 0.0)
    with database.read() as connection:
        cut = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
    with closing(open_database(database.url)) as other, other.engine.begin() as connection:
        connection.exec_driver_sql(f"SELECT pg_terminate_backend({cut})")
    with database.write(0.0) as tx:
        emit(tx)
        assert tx.connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one() != cut


def test_waiting_for_what_is_there_already_returns_at_once(database: Database) -> None:
    with database.write(0.0) as tx:
        emit(tx)
    assert wait_for_revision(database, 0, 60.0) == 1


def _write_and_fail(database: Database) -> None:
    with database.write(0.0) as tx:
        _write_key("a")(tx)
        raise ZeroDivisionError


def _write_key(key: str) -> Callable[[Transaction], None]:
    def work(tx: Transaction) -> None:
        tx.connection.execute(sa.insert(meta), {"key": key, "value": ""})
        emit(tx, key)

    return work


def _awaited(database: Database, *, is_awaited: bool = True) -> object:
    def many(tx: Transaction, items: list[str]) -> list[int]:
        return [emit(tx) for _ in items]

    return database.gathered(many, "one", 0.0, is_awaited=is_awaited)


def test_decision_is_written_with_what_it_is_about(database: Database) -> None:
    settled: list[bool] = []

    def decide(tx: Transaction) -> Settle:
        emit(tx)
        return settled.append

    before = current_revision(database)
    database.decider = decide
    assert (_awaited(database), current_revision(database)) == (before + 1, before + 2)
    assert settled == [True]
    pieces = database.tail.is_all_after(before, before + 2)
    assert pieces is not None
    assert [event.revision for p in pieces for event in p.views] == [before + 1, before + 2]


def test_decider_is_not_asked_where_nobody_waits(database: Database) -> None:
    asked: list[Transaction] = []
    database.decider = asked.append
    _awaited(database, is_awaited=False)
    assert asked == []


def test_failed_decision_keeps_no_write_out(database: Database) -> None:
    """Its part of the transaction goes, and the rest is written again."""

    def decide(tx: Transaction) -> None:
        emit(tx)
        raise RuntimeError

    before = current_revision(database)
    database.decider = decide
    assert _awaited(database) == before + 1
    assert current_revision(database) == before + 1


def test_decision_hears_of_a_commit_that_failed(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled: list[bool] = []

    def fail(_tx: Transaction) -> None:
        raise RuntimeError

    monkeypatch.setattr(Transaction, "finish", fail)
    database.decider = lambda _tx: settled.append
    with pytest.raises(RuntimeError):
        _awaited(database)
    assert settled == [False]


def _refuse(_: Transaction) -> None:
    raise Conflict("x", "no")


def _together(
    database: Database, works: Sequence[Callable[[Transaction], None]]
) -> list[Exception | None]:
    """Run writes in one transaction, as if they had come while another held the gate."""
    outcomes: list[Exception | None] = [None] * len(works)

    def run(index: int) -> None:
        try:
            database.grouped(works[index], 0.0)
        except Exception as error:
            outcomes[index] = error

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(works))]
    with database._gate:
        for number, thread in enumerate(threads, 1):
            thread.start()
            until(partial(has_queued, database, number), "it stands in line")
    for thread in threads:
        thread.join(10)
    return outcomes


def _keys(database: Database) -> set[str]:
    with database.read() as connection:
        return set(connection.execute(sa.select(meta.c.key)).scalars()) - {"serves"}


def has_queued(database: Database, count: int) -> bool:
    return len(database._groups) == count
