"""What happened since a revision, as counts; and how long those that started had waited."""

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from api.store.engine import Database, read_revision
from api.store.tables import deliveries, events, jobs
from api.store.tables_faults import faults
from scheduler.model.lifecycle import JobState


@dataclass(frozen=True, slots=True)
class Wait:
    """One gang that got its place, and how long that took."""

    queue: str
    seconds: float


def count_events(db: Database, since: int) -> tuple[int, dict[str, int]]:
    """The current revision, and how many events of each kind came after `since`."""
    with db.read() as connection:
        current = read_revision(connection)
        query = (
            sa.select(events.c.kind, sa.func.count().label("times"))
            .where(events.c.revision.between(since + 1, current))
            .group_by(events.c.kind)
        )
        return current, {row.kind: row.times for row in connection.execute(query)}


def waits_of(db: Database, since: int, until: int) -> Sequence[Wait]:
    """Of the gangs that got their first place with the events of these revisions.

    One whose record is gone by then is left out.
    """
    bound = (
        sa.select(events.c.uid)
        .where(events.c.revision.between(since + 1, until), events.c.kind == "job.bound")
        .distinct()
        .subquery()
    )
    query = (
        sa.select(jobs.c.queue, jobs.c.bound_at - jobs.c.submitted_at)
        .join(bound, bound.c.uid == jobs.c.uid)
        .where(jobs.c.bound_at.is_not(None), jobs.c.attempt <= 1)
    )
    with db.read() as connection:
        return [Wait(queue, max(0.0, wait_s)) for queue, wait_s in connection.execute(query)]


def oldest_waiting(db: Database) -> float | None:
    """When the gang was submitted that waits longest and is not held; None where none waits."""
    with db.read() as connection:
        found = (
            connection.execute(
                sa.select(jobs.c.submitted_at)
                .where(jobs.c.state == state, ~jobs.c.held)
                .order_by(jobs.c.age)
                .limit(1)
            ).scalar()
            for state in (JobState.PENDING, JobState.RESERVED)
        )
        return min((at for at in found if at is not None), default=None)


def deliveries_waiting(db: Database) -> int:
    """Messages to hooks that are still to be delivered."""
    query = sa.select(sa.func.count()).where(deliveries.c.state == "pending")
    with db.read() as connection:
        return int(connection.execute(query).scalar_one())


@dataclass(frozen=True, slots=True)
class OpenFault:
    """One fault that nobody cleared yet."""

    id: int
    node: str
    code: str
    action: str
    at: float
    message: str


def newest_faults(db: Database, limit: int) -> list[OpenFault]:
    """Of those that are open, the last ones reported, newest first."""
    columns = (faults.c.id, faults.c.node, faults.c.code, faults.c.action, faults.c.at)
    query = (
        sa.select(*columns, faults.c.message)
        .where(faults.c.cleared_at.is_(None))
        .order_by(faults.c.id.desc())
        .limit(limit)
    )
    with db.read() as connection:
        return [OpenFault(*row) for row in connection.execute(query)]


def open_faults(db: Database) -> dict[str, int]:
    """Faults that nobody cleared yet, by what their code asks for."""
    query = (
        sa.select(faults.c.action, sa.func.count().label("times"))
        .where(faults.c.cleared_at.is_(None))
        .group_by(faults.c.action)
    )
    with db.read() as connection:
        return {row.action: row.times for row in connection.execute(query)}
