"""Gangs that lost members: who is replaced, who restarts, and what becomes of those that cannot."""

from dataclasses import replace

import pytest

from scheduler.cluster.world import World
from scheduler.model.ids import JobId, NodeId
from scheduler.model.job import Failure, JobSpec, Scope
from scheduler.model.lifecycle import JobState, PodState, Reason
from scheduler.model.standing import PLAIN, NodeStanding
from scheduler.place.kept import Member, broken_rules
from scheduler.policy import Policy
from tests.builders import make_cluster
from tests.core.gangs import (
    cancel,
    cycle,
    gang,
    job_nodes,
    parts,
    report,
    report_all,
    required,
    role,
    role_gang,
    submit,
)
from tests.core.recover.lives import (
    AGENT,
    EVERYBODY,
    GONE,
    SILENT,
    attempts,
    places,
    running,
    settle,
)

J, P = JobState, PodState


def failing(scope: Scope, **fields: object) -> Failure:
    return replace(Failure(scope, max_restarts=10), **fields)  # type: ignore[arg-type]  # by name


def started(world: World, spec: JobSpec, name: str = "a", priority: int = 0) -> JobId:
    uid = submit(world, spec, name, priority=priority)
    settle(world)
    assert world.jobs[uid].state is J.RUNNING
    return uid


# -- who is replaced ------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", list(Scope))
def test_two_of_64_nodes_lost_in_one_second_are_replaced_from_the_same_leaf(scope: Scope) -> None:
    world = World(make_cluster(racks=20, nodes_per_rack=8, leaves=2, blocks=1))
    spec = gang(8, 8, 8, required("pp", "leaf"), failure=failing(scope))
    uid = started(world, spec)
    before = places(world, uid)
    leaf = world.topology.place[world.topology.level_index["leaf"]]
    lost = [3, 40]
    for i in lost:
        world.put_node(before[i][0], GONE)
    plan = cycle(world, EVERYBODY, 10.0)
    after = places(world, uid)
    assert world.jobs[uid].state is J.BOUND
    assert {i for i in before if before[i] != after[i]} == set(lost)
    index = world.topology.node_index
    for i in lost:
        assert leaf[index[after[i][0]]] == leaf[index[before[i][0]]]
    again = {p.index for p in plan.pods}
    assert again == (set(before) if scope is Scope.GANG else set(lost))
    settle(world, 11.0)
    assert world.jobs[uid].state is J.RUNNING
    assert attempts(world, uid).count(2) == (64 if scope is Scope.GANG else 2)


def test_a_member_comes_back_with_its_gpus_and_its_ranks() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=4))
    other = started(world, gang(4), "other")
    uid = started(world, gang(4, 1, 2, gpus_per_pod=4, failure=failing(Scope.POD)))
    before = {p.index: p for p in world.live_pods(uid)}
    world.put_node(before[1].node, GONE)
    settle(world, 10.0)
    now = {p.index: p for p in world.live_pods(uid)}
    assert now[0] == before[0]
    assert (now[1].gpu_mask, now[1].first_rank) == (before[1].gpu_mask, before[1].first_rank)
    assert now[1].node != before[1].node
    assert len(running(world, other)) == 1


def test_lost_members_go_where_their_units_are() -> None:
    """dp groups within a rack each: what is left of a group says where its lost member goes."""
    world = World(make_cluster(racks=3, nodes_per_rack=4))
    spec = gang(8, 3, 3, required("dp", "rack"), failure=failing(Scope.POD))
    uid = started(world, spec)
    before = places(world, uid)
    for i in (0, 4, 8):
        world.put_node(before[i][0], GONE)
    settle(world, 10.0)
    after = places(world, uid)
    assert {i for i in before if before[i] != after[i]} == {0, 4, 8}
    index = world.topology.node_index
    members = [Member("", i, index[node]) for i, (node, _) in after.items()]
    assert broken_rules(spec, world.topology, members, 8) == ()


