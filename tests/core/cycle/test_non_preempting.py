"""Gangs for which nobody is made to leave."""

from dataclasses import replace

import pytest

from scheduler.cluster.world import World
from scheduler.model.ids import JobId
from scheduler.model.job import JobSpec
from scheduler.model.lifecycle import JobState, PodState
from scheduler.model.queue import QueueRecord
from scheduler.policy import Policy, PolicyError
from tests.builders import make_cluster
from tests.core.gangs import cycle, gang, report_all
from tests.core.gangs import submit as submit_at_0

NOW_S = 10_000.0


def submit(world: World, spec: JobSpec, name: str, priority: int = 0) -> JobId:
    uid = submit_at_0(world, spec, name, len(world.jobs) + 1, priority)
    world.put_job(replace(world.jobs[uid], submitted_s=NOW_S))
    return uid


def full(*specs: JobSpec) -> World:
    """A node for each of these gangs, which run."""
    world = World(make_cluster(racks=1, nodes_per_rack=len(specs)))
    for number, spec in enumerate(specs):
        uid = submit(world, spec, f"r{number}")
        cycle(world, now_s=NOW_S)
        report_all(world, uid, PodState.RUNNING)
        cycle(world, now_s=NOW_S)
    return world


def test_nobody_leaves_for_a_gang_that_preempts_nobody() -> None:
    world = full(gang(8), gang(8))
    high = submit(world, gang(8, preempts=False), "high", 100)
    cycle(world, now_s=NOW_S)
    assert world.jobs[high].state is JobState.PENDING
    assert world.jobs[JobId("r0")].state is JobState.RUNNING


def test_it_goes_first_all_the_same() -> None:
    world = full(gang(8))
    low = submit(world, gang(8), "low", 5)
    high = submit(world, gang(8, preempts=False), "high", 100)
    report_all(world, JobId("r0"), PodState.SUCCEEDED, 0)
    cycle(world, now_s=NOW_S)
    assert world.jobs[high].state is JobState.BOUND
    assert world.jobs[low].state is JobState.PENDING


def test_nor_does_its_queue_take_back_what_it_lent_for_it() -> None:
    world = full(gang(8, queue="b"), gang(8, queue="b"))
    world.set_queues([QueueRecord("a", quota_gpus=8), QueueRecord("b", quota_gpus=8)])
    meek = submit(world, gang(8, queue="a", preempts=False), "meek")
    cycle(world, now_s=NOW_S)
    assert world.jobs[meek].state is JobState.PENDING
    bold = submit(world, gang(8, queue="a"), "bold")
    cycle(world, now_s=NOW_S)
    assert world.jobs[bold].state is JobState.RESERVED


def test_one_that_preempts_is_not_taken_for_alike_far_back_in_the_line() -> None:
    """Equal gangs but for this: what the first is told does not settle it for the second."""
    world = full(gang(8))
    meek = [submit(world, gang(8, preempts=False), f"m{i:03d}", 100) for i in range(120)]
    cycle(world, now_s=NOW_S)
    bold = submit(world, gang(8), "zz", 100)
    cycle(world, now_s=NOW_S)
    assert world.jobs[bold].state is JobState.RESERVED
    assert all(world.jobs[uid].state is JobState.PENDING for uid in meek)


def test_a_policy_names_only_priorities_that_it_has() -> None:
    Policy(priorities={"batch": 5}, never_preempt=("batch",))
    with pytest.raises(PolicyError) as error:
        Policy(priorities={"batch": 5}, never_preempt=("batch", "bath"))
    (problem,) = error.value.problems
    assert problem.path == "never_preempt[1]"
    assert problem.message == "there is no priority 'bath'; allowed are batch"
