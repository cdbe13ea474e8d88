"""Spares that are lent: gangs that can leave at once start there, and leave when it is needed.

A spare stays claimed for its gang while another has pods there. Gangs borrow what does not fit on
free nodes; they are called back, whatever their priority, in the plan that gives their GPUs to lost
members of the gang that the spare is kept for.
"""

from collections.abc import Hashable, Iterable, Sequence

from scheduler.draft.book import LIVE_JOB, Draft
from scheduler.draft.wounds import spare_members_of
from scheduler.model.claim import Claim, ClaimWhy
from scheduler.model.ids import JobId
from scheduler.model.job import JobSpec
from scheduler.model.lifecycle import JobState, PodState
from scheduler.model.placement import Placement
from scheduler.model.plan import JobRecord, PodRecord
from scheduler.order.use import least_use
from scheduler.place.fits import Fit
from scheduler.place.search import place
from scheduler.policy import Policy
from scheduler.recover.lending import may_borrow
from scheduler.recover.pool import POOL, is_bare

_ON_ITS_WAY = frozenset({PodState.TERMINATING, PodState.LOST})


class Lending:
    """What can be borrowed in one cycle.

    Spares of gangs that have all that they need, and the pools while no gang is in recovery.

    What did not fit there once will not in this cycle, as ever less of it is left.

    Args:
        bare: Indices of the nodes of pools that nobody uses.
    """

    def __init__(self, draft: Draft, policy: Policy, bare: Sequence[int] = ()) -> None:
        self._draft = draft
        self._claims: list[Claim] = []
        self._bare: list[int] = []
        self._in_vain: set[Hashable] = set()
        if not policy.lend_spares:
            return
        # Who may need them in this very cycle does not give them away first.
        for uid in sorted(draft.world.sparing):
            job = draft.jobs.get(uid)
            if job is None or job.spec.exclusive:
                continue
            if job.state in LIVE_JOB and job.evict is None:
                self._claims += draft.claims_of(uid, ClaimWhy.SPARE)
        uids = draft.world.recovering | draft.changed.keys()
        states = {draft.jobs[uid].state for uid in uids if uid in draft.jobs}
        if JobState.RECOVERING not in states:
            self._claims += draft.claims_of_pools()
            self._bare = list(bare)

    def place(self, job: JobRecord, spec: JobSpec, wish: Hashable) -> Placement | None:
        """A place for a gang that does not fit on what is free; the claims there are lifted.

        The caller calls `settle` once the gang holds it, or does not want it.

        Args:
            wish: Equal for gangs that ask for the same.
        """
        if not self._claims or wish in self._in_vain or not may_borrow(spec):
            return None
        if spec.exclusive:
            # Its nodes are its alone, and these are another's as well.
            return None
        theirs = [claim for claim in self._claims if claim.job != job.uid]
        if not self._draft.vacant_gpus(theirs) and least_use(spec).gpu_count:
            return None
        world = self._draft.world
        self._draft.lift(theirs)
        for node in self._bare:
            world.table.set_aside(node, None)
        if Fit(world.trial, spec).now():
            found = place(world.trial, spec)
            if isinstance(found, Placement):
                return found
        self._in_vain.add(wish)
        self.settle()
        return None

    def settle(self) -> None:
        """Spares are kept again, also under those who borrow them."""
        self._draft.bar(self._claims)
        table = self._draft.world.table
        for node in self._bare:
            if is_bare(table, node):
                table.set_aside(node, POOL)


def borrowers_of(draft: Draft, claims: Iterable[Claim]) -> list[PodRecord]:
    """Pods of others on nodes that are kept for a gang, which can be told to stop now.

    Those of gangs that got their place in this very cycle stay for the time being.
    """
    world = draft.world
    out: list[PodRecord] = []
    for claim in claims:
        for known in sorted(world.on_node.get(claim.node, {}).values(), key=lambda p: p.uid):
            job, pod = draft.jobs.get(known.job), draft.pods(known.job).get(known.uid)
            if job is None or pod is None or job.uid == claim.job or pod.node != claim.node:
                continue
            is_new = job.attempt != world.jobs[job.uid].attempt
            if pod.is_live and pod.gpu_mask & claim.gpu_mask and not is_new:
                out.append(pod)
    return out


def who_leaves(draft: Draft, pods: Iterable[PodRecord]) -> dict[JobId, list[PodRecord]]:
    """Gangs that are to leave so that these pods do, with those members that must; oldest first.

    Members above the minimum leave by themselves, but not out of a part. What stops already is
    left out.
    """
    by_job: dict[JobId, list[PodRecord]] = {}
    for pod in pods:
        if pod.state not in _ON_ITS_WAY:
            by_job.setdefault(pod.job, []).append(pod)
    out: dict[JobId, list[PodRecord]] = {}
    for uid in sorted(by_job, key=lambda u: (draft.jobs[u].age, u)):
        job, live = draft.jobs[uid], draft.live_pods(uid)
        has_parts = any(role.parts is not None for role in job.spec.roles)
        surplus = set() if has_parts else {p.uid for p in spare_members_of(job, live)}
        alone = all(pod.uid in surplus for pod in by_job[uid])
        out[uid] = by_job[uid] if alone else live
    return out