def test_a_unit_that_was_lost_as_a_whole_goes_into_one_domain() -> None:
    world = World(make_cluster(racks=4, nodes_per_rack=2))
    spec = gang(8, 2, 2, required("pp", "rack"), failure=failing(Scope.POD))
    uid = started(world, spec)
    before = places(world, uid)
    rack = world.topology.place[world.topology.level_index["rack"]]
    index = world.topology.node_index
    unit = [i for i in before if rack[index[before[i][0]]] == rack[index[before[0][0]]]]
    assert len(unit) == 2
    for i in unit:
        world.put_node(before[i][0], GONE)
    settle(world, 10.0)
    after = places(world, uid)
    assert len(after) == 4
    assert len({rack[index[after[i][0]]] for i in unit}) == 1


def test_lost_members_of_parts_stay_with_their_part() -> None:
    world = World(make_cluster(racks=3, nodes_per_rack=3))
    member = role("m", 4, one_per_node=True, parts=parts(2, 2, None, required("", "rack")))
    uid = started(world, role_gang(member, failure=failing(Scope.POD)))
    before = places(world, uid)
    world.put_node(before[1][0], GONE)
    world.put_node(before[2][0], GONE)
    settle(world, 10.0)
    after = places(world, uid)
    rack = world.topology.place[world.topology.level_index["rack"]]
    index = world.topology.node_index
    assert (after[0], after[3]) == (before[0], before[3])
    for one, two in ((0, 1), (2, 3)):
        assert rack[index[after[one][0]]] == rack[index[after[two][0]]]


def test_a_part_above_the_minimum_that_cannot_be_mended_stops_as_a_whole() -> None:
    world = World(make_cluster(racks=2, nodes_per_rack=2))
    member = role("m", 4, min=2, one_per_node=True, parts=parts(2, 2, 1, required("", "rack")))
    uid = started(world, role_gang(member, failure=failing(Scope.POD)))
    before = places(world, uid)
    world.put_node(before[2][0], GONE)
    settle(world, 10.0)
    assert world.jobs[uid].state is J.RUNNING
    assert {p.index for p in running(world, uid)} == {0, 1}
    world.put_node(before[2][0], PLAIN)
    settle(world, 20.0)
    assert {p.index for p in running(world, uid)} == {0, 1, 2, 3}


def test_members_above_the_minimum_come_back_while_the_others_run_on() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=4))
    uid = started(world, role_gang(role("m", 3, min=2, one_per_node=True)))
    before = places(world, uid)
    world.put_node(before[0][0], GONE)
    plan = cycle(world, EVERYBODY, 10.0)
    assert world.jobs[uid].state is J.RUNNING
    assert [p.index for p in plan.pods] == [0]
    assert attempts(world, uid) == [2, 1, 1]


# -- when there is no place -----------------------------------------------------------------------


def test_a_rule_that_cannot_be_kept_makes_a_gang_wait_and_say_so() -> None:
    world = World(make_cluster(racks=2, nodes_per_rack=2))
    spec = gang(8, 1, 2, required("job", "rack"), failure=failing(Scope.POD, hold_s=100.0))
    uid = started(world, spec)
    node = places(world, uid)[1][0]
    world.put_node(node, GONE)
    settle(world, 10.0)
    job = world.jobs[uid]
    assert (job.state, job.hold_until_s, job.lost_since_s) == (J.RECOVERING, 110.0, 10.0)
    assert job.message.startswith(f"1 of 2 members run; node {node} was lost (fault node_lost); ")
    assert "under the rule 'the job within rack, required'" in job.message
    assert len(running(world, uid)) == 1
    assert cycle(world, EVERYBODY, 60.0).is_empty()


def test_a_gang_that_held_to_its_limit_gives_up_all_and_goes_first() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=2))
    uid = started(world, gang(8, 1, 2, failure=failing(Scope.GANG, hold_s=100.0)))
    older = submit(world, gang(8, 1, 2), "older", age=0)
    world.put_node("n002", GONE)
    settle(world, 10.0)
    assert world.jobs[uid].state is J.RECOVERING
    settle(world, 110.0)
    job = world.jobs[uid]
    assert (job.state, job.goes_first, job.hold_until_s) == (J.PENDING, True, None)
    assert not world.live_pods(uid)
    assert world.jobs[older].state is J.PENDING
    world.put_node("n002", PLAIN)
    settle(world, 120.0)
    assert world.jobs[uid].state is J.RUNNING
    assert not world.jobs[uid].goes_first
    assert world.jobs[older].state is J.PENDING


