"""Gangs on the way out: begun, pushed on by time, withdrawn, and what they become in the end."""

from collections.abc import Iterable
from dataclasses import replace

from scheduler.draft.book import Draft
from scheduler.draft.moving import movers, tell_movers
from scheduler.evict.saving import asks_first, request_id_of, step_after
from scheduler.evict.timing import over_limit, time_is_up_s
from scheduler.model.claim import MAKING_ROOM, Claim, ClaimWhy
from scheduler.model.ids import JobId, NodeId
from scheduler.model.lifecycle import FINAL, JobState, PodState, Reason
from scheduler.model.plan import Eviction, EvictStep, Fact, JobRecord, PodRecord

TOLD_TO_STOP = frozenset({PodState.BOUND, PodState.RUNNING, PodState.LOST})
"""Pods that are told to stop when they are to leave, those that never started included: their node
may be about to start them."""

HELD_MESSAGE = "held until it is released"

FOR_A_PLACE = (ClaimWhy.RESERVATION, ClaimWhy.PREEMPTION)
"""Claims of a gang that waits for its place as a whole."""


def begin_leaving(
    draft: Draft,
    job: JobRecord,
    then: JobState,
    why: str,
    *,
    for_job: JobId | None = None,
    at_once: bool = False,
) -> None:
    """Have a gang leave: its checkpoint hook is asked first, or else all its pods are told to stop.

    Without pods it is at its end at once. A gang that leaves already does so for another end from
    now on, with what time it has left to save.

    Args:
        at_once: Do not ask its hook: nothing could be saved.
    """
    before = job.evict if job.state is JobState.EVICTING else None
    if for_job is None and before is not None:
        for_job = before.for_job
    if before is not None and not at_once:
        leaving = replace(before, then=then, why=why, for_job=for_job)
    else:
        leaving = Eviction(then, EvictStep.TERMINATING, None, why, for_job)
        if not at_once and asks_first(job):
            request_id = request_id_of(job, draft.world.revision)
            leaving = replace(leaving, step=EvictStep.ASKED, request_id=request_id)
    job = draft.set(
        job,
        state=JobState.EVICTING,
        reason=None,
        message=why,
        evict=leaving,
        could_start_s=None,
    )
    if leaving.step is EvictStep.TERMINATING:
        _tell(draft, draft.live_pods(job.uid))
    has_left(draft, job)


def answered(draft: Draft, job: JobRecord, fact: Fact) -> None:
    """What became of the request to save that a gang's hook got; an old one is of no interest."""
    leaving = job.evict
    if leaving is None or (leaving.for_job is not None and job.state is not JobState.EVICTING):
        return
    after = step_after(leaving, fact, job.spec.grace_s, draft.now_s)
    if after == leaving:
        return
    job = draft.set(job, evict=after)
    if after.step is EvictStep.TERMINATING:
        _tell_those_who_leave(draft, job)


def _tell_those_who_leave(draft: Draft, job: JobRecord) -> None:
    """All pods of a gang that leaves; of one that stays, the members that move."""
    if job.state is JobState.EVICTING:
        _tell(draft, draft.live_pods(job.uid))
    else:
        tell_movers(draft, movers(draft, job))
    has_left(draft, job)


def begin_members_leaving(
    draft: Draft, job: JobRecord, pods: Iterable[PodRecord], why: str, for_job: JobId
) -> None:
    """Tell some members above the minimum to stop; the gang itself stays as it is.

    Its hook is not asked: the others run on, and what they have computed is not lost.
    """
    leaving = Eviction(job.state, EvictStep.TERMINATING, None, why, for_job)
    draft.set(job, evict=leaving)
    _tell(draft, pods)


def _tell(draft: Draft, pods: Iterable[PodRecord]) -> None:
    for pod in pods:
        if pod.state not in TOLD_TO_STOP:
            continue
        # Nobody is there to be told on a node that is gone, and its GPUs go to nobody.
        is_gone = pod.node in draft.world.gone
        draft.move_pod(pod, PodState.STOPPED if is_gone else PodState.TERMINATING)


