"""Nodes that are to be emptied: who moves, when, and whether it is asked to save first."""

from dataclasses import replace

import pytest

from scheduler.cluster.world import World
from scheduler.model.claim import ClaimWhy
from scheduler.model.ids import JobId
from scheduler.model.job import Failure, Scope
from scheduler.model.lifecycle import JobState, PodState
from scheduler.model.plan import EvictStep, Fact, FactKind
from scheduler.model.standing import PLAIN, Drain, NodeStanding
from tests.builders import make_cluster
from tests.core.gangs import cycle, gang, job_nodes, required, role, role_gang, submit, tell
from tests.core.recover.lives import EVERYBODY, attempts, places, running, settle

J, P, K = JobState, PodState, FactKind


def draining(deadline_s: float | None = None) -> NodeStanding:
    return NodeStanding(drain=Drain(deadline_s, "disk"))


def a_gang(world: World, scope: Scope = Scope.POD, *, grace_s: float | None = None) -> JobId:
    spec = gang(8, 1, 2, required("job", "rack"), failure=Failure(scope), grace_s=grace_s)
    uid = submit(world, spec, "a")
    settle(world)
    return uid


def say(world: World, uid: JobId, kind: FactKind) -> None:
    evict = world.jobs[uid].evict
    assert evict is not None
    tell(world, kind, uid, evict.request_id)


@pytest.mark.parametrize("scope", list(Scope))
def test_a_member_on_a_drained_node_moves_when_there_is_a_place(scope: Scope) -> None:
    world = World(make_cluster(racks=2, nodes_per_rack=3))
    uid = a_gang(world, scope)
    before = places(world, uid)
    world.put_node(before[1][0], draining())
    settle(world, 10.0)
    after = places(world, uid)
    assert world.jobs[uid].state is J.RUNNING
    assert after[0] == before[0]
    assert after[1] != before[1]
    assert attempts(world, uid) == ([2, 2] if scope is Scope.GANG else [1, 2])
    assert not world.claims


def test_a_gang_is_asked_to_save_before_a_member_moves() -> None:
    world = World(make_cluster(racks=2, nodes_per_rack=3))
    uid = a_gang(world, grace_s=30.0)
    node = job_nodes(world, uid)[1]
    world.put_node(node, draining())
    cycle(world, EVERYBODY, 10.0)
    job = world.jobs[uid]
    assert job.evict is not None
    assert (job.state, job.evict.step, job.evict.then) == (J.RUNNING, EvictStep.ASKED, J.RUNNING)
    assert job.evict.why == f"node {node} is drained"
    assert [c.why for c in world.claims_of(uid)] == [ClaimWhy.RECOVERY]
    settle(world, 15.0)
    assert len(running(world, uid)) == 2
    say(world, uid, K.ASKED)
    assert cycle(world, EVERYBODY, 20.0).wake_at_s == 50.0
    settle(world, 49.0)
    assert node in job_nodes(world, uid)
    say(world, uid, K.CHECKPOINT)
    cycle(world, EVERYBODY, 49.0)
    assert world.jobs[uid].state is J.RECOVERING
    settle(world, 49.0)
    assert node not in job_nodes(world, uid)
    assert world.jobs[uid].state is J.RUNNING


def test_a_gang_that_does_not_answer_moves_when_its_time_is_over() -> None:
    world = World(make_cluster(racks=2, nodes_per_rack=3))
    uid = a_gang(world, grace_s=30.0)
    node = job_nodes(world, uid)[1]
    world.put_node(node, draining())
    cycle(world, EVERYBODY, 10.0)
    say(world, uid, K.ASKED)
    settle(world, 10.0)
    assert node in job_nodes(world, uid)
    settle(world, 40.0)
    assert node not in job_nodes(world, uid)


def test_a_drain_that_is_taken_back_before_anybody_was_asked_does_not_happen() -> None:
    world = World(make_cluster(racks=2, nodes_per_rack=3))
    uid = a_gang(world, grace_s=30.0)
    before = world.live_pods(uid)
    world.put_node(before[1].node, draining())
    cycle(world, EVERYBODY, 10.0)
    world.put_node(before[1].node, PLAIN)
    settle(world, 11.0)
    assert world.live_pods(uid) == before
    assert world.jobs[uid].evict is None
    assert not world.claims


