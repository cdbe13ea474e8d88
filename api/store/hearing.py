"""Heartbeats: what an agent says of its node is noted, and it is told what has to run there."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import sqlalchemy as sa
from sqlalchemy import Connection

from api.store.engine import Transaction
from api.store.errors import Conflict, NotFound
from api.store.faults import judge
from api.store.leases import Begun, Leases, begin, is_late, may_speak, refuse_older
from api.store.log_requests import READING_S, LogRequest, is_read, open_requests
from api.store.pods import is_news, pod_view, report_known, select_pods
from api.store.policy import parse_policy, policy_body
from api.store.rows import AnySelect
from api.store.standing import set_verdict, standing_of
from api.store.tables import counter, facts, jobs, leader, leases, nodes, pods
from api.store.views import PodView
from scheduler.model.lifecycle import LIVE_POD, PodState
from scheduler.model.node import Health
from scheduler.policy import Policy
from scheduler.recover.health import Heard as AgentIs
from scheduler.recover.health import health_of

NO_BOOT = "unknown"
"""Of an agent whose kernel does not tell which life of the machine this is."""

_TO_RUN = frozenset({PodState.BOUND, PodState.RUNNING, PodState.LOST})
_NO_NEWS = frozenset({PodState.BOUND, PodState.TERMINATING})
_OVER = (PodState.STOPPED, PodState.SUCCEEDED, PodState.FAILED)
_GONE_WITH_BOOT = frozenset({PodState.RUNNING, PodState.LOST, PodState.TERMINATING})
_COMES_BACK = frozenset({Health.SUSPECT, Health.LOST})

Run = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Said:
    """What an agent says of one pod."""

    uid: str
    attempt: int
    state: PodState
    exit_code: int | None = None

    @property
    def run(self) -> Run:
        return self.uid, self.attempt


@dataclass(frozen=True, slots=True)
class Agent:
    """Who speaks: for which node, and in which life of itself and of the machine.

    Attributes:
        passed: The machine has just passed its check.
        acted_on: `Heard.node_revision` of the last answer that it had acted on when it spoke, 0 if
            there was none; None = it does not tell, and is believed to speak of now.
    """

    node: str
    session: str
    boot_id: str
    passed: bool = False
    acted_on: int | None = None


@dataclass(frozen=True, slots=True)
class Heard:
    """What an agent is told.

    Attributes:
        desired: Pods that are to run on its node.
        ignored: What was not taken as told, with the reason.
        health: Of the node.
        epoch: Of the leader.
        logs: What people want to read of its pods.
        is_read: They did, or wanted to, a moment ago.
        revision: What this stands on.
        stopping: What was told to stop and is not named: the agent may never have known of it.
        node_revision: Of the node. It changes with its health, and with who speaks for it.
        speaks: Whether the agent speaks for the node; if not, it is to start nothing yet.
        late: The heartbeat may be from before something changed of the node.
        is_asked_again: It was not taken whole for that: the next is wanted soon.
    """

    desired: tuple[PodView, ...]
    ignored: tuple[tuple[Said, str], ...]
    health: Health
    epoch: int
    policy: Policy
    logs: tuple[LogRequest, ...]
    is_read: bool
    revision: int
    stopping: tuple[Run, ...]
    node_revision: int
    speaks: bool
    late: bool
    is_asked_again: bool


@dataclass(frozen=True, slots=True)
class _Known:
    """What the database has of a node and its pods.

    Attributes:
        over: Attempts of which an end was reported that the leader has yet to act on.
        speaks: The session has begun, or this heartbeat may begin it.
        late: The heartbeat may be from before something changed of the node.
        policy: As stored.
        has_readers: Somebody has asked for a log of one of its pods, a moment ago at most.
    """

    epoch: int
    has_session: bool
    speaks: bool
    late: bool
    health: Health
    policy: str | None
    revision: int
    node_revision: int
    has_readers: bool
    pods: Mapping[str, PodView]
    over: Collection[Run]

    def desired(self) -> tuple[PodView, ...]:
        return tuple(
            pod
            for pod in self.pods.values()
            if pod.state in _TO_RUN and (pod.uid, pod.attempt) not in self.over
        )

    def stopping(self, said: Sequence[Said]) -> tuple[Run, ...]:
        """Runs that were told to stop and of which nothing is said.

        That they are not named is no word of their end: a heartbeat may come late, from before
        they were started. Nor is anything asked of one whose earlier attempt has yet to end there:
        it holds the same GPUs, and its agent would say of the later one that it has stopped.
        """
        named = {word.run for word in said} | set(self.over)
        still = {word.uid for word in said if word.state not in _OVER}
        leaving = (p for p in self.pods.values() if p.state is PodState.TERMINATING)
        runs = ((p.uid, p.attempt) for p in leaving if p.uid not in still)
        return tuple(run for run in runs if run not in named)


def hear(book: Leases, agent: Agent, said: Sequence[Said], *, now_s: float) -> Heard:
    """Take a heartbeat: renew the lease, note what is news of pods, say which are to run.

    A node that was suspect or lost comes back with it, as `scheduler.recover.health` has it. One
    that may be late is believed in what it says of each pod, and that its agent lives; not that a
    pod which it does not name is gone, nor that all is well by now. The next one tells.

    Raises:
        NotFound: If there is no such node.
        Conflict: If another agent has begun to speak for the node since.
    """
    db = book.database
    with db.read() as connection:
        known = _look(connection, agent, now_s)
        # Of an agent that does not speak yet nothing counts; it says all of it again.
        heeded = said if known.speaks else ()
        news, ignored = _sift(connection, agent.node, heeded, known)
        revision = known.revision
        logs = open_requests(connection, agent.node, now_s) if known.has_readers else ()
    begins = known.speaks and not known.has_session
    is_news = bool(news) or begins or _changes_health(known, agent)
    if known.has_session:
        # Before anything else is looked at: who judges silence meanwhile finds it.
        book.heard(agent.node, agent.session, now_s)
    if is_news:
        known, revision = db.grouped(lambda tx: _take_in(tx, agent, said), now_s)
        if known.speaks:
            book.heard(agent.node, agent.session, now_s)
    # What it has just said to be over is not asked of it, whether or not that was taken.
    ended = {word.run for word in said if word.state in _OVER}
    desired = tuple(pod for pod in known.desired() if (pod.uid, pod.attempt) not in ended)
    policy = _policy_of(known.policy)
    return Heard(
        desired,
        ignored,
        known.health,
        known.epoch,
        policy,
        logs,
        known.has_readers,
        revision,
        known.stopping(said) if known.speaks else (),
        known.node_revision,
        known.speaks,
        known.late,
        known.late and (not known.speaks or _may_change_health(known, agent)),
    )


def _look(connection: Connection, agent: Agent, now_s: float, begun: Begun | None = None) -> _Known:
    """What is known now; `begun` tells how the heartbeat stood before it changed anything."""
    since_s = now_s - READING_S
    rows = connection.execute(_NODE, {"node": agent.node, "since": since_s}).all()
    if not rows:
        raise NotFound("node", agent.node)
    sessions = {row.session: row.number for row in rows if row.session is not None}
    refuse_older(agent.node, agent.session, sessions)
    if begun is None:
        late = is_late(agent.acted_on, int(rows[0].node_revision))
        begun = Begun(may_speak(agent.session, sessions, late=late), late)
    known = _pods_of(connection, agent.node)
    return _Known(
        int(rows[0].epoch),
        agent.session in sessions,
        begun.speaks,
        begun.late,
        Health(rows[0].health),
        rows[0].policy,
        int(rows[0].revision),
        int(rows[0].node_revision),
        bool(rows[0].has_readers),
        known,
        _over(connection, agent.node) if known else frozenset(),
    )


def _node_select() -> AnySelect:
    """All that is asked of a node in each heartbeat, in one statement; a row for each session."""
    node = sa.bindparam("node", type_=sa.Text)
    return (
        sa.select(
            leader.c.epoch,
            nodes.c.health,
            nodes.c.revision.label("node_revision"),
            leases.c.session,
            leases.c.number,
            policy_body().label("policy"),
            sa.select(counter.c.revision).scalar_subquery().label("revision"),
            is_read(node, sa.bindparam("since", type_=sa.Double)).label("has_readers"),
        )
        .select_from(nodes.join(leader, sa.true()).outerjoin(leases, leases.c.node == nodes.c.name))
        .where(nodes.c.name == node)
    )


_NODE = _node_select()


@lru_cache(maxsize=4)
def _policy_of(stored: str | None) -> Policy:
    return parse_policy(stored)


def _pods_of(connection: Connection, node: str) -> dict[str, PodView]:
    """Live pods on a node, by uid, in the order of their jobs' age."""
    live = pods.c.state.in_(sorted(LIVE_POD))
    order = (jobs.c.age, pods.c.role_index, pods.c.pod_index)
    rows = connection.execute(select_pods().where(pods.c.node == node, live).order_by(*order))
    return {pod.uid: pod for pod in map(pod_view, rows)}


