"""Tails of logs: somebody asks, the agent of the pod's node is told and sends it, once.

Who asks may leave before the agent has spoken, and ask again: the same question goes on, so that
short waits get their answer from an agent that speaks seldom.
"""

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Exists

from api.store.engine import Database, Transaction
from api.store.errors import Conflict, NotFound
from api.store.pods import newest_pod
from api.store.rows import AnyRow
from api.store.tables import nodes
from api.store.tables_agents import log_requests
from api.store.views import PodView
from scheduler.model.lifecycle import PodState
from scheduler.model.node import Health

OPEN_MAX, OPEN_MAX_ALL = 32, 200
"""Of one node, and of all; there is more to do than to read logs."""

ANSWER_S = 4.0
"""How long who asks waits for the answer, unless told otherwise. Agents speak less often: who asks
again goes on waiting for the same."""

KEPT_S = 120.0
"""How long a request is kept that nobody takes back; who waits has given up long before."""

WAITED_S = 90.0
"""Nobody waits for so long: who asks the same may have what came for an older request."""

LEFT_S = 15.0
"""How long a request is kept that was left, for whoever asks the same again; longer than from one
heartbeat of an agent to its next."""

FRESH_S = 5.0
"""Older answers are to nobody's question any more."""

READING_S = 60.0
"""So long after a request another is likely, as people read on: its agent is to ask often. No less
than who asks may wait."""


@dataclass(frozen=True, slots=True)
class LogRequest:
    """A tail that is wanted.

    Attributes:
        process: Counts the processes of the pod: its local rank.
        stream: `out` or `err`.
    """

    id: int
    node: str
    pod_uid: str
    attempt: int
    process: int
    stream: str
    tail_bytes: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which tail: of which process and stream, and how much of it.

    Attributes:
        attempt: None = the pod's present one.
    """

    process: int
    stream: str
    tail_bytes: int
    attempt: int | None = None


@dataclass(frozen=True, slots=True)
class LogAnswer:
    """What the agent sent.

    Attributes:
        problem: Why there is nothing, in the agent's words; "" else.
    """

    content: bytes
    problem: str


def ask(
    db: Database, namespace: str, name: str, wanted: Wanted, *, now_s: float
) -> tuple[LogRequest, PodState]:
    """Have the agent of a pod's node asked for a tail.

    Returns:
        The request, and the state of the pod.

    Raises:
        NotFound: If there is no such pod.
        Conflict: If nobody could answer: no agent, a silent one, too many requests already; or if
            the pod has not come to that attempt.
    """

    def work(tx: Transaction) -> tuple[LogRequest, PodState]:
        pod = newest_pod(tx.connection, namespace, name)
        _check(tx.connection, pod, wanted)
        old = log_requests.c.asked_at < now_s - KEPT_S
        tx.connection.execute(sa.delete(log_requests).where(old))
        if (left := _left(tx.connection, pod, wanted, now_s)) is not None:
            return left, pod.state
        _check_room(tx.connection, pod.node, now_s)
        revision = tx.emit(
            "pod.logs_read",
            subject_kind="pod",
            namespace=namespace,
            name=name,
            uid=pod.uid,
            message=f"somebody reads std{wanted.stream} of process {wanted.process}",
            body={"node": pod.node, "process": wanted.process, "stream": wanted.stream},
        )
        request = LogRequest(
            revision,
            pod.node,
            pod.uid,
            wanted.attempt or pod.attempt,
            wanted.process,
            wanted.stream,
            wanted.tail_bytes,
        )
        row = {name: getattr(request, name) for name in LogRequest.__slots__}
        tx.connection.execute(sa.insert(log_requests), row | {"asked_at": now_s})
        return request, pod.state

    return db.grouped(work, now_s)


def _check(connection: Connection, pod: PodView, wanted: Wanted) -> None:
    columns = (nodes.c.has_agent, nodes.c.health)
    row = connection.execute(sa.select(*columns).where(nodes.c.name == pod.node)).one_or_none()
    if row is None or not row.has_agent:
        where = f"'{pod.node}'" if pod.node else "of the pod"
        raise Conflict("node", f"node {where} has no agent; whoever runs it has the logs")
    if row.health in {Health.SUSPECT, Health.LOST}:
        raise Conflict("node", f"the agent of node '{pod.node}' is silent; it keeps the logs")
    if wanted.attempt is not None and wanted.attempt > pod.attempt:
        raise Conflict(
            "attempt",
            f"attempt {wanted.attempt} is yet to come; the pod is in attempt {pod.attempt}",
        )


def _left(connection: Connection, pod: PodView, wanted: Wanted, now_s: float) -> LogRequest | None:
    """The same question of somebody who has left, taken over; None if there is none."""
    table = log_requests.c
    same = (table.pod_uid == pod.uid) & (table.attempt == (wanted.attempt or pod.attempt))
    same &= (table.process == wanted.process) & (table.stream == wanted.stream)
    same &= (table.tail_bytes == wanted.tail_bytes) & (table.asked_at < now_s - WAITED_S)
    is_fresh = table.content.is_not(None) & (table.answered_at >= now_s - FRESH_S)
    query = sa.select(log_requests).where(same, is_fresh | table.answered_at.is_(None))
    row = connection.execute(query.order_by(table.id).limit(1)).one_or_none()
    if row is None:
        return None
    mine = (table.id == row.id) & (table.asked_at == row.asked_at)
    done = connection.execute(sa.update(log_requests).where(mine).values(asked_at=now_s))
    return _request(row) if done.rowcount else None


def _check_room(connection: Connection, node: str, now_s: float) -> None:
    table = log_requests.c
    is_open = table.answered_at.is_(None) | table.content.is_not(None)
    waiting = sa.select(table.node).where(is_open, table.asked_at >= now_s - KEPT_S)
    of_all = list(connection.execute(waiting).scalars())
    if of_all.count(node) >= OPEN_MAX or len(of_all) >= OPEN_MAX_ALL:
        raise Conflict("node", f"{len(of_all)} readers wait for logs already; try again soon")


def open_requests(connection: Connection, node: str, now_s: float) -> tuple[LogRequest, ...]:
    """What is wanted of a node's agent and not answered yet."""
    rows = connection.execute(_OPEN, {"node": node, "since": now_s - KEPT_S})
    return tuple(_request(row) for row in rows)