def has_left(draft: Draft, job: JobRecord) -> None:
    """Give a gang the state it leaves for, once its last pod has stopped."""
    leaving = job.evict
    if leaving is None:
        return
    live = draft.live_pods(job.uid)
    if job.state is not JobState.EVICTING:
        if not any(p.state is PodState.TERMINATING for p in live):
            draft.set(job, evict=None)
    elif live:
        return
    elif leaving.then is JobState.PENDING:
        line_up(draft, job, f"{leaving.why}; it waits in line with its age")
    else:
        draft.set(job, state=leaving.then, reason=None, message=leaving.why, evict=None)


def line_up(draft: Draft, job: JobRecord, message: str) -> JobRecord:
    """A gang that holds nothing waits in line, unless it is held back."""
    reason = Reason.PAUSED if job.held else Reason.ROOM
    said = HELD_MESSAGE if job.held else message
    return draft.set(
        job,
        state=JobState.PENDING,
        reason=reason,
        message=said,
        evict=None,
        bound_s=None,
        started_s=None,
        expected_start_s=None,
        hold_until_s=None,
        lost_since_s=None,
    )


def leave_now(draft: Draft, job: JobRecord, then: JobState, why: str, state: PodState) -> None:
    """Every pod of a gang leaves without its hook being asked, then the gang is what it is to be.

    Pods on nodes with an agent hold their GPUs until it says that they have stopped.

    Args:
        state: Of the other pods from now on.
    """
    is_waiting = False
    for pod in draft.live_pods(job.uid):
        if not draft.has_agent(pod.node):
            draft.move_pod(pod, state)
            continue
        is_waiting = True
        if pod.state is not PodState.TERMINATING:
            draft.move_pod(pod, PodState.TERMINATING)
    if is_waiting:
        leaving = Eviction(then, EvictStep.TERMINATING, None, why)
        draft.set(job, state=JobState.EVICTING, reason=None, message=why, evict=leaving)
    elif then is JobState.PENDING:
        line_up(draft, job, why)
    else:
        draft.set(job, state=then, reason=None, message=why, evict=None)


def give_up_place(draft: Draft, job: JobRecord) -> None:
    """End the claims of a gang that waits for its place; it is pending again.

    Evictions made for it that were not asked for yet are withdrawn. Those that were asked for go
    on: their gangs have begun to save and to stop.
    """
    if job.state is not JobState.RESERVED:
        return
    draft.let_go(draft.claims_of(job.uid, *FOR_A_PLACE))
    line_up(draft, job, "")
    withdraw_all(draft, job.uid)


def leaving_for(draft: Draft, job: JobId) -> list[JobRecord]:
    """Gangs that leave, or members of which leave, for another; oldest first."""
    uids = draft.world.timed | draft.changed.keys()
    found = (draft.jobs[uid] for uid in uids if uid in draft.jobs)
    these = [j for j in found if j.evict is not None and j.evict.for_job == job]
    return sorted(these, key=lambda j: (j.age, j.uid))


def leaving_pods(draft: Draft) -> list[PodRecord]:
    """Live pods on the way out, of all jobs: oldest job first, then role and index.

    Those of a gang that saves first are among them, as they will all be told to stop.
    """
    uids = draft.world.timed | draft.changed.keys()
    jobs = [draft.jobs[uid] for uid in uids if uid in draft.jobs]
    leaving = sorted((j for j in jobs if j.evict is not None), key=lambda j: (j.age, j.uid))
    return [
        pod
        for job in leaving
        for pod in draft.live_pods(job.uid)
        if job.state is JobState.EVICTING or pod.state is PodState.TERMINATING
    ]


def withdraw_all(draft: Draft, claimant: JobId) -> None:
    """Let all stay that were to leave for a gang, as far as they were not asked to yet."""
    for victim in leaving_for(draft, claimant):
        withdraw(draft, victim)


