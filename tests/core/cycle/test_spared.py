"""Gangs that had to leave before: how often, and when they are spared."""

from scheduler.cluster.world import World
from scheduler.model.ids import JobId
from scheduler.model.lifecycle import JobState
from scheduler.model.plan import FactKind
from scheduler.policy import Policy
from tests.core.cycle.test_preemption import NOW_S, now, run, stop, submit, world_of
from tests.core.gangs import gang, job_nodes, role, role_gang, tell


def driven_out(world: World, low: JobId, name: str) -> bool:
    """Whether a gang has to leave for one of higher priority, which then ends."""
    high = submit(world, gang(8), name, priority=100)
    now(world)
    has_to = world.jobs[low].state is JobState.EVICTING
    stop(world, low)
    now(world)
    if has_to:
        assert world.jobs[high].state is JobState.BOUND
    tell(world, FactKind.CANCEL, high)
    now(world)
    return has_to


def test_a_gang_that_had_to_leave_three_times_is_spared_for_a_while() -> None:
    world = world_of(1, 1)
    low = run(world, gang(8), "low", 10)
    assert [driven_out(world, low, f"h{n}") for n in range(4)] == [True, True, True, False]
    waits = submit(world, gang(8), "waits", priority=100)
    plan = now(world)
    assert plan.wake_at_s == NOW_S + Policy().spare_evicted_s
    now(world, after_s=Policy().spare_evicted_s)
    assert world.jobs[low].state is JobState.EVICTING
    assert world.jobs[waits].state is JobState.RESERVED


def test_members_above_the_minimum_may_leave_as_often_as_others_need_their_place() -> None:
    world = world_of(1, 4)
    low = run(world, role_gang(role(replicas=4, min=1)), "low", 10)
    for n in range(3):
        submit(world, gang(8), f"h{n}", priority=100)
        now(world)
        stop(world, low)
        now(world)
    assert len(job_nodes(world, low)) == 1
    submit(world, gang(8), "h3", priority=100)
    now(world)
    assert world.jobs[low].state is JobState.EVICTING