def _over(connection: Connection, node: str) -> frozenset[Run]:
    open_ = facts.c.applied_at.is_(None) & facts.c.pod_state.in_(_OVER)
    query = (
        sa.select(facts.c.pod_uid, facts.c.attempt)
        .join(pods, pods.c.uid == facts.c.pod_uid)
        .where(open_, pods.c.node == node)
    )
    return frozenset((row.pod_uid, row.attempt) for row in connection.execute(query))


def _sift(
    connection: Connection, node: str, said: Sequence[Said], known: _Known
) -> tuple[list[Said], tuple[tuple[Said, str], ...]]:
    """What is news, and what is not taken with the reason; the rest is known."""
    told = [word for word in said if _may_be_news(word, known.pods.get(word.uid))]
    if not told:
        return [], ()
    found = _pods_by_uid(connection, told)
    verdicts = [
        (word, *_verdict(connection, node, word, found.get(word.uid), late=known.late))
        for word in told
    ]
    news = [word for word, is_new, _ in verdicts if is_new]
    return news, tuple((word, why) for word, _, why in verdicts if why)


def _may_be_news(word: Said, pod: PodView | None) -> bool:
    if word.state in _NO_NEWS:
        return False
    return pod is None or pod.attempt != word.attempt or pod.state is not word.state