def test_a_gang_in_recovery_goes_before_new_work_of_its_priority() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=3))
    uid = started(world, gang(8, 1, 2, failure=failing(Scope.POD)))
    blocker = started(world, gang(8), "blocker")
    world.put_node(places(world, uid)[0][0], GONE)
    settle(world, 10.0)
    waiting = submit(world, gang(8), "waiting", age=0)
    report_all(world, blocker, P.SUCCEEDED, 0)
    settle(world, 20.0)
    assert world.jobs[uid].state is J.RUNNING
    assert world.jobs[waiting].state is J.PENDING


def test_a_smaller_size_is_taken_when_the_gang_has_to_go_elsewhere() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=4))
    spec = gang(8, 1, 4, dp_sizes=(2, 4), failure=failing(Scope.GANG))
    uid = started(world, spec)
    world.put_node("n001", GONE)
    settle(world, 10.0)
    assert world.jobs[uid].state is J.RUNNING
    assert len(running(world, uid)) == 2
    assert world.jobs[uid].attempt == 2


def test_nodes_that_come_back_bring_the_members_back_where_they_were() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=2))
    uid = started(world, gang(8, 1, 2, failure=failing(Scope.POD)))
    before = places(world, uid)
    world.put_node("n002", GONE)
    settle(world, 10.0)
    world.put_node("n002", PLAIN)
    settle(world, 20.0)
    assert places(world, uid) == before
    assert sorted(attempts(world, uid)) == [1, 2]


# -- silent nodes ---------------------------------------------------------------------------------


def test_gpus_of_a_silent_node_go_to_nobody() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=2))
    for name in ("n001", "n002"):
        world.put_node(name, AGENT)
    uid = started(world, gang(8, failure=failing(Scope.POD)))
    (node,) = job_nodes(world, uid)
    world.put_node(node, replace(SILENT, since_s=10.0))
    settle(world, 10.0)
    (moved,) = job_nodes(world, uid)
    assert moved != node
    other = submit(world, gang(8), "other")
    settle(world, 20.0)
    assert world.jobs[other].state is J.PENDING
    world.put_node(node, AGENT)
    settle(world, 30.0)
    assert job_nodes(world, other) == [node]


def test_a_cancelled_gang_holds_its_gpus_until_its_agents_say_that_it_stopped() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=2))
    world.put_node("n001", AGENT)
    uid = started(world, gang(8, 1, 2))
    cancel(world, uid)
    cycle(world)
    job = world.jobs[uid]
    assert job.state is J.EVICTING
    assert job.evict is not None
    assert job.evict.then is J.CANCELLED
    assert [(p.node, p.state) for p in world.live_pods(uid)] == [("n001", P.TERMINATING)]
    other = submit(world, gang(8, 1, 2), "other")
    cycle(world)
    assert not world.live_pods(other)
    settle(world)
    assert uid not in world.jobs
    assert world.jobs[other].state is J.RUNNING


def test_a_cancelled_gang_does_not_wait_for_nodes_that_are_gone() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=2))
    world.put_node("n001", AGENT)
    uid = started(world, gang(8, 1, 2, failure=failing(Scope.POD)))
    world.put_node("n001", replace(SILENT, since_s=5.0))
    settle(world, 5.0)
    cancel(world, uid)
    cycle(world)
    assert uid not in world.jobs


# -- the breaker ----------------------------------------------------------------------------------


def test_the_breaker_holds_everything_and_stops_the_clock() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=8))
    policy = Policy(breaker_share=0.2)
    uid = started(world, gang(8, 1, 2, failure=failing(Scope.POD, hold_s=50.0)))
    for node in ("n001", "n002", "n003"):
        world.put_node(node, replace(GONE, since_s=100.0))
    plan = cycle(world, policy, 100.0)
    job = world.jobs[uid]
    assert (job.state, job.reason, job.hold_until_s) == (J.RECOVERING, Reason.BREAKER, None)
    assert "3 of 8 nodes failed at once" in job.message
    assert not plan.pods
    assert plan.wake_at_s == 700.0
    assert cycle(world, policy, 400.0).is_empty()
    world.put_node("n003", PLAIN)
    world.put_node("n002", replace(GONE, since_s=100.0))
    world.put_node("n001", PLAIN)
    settle(world, 450.0, policy)
    assert world.jobs[uid].state is J.RUNNING


