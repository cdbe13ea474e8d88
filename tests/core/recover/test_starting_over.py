"""Members that were done when their gang had to start over: none of them is done any more."""

from dataclasses import replace

import pytest

from scheduler.cluster.world import World
from scheduler.model.ids import JobId
from scheduler.model.job import Failure, JobSpec, Scope
from scheduler.model.lifecycle import JobState, PodState
from scheduler.model.plan import FactKind
from scheduler.model.standing import PLAIN
from tests.builders import make_cluster
from tests.core.gangs import (
    cycle,
    gang,
    parts,
    report,
    report_all,
    role,
    role_gang,
    submit,
    tell,
)
from tests.core.recover.lives import GONE, places, running, settle

J, P = JobState, PodState

ELASTIC = [
    role_gang(role(replicas=4, min=2)),
    role_gang(role(replicas=4, min=2, parts=parts(2, 2, 1))),
    gang(8, 1, 4, dp_sizes=(2, 4)),
]
"""Gangs of four members that may start with two of them."""


def started(world: World, spec: JobSpec, scope: Scope = Scope.GANG) -> JobId:
    uid = submit(world, replace(spec, failure=Failure(scope, max_restarts=10)), "a")
    settle(world)
    assert len(running(world, uid)) == 4
    return uid


def done(world: World, uid: JobId, *indices: int) -> None:
    """Members that end well while the others run on."""
    for pod in world.live_pods(uid):
        if pod.index in indices:
            report(world, pod, P.SUCCEEDED, 0)
    settle(world)
    assert world.jobs[uid].state is J.RUNNING


def start_over(world: World, uid: JobId) -> None:
    """Its owner sends it back in line, and there is room for two members when it comes first."""
    tell(world, FactKind.REQUEUE, uid)
    for name in ("n003", "n004"):
        world.put_node(name, GONE)
    settle(world, 10.0)
    assert sorted(places(world, uid)) == [0, 1]
    assert world.jobs[uid].attempt == 2


def states(world: World, uid: JobId) -> dict[int, PodState]:
    return {pod.index: pod.state for pod in world.pods[uid].values()}


@pytest.mark.parametrize("spec", ELASTIC)
def test_member_that_was_done_is_so_no_more_when_its_gang_starts_over_without_it(
    spec: JobSpec,
) -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=4))
    uid = started(world, spec)
    done(world, uid, 2)
    start_over(world, uid)
    assert states(world, uid) == {0: P.RUNNING, 1: P.RUNNING, 2: P.STOPPED, 3: P.STOPPED}


@pytest.mark.parametrize("spec", ELASTIC)
def test_gang_that_starts_over_smaller_runs_and_succeeds_by_the_members_it_has(
    spec: JobSpec,
) -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=4))
    uid = started(world, spec)
    done(world, uid, 3)
    start_over(world, uid)
    assert world.jobs[uid].state is J.RUNNING
    report_all(world, uid, P.SUCCEEDED, 0)
    assert [move.state for move in cycle(world, now_s=20.0).job_moves] == [J.SUCCEEDED]


@pytest.mark.parametrize("scope", list(Scope))
def test_gang_that_starts_over_lacks_its_minimum_though_others_were_done_before(
    scope: Scope,
) -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=4))
    uid = started(world, role_gang(role(replicas=4, min=2)), scope)
    done(world, uid, 2, 3)
    start_over(world, uid)
    world.put_node(places(world, uid)[1][0], GONE)
    settle(world, 20.0)
    assert world.jobs[uid].state is J.RECOVERING


@pytest.mark.parametrize("spec", ELASTIC[:2])
def test_member_that_was_done_before_joins_its_gang_again_when_there_is_room(
    spec: JobSpec,
) -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=4))
    uid = started(world, spec)
    done(world, uid, 2)
    start_over(world, uid)
    for name in ("n003", "n004"):
        world.put_node(name, PLAIN)
    settle(world, 20.0)
    assert set(states(world, uid).values()) == {P.RUNNING}
    assert len(running(world, uid)) == 4


def test_gang_that_goes_elsewhere_as_a_whole_and_smaller_takes_no_account_of_who_was_done() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=4))
    uid = started(world, gang(8, 1, 4, dp_sizes=(2, 4)))
    done(world, uid, 3)
    world.put_node("n001", GONE)
    settle(world, 10.0)
    assert sorted(places(world, uid)) == [0, 1]
    assert world.jobs[uid].state is J.RUNNING
    report_all(world, uid, P.SUCCEEDED, 0)
    assert [move.state for move in cycle(world, now_s=20.0).job_moves] == [J.SUCCEEDED]


def test_late_word_that_a_member_stopped_does_not_undo_that_it_is_done() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=4))
    uid = started(world, role_gang(role(replicas=4, min=2)))
    pod = world.live_pods(uid)[2]
    done(world, uid, 2)
    report(world, pod, P.STOPPED)
    settle(world, 10.0)
    assert states(world, uid)[2] is P.SUCCEEDED
