"""Gangs that make others leave: the place and the evictions are decided together or not at all."""

from collections.abc import Hashable, Iterable
from dataclasses import replace

from scheduler.draft.book import Draft
from scheduler.draft.charges import Charges
from scheduler.draft.leaving import (
    TOLD_TO_STOP,
    begin_leaving,
    begin_members_leaving,
    give_up_place,
    leaving_for,
    leaving_pods,
)
from scheduler.draft.lending import who_leaves
from scheduler.draft.starts import claim_places
from scheduler.model.claim import ClaimWhy
from scheduler.model.ids import JobId
from scheduler.model.job import JobSpec
from scheduler.model.lifecycle import JobState, Reason
from scheduler.model.placement import Placement
from scheduler.model.plan import JobRecord, PodRecord
from scheduler.order.use import least_use, use_of_places
from scheduler.policy import Policy
from scheduler.preempt.choose import Chosen, choose
from scheduler.preempt.under_limit import relieve, without
from scheduler.preempt.victims import (
    EVICTABLE,
    UNLIMITED,
    Permission,
    Unit,
    evicted_after_s,
    spared_until_s,
    units_of,
)

SEARCHES, SEARCHES_IN_VAIN = 16, 8
"""Searches for victims in one cycle, and those of them that may find none; whoever is further back
in line waits for a later cycle. A search costs up to 0.1 s, and a cycle has to end."""


