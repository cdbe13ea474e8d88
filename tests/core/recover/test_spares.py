"""Spares: which nodes are kept, who gets them, and how many there should be."""

from math import exp, factorial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.cluster.world import World
from scheduler.model.claim import ClaimWhy
from scheduler.model.ids import JobId
from scheduler.model.job import Failure, Scope
from scheduler.model.lifecycle import JobState, PodState
from scheduler.model.standing import NodeStanding
from scheduler.policy import Policy
from scheduler.recover.spares import mean_away, poisson_quantile, rate_of, spares_needed
from tests.builders import make_cluster
from tests.core.gangs import gang, job_nodes, report_all, required, submit
from tests.core.recover.lives import GONE, places, running, settle

J, P = JobState, PodState


def spares(world: World, uid: JobId) -> list[str]:
    return sorted(c.node for c in world.claims_of(uid) if c.why is ClaimWhy.SPARE)


def leaf_of(world: World, node: str) -> int:
    topology = world.topology
    return topology.place[topology.level_index["leaf"]][topology.node_index[node]]


def test_spares_are_kept_in_the_leaf_of_the_gang_and_used_first() -> None:
    world = World(make_cluster(racks=2, nodes_per_rack=4, leaves=2))
    uid = submit(world, gang(8, 1, 2, spares=1, failure=Failure(Scope.POD)), "a")
    settle(world)
    (spare,) = spares(world, uid)
    before = places(world, uid)
    assert leaf_of(world, spare) == leaf_of(world, before[0][0])
    other = submit(world, gang(8, 1, 14, preemptible=False), "other")
    settle(world)
    assert world.jobs[other].state is J.PENDING
    world.put_node(before[1][0], GONE)
    settle(world, 10.0)
    assert job_nodes(world, uid)[1] == spare
    # It takes another one at once, as there is one.
    assert len(spares(world, uid)) == 1
    assert spares(world, uid) != [spare]


def test_a_spare_is_kept_as_soon_as_a_node_is_free() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=2))
    first = submit(world, gang(8), "first")
    uid = submit(world, gang(8, spares=1), "a")
    settle(world)
    assert spares(world, uid) == []
    report_all(world, first, P.SUCCEEDED, 0)
    settle(world, 10.0)
    assert len(spares(world, uid)) == 1
    waits = submit(world, gang(8, preemptible=False), "waits")
    settle(world, 20.0)
    assert not running(world, waits)


def test_spares_end_with_their_gang_and_with_their_node() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=3))
    uid = submit(world, gang(8, spares=1), "a")
    settle(world)
    (spare,) = spares(world, uid)
    world.put_node(spare, NodeStanding(cordoned=True))
    settle(world, 10.0)
    assert spares(world, uid) != [spare]
    assert len(spares(world, uid)) == 1
    report_all(world, uid, P.SUCCEEDED, 0)
    settle(world, 20.0)
    assert not world.claims


def test_a_gang_that_goes_elsewhere_has_its_spares_there() -> None:
    world = World(make_cluster(racks=2, nodes_per_rack=3))
    spec = gang(8, 1, 2, required("job", "rack"), spares=1, failure=Failure(Scope.POD_ELSE_GANG))
    uid = submit(world, spec, "a")
    settle(world)
    for node in (job_nodes(world, uid)[0], spares(world, uid)[0]):
        world.put_node(node, GONE)
    settle(world, 10.0)
    nodes = {*job_nodes(world, uid), *spares(world, uid)}
    assert len(nodes) == 3
    index = world.topology.node_index
    rack = world.topology.place[world.topology.level_index["rack"]]
    assert len({rack[index[node]] for node in nodes}) == 1


@given(st.floats(0.01, 60.0), st.sampled_from([0.5, 0.9, 0.99, 0.999]))
def test_the_quantile_is_the_smallest_number_that_is_enough(mean: float, share: float) -> None:
    found = poisson_quantile(mean, share)
    upto = [
        exp(-mean) * sum(mean**k / factorial(k) for k in range(n + 1)) for n in (found - 1, found)
    ]
    assert upto[1] >= share - 1e-9
    assert found == 0 or upto[0] < share + 1e-9


def test_the_need_follows_from_rate_and_repair_time() -> None:
    # 2,048 nodes, 419 faults in 54 days, 4 hours to repair each: 1.29 away on average.
    rate = rate_of(419, 2_048, 54 * 86_400.0)
    assert mean_away(2_048, rate, 4 * 3_600.0) == pytest.approx(1.293, abs=0.001)
    assert spares_needed(2_048, rate, 4 * 3_600.0) == 5
    assert spares_needed(0, rate, 3_600.0) == 0
    assert abs(poisson_quantile(600.0, 0.99) - 658) <= 1


def test_the_pool_of_a_domain_is_for_lost_members_alone() -> None:
    world = World(make_cluster(racks=2, nodes_per_rack=3))
    policy = Policy(breaker_share=1.0, spare_pool={"rack": 1})
    uid = submit(world, gang(8, 1, 2, failure=Failure(Scope.POD)), "a")
    settle(world, 0.0, policy)
    others = [submit(world, gang(8, preemptible=False), f"o{i}") for i in range(4)]
    settle(world, 0.0, policy)
    assert sum(len(running(world, other)) for other in others) == 2
    waiting = next(o for o in others if not running(world, o))
    assert "kept for gangs in recovery" in world.jobs[waiting].message
    node = job_nodes(world, uid)[0]
    world.put_node(node, GONE)
    settle(world, 10.0, policy)
    assert len(running(world, uid)) == 2
    assert sum(len(running(world, other)) for other in others) == 2
    assert all(reason is None or reason == "lost" for reason in world.table.aside)
