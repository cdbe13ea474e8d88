"""`GET /v1/spares`: what is kept for recovery, and what would be enough."""

from collections.abc import Iterator, Mapping

from api.http import fault_examples as told
from api.http import shapes
from api.http.answers import Json, answers
from api.http.routing import Served, make_router
from api.schemas.spare import Spares
from api.store.fault_records import observed_faults
from api.store.policy import load_policy
from scheduler.cluster.world import World
from scheduler.model.claim import Claim, ClaimWhy
from scheduler.recover.spares import DAY_S, is_wholly_free, rate_of, spares_needed

router = make_router("nodes")

ASSUMED_REPAIR_S = DAY_S
"""Until a node is back, while no repair was seen: a visit of a technician on the next day."""


@router.get(
    "/v1/spares",
    summary="What is kept spare, and what would be enough",
    responses=answers(Spares, told.SPARES, says="Spares and the need for them."),
)
def read_spares(service: Served) -> Json:
    """The need is worked out from the faults and repairs that were observed."""
    seen = observed_faults(service.database, now_s=service.clock.now_s())
    rate = rate_of(seen.faults, seen.nodes, seen.span_s)
    repair_s = seen.repair_s if seen.repairs else ASSUMED_REPAIR_S
    wanted = load_policy(service.database).spare_pool

    def question(world: World) -> shapes.Shape:
        claims = [c for c in world.claims.values() if c.why is ClaimWhy.SPARE]
        return {
            "claimed": len({claim.node for claim in claims}),
            "lent": len({claim.node for claim in claims if _is_lent(world, claim)}),
            "levels": list(_levels(world, rate, repair_s)),
            "pools": list(_pools(world, wanted, rate, repair_s)),
            "revision": world.revision,
        }

    return Json(
        {
            "nodes": seen.nodes,
            "faults": seen.faults,
            "span_s": seen.span_s,
            "faults_per_node_day": rate,
            "repairs": seen.repairs,
            "repair_s": repair_s,
            "is_assumed": not seen.repairs,
            "need": spares_needed(seen.nodes, rate, repair_s),
            **service.reader.ask(question),
        }
    )


def _is_lent(world: World, claim: Claim) -> bool:
    """Whether another job has pods on GPUs that are kept spare."""
    there = world.on_node.get(claim.node, {}).values()
    return any(pod.job != claim.job and pod.gpu_mask & claim.gpu_mask for pod in there)


def _levels(world: World, rate: float, repair_s: float) -> Iterator[shapes.Shape]:
    """As `schemas.spare.SpareLevel` describes them, outermost first."""
    for level in world.topology.levels[:-1]:
        sizes = [
            level.node_hi[domain] - level.node_lo[domain]
            for domain, name in enumerate(level.names)
            if name
        ]
        if sizes:
            need = spares_needed(max(sizes), rate, repair_s)
            yield {
                "level": level.name,
                "domains": len(sizes),
                "nodes": max(sizes),
                "need": need,
            }


def _pools(
    world: World, wanted: Mapping[str, int], rate: float, repair_s: float
) -> Iterator[shapes.Shape]:
    """As `schemas.spare.SparePool` describes them, by level and domain."""
    topology, table = world.topology, world.table
    index = topology.node_index
    kept = {
        index[claim.node]: _is_lent(world, claim)
        for claim in world.claims.values()
        if claim.why is ClaimWhy.POOL and claim.node in index
    }
    for name, count in sorted(wanted.items()):
        depth = topology.level_index.get(name)
        if depth is None or not count:
            continue
        level = topology.levels[depth]
        for domain, of_level in enumerate(level.names):
            lo, hi = level.node_lo[domain], level.node_hi[domain]
            if of_level:
                mine = [kept[node] for node in range(lo, hi) if node in kept]
                yield {
                    "level": name,
                    "domain": of_level,
                    "nodes": hi - lo,
                    "wanted": count,
                    "kept": len(mine),
                    "lent": sum(mine),
                    "free": sum(is_wholly_free(table, node) for node in range(lo, hi)),
                    "need": spares_needed(hi - lo, rate, repair_s),
                }
