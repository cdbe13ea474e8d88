"""What nodes that are gone do to the pods on them, and what that makes of their gangs.

Nothing here is placed: it is what *is*. A gang that has fewer members than must run together is
recovering, says so, and has a limit; where its lost members go is decided in its turn in the line.
"""

from scheduler.draft.book import Draft
from scheduler.draft.leaving import give_up_recovery, has_left
from scheduler.model.ids import NodeId
from scheduler.model.lifecycle import FINAL, JobState, PodState, Reason
from scheduler.model.plan import JobRecord, PodRecord
from scheduler.model.standing import PLAIN, NodeStanding
from scheduler.policy import Policy
from scheduler.recover.breaker import Breaker, breaker_of
from scheduler.recover.missing import Lacks, lacks_of

WITH_A_PLACE = frozenset({JobState.BOUND, JobState.RUNNING, JobState.RECOVERING})
"""Gangs of which members may be lacking."""

NAMES_SHOWN = 3


def lose_pods(draft: Draft, policy: Policy) -> None:
    """Pods of nodes that are gone are lost; those that were to stop there have stopped.

    Where a node is lost for its agent's silence alone, so are those whose job is that impatient.
    The GPUs of such a node go to nobody, whatever becomes of its pods: the node is kept out of use.
    """
    world = draft.world
    for node in sorted(world.gone):
        for uid, known in sorted(world.on_node.get(node, {}).items()):
            pod, job = draft.pods(known.job).get(uid), draft.jobs.get(known.job)
            if pod is None or job is None or job.state in FINAL or not pod.is_live:
                continue
            if pod.node != node or not _is_gone_for(job, world.standing[node], policy):
                continue
            if pod.state is PodState.TERMINATING or job.state is JobState.EVICTING:
                draft.move_pod(pod, PodState.STOPPED)
                has_left(draft, draft.jobs[job.uid])
            elif pod.state is not PodState.LOST:
                draft.move_pod(pod, PodState.LOST)


def _is_gone_for(job: JobRecord, standing: NodeStanding, policy: Policy) -> bool:
    silent_s = standing.silent_s
    return silent_s is None or silent_s >= policy.lost_after_of(job.spec.failure.lost_after_s)


def breaker_now(draft: Draft, policy: Policy) -> Breaker:
    """What the circuit breaker says; a cycle is due when it closes by itself."""
    world = draft.world
    standings = (world.standing[node] for node in sorted(world.gone))
    found = breaker_of(standings, len(world.topology.nodes), policy, draft.now_s)
    if found.is_tripped:
        draft.wake_at(found.closes_s)
    return found


def settle_wounds(draft: Draft, breaker: Breaker) -> None:
    """Give gangs whose members went or came the state that they have by that."""
    for uid in sorted({*draft.world.recovering, *draft.touched()}):
        job = draft.jobs.get(uid)
        if job is not None and job.state in WITH_A_PLACE:
            settle_wound(draft, job, breaker)


def settle_wound(draft: Draft, job: JobRecord, breaker: Breaker | None = None) -> JobRecord:
    """Make a gang recovering that lacks members of its minimum, or complete again."""
    lacks = lacks_of(job, draft.pods(job.uid).values())
    if not lacks.needed:
        return _complete(draft, job) if job.state is JobState.RECOVERING else job
    hold_until_s, reason, message = job.hold_until_s, None, job.message
    if breaker is not None and breaker.is_tripped:
        # The clock stands still; it begins anew when something may be done again.
        hold_until_s, reason = None, Reason.BREAKER
        message = f"{wound_words(draft, job, lacks)}; {breaker.words}"
    else:
        if hold_until_s is None:
            hold_until_s = draft.now_s + job.spec.failure.hold_s
        if job.reason is Reason.BACKOFF:
            reason = job.reason
        elif job.state is not JobState.RECOVERING or job.reason is not None:
            message = wound_words(draft, job, lacks)
        draft.wake_at(hold_until_s)
    return draft.set(
        job,
        state=JobState.RECOVERING,
        reason=reason,
        message=message,
        hold_until_s=hold_until_s,
        lost_since_s=draft.now_s if job.lost_since_s is None else job.lost_since_s,
        could_start_s=None,
    )


def _complete(draft: Draft, job: JobRecord) -> JobRecord:
    """All that must be there are again: it runs, or will when they all do; nobody leaves for it."""
    give_up_recovery(draft, job.uid)
    return draft.set(
        job,
        state=state_of(draft, job),
        reason=None,
        message="",
        hold_until_s=None,
        lost_since_s=None,
    )


def state_of(draft: Draft, job: JobRecord) -> JobState:
    """Running when the members that must run together do, else bound."""
    there = draft.pods(job.uid).values()
    running = [p for p in there if p.state in {PodState.RUNNING, PodState.SUCCEEDED}]
    return JobState.BOUND if lacks_of(job, running).needed else JobState.RUNNING


def wound_words(draft: Draft, job: JobRecord, lacks: Lacks) -> str:
    """How many of the members are there, and where the others were."""
    wanted = set(lacks.needed)
    gone = [p for p in draft.pods(job.uid).values() if (p.role, p.index) in wanted]
    nodes = sorted({p.node for p in gone})
    said = f"{lacks.has} of {lacks.least} members run"
    if not nodes:
        return said
    return f"{said}; {_nodes(draft, nodes, gone)}"


def _nodes(draft: Draft, nodes: list[NodeId], gone: list[PodRecord]) -> str:
    shown = ", ".join(nodes[:NAMES_SHOWN])
    more = f" and {len(nodes) - NAMES_SHOWN} more" if len(nodes) > NAMES_SHOWN else ""
    if len(nodes) == 1:
        standing = draft.world.standing.get(nodes[0], PLAIN)
        if standing.is_gone:
            why = f" ({standing.why})" if standing.why else ""
            return f"node {shown} was lost{why}"
        if standing.drain is not None:
            return f"node {shown} is drained"
        return f"{'a member' if len(gone) == 1 else 'members'} on node {shown} stopped"
    lost = all(node in draft.world.gone for node in nodes)
    return f"nodes {shown}{more} were lost" if lost else f"members on nodes {shown}{more} are gone"
