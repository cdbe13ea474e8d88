"""Who leads: the epoch that commits check, and PostgreSQL's locks of the leader's session.

The holder of epoch e holds the advisory lock of e for as long as its session lives. So a candidate
that gets the lock of the current epoch knows that its holder is gone. A holder whose session lives
but which has not been seen for a while is deposed all the same: only the epoch decides what may be
written.
"""

from dataclasses import dataclass
from types import TracebackType

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.sql import ColumnElement

from api.store.connect import session_name
from api.store.engine import Database
from api.store.listen import ALIVE
from api.store.tables import leader

LOCK_CLASS = 0x706F6479
"""First half of the advisory locks' keys ("pody"); the second is the epoch, modulo 2^31."""


STUCK_S = 10.0
"""A transaction that others wait for and in which nothing happens for so long belongs to a process
that was stopped or cut off: the longest pause of an import of 100,000 nodes is a few seconds."""

GONE_S = 3.0
"""The same after so little, if its process has not asked anything either for so long, which it does
every second; see `listen.py`."""

_OURS = "datname = current_database() AND usename = current_user AND pid <> pg_backend_pid()"
_END_THOSE_OF = f"""
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE {_OURS} AND application_name = :name AND xact_start IS NOT NULL
"""
_END_STUCK = f"""
WITH ours AS (
    SELECT pid, application_name, state, query, clock_timestamp() - state_change AS rests
    FROM pg_stat_activity WHERE {_OURS} AND application_name LIKE :names
), idle AS (
    SELECT pid FROM ours
    WHERE state LIKE 'idle in transaction%' AND (
        rests > make_interval(secs => :stuck_s)
        OR rests > make_interval(secs => :gone_s) AND EXISTS (
            SELECT FROM ours AS other WHERE other.application_name = ours.application_name
            AND other.query = :alive AND other.rests > make_interval(secs => :gone_s)
        )
    )
)
SELECT pg_terminate_backend(pid) FROM idle WHERE EXISTS (
    SELECT FROM pg_stat_activity AS waiting
    WHERE waiting.datname = current_database() AND waiting.wait_event_type = 'Lock'
    AND idle.pid = ANY (pg_blocking_pids(waiting.pid))
)
"""


@dataclass(frozen=True, slots=True)
class Standing:
    """The leader's row.

    Attributes:
        silent_s: Time since its last sign, by the database's clock.
    """

    epoch: int
    holder: str
    silent_s: float


def read_leader(db: Database) -> Standing:
    """Who leads as far as the database knows."""
    with db.engine.connect() as connection:
        silent = (_now(db) - leader.c.seen_at).label("silent_s")
        row = connection.execute(sa.select(leader.c.epoch, leader.c.holder, silent)).one()
    return Standing(row.epoch, row.holder, row.silent_s)


def take_epoch(db: Database, after: int, holder: str, *, now_s: float) -> int | None:
    """Begin the epoch after `after`; None if that has been begun by another.

    From its commit on nothing decided in an earlier epoch is written.
    """
    with db.write(now_s) as tx:
        row = leader.c.epoch == after
        values = {"epoch": after + 1, "holder": holder, "seen_at": _now(db)}
        if tx.connection.execute(sa.update(leader).where(row).values(**values)).rowcount == 0:
            return None
        tx.emit(
            "leader.began",
            subject_kind="leader",
            name=holder,
            message=f"'{holder}' leads",
            body={"epoch": after + 1},
        )
    return after + 1


class LeaderSession:
    """A session of PostgreSQL that holds the lock of an epoch, and shows that its holder lives."""

    def __init__(self, db: Database) -> None:
        self._db = db
        options = {"isolation_level": "AUTOCOMMIT"}
        self._connection: Connection = db.connect_alone().execution_options(**options)

    def __enter__(self) -> "LeaderSession":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def try_lock(self, epoch: int) -> bool:
        """Take the lock of an epoch if nobody holds it."""
        query = sa.select(sa.func.pg_try_advisory_lock(LOCK_CLASS, epoch % (1 << 31)))
        return bool(self._connection.execute(query).scalar_one())

    def unlock(self, epoch: int) -> None:
        query = sa.select(sa.func.pg_advisory_unlock(LOCK_CLASS, epoch % (1 << 31)))
        self._connection.execute(query)

    def beat(self, epoch: int) -> bool:
        """Show that the holder lives; False when the epoch is over."""
        row = leader.c.epoch == epoch
        values = {"seen_at": _now(self._db)}
        return self._connection.execute(sa.update(leader).where(row).values(**values)).rowcount > 0

    def end_transactions(self, holder: str) -> int:
        """End the sessions of a process that went silent in the middle of a transaction.

        It may hold the lock that every write takes, and may be stopped for as long as it likes.

        Returns:
            How many there were.
        """
        query = sa.text(_END_THOSE_OF).bindparams(name=session_name(holder))
        return len(self._connection.execute(query).all())

    def end_stuck(self) -> int:
        """End sessions that do nothing and hold others up, whichever process they are of.

        Returns:
            How many there were.
        """
        times = {"stuck_s": STUCK_S, "gone_s": GONE_S}
        query = sa.text(_END_STUCK).bindparams(names=session_name("%"), alive=ALIVE, **times)
        return len(self._connection.execute(query).all())

    def close(self) -> None:
        """End the session and with it the locks."""
        self._connection.invalidate()
        self._connection.close()


def _now(db: Database) -> ColumnElement[float]:
    """The database's own clock, in Unix seconds."""
    if db.is_sqlite:
        return sa.literal_column("((julianday('now') - 2440587.5) * 86400.0)", sa.Double)
    return sa.literal_column("extract(epoch FROM clock_timestamp())::double precision", sa.Double)
