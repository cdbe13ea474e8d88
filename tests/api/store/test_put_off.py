"""Rows that are written with the events of their transaction, in one statement."""

from collections.abc import Callable
from functools import partial

import pytest
import sqlalchemy as sa

from api.store.driver import ask
from api.store.engine import Database, Transaction
from api.store.group import Ticket, run_all
from api.store.tables import facts


def fact(number: int) -> dict[str, object]:
    return {"id": number, "kind": "cancel", "job_uid": f"job-{number}", "at": 1.0}


def emit(tx: Transaction) -> int:
    return tx.emit("test.done", subject_kind="job", name="a")


def found(database: Database) -> list[int]:
    with database.read() as connection:
        return list(connection.execute(sa.select(facts.c.id).order_by(facts.c.id)).scalars())


@pytest.mark.parametrize("numbers", [[1], [1, 2, 3]])
def test_rows_put_off_come_with_the_events(database: Database, numbers: list[int]) -> None:
    with database.write(1.0) as tx:
        tx.put_last(facts, [fact(n) for n in numbers])
        tx.put_last(facts, [fact(9)])
        revision = emit(tx)
    assert found(database) == [*numbers, 9]
    with database.read() as connection:
        last = ask(connection, "SELECT max(revision) FROM events")[0][0]
    assert last == revision


def test_rows_put_off_come_without_any_event(database: Database) -> None:
    with database.write(1.0) as tx:
        tx.put_last(facts, [fact(1)])
    assert found(database) == [1]


def test_no_rows_are_nothing_to_put_off(database: Database) -> None:
    with database.write(1.0) as tx:
        tx.put_last(facts, [])
        emit(tx)
    assert found(database) == []


def test_what_is_put_off_goes_with_a_transaction_that_fails(database: Database) -> None:
    def fail() -> None:
        with database.write(1.0) as tx:
            tx.put_last(facts, [fact(1)])
            emit(tx)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert found(database) == []


def _put(tx: Transaction, number: int) -> None:
    tx.put_last(facts, [fact(number)])
    emit(tx)


def _look(tx: Transaction) -> list[int]:
    return [row[0] for row in ask(tx.connection, "SELECT id FROM facts ORDER BY id")]


def _put_many(tx: Transaction, numbers: list[int]) -> list[list[int]]:
    seen = _look(tx)
    tx.put_last(facts, [fact(n) for n in numbers])
    emit(tx)
    return [seen for _ in numbers]


def test_who_shares_the_transaction_finds_what_was_put_off_before(database: Database) -> None:
    one: Callable[[Transaction], None] = partial(_put, number=1)
    group: list[Ticket[object]] = [
        Ticket(one),
        Ticket(_look),
        Ticket(many=_put_many, item=2),
        Ticket(many=_put_many, item=3),
        Ticket(_look),
    ]
    with database.write(1.0) as tx:
        run_all(group, tx)
    assert [ticket.result() for ticket in group] == [None, [1], [1], [1], [1, 2, 3]]