def answer(db: Database, node: str, id: int, content: bytes, problem: str, now_s: float) -> None:
    """Take what an agent sends.

    Raises:
        NotFound: If nobody waits for it any more.
    """
    values = {"answered_at": now_s, "content": content, "problem": problem}
    mine = (log_requests.c.id == id) & (log_requests.c.node == node)
    mine &= log_requests.c.answered_at.is_(None)
    with db.write_quietly() as connection:
        done = connection.execute(sa.update(log_requests).where(mine).values(**values))
        if done.rowcount == 0:
            raise NotFound("log request", str(id))


def answer_of(db: Database, id: int) -> LogAnswer | None:
    """What came in answer to a request; None as long as nothing has.

    Raises:
        NotFound: If the request is not kept any more, or somebody else has had its answer.
    """
    columns = (log_requests.c.answered_at, log_requests.c.content, log_requests.c.problem)
    with db.read() as connection:
        query = sa.select(*columns).where(log_requests.c.id == id)
        row = connection.execute(query).one_or_none()
    if row is not None and row.answered_at is None:
        return None
    if row is None or row.content is None:
        raise NotFound("log request", str(id))
    return LogAnswer(bytes(row.content), row.problem)


def not_yet(request: LogRequest, waited_s: float) -> str:
    """What whoever waited in vain is told."""
    return f"the agent of node '{request.node}' has not answered within {waited_s:g} s; ask again"


def forget(db: Database, id: int, now_s: float) -> None:
    """Let go of an answer; that somebody read is known for a while."""
    _update(db, id, {"asked_at": now_s, "content": None})


def leave(db: Database, id: int, now_s: float) -> None:
    """Wait no more; whoever asks the same soon has what comes."""
    _update(db, id, {"asked_at": now_s - (KEPT_S - LEFT_S)})


def _update(db: Database, id: int, values: dict[str, object]) -> None:
    with db.write_quietly() as connection:
        mine = log_requests.c.id == id
        connection.execute(sa.update(log_requests).where(mine).values(**values))


def _request(row: AnyRow) -> LogRequest:
    return LogRequest(*(row._mapping[name] for name in LogRequest.__slots__))


def is_read(node: ColumnElement[str], since_s: ColumnElement[float]) -> Exists:
    """Whether somebody has asked for a log of a node since then, or left and may ask again."""
    asked = log_requests.c.asked_at >= since_s
    is_kept = log_requests.c.asked_at >= since_s - (KEPT_S - READING_S)
    is_left = log_requests.c.answered_at.is_(None) & is_kept
    return sa.exists().where(log_requests.c.node == node, asked | is_left)


_OPEN = (
    sa.select(log_requests)
    .where(
        log_requests.c.node == sa.bindparam("node"),
        log_requests.c.answered_at.is_(None),
        log_requests.c.asked_at >= sa.bindparam("since"),
    )
    .order_by(log_requests.c.id)
)
