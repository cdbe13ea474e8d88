"""Members that move to another place: who they are, and telling them to stop where they are."""

from collections.abc import Iterable

from scheduler.draft.book import Draft
from scheduler.model.claim import ClaimWhy
from scheduler.model.lifecycle import PodState
from scheduler.model.plan import JobRecord, PodRecord

_STAYS = frozenset({PodState.BOUND, PodState.RUNNING})


def movers(draft: Draft, job: JobRecord) -> list[PodRecord]:
    """Members for which a place is kept; without any, those on nodes that are being drained."""
    kept = {str(claim.uid) for claim in draft.claims_of(job.uid, ClaimWhy.RECOVERY)}
    there = [p for p in draft.live_pods(job.uid) if p.state in _STAYS]
    if kept:
        return [p for p in there if p.uid in kept]
    return [p for p in there if p.node in draft.world.draining]


def tell_movers(draft: Draft, pods: Iterable[PodRecord]) -> None:
    """They are to stop; they start again where a place is kept for them."""
    for pod in pods:
        draft.move_pod(pod, PodState.TERMINATING)
