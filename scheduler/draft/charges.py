"""What queues use in the course of a cycle: at this moment, and once all that leaves has left."""

from collections.abc import Iterable

from scheduler.draft.book import Draft
from scheduler.draft.leaving import leaving_pods
from scheduler.draft.starts import place_of
from scheduler.model.claim import Claim, ClaimWhy
from scheduler.model.ids import JobId
from scheduler.model.plan import JobRecord, PodRecord
from scheduler.model.queue import Use
from scheduler.order.shares import shares_of
from scheduler.order.use import use_of_places, use_of_pods


class Charges:
    """Two accounts that go along.

    Attributes:
        now: What live pods hold, leaving ones included, and what gangs will hold whose victims are
            on their way out. Limits and the order of the line look at it: no limit may be exceeded
            even for a while.
        later: The same without what is leaving. Quotas are compared with it, or a queue would be
            made to give twice.
    """

    def __init__(self, draft: Draft) -> None:
        self.now, self.later = shares_of(draft.world), shares_of(draft.world)
        self._draft = draft
        for pod in draft.freed:
            job = draft.jobs[pod.job]
            self.remove(job, self.use_of(pod))
        for pod in draft.new_pods:
            # Gangs whose victims had left start before anybody in line is looked at.
            self.add(draft.jobs[pod.job], self.use_of(pod))
        for pod in leaving_pods(draft):
            self.leaves(draft.jobs[pod.job], [pod])
        for uid in draft.claimants:
            claimed = draft.claims_of(uid, ClaimWhy.PREEMPTION)
            if claimed and uid in draft.jobs:
                self.add(draft.jobs[uid], self.use_of_claims(claimed))
            spares = draft.claims_of(uid, ClaimWhy.SPARE)
            if spares and uid in draft.jobs:
                self.add(draft.jobs[uid], self.use_of_claims(spares))
            recovering = draft.claims_of(uid, ClaimWhy.RECOVERY)
            if recovering and uid in draft.jobs:
                self.add(draft.jobs[uid], self.use_to_come(uid, recovering))

    def add(self, job: JobRecord, use: Use) -> None:
        """A gang gets so much, or will."""
        self.now.add(job, use)
        self.later.add(job, use)

    def remove(self, job: JobRecord, use: Use) -> None:
        """A gang has, or will have, so much less."""
        self.now.remove(job, use)
        self.later.remove(job, use)

    def leaves(self, job: JobRecord, pods: Iterable[PodRecord]) -> None:
        """Pods are on their way out."""
        self.later.remove(job, use_of_pods(self._draft.world.topology, pods))

    def use_to_come(self, job: JobId, claims: Iterable[Claim]) -> Use:
        """What claims of a gang in recovery will hold beyond what its pods hold already."""
        live = {str(pod.uid) for pod in self._draft.live_pods(job)}
        return self.use_of_claims(claim for claim in claims if claim.uid not in live)

    def use_of(self, *pods: PodRecord) -> Use:
        return use_of_pods(self._draft.world.topology, pods)

    def use_of_claims(self, claims: Iterable[Claim]) -> Use:
        """What the pods will hold that these claims are for."""
        world = self._draft.world
        on_map = [c for c in claims if c.node in world.topology.node_index]
        return use_of_places(world.topology, [place_of(world, c) for c in on_map])
