"""Own crashes: who starts anew, at once or after a while, and when it is no use any more.

A crash is the gang's own; what machines do to it is not counted. The budget is `max_restarts`. The
first crash starts anew at once; the n-th in a row, each soon after its start, after
`backoff_s` x 2^(n-2), at most `BACKOFF_MAX_S`. Three in a row that went the same way are a fault
of the job that no restart mends.
"""

from dataclasses import replace

from scheduler.draft.book import Draft
from scheduler.draft.leaving import leave_now
from scheduler.draft.losing import settle_wound
from scheduler.draft.starts import can_keep, make_way
from scheduler.model.claim import Claim, ClaimWhy
from scheduler.model.ids import ClaimId
from scheduler.model.job import Scope
from scheduler.model.lifecycle import JobState, PodState, Reason
from scheduler.model.plan import JobRecord, PodRecord
from scheduler.policy import Policy
from scheduler.recover.missing import THERE

BACKOFF_MAX_S = 300.0

SAME_WAY = 3
"""Crashes in a row that went the same way after which a gang is given up."""

WAYS = "; "
"""Between the ways of the last crashes in `JobRecord.last_crash`."""


def crashed(
    draft: Draft, job: JobRecord, pod: PodRecord, exit_code: int | None, policy: Policy
) -> None:
    """A member ended with an error: it, or the whole gang, starts anew if it still may."""
    failure = job.spec.failure
    code = "" if exit_code is None else f" with exit code {exit_code}"
    told = f"pod '{pod.name}' failed{code} on node '{pod.node}'"
    way = _way(job, pod, exit_code)
    began_s = max(job.since_s or 0.0, job.not_before_s or 0.0)
    in_a_row = draft.now_s - began_s <= policy.crash_loop_s
    ways = job.last_crash.split(WAYS) if in_a_row and job.last_crash else []
    ways = [*ways, way][-SAME_WAY:]
    streak = job.crash_streak + 1 if in_a_row else 1
    crashes = job.crashes + 1
    job = draft.set(job, crashes=crashes, crash_streak=streak, last_crash=WAYS.join(ways))
    if crashes > failure.max_restarts:
        why = told if not failure.max_restarts else f"{told}; that was its last restart"
        leave_now(draft, job, JobState.FAILED, why, PodState.STOPPED)
        return
    if job.state is JobState.EVICTING and job.evict is not None:
        # It leaves anyway, and there is nothing left to be saved.
        leave_now(draft, job, job.evict.then, job.evict.why, PodState.STOPPED)
        return
    if len(ways) == SAME_WAY and len(set(ways)) == 1:
        why = f"{told}; it failed the same way {SAME_WAY} times in a row, soon after its start"
        leave_now(draft, job, JobState.FAILED, why, PodState.STOPPED)
        return
    wait_s = backoff_s(failure.backoff_s, streak)
    job = draft.set(job, not_before_s=draft.now_s + wait_s)
    message = f"{told}; restart {crashes} of {failure.max_restarts}"
    restart(draft, job, [pod], message, wait_s)


def stopped(draft: Draft, job: JobRecord, pod: PodRecord) -> None:
    """A node stopped a member that was not told to: that is no crash of the gang."""
    index = draft.world.topology.node_index.get(pod.node)
    if index is None or draft.world.table.aside[index] is not None:
        # It is placed anew, elsewhere, in the gang's turn.
        settle_wound(draft, job)
        return
    restart(draft, job, [pod], f"pod '{pod.name}' was stopped on its node '{pod.node}'")


def backoff_s(base_s: float, streak: int) -> float:
    """Seconds before the restart after the n-th crash in a row."""
    return 0.0 if streak < 2 else min(base_s * 2.0 ** min(streak - 2, 30), BACKOFF_MAX_S)


def _way(job: JobRecord, pod: PodRecord, exit_code: int | None) -> str:
    """How it crashed. Of a gang that restarts as a whole, who was first is chance."""
    who = "all" if job.spec.failure.scope is Scope.GANG else f"{pod.role}-{pod.index}"
    return f"{who} exit {'-' if exit_code is None else exit_code}"


