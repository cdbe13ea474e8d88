"""Who makes way for lost members: the gang's own members above its minimum, then other gangs."""

from scheduler.cluster.world import World
from scheduler.model.claim import ClaimWhy
from scheduler.model.job import Failure, Scope
from scheduler.model.lifecycle import JobState, PodState
from scheduler.model.plan import EvictStep, FactKind
from tests.builders import make_cluster
from tests.core.gangs import cancel, cycle, gang, job_nodes, required, role, role_gang, submit, tell
from tests.core.recover.lives import EVERYBODY, GONE, places, running, settle

J, P = JobState, PodState


def test_lost_members_take_the_place_of_a_gang_of_lower_priority() -> None:
    world = World(make_cluster(racks=2, nodes_per_rack=2))
    spec = gang(8, 1, 2, required("job", "rack"), failure=Failure(Scope.POD))
    uid = submit(world, spec, "a", priority=5)
    settle(world)
    node = places(world, uid)[1][0]
    lows = [submit(world, gang(8), f"low{i}") for i in range(2)]
    settle(world)
    assert all(len(running(world, low)) == 1 for low in lows)
    world.put_node(node, GONE)
    settle(world, 10.0)
    # Both are in the other rack, where its rule does not let the gang go.
    assert world.jobs[uid].state is J.RECOVERING
    assert all(len(running(world, low)) == 1 for low in lows)

    world = World(make_cluster(racks=1, nodes_per_rack=3))
    uid = submit(world, spec, "a", priority=5)
    settle(world)
    kept, node = (places(world, uid)[i][0] for i in (0, 1))
    low = submit(world, gang(8, grace_s=60.0), "low")
    settle(world)
    (theirs,) = job_nodes(world, low)
    world.put_node(node, GONE)
    plan = cycle(world, EVERYBODY, 10.0)
    evict = world.jobs[low].evict
    assert evict is not None
    assert (evict.for_job, evict.step) == (uid, EvictStep.ASKED)
    assert [(c.why, c.node) for c in plan.claims] == [(ClaimWhy.RECOVERY, theirs)]
    assert "has places for the others when other jobs have made way" in world.jobs[uid].message
    settle(world, 20.0)
    assert world.jobs[uid].state is J.RECOVERING
    tell_saved(world)
    settle(world, 30.0)
    assert job_nodes(world, uid) == [kept, theirs]
    assert world.jobs[uid].state is J.RUNNING
    assert world.jobs[low].state is J.PENDING


def tell_saved(world: World) -> None:
    for job in list(world.jobs.values()):
        if job.evict is not None:
            tell(world, FactKind.CHECKPOINT, job.uid, job.evict.request_id)


def test_evictions_for_lost_members_are_withdrawn_when_their_gang_goes_away() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=3))
    uid = submit(world, gang(8, 1, 2, failure=Failure(Scope.POD)), "a", priority=5)
    settle(world)
    low = submit(world, gang(8, grace_s=60.0), "low")
    settle(world)
    world.put_node(places(world, uid)[1][0], GONE)
    cycle(world, EVERYBODY, 10.0)
    assert world.jobs[low].state is J.EVICTING
    cancel(world, uid)
    cycle(world, EVERYBODY, 11.0)
    assert (world.jobs[low].state, world.jobs[low].evict) == (J.RUNNING, None)
    assert not world.claims


def test_a_gang_of_equal_priority_does_not_make_way() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=3))
    uid = submit(world, gang(8, 1, 2, failure=Failure(Scope.POD)), "a")
    settle(world)
    other = submit(world, gang(8), "other")
    settle(world)
    world.put_node(places(world, uid)[1][0], GONE)
    settle(world, 10.0)
    assert world.jobs[uid].state is J.RECOVERING
    assert len(running(world, other)) == 1


def test_own_members_above_the_minimum_make_way() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=4))
    main, more = role("main", 2, one_per_node=True), role("more", 2, min=0, one_per_node=True)
    uid = submit(world, role_gang(main, more, failure=Failure(Scope.POD)), "a")
    settle(world)
    before = {(p.role, p.index): p.node for p in world.live_pods(uid)}
    assert len(before) == 4
    world.put_node(before["main", 1], GONE)
    plan = cycle(world, EVERYBODY, 10.0)
    assert [m.uid for m in plan.pod_moves if m.state is P.TERMINATING] == ["a-more-1"]
    settle(world, 10.0)
    after = {(p.role, p.index): p.node for p in running(world, uid)}
    assert after == {
        ("main", 0): before["main", 0],
        ("main", 1): before["more", 1],
        ("more", 0): before["more", 0],
    }
    assert world.jobs[uid].state is J.RUNNING
