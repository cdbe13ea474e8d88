"""Claims at the start of a cycle: ended ones go, windows come, gangs start whose place is free."""

from scheduler.backfill.windows import window_claims
from scheduler.draft.book import LIVE_JOB, Draft
from scheduler.draft.leaving import give_up_place, leaving_for, withdraw_all
from scheduler.draft.starts import bind, is_free, is_usable, placement_of
from scheduler.model.claim import Claim, ClaimWhy
from scheduler.model.ids import ClaimId, NodeId
from scheduler.model.lifecycle import FINAL, JobState, Reason
from scheduler.model.plan import JobRecord
from scheduler.order.shares import shares_of


def settle_claims(draft: Draft) -> None:
    """End what has lost its cause, and let windows have what is theirs."""
    for uid in draft.claimants:
        job = draft.jobs.get(uid)
        if job is None or job.state in FINAL:
            draft.let_go(draft.claims_of(uid))
            withdraw_all(draft, uid)
            continue
        if not _may_recover(job):
            places = draft.claims_of(uid, ClaimWhy.RECOVERY)
            if places:
                draft.let_go(places)
                withdraw_all(draft, uid)
        if job.state is not JobState.RESERVED:
            draft.let_go(draft.claims_of(uid, ClaimWhy.RESERVATION, ClaimWhy.PREEMPTION))
        elif not _still_there(draft, job):
            give_up_place(draft, job)
            message = "a node of the place that it waited for is out of use"
            draft.wait(draft.jobs[uid], Reason.ROOM, message, None)
    if draft.world.windows or draft.claims_of_windows():
        _open_windows(draft)


def _may_recover(job: JobRecord) -> bool:
    """Whether a gang is on its way back, or to a better place, so that places are kept for it."""
    if job.state is JobState.RECOVERING or job.reason is Reason.BACKOFF:
        return True
    return job.state in LIVE_JOB and job.evict is not None


def _still_there(draft: Draft, job: JobRecord) -> bool:
    """Whether the nodes that a gang's victims are to leave can still be used."""
    claims = draft.claims_of(job.uid, ClaimWhy.PREEMPTION)
    return not claims or is_usable(draft.world, claims)


def _open_windows(draft: Draft) -> None:
    """Make the claims of windows those that they are to be now."""
    windows = draft.world.windows
    for uid in draft.claimants:
        if _in_a_window(draft, draft.claims_of(uid, ClaimWhy.RESERVATION)):
            give_up_place(draft, draft.jobs[uid])
    of_gangs: dict[NodeId, int] = {}
    for uid in draft.claimants:
        for claim in draft.claims_of(uid):
            of_gangs[claim.node] = of_gangs.get(claim.node, 0) | claim.gpu_mask
    wanted: dict[ClaimId, Claim] = {}
    topology, now_s = draft.world.topology, draft.now_s
    for claim in window_claims(topology, windows.values(), of_gangs, now_s):
        wanted[claim.uid] = claim
    known = {claim.uid: claim for claim in draft.claims_of_windows()}
    draft.let_go(c for c in known.values() if wanted.get(c.uid) != c)
    draft.keep(c for c in wanted.values() if known.get(c.uid) != c)
    for window in windows.values():
        draft.wake_at(window.ends_s)


def _in_a_window(draft: Draft, claims: list[Claim]) -> bool:
    """Whether a reservation is on a node that people are to have, other than after a window."""
    if not claims:
        return False
    nodes = {
        node
        for window in draft.world.windows.values()
        if window.ends_s > draft.now_s
        for node in window.nodes
    }
    return any(claim.node in nodes for claim in claims)


def start_ready(draft: Draft) -> None:
    """Gangs whose victims have all left start in their claims; oldest first."""
    waiting = [draft.jobs[uid] for uid in draft.claimants if uid in draft.jobs]
    limited = shares_of(draft.world)
    for job in sorted(waiting, key=lambda j: (-j.spec.priority, j.age, j.uid)):
        claims = draft.claims_of(job.uid, ClaimWhy.PREEMPTION)
        if not claims or job.state is not JobState.RESERVED or not is_free(draft.world, claims):
            continue
        if not (limited.limiting(job.spec.queue) and leaving_for(draft, job.uid)):
            # Under a limit also those must have left whose GPUs others will get.
            bind(draft, job, placement_of(draft.world, job, claims))
