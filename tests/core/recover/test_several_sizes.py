"""Gangs that may have several sizes: which of their pods are missing is told by the size they have.

Not by the pods that are there: with the pods of a smaller size alone they are not complete.
"""

from dataclasses import replace

import pytest

from scheduler.cluster.world import World
from scheduler.model.ids import JobId
from scheduler.model.job import Failure, Scope
from scheduler.model.lifecycle import JobState, PodState
from scheduler.model.plan import FactKind
from tests.builders import make_cluster
from tests.core.gangs import cycle, gang, report, submit, tell
from tests.core.recover.lives import GONE, places, running, settle

J, P = JobState, PodState
SCOPES = pytest.mark.parametrize("scope", list(Scope))


def started(world: World, scope: Scope = Scope.GANG, backoff_s: float = 5.0) -> JobId:
    """Four pods, as there is room for them; two or one would do."""
    failure = Failure(scope, max_restarts=10, backoff_s=backoff_s)
    uid = submit(world, gang(8, 1, 4, dp_sizes=(1, 2, 4), failure=failure), "a")
    cycle(world)
    assert sorted(places(world, uid)) == [0, 1, 2, 3]
    return uid


def say(world: World, uid: JobId, states: dict[int, PodState]) -> None:
    for pod in world.live_pods(uid):
        if pod.index in states:
            code = {P.SUCCEEDED: 0, P.FAILED: 1}.get(states[pod.index])
            report(world, pod, states[pod.index], code)


def test_gang_runs_when_all_pods_of_the_size_it_has_do() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=4))
    uid = started(world)
    for index in range(4):
        assert world.jobs[uid].state is J.BOUND
        say(world, uid, {index: P.RUNNING})
        cycle(world)
    assert world.jobs[uid].state is J.RUNNING


@SCOPES
def test_gang_does_not_go_on_with_fewer_pods_than_it_has(scope: Scope) -> None:
    """The second crash in a row has them wait, so that for a time they are not there."""
    world = World(make_cluster(racks=1, nodes_per_rack=4))
    uid = started(world, scope)
    settle(world)
    for now_s in (1.0, 2.0):
        say(world, uid, {2: P.FAILED, 3: P.FAILED})
        cycle(world, now_s=now_s)
        assert world.jobs[uid].state is not J.RUNNING
        settle(world, now_s)
    settle(world, 100.0)
    assert len(running(world, uid)) == 4
    assert world.jobs[uid].state is J.RUNNING


@SCOPES
def test_gang_has_not_succeeded_when_its_first_pod_has_and_the_others_ended_otherwise(
    scope: Scope,
) -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=4))
    uid = started(world, scope)
    settle(world)
    say(world, uid, {0: P.SUCCEEDED, 1: P.FAILED, 2: P.FAILED, 3: P.STOPPED})
    for now_s in (1.0, 100.0, 200.0):
        settle(world, now_s)
    assert world.jobs[uid].state is J.RUNNING
    whole = {0, 1, 2, 3} if scope is Scope.GANG else {1, 2, 3}
    assert {pod.index for pod in running(world, uid)} == whole


def test_gang_may_have_another_size_each_time_it_starts() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=4))
    uid = started(world)
    settle(world)
    assert world.jobs[uid].pod_count == 4
    world.put_node("n004", GONE)
    tell(world, FactKind.SUSPEND, uid)
    settle(world, 10.0)
    assert world.jobs[uid].pod_count == 0
    tell(world, FactKind.RESUME, uid)
    settle(world, 20.0)
    assert world.jobs[uid].pod_count == len(running(world, uid)) == 2


def test_size_of_a_gang_that_an_earlier_release_started_is_told_by_its_pods() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=4))
    uid = started(world)
    settle(world)
    world.put_job(replace(world.jobs[uid], pod_count=0))
    say(world, uid, {1: P.FAILED})
    settle(world, 10.0)
    assert len(running(world, uid)) == 4
