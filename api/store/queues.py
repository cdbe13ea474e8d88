"""Queues: a tree of names with quotas and limits. What they mean is decided in the core."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

import sqlalchemy as sa
from sqlalchemy import Connection

from api.store.engine import Database, Transaction
from api.store.errors import Conflict, NotFound
from api.store.queue_rows import names_of, queue_row, read_queues
from api.store.queue_views import queue_view
from api.store.tables import jobs, queues
from api.store.views import QueueView
from scheduler.errors import Problem, QueueError
from scheduler.model.queue import DEFAULT_QUEUE, QueueRecord
from scheduler.order.tree import check_queue

FIELDS = tuple(f.name for f in fields(QueueRecord))


def create_queue(db: Database, queue: QueueRecord, *, now_s: float) -> QueueView:
    """Make a queue.

    Raises:
        Conflict: If the name is in use, or the parent has jobs of its own.
        QueueError: If the tree cannot be with it.
    """

    def work(tx: Transaction) -> QueueView:
        there = read_queues(tx.connection)
        if queue.name in there:
            message = f"queue '{queue.name}' exists; change it, or choose another name"
            raise Conflict("name", message)
        _write(tx, queue, there)
        return queue_view(tx.connection, queue.name)

    return db.grouped(work, now_s)


def put_queue(db: Database, queue: QueueRecord, *, now_s: float) -> tuple[QueueView, bool]:
    """Make a queue, or replace all that is stated of it.

    Returns:
        The queue, and whether it is new.

    Raises:
        Conflict: If the parent has jobs of its own.
        QueueError: If the tree cannot be with it.
    """

    def work(tx: Transaction) -> tuple[QueueView, bool]:
        is_new = put_queue_in(tx, queue)
        return queue_view(tx.connection, queue.name), is_new

    return db.grouped(work, now_s)


def put_queue_in(tx: Transaction, queue: QueueRecord) -> bool:
    """What `put_queue` does, in a transaction that also writes what goes with it; if it is new."""
    there = read_queues(tx.connection)
    _write(tx, queue, there)
    return queue.name not in there


def patch_queue(
    db: Database, name: str, changes: Mapping[str, object], *, now_s: float
) -> QueueView:
    """Change only these fields of `QueueRecord`; nothing is written when nothing differs.

    Raises:
        NotFound: If there is no such queue.
        Conflict: If the new parent has jobs of its own.
        QueueError: If the name would change, or the tree cannot be with it.
    """
    unknown = sorted(set(changes) - set(FIELDS))
    if unknown:
        allowed = ", ".join(FIELDS)
        raise QueueError(
            Problem(n, f"there is no such field; allowed are {allowed}") for n in unknown
        )

    def work(tx: Transaction) -> QueueView:
        there = read_queues(tx.connection)
        if name not in there:
            raise NotFound("queue", name)
        changed = replace(there[name], **dict(changes))  # type: ignore[arg-type]  # kinds are the caller's schema's
        if changed.name != name:
            raise QueueError(Problem("name", f"queue '{name}' cannot be renamed"))
        _write(tx, changed, there)
        return queue_view(tx.connection, name)

    return db.grouped(work, now_s)


def delete_queue(db: Database, name: str, *, now_s: float) -> None:
    """Delete a queue; jobs of it that have ended still name it.

    Raises:
        NotFound: If there is none.
        Conflict: If it has jobs that have not ended or queues below it, or is the default one.
    """
    db.grouped(lambda tx: delete_queue_in(tx, name), now_s)


def delete_queue_in(tx: Transaction, name: str) -> None:
    """What `delete_queue` does, in a transaction that also writes what goes with it."""
    there = read_queues(tx.connection)
    if name not in there:
        raise NotFound("queue", name)
    _check_unused(tx.connection, name, there)
    _emit(tx, "queue.deleted", name)
    tx.connection.execute(sa.delete(queues).where(queues.c.name == name))


@dataclass(frozen=True, slots=True)
class _Own:
    """Jobs of one queue itself that have not ended."""

    count: int
    example: str


def _write(tx: Transaction, queue: QueueRecord, there: Mapping[str, QueueRecord]) -> None:
    """Check a queue against all others and write it, if it differs from what is there."""
    before = there.get(queue.name)
    if queue == before:
        return
    check_queue(queue, there)
    if queue.parent is not None and (before is None or queue.parent != before.parent):
        _check_no_jobs(tx.connection, queue)
    row = queue_row(queue)
    if before is None:
        revision = _emit(tx, "queue.created", queue.name)
        tx.connection.execute(sa.insert(queues), row | {"revision": revision})
    else:
        revision = _emit(tx, "queue.changed", queue.name)
        where = queues.c.name == queue.name
        tx.connection.execute(sa.update(queues).where(where).values(**row, revision=revision))


def _check_no_jobs(connection: Connection, queue: QueueRecord) -> None:
    """Jobs stand in queues that have none below: else they would be their children's rivals."""
    own = _own_jobs(connection, str(queue.parent))
    if own is not None:
        raise Conflict(
            "parent",
            f"queue '{queue.parent}' has {own.count} jobs of its own that have not ended, e.g. "
            f"'{own.example}'; only a queue without can have queues below it, such as "
            f"'{queue.name}'",
        )


def _check_unused(connection: Connection, name: str, there: Mapping[str, QueueRecord]) -> None:
    if name == DEFAULT_QUEUE:
        raise Conflict("", f"queue '{name}' is always there")
    below = [queue for queue in there.values() if queue.parent == name]
    if below:
        raise Conflict("", f"queue '{name}' has queues below it: {names_of(below)}")
    own = _own_jobs(connection, name)
    if own is not None:
        raise Conflict(
            "", f"queue '{name}' has {own.count} jobs that have not ended, e.g. '{own.example}'"
        )


def _own_jobs(connection: Connection, name: str) -> _Own | None:
    unended = sa.and_(jobs.c.queue == name, jobs.c.holds_name)
    first = sa.func.min(jobs.c.namespace + "/" + jobs.c.name)
    count, example = connection.execute(sa.select(sa.func.count(), first).where(unended)).one()
    return _Own(count, example) if count else None


def _emit(tx: Transaction, kind: str, name: str) -> int:
    what = kind.partition(".")[2]
    return tx.emit(
        kind, subject_kind="queue", name=name, uid=name, message=f"queue '{name}' {what}"
    )