class Preemption:
    """Finds victims in one cycle; remembers for whom there are none.

    What is free only shrinks while gangs are placed, and so do the candidates: a wish that found
    nobody will not in this cycle, at the same priority or a lower one.
    """

    def __init__(self, draft: Draft, policy: Policy, charges: Charges) -> None:
        self._draft = draft
        self._policy = policy
        self._charges = charges
        self._candidates: dict[JobId, list[Unit]] | None = None
        self._lowest: int | None = None
        self._leaving: list[PodRecord] = []
        self._leaving_as_of = -1
        # Whoever is owed may take from gangs of any priority.
        self._has_quotas = any(
            q.quota_gpus is not None or q.quota_by_model for q in draft.world.queues.values()
        )
        self._in_vain: dict[tuple[Hashable, str], int] = {}
        self._left, self._vain_left = SEARCHES, SEARCHES_IN_VAIN
        self._most: dict[int, int] = {}

    @property
    def has_time(self) -> bool:
        """Whether another search may be made in this cycle."""
        return self._left > 0

    def might_find(self, job: JobRecord, spec: JobSpec, wish: Hashable) -> bool:
        """Whether there could be victims at all, as far as a few counts tell."""
        if not job.spec.preempts or self._left <= 0 or self._vain_left <= 0:
            return False
        if not self._is_anybody_for(job):
            return False
        known = self._in_vain.get((wish, spec.queue))
        if known is not None and known >= spec.priority:
            return False
        return self._most_gpus(job) >= least_use(spec).gpu_count

    def _is_anybody_for(self, job: JobRecord) -> bool:
        """Whether anybody of lower priority holds or awaits a place, or anybody leaves already."""
        if self._has_quotas or self._leaving_pods():
            return True
        if self._lowest is None:
            jobs = self._draft.jobs
            holders = (*self._draft.world.holding, *self._draft.claimants)
            priorities = (jobs[uid].spec.priority for uid in holders if uid in jobs)
            self._lowest = min(priorities, default=job.spec.priority)
        return self._lowest < job.spec.priority

    def _leaving_pods(self) -> list[PodRecord]:
        """Pods on their way out as of now; others may begin to leave, or stay, in the next turn."""
        draft = self._draft
        if self._leaving_as_of != draft.departures:
            self._leaving_as_of = draft.departures
            # One that starts anew in this very cycle, as its gang has time to save, has yet to
            # take its GPUs: nobody else may have a claim on them before.
            self._leaving = [pod for pod in leaving_pods(draft) if not draft.starts(pod)]
        return self._leaving

    def _most_gpus(self, job: JobRecord) -> int:
        """GPUs that are free, on their way out, kept for others or held by who might leave."""
        world, priority = self._draft.world, job.spec.priority
        if self._has_quotas:
            return UNLIMITED
        if priority not in self._most:
            table = world.table
            gpus = sum(mask.bit_count() for mask in table.free)
            gpus += sum(mask.bit_count() for mask in table.vacant.values())
            gpus += sum(p.gpu_mask.bit_count() for p in self._leaving_pods())
            for uid, units in self._found().items():
                if self._draft.jobs[uid].spec.priority < priority:
                    gpus += max((unit.gpus for unit in units), default=0)
            self._most[priority] = gpus
        return self._most[priority]

    def _found(self) -> dict[JobId, list[Unit]]:
        """All candidates of this cycle but those that were taken."""
        if self._candidates is None:
            self._candidates = self._find_candidates()
        return self._candidates

    def make_room(
        self, job: JobRecord, spec: JobSpec, wish: Hashable, *, under_limit: bool = False
    ) -> bool:
        """Claim a place for a gang that does not fit, and make whoever is in it leave.

        Args:
            spec: The gang with as many members as its queue allows.
            wish: Equal for gangs that ask for the same.
            under_limit: A limit keeps it out, so those are to leave who fill it.

        Returns:
            Whether it has claims now; the draft is as it was if not.
        """
        if not self.might_find(job, spec, wish):
            return False
        chosen = self._choose(job, spec, under_limit=under_limit)
        if chosen is None:
            self._in_vain[wish, spec.queue] = spec.priority
            return False
        self._take(job, chosen)
        return True

    # -- choosing ---------------------------------------------------------------------------------

    def _choose(self, job: JobRecord, spec: JobSpec, *, under_limit: bool) -> Chosen | None:
        """The cheapest victims; the trial and the accounts are left as they were."""
        world = self._draft.world
        leaving = self._leaving_pods()
        permission = Permission(
            self._charges.later,
            job,
            least_use(spec),
            world.topology,
            self._gpus_left(leaving),
            keeps_accounts=under_limit,
        )
        first: list[Unit] | None = []
        mark = world.trial.mark()
        try:
            units = self._units_for(job, permission)
            if not units and not leaving:
                return None
            self._left -= 1
            self._vain_left -= 1
            if under_limit:
                first = relieve(units, permission, self._charges.later, spec)
            if first is None:
                return None
            for pod in (*leaving, *(pod for unit in first for pod in unit.pods)):
                if pod.node in world.topology.node_index:
                    world.trial.release(world.held_by(pod))
            chosen = choose(world, spec, without(units, first), permission)
            if chosen is not None:
                self._vain_left += 1
            return chosen if chosen is None or not first else _with(first, chosen)
        finally:
            world.trial.roll_back(mark)
            for unit in first or ():
                permission.give_back(unit, unit.pods)
            permission.close()

    def _gpus_left(self, leaving: Iterable[PodRecord]) -> int:
        """GPUs that may still be made to leave for others, by the policy."""
        share = self._policy.evict_share
        if share >= 1.0:
            return UNLIMITED
        world = self._draft.world
        for_others = sum(
            pod.gpu_mask.bit_count() for pod in leaving if self._is_for_another(pod.job)
        )
        return int(share * world.accounts.capacity.gpus) - for_others

    def _is_for_another(self, job: JobId) -> bool:
        leaving = self._draft.jobs[job].evict
        return leaving is not None and leaving.for_job is not None

    def _units_for(self, job: JobRecord, permission: Permission) -> list[Unit]:
        """Candidates that this gang might make leave, each by itself."""
        out: list[Unit] = []
        for uid, units in self._found().items():
            victim = self._draft.jobs[uid]
            if not permission.might(victim):
                continue
            until_s = spared_until_s(victim, self._policy)
            if until_s > self._draft.now_s:
                # It is passed over for now, and looked at again when it may be touched.
                self._draft.wake_at(until_s)
                continue
            out += units
        for uid in self._draft.claimants:
            out += self._places_below(job, uid)
        return out

    def _places_below(self, job: JobRecord, uid: JobId) -> list[Unit]:
        """The place that a gang of lower priority waits for, as something that can be given up."""
        other = self._draft.jobs.get(uid)
        claims = self._draft.claims_of(uid, ClaimWhy.PREEMPTION)
        if other is None or not claims or other.spec.priority >= job.spec.priority:
            return []
        if not all(claim.uid in self._draft.world.claims for claim in claims):
            # Made in this very cycle, together with evictions that are for it alone.
            return []
        return [Unit(other, (), 0.0, claims=tuple(claims))]

    def _find_candidates(self) -> dict[JobId, list[Unit]]:
        """Units of all gangs that may be made to leave at all, oldest job first."""
        draft = self._draft
        jobs = [draft.jobs[uid] for uid in draft.world.holding]
        starting = {pod.job for pod in draft.new_pods}
        out: dict[JobId, list[Unit]] = {}
        for job in sorted(jobs, key=lambda j: (j.age, j.uid)):
            if job.state not in EVICTABLE or not job.spec.preemptible:
                continue
            if job.uid in starting:
                # It got its place in this very cycle, or members of it start anew. If it is asked
                # to save first they do so, on GPUs that another would have a claim on by then.
                continue
            pods = draft.pods(job.uid).values()
            out[job.uid] = list(units_of(job, pods, draft.now_s, self._policy))
        return out

    # -- for gangs in recovery --------------------------------------------------------------------

    def victims_for(self, job: JobRecord, spec: JobSpec) -> Chosen | None:
        """The cheapest victims for some members of a gang that has the rest of its place.

        Args:
            spec: These members alone, with the nodes that they may go to.
        """
        wish = ("recovery", job.uid, spec.nodes)
        if not self.might_find(job, spec, wish):
            return None
        chosen = self._choose(job, spec, under_limit=False)
        if chosen is None:
            self._in_vain[wish, spec.queue] = spec.priority
        return chosen

    def call_back(self, job: JobRecord, pods: Iterable[PodRecord]) -> None:
        """Make gangs leave the spares of a gang that needs them; it claims the place."""
        draft = self._draft
        why = "what it had borrowed is needed by the job that it is kept for"
        for uid, leaving in who_leaves(draft, pods).items():
            victim = draft.jobs[uid]
            self._charges.leaves(victim, [p for p in leaving if p.state in TOLD_TO_STOP])
            if len(leaving) < len(draft.live_pods(uid)):
                begin_members_leaving(draft, victim, leaving, why, job.uid)
            else:
                begin_leaving(draft, victim, JobState.PENDING, why, for_job=job.uid, at_once=True)
            if self._candidates is not None:
                self._candidates.pop(uid, None)

    # -- taking -----------------------------------------------------------------------------------

    def _take(self, job: JobRecord, chosen: Chosen) -> None:
        draft, charges = self._draft, self._charges
        self.evict(job, chosen)
        charges.add(job, use_of_places(draft.world.topology, chosen.placement.pods))
        claim_places(draft, job, chosen.placement, ClaimWhy.PREEMPTION, 0.0)
        draft.set(
            job,
            state=JobState.RESERVED,
            reason=None,
            message=_message(draft, job, chosen.placement),
            could_start_s=None,
            expected_start_s=None,
        )

    def evict(self, job: JobRecord, chosen: Chosen) -> None:
        """Make victims leave; the caller claims the place for the gang that they leave for."""
        draft, charges = self._draft, self._charges
        why = f"made way for a job of priority {job.spec.priority}"
        members: dict[JobId, list[PodRecord]] = {}
        for unit in chosen.units:
            victim = draft.jobs[unit.job.uid]
            if unit.claims:
                self._displace(victim, job, chosen.placement)
                continue
            charges.leaves(victim, unit.pods)
            if unit.is_whole:
                begin_leaving(draft, victim, JobState.PENDING, why, for_job=job.uid)
                evicted_s = evicted_after_s(victim, self._policy, draft.now_s)
                draft.set(victim, evicted_s=evicted_s)
            else:
                members.setdefault(victim.uid, []).extend(unit.pods)
            if self._candidates is not None:
                self._candidates.pop(victim.uid, None)
        for uid, pods in members.items():
            begin_members_leaving(draft, draft.jobs[uid], pods, why, job.uid)

    def _displace(self, other: JobRecord, job: JobRecord, placement: Placement) -> None:
        """Take over the place of a gang of lower priority, and whoever leaves for it."""
        draft, charges = self._draft, self._charges
        taken = _masks(draft, placement)
        for victim in leaving_for(draft, other.uid):
            there = draft.live_pods(victim.uid)
            if victim.evict and any(taken.get(p.node, 0) & p.gpu_mask for p in there):
                draft.set(victim, evict=replace(victim.evict, for_job=job.uid))
        charges.remove(
            other, charges.use_of_claims(draft.claims_of(other.uid, ClaimWhy.PREEMPTION))
        )
        give_up_place(draft, other)
        message = "its place went to a job of higher priority"
        draft.wait(draft.jobs[other.uid], Reason.ROOM, message, None)


