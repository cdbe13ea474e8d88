"""Spares that are lent: who borrows them, and how they come back when they are needed."""

from dataclasses import replace

import pytest

from scheduler.cluster.world import World
from scheduler.model.claim import ClaimWhy, Window
from scheduler.model.ids import JobId, NodeId
from scheduler.model.job import Failure, JobSpec, Role, Scope
from scheduler.model.lifecycle import JobState, PodState
from scheduler.model.standing import Drain, NodeStanding
from scheduler.policy import Policy
from tests.builders import make_cluster
from tests.core.gangs import cycle, gang, job_nodes, report, report_all, submit
from tests.core.recover.lives import EVERYBODY, GONE, places, running, settle

J, P = JobState, PodState


def lender(world: World, *, members: int = 1, spares: int = 1) -> JobId:
    """A gang with its spare, on the first nodes of the world."""
    # No priority takes its place, so that only its own right to its spares counts.
    spec = gang(8, 1, members, spares=spares, failure=Failure(Scope.POD), preemptible=False)
    uid = submit(world, spec, "lender")
    settle(world)
    assert len(spares_of(world, uid)) == spares
    return uid


def spares_of(world: World, uid: JobId) -> list[str]:
    return sorted(c.node for c in world.claims_of(uid) if c.why is ClaimWhy.SPARE)


def kept_for(world: World, uid: JobId) -> list[str]:
    return sorted(c.node for c in world.claims_of(uid) if c.why is ClaimWhy.RECOVERY)


def test_a_gang_that_can_leave_at_once_borrows_a_spare_when_nothing_else_is_free() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=3))
    uid = lender(world)
    (spare,) = spares_of(world, uid)
    first = submit(world, gang(8), "first")
    settle(world)
    assert job_nodes(world, first) != [spare]
    second = submit(world, gang(8), "second")
    settle(world)
    assert [p.node for p in running(world, second)] == [spare]
    # It is kept all the same.
    assert spares_of(world, uid) == [spare]


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"preemptible": False}, id="one that nobody may evict"),
        pytest.param({"grace_s": 60.0}, id="one that is asked to save first"),
        pytest.param({"exclusive": True}, id="one that shares with nobody"),
    ],
)
def test_a_gang_that_cannot_leave_at_once_borrows_nothing(changes: dict[str, object]) -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=2))
    lender(world)
    other = submit(world, replace(gang(8), **changes), "other")  # type: ignore[arg-type]  # by name
    settle(world)
    assert world.jobs[other].state is J.PENDING


def test_nothing_is_lent_when_the_policy_says_so() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=2))
    lender(world)
    other = submit(world, gang(8), "other")
    settle(world, policy=replace(EVERYBODY, lend_spares=False))
    assert world.jobs[other].state is J.PENDING


@pytest.mark.parametrize("priority", [-5, 0, 50])
def test_a_borrower_leaves_in_the_plan_that_keeps_its_place_for_the_lost_member(
    priority: int,
) -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=2))
    uid = lender(world)
    (spare,) = spares_of(world, uid)
    other = submit(world, gang(8), "other", priority=priority)
    settle(world)
    world.put_node(places(world, uid)[0][0], GONE)
    plan = cycle(world, EVERYBODY, 10.0)
    # Promise 9: the claim and the eviction are one plan.
    assert [(c.why, c.node, c.job) for c in plan.claims] == [(ClaimWhy.RECOVERY, spare, uid)]
    (evict,) = [m.evict for m in plan.job_moves if m.uid == other]
    assert evict is not None
    assert evict.for_job == uid
    assert evict.then is J.PENDING
    assert [p.state for p in world.live_pods(other)] == [P.TERMINATING]
    assert world.jobs[uid].state is J.RECOVERING
    assert "when those who use them have left" in world.jobs[uid].message
    settle(world, 11.0)
    assert places(world, uid)[0][0] == spare
    assert world.jobs[uid].state is J.RUNNING
    assert world.jobs[other].state is J.PENDING
    assert not kept_for(world, uid)


