"""The end of a long line of waiting gangs: after a restart it is read later than what runs.

A service that comes back places the gangs at the head of each queue's line at once, and reads what
stands behind them a part at a time, before each further cycle. Under `fair_share` who goes first is
found by priority, then queue, then age: among those read later is nobody whose turn has come, as
long as no cycle places more gangs of a queue than were read of it.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from api.store.bulk import among
from api.store.rows import AnyRow, AnySelect
from api.store.tables import claims, facts, jobs, queues
from scheduler.model.lifecycle import FINAL, JobState

HEAD = 1_000
"""Gangs of each queue that are read first."""

LONG = 5_000
"""A line that is not longer is read whole."""

PART = 2_000
"""Gangs read before one further cycle: less than 0.1 s of work."""

Columns = Sequence[sa.ColumnElement[Any]]

# The index of lines is of those that have this word, which not every planner sees in a parameter.
_PENDING = jobs.c.state == sa.literal_column(f"'{JobState.PENDING}'")
UNENDED = jobs.c.state.in_(sorted(set(JobState) - FINAL))
"""Said so that an index helps: most jobs ended long ago."""
_ELSEWHERE = jobs.c.state.in_(sorted(set(JobState) - FINAL - {JobState.PENDING}))


@dataclass(slots=True)
class Backlog:
    """How far the end of the line was read.

    Attributes:
        until: Youngest age to be read: later ones are learnt as news.
        after: Age of the last that was read.
        is_read: There are no more.
    """

    until: int
    after: int = 0
    is_read: bool = False


def is_long(connection: Connection) -> bool:
    """Whether so many gangs wait that the end of the line is better read later."""
    some = sa.select(jobs.c.uid).where(_PENDING).limit(LONG + 1).subquery()
    found = connection.execute(sa.select(sa.func.count()).select_from(some)).scalar_one()
    return int(found) > LONG


def read_head(connection: Connection, columns: Columns) -> list[AnyRow]:
    """Jobs that do not wait in line, the head of each line, and those of whom more is known.

    The last are jobs that facts are about, that have claims, or that failed before. By age.

    Args:
        columns: What to read; `uid` and `age` among them.
    """
    meant = sa.select(facts.c.job_uid).where(facts.c.applied_at.is_(None))
    kept = sa.select(claims.c.job_uid).where(~claims.c.gone, claims.c.job_uid.is_not(None))
    each = (
        _ELSEWHERE,
        sa.and_(_PENDING, jobs.c.recovery.is_not(None)),
        sa.and_(_PENDING, jobs.c.uid.in_(sa.union(meant, kept))),
    )
    asked = [sa.select(*columns).where(which) for which in each]
    names = connection.execute(sa.select(queues.c.name)).scalars().all()
    asked += [_line(columns, queue) for queue in names]
    found = [row for query in asked for row in connection.execute(query).all()]
    return sorted({row.uid: row for row in found}.values(), key=attrgetter("age"))


def _line(columns: Columns, queue: str) -> AnySelect:
    """The head of a queue's line, found by an index: the end may be a hundred times as long."""
    query = sa.select(*columns).where(_PENDING, jobs.c.queue == queue)
    return query.order_by(jobs.c.priority.desc(), jobs.c.age).limit(HEAD)


def next_part(connection: Connection, backlog: Backlog, columns: Columns) -> Sequence[AnyRow]:
    """The next gangs that wait, by age; among them those that were read before."""
    between = jobs.c.age.between(backlog.after + 1, backlog.until)
    query = sa.select(*columns).where(_PENDING, between).order_by(jobs.c.age).limit(PART)
    rows = connection.execute(query).all()
    backlog.is_read = len(rows) < PART
    if rows:
        backlog.after = int(rows[-1].age)
    return rows


def of_these(connection: Connection, uids: Collection[str], columns: Columns) -> Sequence[AnyRow]:
    """These jobs, if they have not ended; by age."""
    query = sa.select(*columns).where(UNENDED, among(connection, jobs.c.uid, sorted(uids)))
    return connection.execute(query.order_by(jobs.c.age)).all()