def _with(first: list[Unit], chosen: Chosen) -> Chosen:
    """Those who leave for a limit's sake, and those who leave for the place."""
    cost = sum(unit.cost for unit in first) + chosen.cost
    return replace(chosen, units=(*first, *chosen.units), cost=cost, search="bounded")


def _message(draft: Draft, job: JobRecord, placement: Placement) -> str:
    """What it waits for: pods that hold its place, and those that make way under its limit."""
    taken = _masks(draft, placement)
    for_it = {victim.uid for victim in leaving_for(draft, job.uid)}
    pods = [
        pod
        for pod in leaving_pods(draft)
        if pod.job in for_it or taken.get(pod.node, 0) & pod.gpu_mask
    ]
    jobs = len({pod.job for pod in pods})
    of_jobs = "1 other job" if jobs == 1 else f"{jobs} other jobs"
    if len(pods) == 1:
        return f"has its place; starts when 1 pod of {of_jobs} has stopped"
    return f"has its place; starts when {len(pods)} pods of {of_jobs} have stopped"


def _masks(draft: Draft, placement: Placement) -> dict[str, int]:
    """Node -> GPUs of a placement there."""
    nodes = draft.world.topology.nodes
    out: dict[str, int] = {}
    for place in placement.pods:
        name = nodes[place.node_index].name
        out[name] = out.get(name, 0) | place.gpu_mask
    return out
