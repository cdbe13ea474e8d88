"""What callers and nodes say, taken account of: control of jobs and reports on pods."""

from scheduler.draft.book import LIVE_JOB, Draft
from scheduler.draft.leaving import (
    HELD_MESSAGE,
    answered,
    begin_leaving,
    give_up_place,
    has_left,
    leave_now,
    line_up,
)
from scheduler.draft.losing import settle_wound, state_of
from scheduler.draft.restarts import crashed, restart, stopped
from scheduler.evict.control import Effect, effect_of, leaves_for_good
from scheduler.evict.saving import HANDSHAKE
from scheduler.model.job import Role
from scheduler.model.lifecycle import FINAL, POD_MOVES, JobState, PodState, Reason
from scheduler.model.plan import Fact, FactKind, JobRecord, PodRecord
from scheduler.policy import Policy
from scheduler.recover.beside import keeps_rules
from scheduler.recover.missing import THERE, lacks_of

WITH_A_PLACE = frozenset({JobState.BOUND, JobState.RUNNING, JobState.RECOVERING})
"""Gangs whose members start anew when they end."""

STOPPABLE = frozenset({PodState.BOUND, PodState.RUNNING})
"""Pods that stop as soon as this is decided."""

ASKED_TO_LEAVE = {
    FactKind.SUSPEND: "suspended by its owner",
    FactKind.REQUEUE: "sent back in line by its owner",
    FactKind.RESUME: "sent back in line by its owner",
}


def apply_facts(draft: Draft, policy: Policy) -> None:
    """Take account of every fact, oldest first; one that has no effect any more is done too.

    That a gang was asked to save comes before all else: no later change of mind may find it not
    asked yet, though it became known first.
    """
    for fact in sorted(draft.world.facts, key=lambda fact: fact.kind not in HANDSHAKE):
        job = draft.jobs.get(fact.job)
        if job is not None and job.state not in FINAL:
            if fact.kind is FactKind.REPORT:
                _report(draft, job, fact, policy)
            elif fact.kind is FactKind.FAULT:
                _faulted(draft, job, fact)
            elif fact.kind in HANDSHAKE:
                answered(draft, job, fact)
            else:
                _control(draft, job, fact.kind)
        draft.note_fact(fact.id)


# -- control --------------------------------------------------------------------------------------


def _control(draft: Draft, job: JobRecord, kind: FactKind) -> None:
    match effect_of(kind, job.state):
        case Effect.END:
            give_up_place(draft, job)
            why = "cancelled by its owner"
            leave_now(draft, job, JobState.CANCELLED, why, PodState.CANCELLED)
        case Effect.MARK_HELD:
            _hold(draft, job)
        case Effect.MARK_FREE:
            _release(draft, job)
        case Effect.SUSPEND:
            give_up_place(draft, job)
            draft.set(job, state=JobState.SUSPENDED, reason=None, message=ASKED_TO_LEAVE[kind])
        case Effect.LEAVE_SUSPENDED:
            _ask_to_leave(draft, job, JobState.SUSPENDED, ASKED_TO_LEAVE[kind])
        case Effect.LEAVE_PENDING:
            _ask_to_leave(draft, job, JobState.PENDING, ASKED_TO_LEAVE[kind])
        case Effect.LINE_UP:
            line_up(draft, job, "resumed by its owner")
        case Effect.STOP_SURPLUS:
            _resize(draft, job)
        case Effect.PLAN_ANEW:
            give_up_place(draft, job)
        case Effect.NOTHING:
            pass


def _hold(draft: Draft, job: JobRecord) -> None:
    give_up_place(draft, job)
    job = draft.set(job, held=True)
    if job.state is JobState.PENDING:
        draft.wait(job, Reason.PAUSED, HELD_MESSAGE, None)


def _release(draft: Draft, job: JobRecord) -> None:
    if job.held:
        job = draft.set(job, held=False)
        if job.state is JobState.PENDING:
            draft.wait(job, Reason.ROOM, "released", None)


def _ask_to_leave(draft: Draft, job: JobRecord, then: JobState, why: str) -> None:
    """Begin to leave, or leave for another end than before."""
    leaving = job.evict if job.state is JobState.EVICTING else None
    if leaving is not None and (leaving.then is then or leaves_for_good(leaving.then)):
        return
    begin_leaving(draft, job, then, why)


def _resize(draft: Draft, job: JobRecord) -> None:
    """Stop the members that the job has too many; what is missing joins in the growth step."""
    if job.state not in WITH_A_PLACE:
        return
    for role in job.spec.roles:
        for pod in _surplus(draft, job, role):
            waits = draft.has_agent(pod.node)
            draft.move_pod(pod, PodState.TERMINATING if waits else PodState.STOPPED, surplus=True)
    # With fewer members wanted, those that are left may be all there need to be.
    _maybe_succeeded(draft, job)


