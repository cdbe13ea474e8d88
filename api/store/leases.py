"""Leases: which agent speaks for each node, when it was heard, and what it has to run."""

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa
from sqlalchemy import Connection

from api.store.checkpoints import Checkpoint, lost_nodes, newest_that_exists
from api.store.engine import Database, Transaction
from api.store.errors import Conflict, NotFound
from api.store.jsontext import load_dict
from api.store.pods import pod_view, report_known, select_pods
from api.store.tables import facts, jobs, leader, leases, nodes, pods
from api.store.views import PodView
from scheduler.model.lifecycle import LIVE_POD, PodState

WRITE_EVERY_S = 1.0
"""Times at which agents were heard are written together, so often at most."""

SESSIONS_KEPT = 16
"""Sessions of one node that are remembered, so that they are known to be older."""

_TO_RUN = frozenset({PodState.BOUND, PodState.RUNNING})
_NO_NEWS = frozenset({PodState.BOUND, PodState.TERMINATING})
_OVER = (PodState.STOPPED, PodState.SUCCEEDED, PodState.FAILED)


@dataclass(frozen=True, slots=True)
class Said:
    """What an agent says of one pod."""

    uid: str
    attempt: int
    state: PodState
    exit_code: int | None = None

    @property
    def run(self) -> tuple[str, int]:
        return self.uid, self.attempt


@dataclass(frozen=True, slots=True)
class Heard:
    """What an agent is told.

    Attributes:
        desired: Pods that are to run on its node.
        ignored: What was not taken as told, with the reason.
        epoch: Of the leader.
    """

    desired: tuple[PodView, ...]
    ignored: tuple[tuple[Said, str], ...]
    epoch: int


@dataclass(frozen=True, slots=True)
class Start:
    """What starts the pods of one job.

    Attributes:
        run: As asked for: `command`, `env`.
        members: Its pods that run or have ended well, in the order of ranks.
        checkpoint: The newest of which a copy is left.
    """

    run: Mapping[str, object]
    members: tuple[PodView, ...]
    checkpoint: Checkpoint | None


