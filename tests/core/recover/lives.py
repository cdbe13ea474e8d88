"""Worlds whose pods do what they are told, for tests of recovery."""

from scheduler.cluster.world import World
from scheduler.model.ids import JobId
from scheduler.model.lifecycle import PodState
from scheduler.model.node import Health
from scheduler.model.plan import PodRecord
from scheduler.model.standing import NodeStanding
from scheduler.policy import Policy
from tests.core.gangs import cycle, report

EVERYBODY = Policy(breaker_share=1.0)
"""However many nodes fail at once, the breaker does not trip."""

GONE = NodeStanding(health=Health.LOST, fenced=True, why="fault node_lost")
AGENT = NodeStanding(has_agent=True)
SILENT = NodeStanding(health=Health.LOST, why="its agent is silent", has_agent=True)


def settle(
    world: World, now_s: float = 0.0, policy: Policy = EVERYBODY, *, stops: bool = True
) -> None:
    """Cycles until nothing changes; pods run once bound and stop once told to."""
    for _ in range(20):
        quiet = True
        for pod in [p for mine in world.pods.values() for p in mine.values()]:
            if pod.node in world.gone:
                continue
            if pod.state is PodState.BOUND:
                report(world, pod, PodState.RUNNING)
                quiet = False
            elif pod.state is PodState.TERMINATING and stops:
                report(world, pod, PodState.STOPPED)
                quiet = False
        if cycle(world, policy, now_s).is_empty() and quiet:
            return
    raise AssertionError("it does not come to rest")


def running(world: World, uid: JobId) -> list[PodRecord]:
    return [p for p in world.live_pods(uid) if p.state is PodState.RUNNING]


def places(world: World, uid: JobId) -> dict[int, tuple[str, int]]:
    """Index -> node and GPUs of the live pods."""
    return {p.index: (p.node, p.gpu_mask) for p in world.live_pods(uid)}


def attempts(world: World, uid: JobId) -> list[int]:
    return [p.attempt for p in world.live_pods(uid)]
