"""Leases: which agent speaks for each node, and when it was heard."""

import contextlib
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import sqlalchemy as sa
from sqlalchemy import Connection

from api.log import get_logger
from api.store.engine import Database, Transaction
from api.store.errors import Conflict, NotFound
from api.store.standing import change_node, set_agent
from api.store.tables import leases, nodes
from scheduler.model.node import Health

log = get_logger(__name__)

WRITE_EVERY_S = 1.0
"""Times at which agents were heard are written together, so long after the first of them."""

SESSIONS_KEPT = 16
"""Sessions of one node that are remembered, so that they are known to be older."""


@dataclass(slots=True)
class Leases:
    """What one process heard of agents and has not written yet."""

    database: Database
    _seen: dict[tuple[str, str], float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _timer: threading.Timer | None = None
    _is_closed: bool = False

    def heard(self, node: str, session: str, now_s: float) -> None:
        """Take a sign of life; it is written with others, soon."""
        with self._lock:
            self._seen[node, session] = now_s
            if self._timer is None and not self._is_closed:
                self._timer = threading.Timer(WRITE_EVERY_S, self._flush_in_time)
                self._timer.daemon = True
                self._timer.start()

    def flush(self) -> None:
        """Write all that was heard; for whoever is about to judge silence, and at the end."""
        with self._lock:
            seen, self._seen = self._seen, {}
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        if not seen:
            return
        rows = [{"n": n, "s": s, "at": at} for (n, s), at in sorted(seen.items())]
        try:
            with self.database.write_quietly() as connection:
                connection.execute(_SEEN, rows)
        except BaseException:
            with self._lock:
                self._seen = seen | self._seen
            raise

    def close(self) -> None:
        """Write what is left, if that can be, and nothing from then on by itself.

        A time that is not written costs nobody anything: with a new leader, and where nobody
        listened for a while, the silence of every agent counts from then on.
        """
        with self._lock:
            self._is_closed = True
        try:
            self.flush()
        except sa.exc.SQLAlchemyError as error:
            said = str(error).partition("\n")[0][:200]
            log.warning("leases_unwritten", nodes=len(self.unwritten()), error=said)

    def unwritten(self) -> dict[str, float]:
        """When agents were heard that is not in the database yet, by node."""
        with self._lock:
            found: dict[str, float] = {}
            for (node, _), at in self._seen.items():
                found[node] = max(at, found.get(node, at))
            return found

    def _flush_in_time(self) -> None:
        # What cannot be written now stays, and goes with the next that is heard.
        with contextlib.suppress(sa.exc.SQLAlchemyError):
            self.flush()


_SEEN = (
    sa.update(leases)
    .where(leases.c.node == sa.bindparam("n"), leases.c.session == sa.bindparam("s"))
    .values(seen_at=sa.bindparam("at"))
)


@dataclass(frozen=True, slots=True)
class Lease:
    """An agent as it was heard last.

    Attributes:
        seen_s: Unix seconds.
        health, since_s: Of its node, and from when on.
    """

    node: str
    seen_s: float
    health: Health
    since_s: float


def read_leases(connection: Connection) -> list[Lease]:
    """The newest sign of life of every node that has, or had, an agent."""
    return [Lease(n, float(at), Health(h), float(s)) for n, at, h, s in connection.execute(_NEWEST)]


_NEWEST = (
    sa.select(leases.c.node, sa.func.max(leases.c.seen_at), nodes.c.health, nodes.c.health_since)
    .join(nodes, nodes.c.name == leases.c.node)
    .group_by(leases.c.node, nodes.c.health, nodes.c.health_since)
    .order_by(leases.c.node)
)


def agents(db: Database) -> dict[str, float]:
    """When the agent of each node that has one was last heard, Unix seconds."""
    with db.read() as connection:
        return {lease.node: lease.seen_s for lease in read_leases(connection)}


def refuse_older(node: str, session: str, sessions: Mapping[str, int]) -> None:
    """Turn away the agent of a session that is over.

    Raises:
        Conflict: If a later one speaks for the node.
    """
    mine = sessions.get(session)
    if mine is not None and mine < max(sessions.values()):
        raise Conflict(
            "session",
            f"session '{session[:80]}' of node '{node}' is over: another agent speaks for it now",
        )


def is_late(acted_on: int | None, node_revision: int) -> bool:
    """Whether a heartbeat may be from before something changed of its node.

    Messages are delayed: one that was sent before the node was lost may come after that. Of an
    agent that does not say what it acted on it cannot be told.

    Args:
        acted_on: `node_revision` of the last answer that the agent had acted on.
    """
    return acted_on is not None and acted_on != node_revision


def may_speak(session: str, sessions: Collection[str], *, late: bool) -> bool:
    """Whether a heartbeat is that of a session which has begun, or begins it.

    One that may be late is not believed to be of a later session than the one that speaks.
    """
    return session in sessions or not sessions or not late


@dataclass(frozen=True, slots=True)
class Begun:
    """How a heartbeat is to be taken.

    Attributes:
        speaks: Its session has begun, now at the latest.
        late: It may be from before something changed of its node.
        boot_before: Life of the machine in which the session before was; None if there was none,
            or if this session had begun already.
    """

    speaks: bool
    late: bool
    boot_before: str | None = None


def begin(
    tx: Transaction, node: str, session: str, boot_id: str, acted_on: int | None = None
) -> Begun:
    """Make a session the newest of its node, with an event, unless that may be over already.

    Raises:
        NotFound: If there is no such node.
        Conflict: If a later session speaks for it.
    """
    mine, connection = leases.c.node == node, tx.connection
    query = sa.select(nodes.c.revision).where(nodes.c.name == node)
    revision = connection.execute(query).scalar_one_or_none()
    if revision is None:
        raise NotFound("node", node)
    columns = (leases.c.session, leases.c.number, leases.c.boot_id)
    rows = connection.execute(sa.select(*columns).where(mine)).all()
    sessions = {row.session: int(row.number) for row in rows}
    refuse_older(node, session, sessions)
    late = is_late(acted_on, int(revision))
    if session in sessions or not may_speak(session, sessions, late=late):
        return Begun(session in sessions, late)
    last = max(rows, key=lambda row: int(row.number), default=None)
    number = 1 if last is None else int(last.number) + 1
    row = {"node": node, "session": session, "number": number, "boot_id": boot_id}
    connection.execute(sa.insert(leases), row | {"started_at": tx.now_s, "seen_at": tx.now_s})
    if number > SESSIONS_KEPT:
        old = leases.c.number <= number - SESSIONS_KEPT
        connection.execute(sa.delete(leases).where(mine, old))
    if not set_agent(tx, node):
        # So that answers to the agent before are given no more, by whichever process.
        message = "another agent, or the same anew, speaks for it"
        change_node(tx, node, "node.agent", message, {}, {})
    return Begun(speaks=True, late=late, boot_before=None if last is None else str(last.boot_id))