@dataclass(slots=True)
class Leases:
    """What one process heard of agents and has not written yet."""

    database: Database
    _seen: dict[tuple[str, str], float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _written_at: float = 0.0

    def heard(self, node: str, session: str, now_s: float) -> None:
        """Take a sign of life; it is written with others, soon."""
        with self._lock:
            self._seen[node, session] = now_s
            now = time.monotonic()
            if now - self._written_at < WRITE_EVERY_S:
                return
            self._written_at = now
        self.flush()

    def flush(self) -> None:
        """Write all that was heard; for whoever is about to judge silence, and at the end."""
        with self._lock:
            seen, self._seen = self._seen, {}
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


_SEEN = (
    sa.update(leases)
    .where(leases.c.node == sa.bindparam("n"), leases.c.session == sa.bindparam("s"))
    .values(seen_at=sa.bindparam("at"))
)


def hear(
    book: Leases, node: str, session: str, boot_id: str, said: Sequence[Said], *, now_s: float
) -> Heard:
    """Take a heartbeat: renew the lease, note what is news of pods, say which are to run.

    Raises:
        NotFound: If there is no such node.
        Conflict: If another agent has begun to speak for the node since.
    """
    db = book.database
    with db.read() as connection:
        epoch, is_known = _check_session(connection, node, session)
        known = _pods_of(connection, node)
    if not is_known:
        db.grouped(lambda tx: _begin(tx, node, session, boot_id), now_s)
    ignored: tuple[tuple[Said, str], ...] = ()
    if any(_may_be_news(word, known.get(word.uid)) for word in said):
        ignored = db.grouped(lambda tx: _report(tx, node, said), now_s)
    book.heard(node, session, now_s)
    over = {word.run for word in said if word.state in _OVER}
    if known:
        with db.read() as connection:
            over |= _over(connection, node)
    desired = tuple(
        pod
        for pod in known.values()
        if pod.node == node and pod.state in _TO_RUN and (pod.uid, pod.attempt) not in over
    )
    return Heard(desired, ignored, epoch)


def starts_of(db: Database, job_uids: Iterable[str]) -> dict[str, Start]:
    """What starts the pods of some jobs, by their uid."""
    with db.read() as connection:
        lost = lost_nodes(connection)
        return {uid: _start(connection, uid, lost) for uid in sorted(set(job_uids))}


def agents(db: Database) -> dict[str, float]:
    """When the agent of each node that has one was last heard, Unix seconds."""
    newest = sa.select(leases.c.node, sa.func.max(leases.c.seen_at)).group_by(leases.c.node)
    with db.read() as connection:
        return {node: float(at) for node, at in connection.execute(newest)}


def _start(connection: Connection, uid: str, lost: frozenset[str]) -> Start:
    stated = connection.execute(sa.select(jobs.c.body).where(jobs.c.uid == uid)).scalar()
    run = load_dict(stated or "{}").get("run")
    order = (pods.c.first_rank, pods.c.role_index, pods.c.pod_index)
    rows = connection.execute(select_pods().where(pods.c.job_uid == uid).order_by(*order))
    members = tuple(
        pod
        for pod in map(pod_view, rows)
        if pod.state in LIVE_POD or pod.state is PodState.SUCCEEDED
    )
    checkpoint = newest_that_exists(connection, uid, lost)
    return Start(run if isinstance(run, dict) else {}, members, checkpoint)


def _check_session(connection: Connection, node: str, session: str) -> tuple[int, bool]:
    """The leader's epoch, and whether the session has a lease."""
    query = (
        sa.select(leader.c.epoch, leases.c.session, leases.c.number)
        .select_from(nodes.join(leader, sa.true()).outerjoin(leases, leases.c.node == nodes.c.name))
        .where(nodes.c.name == node)
    )
    rows = connection.execute(query).all()
    if not rows:
        raise NotFound("node", node)
    sessions = {row.session: row.number for row in rows if row.session is not None}
    _refuse_older(node, session, sessions)
    return int(rows[0].epoch), session in sessions


def _refuse_older(node: str, session: str, sessions: Mapping[str, int]) -> None:
    mine = sessions.get(session)
    if mine is not None and mine < max(sessions.values()):
        raise Conflict(
            "session",
            f"session '{session[:80]}' of node '{node}' is over: another agent speaks for it now",
        )


def _begin(tx: Transaction, node: str, session: str, boot_id: str) -> None:
    """Make a session the newest of its node; no event, and so no revision."""
    mine, connection = leases.c.node == node, tx.connection
    if connection.execute(sa.select(nodes.c.name).where(nodes.c.name == node)).first() is None:
        raise NotFound("node", node)
    rows = connection.execute(sa.select(leases.c.session, leases.c.number).where(mine)).all()
    sessions = {row.session: int(row.number) for row in rows}
    _refuse_older(node, session, sessions)
    if session in sessions:
        return
    number = max(sessions.values(), default=0) + 1
    row = {"node": node, "session": session, "number": number, "boot_id": boot_id}
    connection.execute(sa.insert(leases), row | {"started_at": tx.now_s, "seen_at": tx.now_s})
    if number > SESSIONS_KEPT:
        old = leases.c.number <= number - SESSIONS_KEPT
        connection.execute(sa.delete(leases).where(mine, old))


def _pods_of(connection: Connection, node: str) -> dict[str, PodView]:
    """Live pods on a node, by uid, in the order of their jobs' age."""
    live = pods.c.state.in_(sorted(LIVE_POD))
    order = (jobs.c.age, pods.c.role_index, pods.c.pod_index)
    rows = connection.execute(select_pods().where(pods.c.node == node, live).order_by(*order))
    return {pod.uid: pod for pod in map(pod_view, rows)}


def _over(connection: Connection, node: str) -> set[tuple[str, int]]:
    """Pods on a node of which an end was reported that the leader has yet to act on."""
    open_ = facts.c.applied_at.is_(None) & facts.c.pod_state.in_(_OVER)
    query = (
        sa.select(facts.c.pod_uid, facts.c.attempt)
        .join(pods, pods.c.uid == facts.c.pod_uid)
        .where(open_, pods.c.node == node)
    )
    return {(row.pod_uid, row.attempt) for row in connection.execute(query)}


def _may_be_news(word: Said, pod: PodView | None) -> bool:
    if word.state in _NO_NEWS:
        return False
    return pod is None or pod.attempt != word.attempt or pod.state is not word.state


def _report(tx: Transaction, node: str, said: Sequence[Said]) -> tuple[tuple[Said, str], ...]:
    """Note what is news; what is not taken, with the reason."""
    uids = [word.uid for word in said]
    rows = tx.connection.execute(select_pods().where(pods.c.uid.in_(uids)))
    known = {pod.uid: pod for pod in map(pod_view, rows)}
    return tuple(
        (word, why)
        for word in said
        if word.state not in _NO_NEWS and (why := _take(tx, node, word, known.get(word.uid)))
    )


def _take(tx: Transaction, node: str, word: Said, pod: PodView | None) -> str:
    """Note what an agent says of one pod; why it was not taken, or ""."""
    if pod is None:
        return "there is no such pod"
    if pod.attempt != word.attempt:
        over = "over" if word.attempt < pod.attempt else "yet to come"
        return f"attempt {word.attempt} is {over}; the pod is in attempt {pod.attempt}"
    if pod.node != node:
        return f"the pod is on node '{pod.node}'"
    if pod.state is PodState.TERMINATING and word.state is PodState.RUNNING:
        return ""  # it has yet to hear that it is to stop
    try:
        report_known(tx, pod, word.state, word.exit_code)
    except Conflict as error:
        return error.message
    return ""
