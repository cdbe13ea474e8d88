"""A gang some members of which start anew makes way for nobody in that very cycle."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from scheduler.cluster.world import World
from scheduler.model.claim import ClaimWhy
from scheduler.model.ids import JobId
from scheduler.model.job import Failure, Scope
from scheduler.model.lifecycle import JobState, PodState
from scheduler.model.plan import FactKind, Plan, PodRecord
from scheduler.model.queue import QueueRecord
from tests.core.cycle.test_preemption import now, run, submit, world_of
from tests.core.gangs import gang, report, tell
from tests.core.recover.lives import GONE, attempts

J = JobState
ALONE = Failure(Scope.POD, max_restarts=10)
"""Members start anew by themselves, and their gang stays in its attempt."""


def on_claims_of_others(world: World, plan: Plan) -> Iterator[str]:
    """Pods that a plan starts on GPUs that another gang gets as soon as they are free."""
    for pod in plan.pods:
        for claim in world.claims.values():
            is_there = claim.node == pod.node and claim.gpu_mask & pod.gpu_mask
            if is_there and claim.job != pod.job and claim.why is ClaimWhy.PREEMPTION:
                yield pod.uid


def states(world: World, *jobs: JobId) -> list[JobState]:
    return [world.jobs[uid].state for uid in jobs]


def faulted(world: World, pod: PodRecord) -> None:
    """A fault of its node after which a member starts anew."""
    tell(world, FactKind.FAULT, pod.job)
    world.facts[-1] = replace(world.facts[-1], pod=pod.uid, attempt=pod.attempt)


@pytest.mark.parametrize("grace_s", [None, 60.0])
def test_gang_with_a_member_that_starts_anew_in_its_place_is_a_victim_of_the_next_cycle(
    grace_s: float | None,
) -> None:
    """Asked to save first, it would start the member on what another has a claim on by then."""
    world = world_of(1, 2)
    low = run(world, gang(8, 1, 2, failure=ALONE, grace_s=grace_s), "low", 10)
    high = submit(world, gang(8, 1, 2), "high", priority=100)
    report(world, world.live_pods(low)[1], PodState.FAILED, 1)
    plan = now(world)
    assert list(on_claims_of_others(world, plan)) == []
    assert attempts(world, low) == [1, 2]
    assert states(world, low, high) == [J.BOUND, J.PENDING]
    now(world)
    assert states(world, low, high) == [J.EVICTING, J.RESERVED]


def test_gang_whose_lost_member_starts_elsewhere_is_a_victim_of_the_next_cycle() -> None:
    """Whoever is owed takes from gangs of any priority, which had their turn before."""
    world = world_of(1, 4)
    world.set_queues([QueueRecord("a", quota_gpus=24), QueueRecord("b", quota_gpus=8)])
    low = run(world, gang(8, 1, 2, failure=ALONE, grace_s=60.0, queue="b"), "low", 100)
    stays = run(world, gang(8, queue="a"), "stays")
    world.put_node(world.live_pods(low)[1].node, GONE)
    owed = submit(world, gang(8, queue="a"), "owed")
    plan = now(world)
    assert list(on_claims_of_others(world, plan)) == []
    assert attempts(world, low) == [1, 2]
    assert states(world, low, stays, owed) == [J.BOUND, J.RUNNING, J.PENDING]
    now(world)
    assert states(world, low, stays, owed) == [J.EVICTING, J.RUNNING, J.RESERVED]


def test_member_that_starts_anew_before_its_gang_leaves_has_its_place_for_this_cycle() -> None:
    """Its owner suspends it after a fault of its node: it is asked to save, and then stops."""
    world = world_of(1, 2)
    low = run(world, gang(8, 1, 2, failure=ALONE, grace_s=60.0), "low", 10)
    high = submit(world, gang(8, 1, 2), "high", priority=100)
    faulted(world, world.live_pods(low)[1])
    tell(world, FactKind.SUSPEND, low)
    plan = now(world)
    assert list(on_claims_of_others(world, plan)) == []
    assert attempts(world, low) == [1, 2]
    assert states(world, low) == [J.EVICTING]
    now(world)
    assert {claim.why for claim in world.claims_of(high)} == {ClaimWhy.PREEMPTION}
    assert states(world, low, high) == [J.EVICTING, J.RESERVED]
