"""Nodes that are to be emptied: their members move as lost ones do, but are asked to save first.

| drain            | its members leave                                                       |
|------------------|-------------------------------------------------------------------------|
| without deadline | when there is a place for them, after the gang has saved                |
| with one         | the same; and by force at the deadline, asked as long before that as    |
|                  | they have to save                                                       |
| deadline is past | at once, nobody is asked                                                |

What is taken back before the gang's hook was asked does not happen.
"""

from dataclasses import replace

from scheduler.draft.book import LIVE_JOB, Draft
from scheduler.draft.losing import WITH_A_PLACE, settle_wound
from scheduler.draft.moving import movers, tell_movers
from scheduler.draft.recovering import Recovery
from scheduler.evict.saving import asks_first, request_id_of
from scheduler.model.claim import ClaimWhy
from scheduler.model.ids import JobId
from scheduler.model.lifecycle import PodState
from scheduler.model.placement import PodPlace
from scheduler.model.plan import Eviction, EvictStep, JobRecord, PodRecord
from scheduler.model.standing import PLAIN

STAYS = frozenset({PodState.BOUND, PodState.RUNNING})


def drain_by_time(draft: Draft) -> None:
    """Withdraw moves that are not wanted any more, and force those whose time has come."""
    world = draft.world
    for uid in sorted(world.timed):
        job = draft.jobs.get(uid)
        if job is not None and is_move(job) and _is_idle(draft, job):
            draft.set(job, evict=None)
    due: dict[JobId, bool] = {}
    for node in sorted(world.draining):
        drain = world.standing.get(node, PLAIN).drain
        if drain is None or drain.deadline_s is None:
            continue
        for known in world.on_node.get(node, {}).values():
            job = draft.jobs.get(known.job)
            if job is None or job.state not in WITH_A_PLACE:
                continue
            asks_s = drain.deadline_s - (job.spec.grace_s or 0.0 if asks_first(job) else 0.0)
            draft.wake_at(asks_s)
            draft.wake_at(drain.deadline_s)
            if drain.deadline_s <= draft.now_s:
                due[job.uid] = True
            elif asks_s <= draft.now_s:
                due.setdefault(job.uid, False)
    for uid, is_forced in sorted(due.items()):
        job = draft.jobs[uid]
        if is_forced:
            _force(draft, job)
        elif job.state in LIVE_JOB and job.evict is None:
            begin_move(draft, job)


def _force(draft: Draft, job: JobRecord) -> None:
    """Members on nodes whose deadline is past are told to stop, whatever their gang does."""
    told = False
    for pod in draft.live_pods(job.uid):
        drain = draft.world.standing.get(pod.node, PLAIN).drain
        is_due = drain is not None and drain.deadline_s is not None
        if is_due and pod.state in STAYS and drain and (drain.deadline_s or 0.0) <= draft.now_s:
            draft.move_pod(pod, PodState.TERMINATING)
            told = True
    leaving = job.evict
    if told and is_move(job) and leaving and leaving.step is not EvictStep.TERMINATING:
        # Members that were told to stop leave still: others may count on their places.
        draft.set(job, evict=None)


def is_move(job: JobRecord) -> bool:
    """Whether some of its members are to move, by themselves and not for another gang."""
    return job.state in WITH_A_PLACE and job.evict is not None and job.evict.for_job is None


def _is_idle(draft: Draft, job: JobRecord) -> bool:
    """Whether a move that was not asked for yet has lost its cause."""
    leaving = job.evict
    if leaving is None or leaving.step is not EvictStep.ASKED or leaving.asked_s is not None:
        return False
    return not _to_move(draft, job)


def _to_move(draft: Draft, job: JobRecord) -> list[PodRecord]:
    """Members on nodes that are being drained."""
    draining = draft.world.draining
    return [p for p in draft.live_pods(job.uid) if p.state in STAYS and p.node in draining]


def drain_in_turn(draft: Draft, recovery: Recovery) -> None:
    """Find places for members on nodes that are being drained, and let them move there."""
    uids = {
        pod.job
        for node in draft.world.draining
        for pod in draft.world.on_node.get(node, {}).values()
    }
    jobs = [draft.jobs[uid] for uid in uids if uid in draft.jobs]
    for job in sorted(jobs, key=lambda j: (-j.spec.priority, j.age, j.uid)):
        if job.state in LIVE_JOB and job.evict is None:
            leaving = _to_move(draft, job)
            places = recovery.places_to_move(job, leaving) if leaving else None
            if places:
                _keep(draft, recovery, job, places)
                begin_move(draft, draft.jobs[job.uid])
                settle_wound(draft, draft.jobs[job.uid])


def _keep(draft: Draft, recovery: Recovery, job: JobRecord, places: list[PodPlace]) -> None:
    draft.let_go(draft.claims_of(job.uid, ClaimWhy.RECOVERY))
    recovery.keep_places(job, places)


def begin_move(draft: Draft, job: JobRecord) -> None:
    """Ask a gang to save before members of it move, or tell them to stop at once."""
    nodes = sorted({pod.node for pod in _to_move(draft, job)})
    shown = f"node {nodes[0]} is drained" if len(nodes) == 1 else f"{len(nodes)} nodes are drained"
    leaving = Eviction(job.state, EvictStep.TERMINATING, None, shown)
    if asks_first(job):
        request_id = request_id_of(job, draft.world.revision)
        draft.set(job, evict=replace(leaving, step=EvictStep.ASKED, request_id=request_id))
        return
    draft.set(job, evict=leaving)
    tell_movers(draft, movers(draft, job))