def test_a_borrower_stays_where_the_lost_member_has_another_spare() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=3))
    uid = lender(world, spares=2)
    other = submit(world, gang(8), "other")
    settle(world)
    lent = job_nodes(world, other)[0]
    assert lent in spares_of(world, uid)
    world.put_node(places(world, uid)[0][0], GONE)
    settle(world, 10.0)
    assert job_nodes(world, other) == [lent]
    assert world.jobs[uid].state is J.RUNNING
    assert spares_of(world, uid) == [lent]


def test_a_borrower_stays_when_the_job_that_it_borrowed_from_ends() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=2))
    uid = lender(world)
    other = submit(world, gang(8), "other")
    settle(world)
    report_all(world, uid, P.SUCCEEDED, 0)
    settle(world, 10.0)
    assert len(running(world, other)) == 1
    assert not world.claims


def test_a_drain_calls_no_spare_back() -> None:
    """A move for people's sake costs no other gang its place."""
    world = World(make_cluster(racks=1, nodes_per_rack=2))
    uid = lender(world)
    other = submit(world, gang(8), "other")
    settle(world)
    world.put_node(places(world, uid)[0][0], NodeStanding(drain=Drain()))
    settle(world, 10.0)
    assert len(running(world, other)) == 1
    assert len(running(world, uid)) == 1


def test_only_members_above_the_minimum_leave_where_that_is_enough() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=3))
    uid = lender(world)
    (spare,) = spares_of(world, uid)
    spec = JobSpec(name="w", roles=(Role("w", replicas=2, min=1, gpus=8),))
    other = submit(world, spec, "other")
    settle(world)
    # The member above the minimum does not borrow; as a whole gang of two it does.
    assert len(running(world, other)) == 1
    whole = submit(world, gang(8), "whole")
    settle(world)
    assert job_nodes(world, whole) == [spare]


def test_a_borrower_that_crashes_starts_anew_where_it_was() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=2))
    uid = lender(world)
    other = submit(world, gang(8, failure=Failure(max_restarts=3)), "other")
    settle(world)
    (pod,) = running(world, other)
    report(world, pod, P.FAILED, 1)
    settle(world, 10.0)
    (again,) = running(world, other)
    assert (again.node, again.attempt) == (pod.node, 2)
    assert spares_of(world, uid) == [pod.node]


def test_a_spare_that_is_lent_counts_only_for_whom_it_is_kept() -> None:
    """Another gang in recovery has no right to call it back."""
    world = World(make_cluster(racks=1, nodes_per_rack=3))
    uid = lender(world)
    (spare,) = spares_of(world, uid)
    victim = submit(world, gang(8, failure=Failure(Scope.POD)), "victim")
    borrower = submit(world, gang(8), "borrower")
    settle(world)
    assert job_nodes(world, borrower) == [spare]
    world.put_node(job_nodes(world, victim)[0], GONE)
    settle(world, 10.0)
    assert job_nodes(world, borrower) == [spare]
    assert world.jobs[victim].state is J.RECOVERING


def test_nothing_is_lent_while_its_gang_is_in_recovery() -> None:
    world = World(make_cluster(racks=2, nodes_per_rack=2))
    uid = lender(world, members=2)
    spare = spares_of(world, uid)
    policy = Policy()
    for node, _ in places(world, uid).values():
        world.put_node(node, replace(GONE, since_s=9.0))
    # The breaker holds it: two of four nodes failed at once.
    settle(world, 10.0, policy)
    assert world.jobs[uid].state is J.RECOVERING
    others = [submit(world, gang(8), f"o{i}") for i in range(2)]
    settle(world, 11.0, policy)
    used = {node for other in others for node in job_nodes(world, other)}
    assert not used & set(spare)


def pools(world: World) -> dict[str, str]:
    """Node -> domain of what is kept for gangs in recovery."""
    return {c.node: c.window for c in world.claims.values() if c.why is ClaimWhy.POOL}


