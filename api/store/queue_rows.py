"""Rows of queues and the values they stand for; what is asked of them for every submission."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Connection

from api.store.errors import QueueFull
from api.store.jsontext import dump_json, load_dict, load_list
from api.store.rows import AnyRow
from api.store.tables import jobs, queues
from scheduler.model.lifecycle import JobState
from scheduler.model.queue import QueueRecord
from scheduler.order.tree import chain

WAITING = (JobState.PENDING, JobState.RESERVED)
"""States of jobs that wait for their place."""


@dataclass(frozen=True, slots=True)
class QueueChain:
    """A queue with all above it.

    Attributes:
        queues: Itself first.
        below: Name of a queue below it; None without any.
    """

    queues: tuple[QueueRecord, ...]
    below: str | None


def queue_record(row: AnyRow) -> QueueRecord:
    """A row of `queues` as a value."""
    r = row._mapping
    return QueueRecord(
        name=r["name"],
        parent=r["parent"],
        quota_gpus=r["quota_gpus"],
        limit_gpus=r["limit_gpus"],
        quota_by_model=_by_model(r["quota_by_model"]),
        limit_by_model=_by_model(r["limit_by_model"]),
        weight=r["weight"],
        max_priority=r["max_priority"],
        max_pending=r["max_pending"],
        namespaces=tuple(str(name) for name in load_list(r["namespaces"])),
        closed=bool(r["closed"]),
    )


def _by_model(text: str) -> dict[str, int]:
    return {} if text == "{}" else {m: int(str(n)) for m, n in sorted(load_dict(text).items())}


def queue_row(queue: QueueRecord) -> dict[str, object]:
    """A value as a row of `queues`, without its revision."""
    return {
        "name": queue.name,
        "parent": queue.parent,
        "quota_gpus": queue.quota_gpus,
        "limit_gpus": queue.limit_gpus,
        "quota_by_model": dump_json(dict(sorted(queue.quota_by_model.items()))),
        "limit_by_model": dump_json(dict(sorted(queue.limit_by_model.items()))),
        "weight": queue.weight,
        "max_priority": queue.max_priority,
        "max_pending": queue.max_pending,
        "namespaces": dump_json(list(queue.namespaces)),
        "closed": queue.closed,
    }


def read_queues(connection: Connection) -> dict[str, QueueRecord]:
    """Every queue as it was stated, by name."""
    rows = connection.execute(sa.select(queues).order_by(queues.c.name))
    return {row.name: queue_record(row) for row in rows}


HAS_MAX_PENDING = sa.exists().where(queues.c.max_pending.is_not(None))
"""Whether any queue limits the jobs that wait in it: most often none does."""


class Pending:
    """Jobs that wait, counted against what each queue lets wait; under the write lock.

    Queues are read when the first job asks, and the jobs of those that have a limit counted once.
    """

    def __init__(self, connection: Connection) -> None:
        self._queues = read_queues(connection)
        self._counts = _waiting(connection, self._queues)

    def check(self, name: str, leaving: str | None = None) -> None:
        """Refuse one job more in this queue.

        Args:
            leaving: The queue it waits in now; above both it is counted already.

        Raises:
            QueueFull: Naming the queue, this one or one above it, that takes no more.
        """
        left = () if leaving is None else chain(leaving, self._queues)
        for queue in chain(name, self._queues):
            if queue in left:
                return
            pending = self._counts.get(queue.name, 0)
            if queue.max_pending is not None and pending >= queue.max_pending:
                raise QueueFull(queue.name, queue.max_pending, pending)

    def add(self, name: str) -> None:
        """Count a job that was let in."""
        for queue in chain(name, self._queues):
            self._counts[queue.name] = self._counts.get(queue.name, 0) + 1


def _waiting(connection: Connection, there: Mapping[str, QueueRecord]) -> dict[str, int]:
    query = sa.select(jobs.c.queue, sa.func.count()).where(jobs.c.state.in_(sorted(WAITING)))
    own = connection.execute(query.group_by(jobs.c.queue)).all()
    return with_those_below(dict(own), there)


def with_those_below(own: Mapping[str, int], there: Mapping[str, QueueRecord]) -> dict[str, int]:
    """Sums over each queue and the queues below it, from what each has by itself."""
    totals = dict.fromkeys(there, 0)
    for name, count in own.items():
        for queue in chain(name, there):
            totals[queue.name] += count
    return totals


def names_of(found: Iterable[QueueRecord], most: int = 5) -> str:
    """Names for a message."""
    listed: Sequence[str] = sorted(queue.name for queue in found)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more
