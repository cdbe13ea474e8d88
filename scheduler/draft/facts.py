"""What callers and nodes say, taken account of: control of jobs and reports on pods."""

from scheduler.draft.book import LIVE_JOB, Draft
from scheduler.draft.leaving import (
    HELD_MESSAGE,
    answered,
    begin_leaving,
    give_up_place,
    has_left,
    line_up,
    stop_gang,
)
from scheduler.evict.control import Effect, effect_of, leaves_for_good
from scheduler.evict.saving import HANDSHAKE
from scheduler.model.job import Role
from scheduler.model.lifecycle import FINAL, POD_MOVES, JobState, PodState, Reason
from scheduler.model.plan import Fact, FactKind, JobRecord, PodRecord

STOPPABLE = frozenset({PodState.BOUND, PodState.RUNNING})
"""Pods that stop as soon as this is decided."""

ASKED_TO_LEAVE = {
    FactKind.SUSPEND: "suspended by its owner",
    FactKind.REQUEUE: "sent back in line by its owner",
    FactKind.RESUME: "sent back in line by its owner",
}


def apply_facts(draft: Draft) -> None:
    """Take account of every fact, oldest first; one that has no effect any more is done too.

    That a gang was asked to save comes before all else: no later change of mind may find it not
    asked yet, though it became known first.
    """
    for fact in sorted(draft.world.facts, key=lambda fact: fact.kind not in HANDSHAKE):
        job = draft.jobs.get(fact.job)
        if job is not None and job.state not in FINAL:
            if fact.kind is FactKind.REPORT:
                _report(draft, job, fact)
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
            _end(draft, job, JobState.CANCELLED, "cancelled by its owner", PodState.CANCELLED)
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
    if job.state not in LIVE_JOB:
        return
    for role in job.spec.roles:
        for pod in _surplus(draft, job, role):
            draft.move_pod(pod, PodState.STOPPED, surplus=True)
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


def _report(draft: Draft, job: JobRecord, fact: Fact) -> None:
    pod = draft.pods(job.uid).get(fact.pod) if fact.pod is not None else None
    state = fact.pod_state
    if pod is None or state is None or pod.attempt != fact.attempt:
        return
    if state not in POD_MOVES[pod.state]:
        return
    was_told_to = pod.state is PodState.TERMINATING
    draft.move_pod(pod, state, fact.exit_code)
    if state is PodState.RUNNING:
        _maybe_running(draft, job)
    elif state is PodState.SUCCEEDED:
        _maybe_succeeded(draft, job)
    elif was_told_to:
        pass  # However it ended: it was told to, so that is no crash.
    elif state is PodState.FAILED:
        _crashed(draft, job, pod, fact.exit_code)
    else:
        _restart(draft, job, f"pod '{pod.name}' was stopped on its node '{pod.node}'")
    if was_told_to and draft.jobs[job.uid].state not in FINAL:
        has_left(draft, draft.jobs[job.uid])
        if draft.jobs[job.uid].state in LIVE_JOB:
            _maybe_succeeded(draft, draft.jobs[job.uid])


def _maybe_running(draft: Draft, job: JobRecord) -> None:
    if job.state is JobState.BOUND and _has_minimum(
        draft, job, {PodState.RUNNING, PodState.SUCCEEDED}
    ):
        began = draft.now_s if job.started_s is None else job.started_s
        draft.set(job, state=JobState.RUNNING, reason=None, message="", started_s=began)


def _has_minimum(draft: Draft, job: JobRecord, states: set[PodState]) -> bool:
    """Whether so many members of every role are in one of these states as must run together."""
    pods = [p for p in draft.pods(job.uid).values() if p.state in states]
    if not job.spec.roles:
        return len(pods) == job.spec.gpu_count // max(job.gpus_per_pod, 1)
    return all(sum(p.role == role.name for p in pods) >= role.min for role in job.spec.roles)


def _maybe_succeeded(draft: Draft, job: JobRecord) -> None:
    """All have exited 0, or all of a role that decides."""
    pods = draft.pods(job.uid).values()
    deciding = {role.name for role in job.spec.roles if role.decides}
    waited_for = [p for p in pods if p.role in deciding] if deciding else list(pods)
    if any(p.is_live for p in waited_for):
        _maybe_running(draft, job)
    elif job.state is not JobState.EVICTING or all(
        p.state is PodState.SUCCEEDED for p in waited_for
    ):
        # A gang that was told to leave has succeeded only if all were done before it did.
        _end(draft, job, JobState.SUCCEEDED, "", PodState.CANCELLED)


def _crashed(draft: Draft, job: JobRecord, pod: PodRecord, exit_code: int | None) -> None:
    code = "" if exit_code is None else f" with exit code {exit_code}"
    told = f"pod '{pod.name}' failed{code} on node '{pod.node}'"
    if job.attempt <= job.spec.failure.max_restarts:
        restart = f"{told}; restart {job.attempt} of {job.spec.failure.max_restarts}"
        _restart(draft, job, restart)
    else:
        _end(draft, job, JobState.FAILED, told, PodState.STOPPED)


def _restart(draft: Draft, job: JobRecord, message: str) -> None:
    """All pods leave; the gang waits in line with its age, or goes where it was to go anyway."""
    stop_gang(draft, job, PodState.STOPPED)
    then, leaving = JobState.PENDING, job.evict
    if job.state is JobState.EVICTING and leaving is not None:
        then = leaving.then
    if then is JobState.PENDING:
        line_up(draft, job, message)
    else:
        draft.set(job, state=then, reason=None, message=message, evict=None)


def _end(draft: Draft, job: JobRecord, state: JobState, message: str, pods: PodState) -> None:
    stop_gang(draft, job, pods)
    draft.set(job, state=state, reason=None, message=message, evict=None)