def with_pool(**levels: int) -> Policy:
    return Policy(breaker_share=1.0, spare_pool=levels)


def test_a_pool_is_claims_of_its_domain_and_follows_the_policy() -> None:
    world = World(make_cluster(racks=2, nodes_per_rack=3))
    settle(world, policy=with_pool(rack=1, leaf=2))
    # What is kept for a rack is kept for its leaf as well.
    assert sorted(pools(world).values()) == ["rack/r01", "rack/r02"]
    settle(world, policy=with_pool(rack=1, leaf=3))
    assert sorted(v.partition("/")[0] for v in pools(world).values()) == ["leaf", "rack", "rack"]
    settle(world, policy=with_pool(rack=1))
    assert sorted(pools(world).values()) == ["rack/r01", "rack/r02"]
    (node, *_) = sorted(pools(world))
    world.put_node(node, NodeStanding(cordoned=True))
    settle(world, policy=with_pool(rack=1))
    assert node not in pools(world)
    assert sorted(pools(world).values()) == ["rack/r01", "rack/r02"]
    settle(world)
    assert not world.claims


def test_a_pool_is_taken_from_what_is_free_before_new_work() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=2))
    first = submit(world, gang(8, 1, 2, preemptible=False), "first")
    policy = with_pool(rack=1)
    settle(world, policy=Policy())
    settle(world, policy=policy)
    assert not pools(world)
    later = submit(world, gang(8, preemptible=False), "later")
    report_all(world, first, P.SUCCEEDED, 0)
    settle(world, 1.0, policy)
    assert len(pools(world)) == 1
    assert len(running(world, later)) == 1


def test_nodes_of_a_window_are_in_no_pool() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=2))
    settle(world, policy=with_pool(rack=2))
    nodes = sorted(pools(world))
    world.set_windows([Window("w", (NodeId(nodes[0]),), 100.0, 200.0)])
    settle(world, policy=with_pool(rack=2))
    assert sorted(pools(world)) == nodes[1:]
    assert len([c for c in world.claims.values() if c.why is ClaimWhy.MAINTENANCE]) == 1


def test_a_pool_is_lent_and_called_back_for_a_lost_member() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=3))
    policy = with_pool(rack=1)
    spec = gang(8, 1, 2, failure=Failure(Scope.POD), preemptible=False)
    uid = submit(world, spec, "a")
    settle(world, policy=policy)
    ((node, _),) = pools(world).items()
    other = submit(world, gang(8), "other")
    settle(world, policy=policy)
    assert job_nodes(world, other) == [node]
    assert list(pools(world)) == [node]
    world.put_node(places(world, uid)[1][0], GONE)
    plan = cycle(world, policy, 10.0)
    assert [(c.why, c.node, c.job) for c in plan.claims] == [(ClaimWhy.RECOVERY, node, uid)]
    assert plan.claims_gone == (f"pool-{node}",)
    (evict,) = [m.evict for m in plan.job_moves if m.uid == other]
    assert evict is not None
    assert evict.for_job == uid
    settle(world, 11.0, policy)
    assert places(world, uid)[1][0] == node
    assert world.jobs[other].state is J.PENDING
    assert not pools(world)


def test_a_free_node_of_a_pool_is_taken_before_anybody_is_called_back() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=4))
    policy = with_pool(rack=2)
    spec = gang(8, 1, 2, failure=Failure(Scope.POD), preemptible=False)
    uid = submit(world, spec, "a")
    settle(world, policy=policy)
    other = submit(world, gang(8), "other")
    settle(world, policy=policy)
    lent = job_nodes(world, other)
    world.put_node(places(world, uid)[1][0], GONE)
    settle(world, 10.0, policy)
    assert job_nodes(world, other) == lent
    assert places(world, uid)[1][0] not in lent
    assert world.jobs[uid].state is J.RUNNING