def test_without_a_place_nobody_leaves_before_the_deadline() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=2))
    uid = a_gang(world)
    before = world.live_pods(uid)
    world.put_node("n002", draining(100.0))
    assert cycle(world, EVERYBODY, 10.0).wake_at_s == 100.0
    settle(world, 50.0)
    assert world.live_pods(uid) == before
    settle(world, 100.0)
    job = world.jobs[uid]
    assert (job.state, job_nodes(world, uid)) == (J.RECOVERING, ["n001"])
    assert "node n002 is drained" in job.message
    world.put_node("n002", PLAIN)
    settle(world, 110.0)
    assert world.jobs[uid].state is J.RUNNING


def test_a_gang_is_asked_so_long_before_the_deadline_as_it_has_to_save() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=2))
    uid = a_gang(world, grace_s=30.0)
    world.put_node("n002", draining(100.0))
    assert cycle(world, EVERYBODY, 10.0).wake_at_s == 70.0
    settle(world, 70.0)
    evict = world.jobs[uid].evict
    assert evict is not None
    assert evict.step is EvictStep.ASKED
    assert len(running(world, uid)) == 2
    settle(world, 100.0)
    assert job_nodes(world, uid) == ["n001"]


def test_a_deadline_that_is_past_asks_nobody() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=3))
    uid = a_gang(world, grace_s=30.0)
    node = job_nodes(world, uid)[1]
    world.put_node(node, draining(10.0))
    cycle(world, EVERYBODY, 10.0)
    assert [p.state for p in world.live_pods(uid)] == [P.RUNNING, P.TERMINATING]
    settle(world, 10.0)
    assert node not in job_nodes(world, uid)
    assert world.jobs[uid].state is J.RUNNING


def test_a_gang_moves_as_a_whole_when_its_rack_has_no_other_place() -> None:
    world = World(make_cluster(racks=2, nodes_per_rack=2))
    uid = a_gang(world, Scope.POD_ELSE_GANG)
    before = set(job_nodes(world, uid))
    world.put_node(sorted(before)[0], draining())
    settle(world, 10.0)
    assert not before & set(job_nodes(world, uid))
    assert world.jobs[uid].state is J.RUNNING


def test_members_above_the_minimum_move_one_by_one() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=4))
    uid = submit(world, role_gang(role("m", 3, min=1, one_per_node=True)), "a")
    settle(world)
    node = job_nodes(world, uid)[0]
    world.put_node(node, draining())
    states = set()
    for _ in range(6):
        cycle(world, EVERYBODY, 10.0)
        states.add(world.jobs[uid].state)
        settle(world, 10.0)
    assert states == {J.RUNNING}
    assert len(running(world, uid)) == 3
    assert node not in job_nodes(world, uid)


def test_a_gang_that_was_never_asked_ignores_an_old_answer() -> None:
    world = World(make_cluster(racks=2, nodes_per_rack=3))
    uid = a_gang(world, grace_s=30.0)
    node = job_nodes(world, uid)[1]
    world.put_node(node, draining())
    cycle(world, EVERYBODY, 10.0)
    evict = world.jobs[uid].evict
    assert evict is not None
    world.facts.append(Fact(99, 99, K.CHECKPOINT, uid, request_id="another"))
    cycle(world, EVERYBODY, 11.0)
    assert world.jobs[uid].evict == replace(evict)


def test_a_member_that_leaves_is_known_to_leave_when_another_is_told_to_as_well() -> None:
    """Another gang may count on its place."""
    world = World(make_cluster(racks=1, nodes_per_rack=3))
    uid = a_gang(world)
    first, second = world.live_pods(uid)
    world.put_node(first.node, draining())
    cycle(world, now_s=1.0)
    assert world.pods[uid][first.uid].state is PodState.TERMINATING
    world.put_node(first.node, PLAIN)
    high = submit(world, gang(8), "high", priority=9)
    cycle(world, now_s=2.0)
    assert [c.node for c in world.claims.values() if c.job == high] == [first.node]
    world.put_node(second.node, draining(2.0))
    cycle(world, now_s=3.0)
    assert world.pods[uid][second.uid].state is PodState.TERMINATING
    assert world.jobs[uid].evict is not None
