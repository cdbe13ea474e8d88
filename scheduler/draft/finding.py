"""Where members of a gang in recovery could go; the draft is left as it was."""

from collections.abc import Iterable, Mapping, Sequence

from scheduler.draft.book import Draft
from scheduler.draft.charges import Charges
from scheduler.model.claim import ClaimWhy
from scheduler.model.job import Rule
from scheduler.model.placement import Placement, PodPlace
from scheduler.model.plan import JobRecord, PodRecord
from scheduler.order.shares import Denied
from scheduler.place.search import place
from scheduler.recover.missing import Member
from scheduler.recover.pool import pool_open
from scheduler.recover.replace import Former, find_places


def places_beside(
    draft: Draft,
    pool: Sequence[int],
    job: JobRecord,
    kept: Iterable[PodRecord],
    lost: Mapping[Member, PodRecord | None],
    leaving: Iterable[PodRecord] = (),
) -> list[PodPlace] | Rule | None:
    """Places for members beside those that stay: spares first, pools open.

    Args:
        pool: Indices of nodes of pools that nobody uses.
        leaving: Pods of others that are to make way.
    """
    world = draft.world
    index = world.topology.node_index
    here = {(p.role, p.index): index[p.node] for p in kept if p.node in index}
    former = {
        member: Former() if pod is None else Former(index.get(pod.node), pod.gpu_mask)
        for member, pod in lost.items()
    }
    spares, pools = draft.claims_of(job.uid, ClaimWhy.SPARE), draft.claims_of_pools()
    draft.lift([*spares, *pools])
    mark = world.trial.mark()
    try:
        for pod in (*lost.values(), *leaving):
            if pod is not None and pod.is_live and pod.node in index:
                world.trial.release(world.held_by(pod))
        nodes = [index[c.node] for c in spares if c.node in index]
        with pool_open(world.table, pool):
            return find_places(world.trial, job.spec, here, former, job.gpus_per_pod, nodes)
    finally:
        world.trial.roll_back(mark)
        draft.bar([*spares, *pools])


def whole_place(draft: Draft, charges: Charges, job: JobRecord) -> Placement | None:
    """Where a gang fits as a whole, its own GPUs counted as free."""
    world = draft.world
    spares = draft.claims_of(job.uid, ClaimWhy.SPARE)
    live = draft.live_pods(job.uid)
    own = charges.use_of(*live)
    draft.lift(spares)
    mark = world.trial.mark()
    charges.remove(job, own)
    try:
        for pod in live:
            if pod.node in world.topology.node_index:
                world.trial.release(world.held_by(pod))
        spec = charges.now.within(job)
        if isinstance(spec, Denied):
            return None
        found = place(world.trial, spec)
        return found if isinstance(found, Placement) else None
    finally:
        charges.add(job, own)
        world.trial.roll_back(mark)
        draft.bar(spares)
