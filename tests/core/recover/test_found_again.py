"""Members that were lost with their nodes, and are found there again."""

import pytest

from scheduler.cluster.world import World
from scheduler.model.ids import JobId, NodeId, PodId
from scheduler.model.job import Failure, Mode, Parts, Role, Rule, Scope
from scheduler.model.lifecycle import JobState, PodState
from scheduler.model.plan import PodRecord
from scheduler.recover.beside import keeps_rules
from tests.builders import make_cluster
from tests.core.gangs import cycle, gang, job_nodes, report, role_gang, submit
from tests.core.recover.lives import AGENT, EVERYBODY, SILENT, places, running, settle

RACK = (Rule("job", "rack", Mode.REQUIRED),)
OF_ROLE = (Rule("m", "rack", Mode.REQUIRED),)


def lost_and_found(role: Role, rules: tuple[Rule, ...] = ()) -> tuple[World, JobId]:
    """A gang of two nodes, both silent; what it needs started elsewhere, and the other is back."""
    world = World(make_cluster(racks=2, nodes_per_rack=2))
    for name in ("n001", "n002", "n003", "n004"):
        world.put_node(name, AGENT)
    uid = submit(world, role_gang(role, rules=rules, failure=Failure(Scope.POD, hold_s=60.0)), "j")
    settle(world)
    first, second = job_nodes(world, uid)
    assert {first, second} == {"n001", "n002"}
    submit(world, role_gang(Role("fill", 1, 1, gpus=8), nodes=("n004",)), "fill")
    settle(world)
    world.put_node(second, SILENT)
    settle(world, 10.0)
    world.put_node(first, SILENT)
    settle(world, 20.0)
    settle(world, 200.0)
    assert [p.node for p in running(world, uid)] == ["n003"]
    world.put_node(second, AGENT)
    (lost,) = [p for p in world.live_pods(uid) if p.node == second]
    assert lost.state is PodState.LOST
    report(world, lost, PodState.RUNNING)
    settle(world, 210.0)
    return world, uid


@pytest.mark.parametrize("rules", [RACK, OF_ROLE])
def test_member_that_may_not_be_beside_the_others_any_more_is_told_to_stop(
    rules: tuple[Rule, ...],
) -> None:
    world, uid = lost_and_found(Role("m", 2, 1, gpus=8), rules)
    assert [p.node for p in running(world, uid)] == ["n003"]
    assert "n002" not in {p.node for p in world.live_pods(uid)}


def test_member_of_a_role_whose_own_rule_it_would_break_is_told_to_stop() -> None:
    world, uid = lost_and_found(Role("m", 2, 1, gpus=8, rules=OF_ROLE))
    assert [p.node for p in running(world, uid)] == ["n003"]


PARTS = Parts(size=1, count=2, min=1, rules=(Rule("m", "rack", Mode.REQUIRED),))
PREFERRED = (Rule("job", "rack", Mode.PREFERRED),)
BLOCK = (Rule("job", "block", Mode.REQUIRED),)


@pytest.mark.parametrize(
    ("role", "rules", "holds"),
    [
        (Role("m", 2, 1), (), True),
        (Role("m", 2, 1), PREFERRED, True),
        (Role("m", 2, 1), BLOCK, True),
        (Role("m", 2, 1), RACK, False),
        (Role("m", 2, 1, parts=PARTS), (), True),
        (Role("m", 2, 1, parts=Parts(2, 1, 1, PARTS.rules)), (), False),
    ],
    ids=["no rule", "preferred", "wider", "job", "another part", "same part"],
)
def test_only_a_required_rule_about_both_keeps_them_together(
    role: Role, rules: tuple[Rule, ...], *, holds: bool
) -> None:
    world = World(make_cluster(racks=2, nodes_per_rack=1))
    spec = role_gang(role, rules=rules)
    first, second = (
        PodRecord(
            uid=PodId(f"u{index}"),
            job=JobId("j"),
            name=f"j-m-{index}",
            role="m",
            index=index,
            node=NodeId(f"n00{index + 1}"),
            gpu_mask=1,
            first_rank=index,
            state=PodState.RUNNING,
            attempt=1,
        )
        for index in range(2)
    )
    assert keeps_rules(spec, first, [second], world.topology) is holds
    assert keeps_rules(spec, first, [], world.topology)


@pytest.mark.parametrize("scope", list(Scope))
def test_member_that_is_found_while_a_place_is_made_for_it_needs_none(scope: Scope) -> None:
    """It runs where it was: nobody leaves for it, and nobody gets its GPUs."""
    world = World(make_cluster(racks=1, nodes_per_rack=3))
    for name in ("n001", "n002", "n003"):
        world.put_node(name, AGENT)
    gang_of_two = gang(8, 1, 2, failure=Failure(scope, hold_s=600.0))
    uid = submit(world, gang_of_two, "j", priority=5)
    settle(world)
    before = places(world, uid)
    low = submit(world, gang(8, grace_s=60.0), "low")
    settle(world)
    lost = before[1][0]
    world.put_node(lost, SILENT)
    settle(world, 10.0)
    assert world.jobs[low].evict is not None
    world.put_node(lost, AGENT)
    (found,) = [p for p in world.live_pods(uid) if p.node == lost]
    report(world, found, PodState.RUNNING)
    settle(world, 20.0)
    assert places(world, uid) == before
    assert world.jobs[uid].state is JobState.RUNNING
    assert world.jobs[low].evict is None
    assert [p.attempt for p in running(world, low)] == [1]


def test_member_that_is_found_stays_though_others_get_places_that_were_kept_for_all() -> None:
    """Two of three nodes are silent, and the gang that has places for both gets one back."""
    world = World(make_cluster(racks=1, nodes_per_rack=5))
    for number in range(1, 6):
        world.put_node(f"n00{number}", AGENT)
    uid = submit(world, gang(8, 1, 3, failure=Failure(Scope.POD, hold_s=600.0)), "j", priority=5)
    settle(world)
    before = places(world, uid)
    lows = [submit(world, gang(8), f"low{number}") for number in range(2)]
    settle(world)
    for index in (1, 2):
        world.put_node(before[index][0], SILENT)
    for _ in range(2):  # they are told to stop, and have not done so
        cycle(world, EVERYBODY, 10.0)
    assert {job for job in lows if world.live_pods(job)[0].state is PodState.TERMINATING} == {*lows}
    back = before[1][0]
    world.put_node(back, AGENT)
    (found,) = [p for p in world.live_pods(uid) if p.node == back]
    report(world, found, PodState.RUNNING)
    settle(world, 20.0)
    after = places(world, uid)
    assert [after[0], after[1]] == [before[0], before[1]]
    assert after[2] != before[2]
    assert sorted(p.attempt for p in running(world, uid)) == [1, 1, 2]