def _surplus(draft: Draft, job: JobRecord, role: Role) -> list[PodRecord]:
    """Members beyond the role's number, in whole parts, highest index first.

    So many stay as must run together, should members below have a gap or be on the way out. A lost
    or terminating pod is left alone: its GPUs are not free before its node says so.
    """
    mine = [p for p in draft.pods(job.uid).values() if p.role == role.name]
    there = sum(
        (p.is_live and p.state is not PodState.TERMINATING) or p.state is PodState.SUCCEEDED
        for p in mine
    )
    over = [p for p in mine if p.index >= role.replicas and p.state in STOPPABLE]
    over.sort(key=lambda p: -p.index)
    size = role.parts.size if role.parts is not None else 1
    return over[: max(0, there - role.min) // size * size]


# -- reports --------------------------------------------------------------------------------------


def _report(draft: Draft, job: JobRecord, fact: Fact, policy: Policy) -> None:
    pod = draft.pods(job.uid).get(fact.pod) if fact.pod is not None else None
    state = fact.pod_state
    if pod is None or state is None or pod.attempt != fact.attempt:
        return
    if not pod.is_live or state not in POD_MOVES[pod.state]:
        return
    was_told_to = pod.state is PodState.TERMINATING
    if pod.state is PodState.LOST and state is PodState.RUNNING and not _goes_on(draft, job, pod):
        # Found again, but its gang has gone elsewhere, where it may not be beside the others.
        draft.move_pod(pod, PodState.TERMINATING)
        return
    draft.move_pod(pod, state, fact.exit_code)
    if state is PodState.RUNNING:
        _maybe_running(draft, job)
    elif state is PodState.SUCCEEDED:
        _maybe_succeeded(draft, job)
    elif was_told_to:
        pass  # However it ended: it was told to, so that is no crash.
    elif state is PodState.FAILED:
        crashed(draft, job, pod, fact.exit_code, policy)
    elif job.state is JobState.EVICTING and job.evict is not None:
        # It leaves anyway, and there is nothing left to be saved.
        leave_now(draft, job, job.evict.then, job.evict.why, PodState.STOPPED)
    elif job.state in WITH_A_PLACE:
        stopped(draft, job, pod)
    if was_told_to and draft.jobs[job.uid].state not in FINAL:
        has_left(draft, draft.jobs[job.uid])
        if draft.jobs[job.uid].state in LIVE_JOB:
            _maybe_succeeded(draft, draft.jobs[job.uid])


def _goes_on(draft: Draft, job: JobRecord, pod: PodRecord) -> bool:
    """Whether a lost member that is found again may be where it is beside those that are there."""
    there = [p for p in draft.live_pods(job.uid) if p.state in THERE]
    return keeps_rules(job.spec, pod, there, draft.world.topology)


def _faulted(draft: Draft, job: JobRecord, fact: Fact) -> None:
    """A fault of its node after which a member starts anew; not the gang's own, so not counted."""
    pod = draft.pods(job.uid).get(fact.pod) if fact.pod is not None else None
    if pod is None or pod.attempt != fact.attempt or pod.state not in STOPPABLE:
        return
    if job.state in WITH_A_PLACE:
        restart(draft, job, [pod], f"pod '{pod.name}' starts anew after a fault on '{pod.node}'")


def _maybe_running(draft: Draft, job: JobRecord) -> None:
    """It runs when all that must run together do; one in recovery that is complete again, too."""
    job = draft.jobs[job.uid]
    if job.state is JobState.RECOVERING:
        settle_wound(draft, job)
        job = draft.jobs[job.uid]
    complete = job.state is JobState.BOUND and state_of(draft, job) is JobState.RUNNING
    if complete or (job.state is JobState.RUNNING and job.started_s is None):
        _runs(draft, job)


def _runs(draft: Draft, job: JobRecord) -> None:
    began = draft.now_s if job.started_s is None else job.started_s
    draft.set(job, state=JobState.RUNNING, reason=None, message="", started_s=began)


def _maybe_succeeded(draft: Draft, job: JobRecord) -> None:
    """All have exited 0, or all of a role that decides."""
    job = draft.jobs[job.uid]
    pods = draft.pods(job.uid).values()
    deciding = {role.name for role in job.spec.roles if role.decides}
    waited_for = [p for p in pods if p.role in deciding] if deciding else list(pods)
    if any(p.is_live and p.state is not PodState.LOST for p in waited_for):
        _maybe_running(draft, job)
        return
    if job.state is JobState.EVICTING:
        # A gang that was told to leave has succeeded only if all were done before it did.
        has_succeeded = all(p.state is PodState.SUCCEEDED for p in waited_for)
    else:
        needed = {role for role, _ in lacks_of(job, pods).needed}
        has_succeeded = not (needed & deciding if deciding else needed)
    if has_succeeded:
        leave_now(draft, job, JobState.SUCCEEDED, "", PodState.CANCELLED)
