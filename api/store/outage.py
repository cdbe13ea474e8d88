"""Clocks that stand still while nobody looks: the limits of gangs that wait for the service.

A gang in recovery has a limit until when it keeps what is left of its place, and a gang that is
asked to save has one until when it must have. Neither is to be over because the service was away:
nobody could place its members, nor hear that it has saved.
"""

from dataclasses import replace

import sqlalchemy as sa

from api.schemas.spec import dump_eviction, load_eviction
from api.store.bulk import upsert_rows
from api.store.engine import Database, Transaction
from api.store.errors import Deposed
from api.store.job_recovery import dump_recovered, load_recovery
from api.store.rows import AnyRow
from api.store.tables import jobs, leader
from api.store.tables_recovery import pulse
from scheduler.model.lifecycle import FINAL, JobState
from scheduler.model.plan import EvictStep

_OPEN = frozenset({EvictStep.ASKED, EvictStep.SAVING})
"""Steps on the way out that have a limit."""


def read_pulse(db: Database) -> float | None:
    """When the leader last said that it looks; None if it never did."""
    with db.read() as connection:
        return connection.execute(sa.select(pulse.c.at)).scalar_one_or_none()


def write_pulse(db: Database, now_s: float) -> None:
    """Say that the leader looks."""
    with db.write_quietly() as connection:
        upsert_rows(connection, pulse, [{"id": 1, "at": now_s}])


def extend_limits(db: Database, *, since_s: float, least_s: float, epoch: int, now_s: float) -> int:
    """Move on the limits of gangs by the time in which nobody looked.

    Args:
        since_s: When somebody last looked, Unix seconds. A clock that began later, began when
            somebody did.
        least_s: A shorter time counts as none.
        epoch: Of the leader that found out.

    Returns:
        Gangs that got more time.

    Raises:
        Deposed: If the epoch is over; nothing was written.
    """
    with db.write(now_s) as tx:
        current = tx.connection.execute(sa.select(leader.c.epoch)).scalar_one()
        if current != epoch:
            raise Deposed(epoch, current)
        running = sa.or_(jobs.c.state == JobState.RECOVERING, jobs.c.evict.is_not(None))
        query = sa.select(jobs).where(running, jobs.c.state.not_in(sorted(FINAL)))
        found = tx.connection.execute(query.order_by(jobs.c.age)).all()
        return sum(_extend(tx, row, since_s, least_s) for row in found)


def _extend(tx: Transaction, row: AnyRow, since_s: float, least_s: float) -> bool:
    r, now_s, changed = row._mapping, tx.now_s, dict[str, object]()
    lives = load_recovery(r["recovery"])
    longest_s = 0.0
    if lives.hold_until_s is not None and r["state"] == JobState.RECOVERING:
        away_s = now_s - max(since_s, lives.lost_since_s or 0.0)
        if away_s >= least_s:
            longest_s = away_s
            later = replace(lives, hold_until_s=lives.hold_until_s + away_s)
            changed["recovery"] = dump_recovered(later)
    leaving = load_eviction(r["evict"])
    if leaving is not None and leaving.deadline_s is not None and leaving.step in _OPEN:
        away_s = now_s - max(since_s, leaving.asked_s or 0.0)
        if away_s >= least_s:
            longest_s = max(longest_s, away_s)
            later_s = leaving.deadline_s + away_s
            changed["evict"] = dump_eviction(replace(leaving, deadline_s=later_s))
    if not changed:
        return False
    revision = tx.emit(
        "job.recovery",
        subject_kind="job",
        namespace=r["namespace"],
        name=r["name"],
        uid=r["uid"],
        message=f"its clock stood still for {longest_s:.0f} s, in which the service was away",
    )
    values = changed | {"revision": revision}
    tx.connection.execute(sa.update(jobs).where(jobs.c.uid == r["uid"]).values(values))
    return True
