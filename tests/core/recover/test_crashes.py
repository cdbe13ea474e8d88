"""Gangs that fail by themselves: who restarts, when, and when it is enough."""

from dataclasses import replace

import pytest

from scheduler.cluster.world import World
from scheduler.model.claim import ClaimWhy
from scheduler.model.job import Failure, Scope
from scheduler.model.lifecycle import JobState, PodState, Reason
from scheduler.model.plan import FactKind
from tests.builders import make_cluster
from tests.core.gangs import (
    cycle,
    gang,
    report,
    report_all,
    role,
    role_gang,
    submit,
    tell,
)
from tests.core.recover.lives import (
    EVERYBODY,
    GONE,
    attempts,
    places,
    running,
    settle,
)
from tests.core.recover.test_recovery import failing, started

J, P = JobState, PodState


@pytest.mark.parametrize("scope", list(Scope))
def test_the_first_crash_restarts_at_once_in_place(scope: Scope) -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=4))
    uid = started(world, gang(8, 1, 2, failure=failing(scope)))
    before = places(world, uid)
    report(world, world.live_pods(uid)[1], P.FAILED, 1)
    cycle(world, EVERYBODY, 10.0)
    job = world.jobs[uid]
    assert (job.state, job.crashes, job.crash_streak) == (J.BOUND, 1, 1)
    assert places(world, uid) == before
    assert attempts(world, uid) == ([2, 2] if scope is Scope.GANG else [1, 2])
    assert job.attempt == (2 if scope is Scope.GANG else 1)


def test_the_next_crash_in_a_row_waits_with_its_places_kept() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=2))
    uid = started(world, gang(8, 1, 2, failure=failing(Scope.GANG, backoff_s=10.0)))
    before = places(world, uid)
    for code in (1, 2):
        report(world, world.live_pods(uid)[0], P.FAILED, code)
        cycle(world, EVERYBODY, 5.0)
        if code == 1:
            settle(world, 5.0)
    job = world.jobs[uid]
    assert (job.state, job.reason, job.not_before_s) == (J.PENDING, Reason.BACKOFF, 15.0)
    assert {c.why for c in world.claims_of(uid)} == {ClaimWhy.RECOVERY}
    other = submit(world, gang(8), "other", priority=0)
    settle(world, 10.0)
    assert world.jobs[other].state is J.PENDING
    assert cycle(world, EVERYBODY, 14.0).wake_at_s == 15.0
    settle(world, 15.0)
    assert places(world, uid) == before
    assert (world.jobs[uid].state, world.jobs[uid].attempt) == (J.RUNNING, 3)
    assert not world.claims


def test_a_crashed_pod_with_its_own_scope_waits_while_the_others_run() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=2))
    uid = started(world, gang(8, 1, 2, failure=failing(Scope.POD)))
    for code in (1, 2):
        report(world, world.live_pods(uid)[1], P.FAILED, code)
        cycle(world, EVERYBODY, 5.0)
        if code == 1:
            settle(world, 5.0)
    job = world.jobs[uid]
    assert (job.state, job.reason) == (J.RECOVERING, Reason.BACKOFF)
    assert [p.index for p in running(world, uid)] == [0]
    settle(world, 15.0)
    assert attempts(world, uid) == [1, 3]
    assert world.jobs[uid].state is J.RUNNING


def test_a_member_above_the_minimum_waits_alone_and_comes_back_where_it_was() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=4))
    member = role("m", 3, min=1, one_per_node=True)
    uid = started(world, role_gang(member, failure=failing(Scope.POD)))
    before = places(world, uid)
    for code in (1, 2):
        report(world, world.live_pods(uid)[1], P.FAILED, code)
        settle(world, 5.0)
    job = world.jobs[uid]
    assert (job.state, job.reason, job.not_before_s) == (J.RUNNING, Reason.BACKOFF, 15.0)
    assert [p.index for p in running(world, uid)] == [0, 2]
    settle(world, 14.0)
    assert len(running(world, uid)) == 2
    settle(world, 15.0)
    assert places(world, uid) == before
    assert world.jobs[uid].reason is None
    assert not world.claims


def test_a_gang_that_fails_the_same_way_three_times_in_a_row_stops_with_that_reason() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=2))
    uid = started(world, gang(8, 1, 2, failure=failing(Scope.GANG)))
    moves = []
    for round_ in range(3):
        report(world, world.live_pods(uid)[round_ % 2], P.FAILED, 17)
        moves = list(cycle(world, EVERYBODY, 100.0 * round_).job_moves)
        if round_ < 2:
            settle(world, 100.0 * round_ + 50.0)
    assert [m.state for m in moves] == [J.FAILED]
    assert "the same way 3 times in a row" in moves[0].message


def test_a_crash_long_after_the_start_begins_a_new_row() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=2))
    uid = started(world, gang(8, failure=failing(Scope.GANG)))
    for round_ in range(5):
        report(world, world.live_pods(uid)[0], P.FAILED, 17)
        settle(world, 10_000.0 * (round_ + 1))
    job = world.jobs[uid]
    assert (job.state, job.crashes, job.crash_streak) == (J.RUNNING, 5, 1)


def test_faults_of_machines_are_not_counted_as_crashes() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=4))
    uid = started(world, gang(8, failure=Failure(Scope.GANG, max_restarts=0)))
    for name in ("n001", "n002", "n003"):
        world.put_node(name, GONE)
        settle(world, 10.0)
    assert (world.jobs[uid].state, world.jobs[uid].crashes) == (J.RUNNING, 0)
    pod = world.live_pods(uid)[0]
    tell(world, FactKind.FAULT, uid)
    world.facts[-1] = replace(world.facts[-1], pod=pod.uid, attempt=pod.attempt)
    settle(world, 20.0)
    assert attempts(world, uid) == [pod.attempt + 1]
    assert world.jobs[uid].crashes == 0
    report(world, world.live_pods(uid)[0], P.FAILED, 1)
    (move,) = cycle(world, EVERYBODY, 30.0).job_moves
    assert move.state is J.FAILED


def test_a_gang_all_of_whose_members_crash_at_once_is_counted_once() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=4))
    uid = started(world, gang(8, 1, 4, failure=failing(Scope.GANG)))
    report_all(world, uid, P.FAILED, 1)
    cycle(world, EVERYBODY, 10.0)
    assert world.jobs[uid].crashes == 1
    assert attempts(world, uid) == [2] * 4