def restart(
    draft: Draft, job: JobRecord, ended: list[PodRecord], message: str, wait_s: float = 0.0
) -> None:
    """Members that ended on nodes that are fit start anew where they were, by the gang's scope.

    Args:
        ended: As they were while they were live.
        wait_s: Seconds before they do; their places are kept meanwhile.
    """
    if any(not _is_fit(draft, pod) for pod in ended):
        # Where they go instead is decided in the gang's turn.
        settle_wound(draft, job)
        return
    is_gang = job.spec.failure.scope is Scope.GANG
    pods = _whole(draft, job, ended) if is_gang else ended
    done = any(p.state is PodState.SUCCEEDED for p in draft.pods(job.uid).values())
    if any(not _is_fit(draft, pod) for pod in pods) or (is_gang and done):
        settle_wound(draft, job)
        return
    if wait_s:
        _wait(draft, job, pods, message)
        return
    draft.restart(job, [started_anew(draft, pod) for pod in pods])
    begin_attempt(draft, job, message, whole=is_gang)


def begin_attempt(draft: Draft, job: JobRecord, message: str, *, whole: bool) -> JobRecord:
    """A gang some members of which start anew, or all: then it is a new attempt of the gang."""
    job = draft.jobs[job.uid]
    if whole:
        job = draft.set(
            job, attempt=job.attempt + 1, bound_s=draft.now_s, started_s=None, saved_s=job.saved_s
        )
    return draft.set(
        job,
        state=JobState.BOUND,
        reason=None,
        message=message,
        hold_until_s=None,
        lost_since_s=None,
        goes_first=False,
        could_start_s=None,
        expected_start_s=None,
    )


def started_anew(draft: Draft, pod: PodRecord) -> PodRecord:
    """The next attempt of a member where it is."""
    return replace(pod, state=PodState.BOUND, attempt=draft.next_attempt(pod), exit_code=None)


def _whole(draft: Draft, job: JobRecord, ended: list[PodRecord]) -> list[PodRecord]:
    """Members that ended and those that are there, which start anew with them."""
    uids = {pod.uid for pod in ended}
    live = [p for p in draft.live_pods(job.uid) if p.state in THERE and p.uid not in uids]
    return sorted([*ended, *live], key=lambda p: (p.role, p.index))


def _is_fit(draft: Draft, pod: PodRecord) -> bool:
    """Whether a member can start anew where it is."""
    return pod.node not in draft.world.gone and pod.node in draft.world.topology.node_index


def _wait(draft: Draft, job: JobRecord, pods: list[PodRecord], message: str) -> None:
    """Stop members and keep their places until they may start anew.

    Where others have claims on these places already, the gang gets others when its time has come.
    """
    claims = [recovery_claim(pod) for pod in pods]
    make_way(draft, claims)
    if not can_keep(draft, claims):
        job = draft.set(job, reason=Reason.BACKOFF, message=message)
        settle_wound(draft, job)
        return
    for pod in pods:
        known = draft.pods(job.uid)[pod.uid]
        if known.is_live:
            asked = PodState.TERMINATING if draft.has_agent(pod.node) else PodState.STOPPED
            draft.move_pod(known, asked)
    draft.keep(claims)
    job = draft.jobs[job.uid]
    wait_s = (job.not_before_s or draft.now_s) - draft.now_s
    said = f"{message}, in {wait_s:g} s"
    draft.wake_at(job.not_before_s)
    if draft.live_pods(job.uid):
        settle_wound(draft, draft.set(job, reason=Reason.BACKOFF, message=said))
    else:
        draft.set(
            job,
            state=JobState.PENDING,
            reason=Reason.BACKOFF,
            message=said,
            bound_s=None,
            started_s=None,
        )


def recovery_claim(pod: PodRecord) -> Claim:
    """Keeps the place that a pod has, or is to have, for it."""
    return Claim(
        uid=ClaimId(pod.uid),
        why=ClaimWhy.RECOVERY,
        node=pod.node,
        gpu_mask=pod.gpu_mask,
        job=pod.job,
        role=pod.role,
        index=pod.index,
        first_rank=pod.first_rank,
        resources=pod.resources,
    )