def test_the_breaker_holds_members_above_the_minimum_too() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=6))
    uid = started(world, role_gang(role("m", 3, min=1, one_per_node=True)))
    for node in job_nodes(world, uid)[:2]:
        world.put_node(node, replace(GONE, since_s=100.0))
    settle(world, 100.0, Policy(breaker_share=0.2))
    assert world.jobs[uid].state is J.RUNNING
    assert [p.state for p in world.live_pods(uid)].count(P.LOST) == 2
    settle(world, 110.0, Policy(breaker_share=1.0))
    assert len(running(world, uid)) == 3


def test_the_breaker_closes_when_an_operator_says_so() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=4))
    uid = started(world, gang(8, failure=failing(Scope.POD)))
    (node,) = job_nodes(world, uid)
    world.put_node(node, replace(GONE, since_s=100.0))
    settle(world, 100.0, Policy(breaker_share=0.2))
    assert world.jobs[uid].reason is Reason.BREAKER
    settle(world, 110.0, Policy(breaker_share=0.2, breaker_reset_s=105.0))
    assert world.jobs[uid].state is J.RUNNING


def test_a_gang_with_a_lost_member_does_not_succeed_when_the_others_do() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=2))
    uid = started(world, gang(8, 1, 2, failure=failing(Scope.POD)))
    world.put_node("n002", GONE)
    settle(world, 10.0)
    report(world, world.live_pods(uid)[0], P.SUCCEEDED, 0)
    settle(world, 20.0)
    assert world.jobs[uid].state is J.RECOVERING
    world.put_node("n002", NodeStanding())
    settle(world, 30.0)
    report_all(world, uid, P.SUCCEEDED, 0)
    cycle(world, EVERYBODY, 40.0)
    assert uid not in world.jobs


def test_a_cordoned_node_is_no_place_for_a_lost_member() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=3))
    uid = started(world, gang(8, 1, 2, failure=failing(Scope.POD)))
    spare = next(n.name for n in world.topology.nodes if n.name not in job_nodes(world, uid))
    world.put_node(spare, NodeStanding(cordoned=True))
    world.put_node(job_nodes(world, uid)[0], GONE)
    settle(world, 10.0)
    assert world.jobs[uid].state is J.RECOVERING
    world.put_node(NodeId(spare), PLAIN)
    settle(world, 20.0)
    assert spare in job_nodes(world, uid)


def test_large_gangs_keep_off_lemons_that_small_ones_still_use() -> None:
    world = World(make_cluster(racks=2, nodes_per_rack=5))
    for name in ("n001", "n002", "n003"):
        world.put_node(name, NodeStanding(lemon=True))
    large = submit(world, gang(8, 1, 8), "large")
    cycle(world)
    assert world.jobs[large].state is J.PENDING
    assert "3 that fail far more often than others" in world.jobs[large].message
    small = submit(world, gang(8, 1, 7), "small")
    settle(world)
    assert world.jobs[small].state is J.RUNNING
    cancel(world, small)
    for name in ("n001", "n002"):
        world.put_node(name, PLAIN)
    settle(world)
    assert "n003" not in job_nodes(world, large)
    world.set_topology(world.topology)
    assert world.table.lemons == {world.topology.node_index["n003"]}


def test_a_member_gets_the_place_of_another_that_is_lost_when_its_node_is_back() -> None:
    """Two members above the minimum are gone, one of them stopped for the other's sake."""
    world = World(make_cluster(racks=1, nodes_per_rack=3))
    uid = started(world, role_gang(role("w", 3, min=1)))
    nodes = job_nodes(world, uid)
    world.put_node(nodes[2], GONE)
    settle(world, 10.0)
    (stopped,) = [p for p in world.live_pods(uid) if p.index == 1]
    world.put_node(nodes[1], NodeStanding(cordoned=True))
    report(world, stopped, PodState.STOPPED)
    settle(world, 20.0)
    assert len(running(world, uid)) == 1
    world.put_node(nodes[2], PLAIN)
    settle(world, 30.0)
    assert [p.index for p in running(world, uid)] == [0, 1]
    assert job_nodes(world, uid)[1] == nodes[2]