def withdraw(draft: Draft, job: JobRecord) -> bool:
    """Let a gang stay that was not yet asked to leave; whether it does.

    One that its owner wants to leave by now goes on, and so does one on whose GPUs a gang of higher
    priority has a place meanwhile: it leaves for that one. Others that counted on it lose theirs.
    """
    leaving = job.evict
    if leaving is None or leaving.step is not EvictStep.ASKED or leaving.asked_s is not None:
        return False
    if job.state is not JobState.EVICTING:
        draft.set(job, state=leaving.then, reason=None, message="", evict=None)
        return True
    if leaving.then is not JobState.PENDING:
        return False
    others = _counting_on(draft, job)
    heir = next((other for other in others if _comes_before(draft, other, job)), None)
    if heir is not None:
        draft.set(job, evict=replace(leaving, for_job=heir.uid))
        return False
    stays = JobState.RUNNING if job.started_s is not None else JobState.BOUND
    draft.set(job, state=stays, reason=None, message="", evict=None)
    for other in others:
        _lose_place(draft, other)
    return True


def _counting_on(draft: Draft, job: JobRecord) -> list[JobRecord]:
    """Other gangs that have a place on GPUs of one that leaves; the most important first."""
    found = claimants_on(draft, draft.live_pods(job.uid), *MAKING_ROOM)
    others = (other for other in found if other.uid != job.uid)
    return sorted(others, key=lambda j: (-j.spec.priority, j.age, j.uid))


def claimants_on(
    draft: Draft, places: Iterable[Claim | PodRecord], *why: ClaimWhy
) -> list[JobRecord]:
    """Gangs with claims for these reasons that share GPUs with claims or pods, by uid."""
    masks: dict[NodeId, int] = {}
    for place in places:
        masks[place.node] = masks.get(place.node, 0) | place.gpu_mask
    return [
        draft.jobs[uid]
        for uid in draft.claimants
        if uid in draft.jobs
        and any(masks.get(c.node, 0) & c.gpu_mask for c in draft.claims_of(uid, *why))
    ]


def _comes_before(draft: Draft, other: JobRecord, job: JobRecord) -> bool:
    """Whether a gang leaves for another, as that is more important or has its place from now on.

    Claims and the evictions made for them in one cycle go together.
    """
    is_new = any(c.uid not in draft.world.claims for c in draft.claims_of(other.uid, *MAKING_ROOM))
    return is_new or other.spec.priority > job.spec.priority


def _lose_place(draft: Draft, other: JobRecord) -> None:
    """End what a gang has claimed where another stays; it gets a place anew in its turn."""
    if other.state is JobState.RESERVED:
        give_up_place(draft, other)
        message = "a job that was to make way for it stays"
        draft.wait(draft.jobs[other.uid], Reason.ROOM, message, None)
        return
    give_up_recovery(draft, other.uid)


def give_up_recovery(draft: Draft, job: JobId) -> None:
    """End what is kept for lost members; who was to leave for it and was not asked yet stays."""
    draft.let_go(draft.claims_of(job, ClaimWhy.RECOVERY))
    withdraw_all(draft, job)


def push_on(draft: Draft) -> None:
    """What time alone does: limits that are reached, steps whose deadline has passed."""
    timed = (draft.jobs[uid] for uid in draft.world.timed if uid in draft.jobs)
    for job in sorted(timed, key=lambda j: (j.age, j.uid)):
        if job.state in FINAL:
            continue
        if over_limit(job, draft.now_s):
            why = f"ran for its time limit of {job.spec.time_limit_s:g} s"
            begin_leaving(draft, job, JobState.FAILED, why)
            continue
        draft.wake_at(time_is_up_s(job))
        leaving = job.evict
        if leaving is None or leaving.deadline_s is None:
            continue
        if leaving.deadline_s > draft.now_s:
            draft.wake_at(leaving.deadline_s)
        elif leaving.step is not EvictStep.TERMINATING:
            # Whoever did not answer in time, or did not finish saving, leaves anyway.
            pushed = replace(leaving, step=EvictStep.TERMINATING, deadline_s=None)
            _tell_those_who_leave(draft, draft.set(job, evict=pushed))
