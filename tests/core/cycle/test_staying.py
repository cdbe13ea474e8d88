"""A gang that was to leave and stays after all, in the cycle in which others look for a place."""

from scheduler.model.lifecycle import JobState, PodState
from tests.core.cycle.test_preemption import now, run, submit, world_of
from tests.core.gangs import gang, job_nodes, report_all


def test_place_of_a_gang_that_stays_is_given_to_nobody() -> None:
    """`first` looks at who leaves before `high` starts elsewhere and `low` stays; `late` after."""
    world = world_of(1, 3)
    low = run(world, gang(8, grace_s=60.0), "low")
    run(world, gang(8), "top", 100)
    ends = run(world, gang(8), "ends", 100)
    high = submit(world, gang(8), "high", priority=10)
    now(world)
    assert world.jobs[low].state is JobState.EVICTING
    assert world.jobs[high].state is JobState.RESERVED
    first = submit(world, gang(8, 1, 3), "first", priority=20)
    late = submit(world, gang(8), "late")
    report_all(world, ends, PodState.SUCCEEDED, 0)
    now(world, after_s=1.0)
    assert world.jobs[high].state is JobState.BOUND
    assert world.jobs[low].state is JobState.RUNNING
    assert job_nodes(world, high) != job_nodes(world, low)
    assert {world.jobs[uid].state for uid in (first, late)} == {JobState.PENDING}
    assert not world.claims
