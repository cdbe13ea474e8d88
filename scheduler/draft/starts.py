"""How a gang gets its place: placements to pods, placements to claims, claims to pods."""

from collections.abc import Iterable

from scheduler.cluster.world import World
from scheduler.draft.book import Draft
from scheduler.draft.leaving import FOR_A_PLACE, claimants_on, give_up_place, withdraw_all
from scheduler.model.claim import Claim, ClaimWhy
from scheduler.model.ids import ClaimId, NodeId, PodId
from scheduler.model.lifecycle import JobState, PodState
from scheduler.model.placement import Placement, PodPlace
from scheduler.model.plan import JobRecord, PodRecord


def bind(draft: Draft, job: JobRecord, placement: Placement) -> None:
    """Give a gang its pods and end the claims it waited with.

    Evictions made for it that were not asked for yet are not needed any more.
    """
    world = draft.world
    waited = job.state is JobState.RESERVED
    draft.let_go(draft.claims_of(job.uid, *FOR_A_PLACE))
    world.trial.hold_places(placement.pods)
    draft.bind(job, [pod_record(world, job, place) for place in placement.pods], placement)
    if waited:
        withdraw_all(draft, job.uid)


def pod_record(world: World, job: JobRecord, place: PodPlace) -> PodRecord:
    """The pod that starts at a place, in its next attempt."""
    uid = pod_id(job, place.role, place.index)
    before = world.pods.get(job.uid, {}).get(uid)
    part = f"{place.role}-{place.index}" if place.role else str(place.index)
    return PodRecord(
        uid=uid,
        job=job.uid,
        name=f"{job.spec.name}-{part}",
        role=place.role,
        index=place.index,
        node=NodeId(world.topology.nodes[place.node_index].name),
        gpu_mask=place.gpu_mask,
        first_rank=place.first_rank,
        state=PodState.BOUND,
        attempt=1 if before is None else before.attempt + 1,
        resources=place.resources,
    )


def pod_id(job: JobRecord, role: str, index: int) -> PodId:
    """The uid of a member; the same in all its attempts."""
    return PodId(f"{job.uid}-{role}-{index}")


def claim_places(
    draft: Draft, job: JobRecord, placement: Placement, why: ClaimWhy, starts_s: float
) -> None:
    """Keep the place of a gang for it, in place of what was kept for it before.

    Reservations of others there make way: only gangs that go first get as far as this.
    """
    draft.let_go(draft.claims_of(job.uid, *FOR_A_PLACE))
    claims = [_claim(draft.world, job, place, why, starts_s) for place in placement.pods]
    make_way(draft, claims)
    draft.keep(claims)


def make_way(draft: Draft, claims: Iterable[Claim]) -> None:
    """Gangs with reservations where these claims are to be give them up."""
    for owner in claimants_on(draft, claims, ClaimWhy.RESERVATION):
        give_up_place(draft, owner)


def can_keep(draft: Draft, claims: Iterable[Claim]) -> bool:
    """Whether no other claim keeps any GPU of these."""
    index, claimed = draft.world.topology.node_index, draft.world.table.claimed
    return all(not claimed.get(index[c.node], 0) & c.gpu_mask for c in claims if c.node in index)


def _claim(world: World, job: JobRecord, place: PodPlace, why: ClaimWhy, starts_s: float) -> Claim:
    return Claim(
        uid=ClaimId(pod_id(job, place.role, place.index)),
        why=why,
        node=NodeId(world.topology.nodes[place.node_index].name),
        gpu_mask=place.gpu_mask,
        job=job.uid,
        starts_s=starts_s,
        role=place.role,
        index=place.index,
        first_rank=place.first_rank,
        resources=place.resources,
    )


def place_of(world: World, claim: Claim) -> PodPlace:
    """The pod that a claim is for; its node must be on the map."""
    return PodPlace(
        claim.role,
        claim.index,
        world.topology.node_index[claim.node],
        claim.gpu_mask,
        claim.first_rank,
        claim.resources,
    )


def placement_of(world: World, job: JobRecord, claims: Iterable[Claim]) -> Placement:
    """The placement that claims were made of."""
    order = {role.name: i for i, role in enumerate(job.spec.roles)}
    pods = [place_of(world, claim) for claim in claims]
    pods.sort(key=lambda p: (order.get(p.role, 0), p.index))
    types = {world.topology.types[p.node_index].name for p in pods if p.gpu_mask}
    per_pod = pods[0].gpu_mask.bit_count() if pods and job.spec.parallelism is not None else 0
    return Placement(tuple(pods), types.pop() if len(types) == 1 else "", per_pod)


def is_usable(world: World, claims: Iterable[Claim]) -> bool:
    """Whether every node of these claims is there and takes pods."""
    index, aside = world.topology.node_index, world.table.aside
    return all(c.node in index and aside[index[c.node]] is None for c in claims)


def is_free(world: World, claims: Iterable[Claim]) -> bool:
    """Whether nobody holds what these claims keep, GPUs, CPUs and memory; they are usable."""
    table, topology = world.table, world.topology
    for claim in claims:
        node = topology.node_index[claim.node]
        capacity = topology.types[node].capacity
        if not table.is_vacant(world.claimed_by(claim)):
            return False
        if (capacity.cpu_milli and table.cpu_milli[node] < 0) or (
            capacity.memory_mib and table.memory_mib[node] < 0
        ):
            return False
        if any(table.other[node].get(name, 0) < 0 for name, _ in claim.resources.other):
            return False
    return True
