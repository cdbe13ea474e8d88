"""Copies of a world, and what would happen in them."""

import random
from dataclasses import replace

import pytest

from scheduler.cluster.world import World
from scheduler.cycle import run_cycle
from scheduler.explain.maps import with_nodes
from scheduler.explain.twin import twin
from scheduler.explain.whatif import (
    CYCLES_MAX,
    Consequences,
    Gpus,
    Supposed,
    gpus_of,
    new_job,
    play,
    standing,
    suppose,
)
from scheduler.model.ids import JobId, NodeId
from scheduler.model.job import JobSpec
from scheduler.model.lifecycle import JobState
from scheduler.model.plan import Plan
from scheduler.model.queue import QueueRecord
from scheduler.policy import Policy
from tests.builders import make_cluster, make_node, make_type
from tests.core.explain.yards import random_gang, random_world, stop
from tests.core.gangs import cancel, cycle, gang, job_nodes, submit

NOW_S = 60.0


def decide(world: World, now_s: float) -> Plan:
    return run_cycle(world, Policy(), now_s)


def if_so(world: World, supposed: Supposed) -> Consequences:
    before = standing(world)
    other = suppose(world, supposed, NOW_S)
    return play(before, other, len(supposed.jobs), decide, NOW_S)


def picture(world: World) -> tuple[object, ...]:
    """All of a world that decides anything."""
    table = world.table
    return (
        list(table.free),
        list(table.aside),
        dict(table.claimed),
        dict(world.jobs),
        {uid: dict(mine) for uid, mine in world.pods.items()},
        dict(world.claims),
        list(world.facts),
        dict(world.queues),
        {name: (a.gpus, dict(a.by_model)) for name, a in world.accounts.total.items()},
    )


def effects(found: Consequences) -> dict[str, str]:
    return {o.before.spec.name: o.effect for o in found.others if o.before is not None}


@pytest.mark.parametrize("seed", range(8))
def test_copy_is_like_the_world_and_decides_alike(seed: int) -> None:
    world = random_world(random.Random(seed))
    submit(world, gang(8, dp=3), "next")
    other = twin(world)
    assert picture(other) == picture(world)
    assert decide(other, NOW_S) == decide(world, NOW_S)


@pytest.mark.parametrize("seed", range(8))
def test_what_happens_in_a_copy_happens_for_real_and_leaves_the_world_alone(seed: int) -> None:
    chance = random.Random(100 + seed)
    world = random_world(chance)
    specs = tuple(replace(random_gang(chance), name=f"new-{n}") for n in range(3))
    ending = tuple(sorted(world.jobs))[:1]
    before = picture(world)
    found = if_so(world, Supposed(jobs=specs, cancelled=ending))
    assert picture(world) == before
    for uid in ending:
        cancel(world, uid)
    real = [submit(world, spec, f"real-{n}", age=10_000 + n) for n, spec in enumerate(specs)]
    for number, uid in enumerate(real):
        world.put_job(replace(world.jobs[uid], spec=specs[number], submitted_s=NOW_S))
    for _ in range(found.cycles):
        cycle(world, now_s=NOW_S)
        stop(world)
    for outcome, uid in zip(found.jobs, real, strict=True):
        there = [(pod.role, pod.index, pod.node, pod.gpu_mask) for pod in world.live_pods(uid)]
        assert [(p.role, p.index, p.node, p.gpu_mask) for p in outcome.pods] == there


def test_lost_nodes_restart_their_gangs_elsewhere_or_leave_them_recovering() -> None:
    world = World(make_cluster(racks=2, nodes_per_rack=2))
    moved, stopped = (
        submit(world, spec, name) for spec, name in ((gang(8), "moved"), (gang(8, dp=2), "stopped"))
    )
    cycle(world)
    lost = frozenset(map(NodeId, (*job_nodes(world, moved), *job_nodes(world, stopped)[:1])))
    found = if_so(world, Supposed(aside=dict.fromkeys(lost, "lost"), emptied=lost))
    assert effects(found) == {"moved": "moved", "stopped": "recovering"}
    assert found.settled
    assert gpus_of(found.world) == Gpus(total=32, used=16, free=0)


def test_preempted_gangs_are_told_as_stopped_once_their_pods_have() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=2))
    submit(world, gang(8, dp=2), "low")
    cycle(world)
    found = if_so(world, Supposed(jobs=(gang(8, dp=2, priority=9),)))
    assert found.jobs[0].effect == "started"
    assert effects(found) == {"low": "stopped"}
    assert found.settled


def test_higher_priority_and_other_limits_let_a_gang_start() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=2))
    world.set_queues([QueueRecord("q", limit_gpus=8)])
    uid = submit(world, gang(8, dp=2, queue="q"), "waits")
    cycle(world)
    assert effects(if_so(world, Supposed(priorities={uid: 9}))) == {}
    raised = (QueueRecord("q", limit_gpus=16),)
    assert effects(if_so(world, Supposed(queues=raised))) == {"waits": "started"}


def test_job_that_ends_is_told_as_ended() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=2))
    uid = submit(world, gang(8), "old")
    cycle(world)
    assert effects(if_so(world, Supposed(finished=(uid,)))) == {"old": "ended"}
    assert effects(if_so(world, Supposed(cancelled=(uid,)))) == {"old": "ended"}


def test_map_with_other_nodes_keeps_what_is_used_where_it_is() -> None:
    world = World(make_cluster(racks=2, nodes_per_rack=2))
    uid = submit(world, gang(8, nodes=("n001",)), "old")
    cycle(world)
    kind = make_type()
    built = with_nodes(
        world.topology,
        [make_node("n900", kind, rack="r09", leaf="l1", block="b1")],
        {kind.name: kind},
        frozenset({"n004"}),
    )
    found = if_so(world, Supposed(jobs=(gang(8, dp=3),), topology=built.topology))
    assert job_nodes(found.world, uid) == ["n001"]
    assert {pod.node for pod in found.jobs[0].pods} == {"n002", "n003", "n900"}
    assert found.jobs[0].after is not None


def test_copy_that_does_not_come_to_rest_is_left_after_some_cycles() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=1))
    other = suppose(world, Supposed(jobs=(gang(8),)), NOW_S)
    calls = []

    def restless(inner: World, now_s: float) -> Plan:
        """A cycle that never takes account of a fact."""
        calls.append(now_s)
        plan = run_cycle(inner, Policy(), now_s)
        return replace(plan, facts_done=())

    cancel(other, new_job(0))
    found = play(standing(world), other, 1, restless, NOW_S)
    assert (found.cycles, found.settled) == (CYCLES_MAX, False)
    assert len(calls) == CYCLES_MAX


def test_uids_of_supposed_jobs_are_none_that_a_service_gives() -> None:
    assert "/" in new_job(3)
    assert JobId("whatif/3") == new_job(3)


def test_gpus_are_counted_by_use_whatever_is_claimed() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=2))
    low = submit(world, gang(8, dp=2), "low")
    cycle(world)
    submit(world, gang(8, dp=2), "high", priority=9)
    cycle(world)
    assert world.jobs[low].state is JobState.EVICTING
    assert gpus_of(world) == Gpus(total=16, used=16, free=0)


def test_the_same_question_has_the_same_answer() -> None:
    world = random_world(random.Random(5))
    spec: JobSpec = gang(8, dp=4, priority=9)
    first, again = (if_so(world, Supposed(jobs=(spec,))) for _ in range(2))
    assert first.jobs == again.jobs
    assert first.others == again.others
