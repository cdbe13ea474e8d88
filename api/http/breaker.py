"""`GET /v1/scheduler/breaker`: whether lost members are moved, and why not."""

from api.http import fault_examples as told
from api.http import shapes
from api.http.answers import Json, answers
from api.http.routing import Served, make_router
from api.http.service import Service
from api.schemas.fault import Breaker
from api.store.policy import load_policy
from scheduler.cluster.world import World
from scheduler.model.lifecycle import Reason
from scheduler.policy import Policy
from scheduler.recover.breaker import breaker_of

router = make_router("policy")

NAMES_SHOWN = 50


@router.get(
    "/v1/scheduler/breaker",
    summary="Whether the circuit breaker is open",
    responses=answers(Breaker, told.BREAKER_VIEW, says="The breaker."),
)
def read_breaker(service: Served) -> Json:
    """What counts as failing now; `POST /v1/scheduler/breaker/reset` closes it."""
    return Json(breaker(service))


def breaker(service: Service) -> shapes.Shape:
    """As `schemas.fault.Breaker` describes it."""
    policy, now_s = load_policy(service.database), service.clock.now_s()
    return service.reader.ask(lambda world: _shape(world, policy, now_s))


def is_open(service: Service) -> bool:
    """Whether nothing is moved now."""
    return breaker(service)["state"] == "open"


def _shape(world: World, policy: Policy, now_s: float) -> shapes.Shape:
    gone = [(name, world.standing[name]) for name in sorted(world.gone)]
    nodes = len(world.topology.nodes)
    found = breaker_of((standing for _, standing in gone), nodes, policy, now_s)
    after_s = max(now_s - policy.breaker_window_s, policy.breaker_reset_s)
    failed = [str(name) for name, standing in gone if standing.since_s > after_s]
    held = [
        uid
        for uid in world.recovering
        if uid in world.jobs and world.jobs[uid].reason is Reason.BREAKER
    ]
    return {
        "state": "open" if found.is_tripped else "closed",
        "failing": found.failing,
        "nodes": nodes,
        "share": found.failing / nodes if nodes else 0.0,
        "limit": policy.breaker_share,
        "window_s": policy.breaker_window_s,
        "since": shapes.time_or_none(found.since_s),
        "closes_at": shapes.time_or_none(found.closes_s),
        "reset_at": shapes.time_or_none(policy.breaker_reset_s or None),
        "failed": failed[:NAMES_SHOWN],
        "held": {
            "jobs": len(held),
            "gpus": sum(p.gpu_mask.bit_count() for uid in held for p in world.live_pods(uid)),
        },
        "revision": world.revision,
    }
