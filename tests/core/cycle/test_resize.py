"""Gangs that are to have other members than before: surplus ones leave, missing ones join."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.cluster.world import World
from scheduler.model.ids import JobId
from scheduler.model.job import Role
from scheduler.model.lifecycle import JobState, PodState
from scheduler.model.plan import Fact, FactKind, Plan
from tests.builders import make_cluster
from tests.core.gangs import (
    cycle,
    free_gpus,
    parts,
    report,
    report_all,
    role,
    role_gang,
    submit,
)


def world_of(racks: int = 2, nodes: int = 4) -> World:
    return World(make_cluster(racks=racks, nodes_per_rack=nodes))


def running(world: World, *roles: Role) -> JobId:
    job = submit(world, role_gang(*roles), "j")
    cycle(world)
    report_all(world, job, PodState.RUNNING)
    cycle(world)
    assert world.jobs[job].state is JobState.RUNNING
    return job


def resize(world: World, job: JobId, *roles: Role) -> None:
    """A new number of members, as a caller's change reaches the runner."""
    record = world.jobs[job]
    world.put_job(replace(record, spec=replace(record.spec, roles=roles)))
    number = len(world.facts) + 1
    world.facts.append(Fact(number, number, FactKind.RESIZE, job))


def members(world: World, job: JobId) -> list[int]:
    return [pod.index for pod in world.live_pods(job)]


def surplus(plan: Plan) -> list[str]:
    return [str(move.uid) for move in plan.pod_moves if move.surplus]


def test_surplus_members_stop_from_the_highest_index_down() -> None:
    world = world_of()
    job = running(world, role(replicas=4, min=1))
    resize(world, job, role(replicas=2, min=1))
    plan = cycle(world)
    assert surplus(plan) == ["j-m-3", "j-m-2"]
    assert members(world, job) == [0, 1]
    assert world.jobs[job].state is JobState.RUNNING
    assert sum(free_gpus(world, (node.name for node in world.topology.nodes))) == 8 * 6


def test_gpus_of_surplus_members_go_to_who_waits_in_the_same_cycle() -> None:
    world = world_of(1, 4)
    job = running(world, role(replicas=4, min=2))
    waiting = submit(world, role_gang(role(replicas=2)), "w")
    resize(world, job, role(replicas=2, min=2))
    cycle(world)
    assert world.jobs[waiting].state is JobState.BOUND
    assert members(world, job) == [0, 1]


def test_whole_parts_leave() -> None:
    world = world_of()
    job = running(world, role(replicas=6, min=2, parts=parts(2, 3, 1)))
    resize(world, job, role(replicas=4, min=2, parts=parts(2, 2, 1)))
    assert surplus(cycle(world)) == ["j-m-5", "j-m-4"]
    assert members(world, job) == [0, 1, 2, 3]


def test_members_join_when_the_role_grows() -> None:
    world = world_of()
    job = running(world, role(replicas=2))
    resize(world, job, role(replicas=5, min=2))
    plan = cycle(world)
    assert surplus(plan) == []
    assert members(world, job) == [0, 1, 2, 3, 4]
    assert world.jobs[job].state is JobState.RUNNING


def test_one_role_may_shrink_while_another_grows_into_its_room() -> None:
    world = world_of(1, 4)
    job = running(world, role("a", 3, min=1), role("b", 1))
    resize(world, job, role("a", 1, min=1), role("b", 3, min=1))
    plan = cycle(world)
    assert surplus(plan) == ["j-a-2", "j-a-1"]
    assert [(pod.role, pod.index) for pod in plan.pods] == [("b", 1), ("b", 2)]


def test_job_runs_once_the_smaller_minimum_does() -> None:
    world = world_of()
    job = submit(world, role_gang(role(replicas=4)), "j")
    cycle(world)
    for pod in world.live_pods(job)[:2]:
        report(world, pod, PodState.RUNNING)
    cycle(world)
    assert world.jobs[job].state is JobState.BOUND
    resize(world, job, role(replicas=4, min=2))
    cycle(world)
    assert world.jobs[job].state is JobState.RUNNING
    assert members(world, job) == [0, 1, 2, 3]


def test_job_has_succeeded_when_all_members_it_still_wants_have() -> None:
    world = world_of()
    job = running(world, role(replicas=3, min=1))
    report(world, world.live_pods(job)[0], PodState.SUCCEEDED, 0)
    cycle(world)
    resize(world, job, role(replicas=1, min=1))
    plan = cycle(world)
    assert [move.state for move in plan.job_moves] == [JobState.SUCCEEDED]


@pytest.mark.parametrize("state", [PodState.RUNNING, PodState.FAILED, PodState.STOPPED])
def test_what_a_surplus_member_says_afterwards_does_not_matter(state: PodState) -> None:
    world = world_of()
    job = running(world, role(replicas=3, min=1))
    last = world.live_pods(job)[2]
    resize(world, job, role(replicas=2, min=1))
    report(world, last, state, None)
    cycle(world)
    assert members(world, job) == [0, 1]
    assert world.jobs[job].state is JobState.RUNNING


@pytest.mark.parametrize("state", [PodState.LOST, PodState.TERMINATING])
def test_surplus_member_whose_node_has_yet_to_speak_keeps_its_gpus(state: PodState) -> None:
    world = world_of()
    job = running(world, role(replicas=3, min=1))
    world.put_pod(replace(world.live_pods(job)[2], state=state))
    resize(world, job, role(replicas=1, min=1))
    assert surplus(cycle(world)) == ["j-m-1"]
    assert members(world, job) == [0, 2]


def test_minimum_is_kept_when_members_below_have_a_gap() -> None:
    """Of members 0, 2 and 3 two must run together: with two wanted, member 2 stays."""
    world = world_of()
    job = running(world, role(replicas=4, min=2))
    world.put_pod(replace(world.live_pods(job)[1], state=PodState.STOPPED))
    resize(world, job, role(replicas=2, min=2))
    assert surplus(cycle(world)) == ["j-m-3"]
    assert len(members(world, job)) >= 2


@pytest.mark.parametrize("state", [JobState.PENDING, JobState.SUSPENDED])
def test_job_without_a_place_has_no_surplus(state: JobState) -> None:
    world = world_of(1, 1)
    job = submit(world, role_gang(role(replicas=3)), "j")
    world.put_job(replace(world.jobs[job], state=state))
    resize(world, job, role(replicas=2))
    plan = cycle(world)
    assert plan.pod_moves == ()
    assert plan.facts_done == (1,)


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3)), min_size=1, max_size=6))
def test_any_sequence_of_sizes_leaves_whole_parts_within_the_size(
    sizes: list[tuple[int, int]],
) -> None:
    """Parts of two on 8 nodes; the minimum is one part."""
    world = world_of()
    job = running(world, role(replicas=2, parts=parts(2, 1)))
    for count, cycles in sizes:
        resize(world, job, role(replicas=2 * count, min=2, parts=parts(2, count, 1)))
        for _ in range(cycles):
            cycle(world)
            assert world.jobs[job].state is JobState.RUNNING
            assert members(world, job) == list(range(2 * count))
    held = sum(pod.gpu_mask.bit_count() for pod in world.live_pods(job))
    free = sum(free_gpus(world, (node.name for node in world.topology.nodes)))
    assert held + free == 64