def _pods_by_uid(connection: Connection, said: Sequence[Said]) -> dict[str, PodView]:
    rows = connection.execute(select_pods().where(pods.c.uid.in_([word.uid for word in said])))
    return {pod.uid: pod for pod in map(pod_view, rows)}


def _verdict(
    connection: Connection, node: str, word: Said, pod: PodView | None, *, late: bool
) -> tuple[bool, str]:
    """Whether a word is news; if it is not taken, why."""
    if pod is None:
        return False, "there is no such pod"
    if pod.attempt != word.attempt:
        over = "over" if word.attempt < pod.attempt else "yet to come"
        return False, f"attempt {word.attempt} is {over}; the pod is in attempt {pod.attempt}"
    if pod.node != node:
        return False, f"the pod is on node '{pod.node}'"
    if pod.state is PodState.TERMINATING and word.state is PodState.RUNNING:
        return False, ""  # it has yet to hear that it is to stop
    if late and pod.state is PodState.LOST and word.state is PodState.RUNNING:
        return False, ""  # it may be from before the pod was lost, and have ended since
    try:
        return is_news(connection, pod, word.state, word.exit_code), ""
    except Conflict as error:
        return False, error.message


def _take_in(tx: Transaction, agent: Agent, said: Sequence[Said]) -> tuple[_Known, int]:
    """Write down what a heartbeat brings; the node's pods as they are then, and the revision."""
    connection, node = tx.connection, agent.node
    begun = begin(tx, node, agent.session, agent.boot_id, agent.acted_on)
    if begun.boot_before not in {None, NO_BOOT, agent.boot_id}:
        _report_gone(tx, node)
    news = [word for word in said if word.state not in _NO_NEWS] if begun.speaks else []
    found = _pods_by_uid(connection, news) if news else {}
    for word in news:
        pod = found.get(word.uid)
        if pod is not None and _verdict(connection, node, word, pod, late=begun.late)[0]:
            report_known(tx, pod, word.state, word.exit_code)
    known = _look(connection, agent, tx.now_s, begun)
    if not _changes_health(known, agent):
        return known, tx.revision
    if known.health in _COMES_BACK:
        _come_back(tx, node, said, known)
    else:
        judge(tx, node, passed=True)
    return _look(connection, agent, tx.now_s, begun), tx.revision


def _may_change_health(known: _Known, agent: Agent) -> bool:
    """Whether the node's health may follow from its being heard, or from its check."""
    return known.health in _COMES_BACK or (agent.passed and known.health is Health.TESTING)


def _changes_health(known: _Known, agent: Agent) -> bool:
    """The same, as far as this heartbeat is believed to speak of now."""
    return not known.late and _may_change_health(known, agent)


def _report_gone(tx: Transaction, node: str) -> None:
    """The machine began a new life: what ran there in the one before does not any more.

    A pod that nobody has reported to run is left alone: it may just be starting in this life.
    """
    over = _over(tx.connection, node)
    for pod in _pods_of(tx.connection, node).values():
        if pod.state in _GONE_WITH_BOOT and (pod.uid, pod.attempt) not in over:
            report_known(tx, pod, PodState.STOPPED, None)


def _come_back(tx: Transaction, node: str, said: Sequence[Said], known: _Known) -> None:
    """A node that was suspect or lost is heard: what its health is now, and of its pods."""
    standing = standing_of(tx.connection, node)
    desired = {(pod.uid, pod.attempt): pod for pod in known.desired()}
    there = {word.run for word in said if word.state not in _OVER}
    verdict = health_of(
        standing.faults,
        AgentIs.HEARD,
        standing.health,
        fenced=standing.fenced,
        is_empty=not known.pods and not there,
        is_clean=there <= desired.keys(),
    )
    set_verdict(tx, node, verdict, standing.silent_s)
    if verdict.health in _COMES_BACK:
        return
    for run, pod in desired.items():
        # The agent is back without it: it was never started, or went with the agent's folder.
        if pod.state is PodState.LOST and run not in there:
            report_known(tx, pod, PodState.STOPPED, None)
