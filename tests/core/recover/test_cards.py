"""A lost member comes back beside the others, and a node that blinks keeps its work."""

from scheduler.cluster.world import World
from scheduler.model.job import Failure, Scope
from scheduler.model.lifecycle import JobState, PodState
from scheduler.model.node import Health
from scheduler.model.standing import PLAIN, NodeStanding
from tests.builders import make_cluster
from tests.core.gangs import job_nodes, report, report_all, required, role, role_gang, submit
from tests.core.recover.lives import AGENT, GONE, running, settle

J, P = JobState, PodState


def test_a_lost_member_comes_back_where_the_others_are() -> None:
    world = World(make_cluster(racks=2, nodes_per_rack=5))
    spec = role_gang(
        role("member", 4, one_per_node=True),
        rules=(required("job", "rack"),),
        failure=Failure(Scope.POD_ELSE_GANG),
    )
    uid = submit(world, spec, "j")
    settle(world)
    assert job_nodes(world, uid) == ["n001", "n002", "n003", "n004"]
    before = {p.uid: p for p in running(world, uid)}

    world.put_node("n003", GONE)
    settle(world, 10.0)
    now = running(world, uid)
    assert sorted(p.node for p in now) == ["n001", "n002", "n004", "n005"]
    assert sum(before[p.uid] == p for p in now) == 3
    assert world.jobs[uid].state is J.RUNNING

    world.put_node("n004", GONE)
    settle(world, 20.0)
    nodes = job_nodes(world, uid)
    assert len(nodes) == 4
    assert set(nodes) <= {f"n{i:03d}" for i in range(6, 11)}
    assert world.jobs[uid].state is J.RUNNING

    held = running(world, uid)
    for name in ("n003", "n004"):
        world.put_node(name, PLAIN)
    settle(world, 30.0)
    assert running(world, uid) == held


def test_a_node_that_blinks_keeps_its_work() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=3))
    for name in ("n001", "n002", "n003"):
        world.put_node(name, AGENT)
    spec = role_gang(role("member", 2, one_per_node=True), failure=Failure(Scope.POD))
    uid = submit(world, spec, "j")
    settle(world)
    world.put_node("n002", NodeStanding(Health.SUSPECT, 30.0, has_agent=True))
    before = running(world, uid)
    settle(world, 60.0)
    assert running(world, uid) == before
    other = submit(world, role_gang(role("member", 1)), "k")
    settle(world, 60.0)
    assert job_nodes(world, other) == ["n003"]
    world.put_node("n002", AGENT)
    settle(world, 90.0)
    assert running(world, uid) == before

    world.put_node("n002", NodeStanding(Health.LOST, 400.0, "its agent is silent", has_agent=True))
    settle(world, 490.0)
    job = world.jobs[uid]
    assert job.state is J.RECOVERING
    assert "1 of 2" in job.message
    assert "n002" in job.message
    assert [p.state for p in world.live_pods(uid)] == [P.RUNNING, P.LOST]
    assert job.hold_until_s == 490.0 + 600.0
    assert job_nodes(world, other) == ["n003"]

    world.put_node("n002", AGENT)
    report(world, world.live_pods(uid)[1], P.RUNNING)
    settle(world, 500.0)
    job = world.jobs[uid]
    assert (job.state, job.hold_until_s, job.message) == (J.RUNNING, None, "")
    assert running(world, uid) == before
    report_all(world, uid, P.SUCCEEDED, 0)
    settle(world, 510.0)
    assert uid not in world.jobs
