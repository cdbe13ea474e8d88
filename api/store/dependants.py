"""What of a plan goes along with a part that is left out of it."""

from collections.abc import Iterable, Mapping

from api.schemas.spec import load_eviction
from api.store.parts import ClaimNow, Part, PodNow, new_claimant
from scheduler.model.claim import MAKING_ROOM, Claim, ClaimWhy
from scheduler.model.lifecycle import LIVE_POD, JobState, PodState

WHEN_FREE = frozenset(ClaimWhy) - {ClaimWhy.RESERVATION, ClaimWhy.MAINTENANCE}
"""Claims on what is free, or will be as soon as those who are told to stop there have stopped."""

STAYING = frozenset({JobState.BOUND, JobState.RUNNING, JobState.RECOVERING})
"""States of a job that no longer leaves, or of which only some members do."""


class Dependants:
    """Who goes along with a part of a plan that is left out.

    Whoever would use what a dropped part would have freed; and a gang for which others leave, with
    those others: no eviction without the claim that it is for, no such claim without the eviction.

    Args:
        turning: Live pods of jobs that begin to leave, or were to and stay, as they are now.
    """

    def __init__(
        self,
        parts: Mapping[str, Part],
        now: Mapping[str, PodNow],
        claims_now: Mapping[str, ClaimNow],
        turning: Iterable[PodNow] = (),
    ) -> None:
        self._parts = parts
        self._now = now
        self._claims_now = claims_now
        self._turning = tuple(turning)
        self._links = self._linked()

    def of(self, dropped: set[str]) -> set[str]:
        """The dropped parts and all that go with them."""
        found, fresh = set(dropped), set(dropped)
        while fresh:
            stays = {node for uid in fresh for node in self._left_nodes(self._parts[uid])}
            kept = {node for uid in fresh for node in self._released_nodes(self._parts[uid])}
            linked = {other for uid in fresh for other in self._links.get(uid, ())}
            fresh = {
                uid
                for uid, part in self._parts.items()
                if uid not in found
                and (
                    uid in linked
                    or any(pod.node in stays or pod.node in kept for pod in part.pods)
                    or any(_counts_on(claim, stays, kept) for claim in part.claims)
                )
            }
            found |= fresh
        return found

    def _linked(self) -> dict[str, set[str]]:
        links: dict[str, set[str]] = {}
        claimed = self._claimed()
        told = self._told_to_stop() if claimed else ()
        for uid, other in (*self._evicted(), *self._withdrawn(), *_meeting(claimed, told)):
            if other in self._parts and other != uid:
                links.setdefault(uid, set()).add(other)
                links.setdefault(other, set()).add(uid)
        # Who leaves for a reason of its own does so without whoever gets its place; and who stays
        # does so only if those go without it who were to get it.
        for uid, other in _meeting(claimed, self._turning):
            links.setdefault(uid, set()).add(other)
        for uid, other in _meeting(self._given_up(), self._turning):
            links.setdefault(other, set()).add(uid)
        return links

    def _evicted(self) -> Iterable[tuple[str, str]]:
        """Jobs that begin to leave, and for whom."""
        for uid, part in self._parts.items():
            claimant = new_claimant(part)
            if claimant is not None:
                yield uid, claimant

    def _withdrawn(self) -> Iterable[tuple[str, str]]:
        """Jobs that stay after all, and for whom they were to leave."""
        for uid, part in self._parts.items():
            if part.move is None or part.row is None or part.move.state not in STAYING:
                continue
            old = load_eviction(part.row._mapping["evict"])
            if old is not None and old.for_job is not None:
                now = part.move.evict
                if now is None or now.for_job != old.for_job:
                    yield uid, old.for_job

    def _claimed(self) -> Mapping[str, list[Claim]]:
        """Claims on a place that others are made to leave, by node."""
        return _making_room(claim for part in self._parts.values() for claim in part.claims)

    def _given_up(self) -> Mapping[str, list[Claim]]:
        """Such claims that end or change, as they are now."""
        return _making_room(
            self._claims_now[uid].claim
            for part in self._parts.values()
            for uid in self._released(part)
        )

    def _told_to_stop(self) -> Iterable[PodNow]:
        """Members that stop from now on."""
        for part in self._parts.values():
            for move in part.pod_moves:
                pod = self._now[move.uid]
                if move.state is PodState.TERMINATING and pod.state is not PodState.TERMINATING:
                    yield pod

    def _left_nodes(self, part: Part) -> Iterable[str]:
        """Nodes on which pods of a part free something."""
        leaving = [move.uid for move in part.pod_moves if move.state not in LIVE_POD]
        again = [pod.uid for pod in part.pods if pod.uid in self._now]
        return (
            self._now[uid].node for uid in (*leaving, *again) if self._now[uid].state in LIVE_POD
        )

    def _released_nodes(self, part: Part) -> Iterable[str]:
        """Nodes on which claims of a part end or change."""
        return (self._claims_now[uid].claim.node for uid in self._released(part))

    def _released(self, part: Part) -> Iterable[str]:
        changing = [claim.uid for claim in part.claims if claim.uid in self._claims_now]
        return (*part.claims_gone, *changing)


def _counts_on(claim: Claim, stays: set[str], kept: set[str]) -> bool:
    """Whether a claim is on a node where pods stay, or claims, that were to go."""
    return claim.node in kept or (claim.node in stays and claim.why in WHEN_FREE)


def _making_room(claims: Iterable[Claim]) -> dict[str, list[Claim]]:
    """Those of the claims that others are made to leave for, by node."""
    by_node: dict[str, list[Claim]] = {}
    for claim in claims:
        if claim.why in MAKING_ROOM:
            by_node.setdefault(claim.node, []).append(claim)
    return by_node


def _meeting(
    claimed: Mapping[str, list[Claim]], leaving: Iterable[PodNow]
) -> Iterable[tuple[str, str]]:
    """Jobs with pods that leave, or were to, and who has claimed their GPUs."""
    for pod in leaving:
        for claim in claimed.get(pod.node, ()):
            if claim.gpu_mask & pod.gpu_mask and claim.job not in {None, pod.job}:
                yield pod.job, str(claim.job)
