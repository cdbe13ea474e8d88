"""Limits and shares as whole cycles keep them."""

import random
from dataclasses import replace

import pytest

from scheduler.cluster.world import World
from scheduler.model.ids import JobId
from scheduler.model.lifecycle import JobState, PodState, Reason
from scheduler.model.queue import QueueRecord
from scheduler.order.tree import chain
from scheduler.policy import Policy
from tests.core.gangs import cycle, report_all, role, role_gang, submit
from tests.core.order.lines import queue, world_with

TREE = (
    queue("org", limit_gpus=44),
    queue("team", "org", limit_gpus=24, quota_gpus=16),
    queue("a", "team", limit_gpus=20, quota_gpus=8),
    queue("b", "team", limit_by_model={"H100-80GB": 12}),
    queue("c", "org", weight=2.0),
    queue("free", quota_gpus=8),
)
LEAVES = ("a", "b", "c", "free")


def used(world: World, tree: dict[str, QueueRecord], name: str) -> int:
    """GPUs that live pods of a queue and of all below it hold, counted anew."""
    return sum(
        pod.gpu_mask.bit_count()
        for uid, pods in world.pods.items()
        for pod in pods.values()
        if pod.is_live and name in [q.name for q in chain(world.jobs[uid].spec.queue, tree)]
    )


def check(world: World) -> None:
    tree = dict(world.queues)
    for name, stated in tree.items():
        held = used(world, tree, name)
        assert held == world.accounts.total[name].gpus
        assert stated.limit_gpus is None or held <= stated.limit_gpus
        assert held <= stated.limit_by_model.get("H100-80GB", held)
    for found in world.jobs.values():
        if found.state is JobState.PENDING and found.reason is Reason.LIMIT:
            above = [
                q for q in chain(found.spec.queue, tree) if f"queue '{q.name}'" in found.message
            ]
            assert [q for q in above if q.limit_gpus is not None or q.limit_by_model]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("order", ["fair_share", "shortest_first"])
def test_no_limit_is_passed_whatever_comes_and_goes(seed: int, order: str) -> None:
    """Rigid and elastic gangs of four queues, of several priorities, come, end and fail."""
    chance = random.Random(seed)
    world = world_with(*TREE)
    policy = Policy(order=order)
    for step in range(60):
        if chance.random() < 0.7:
            replicas = chance.randint(1, 5)
            member = role(
                "m", replicas, chance.choice((1, 2, 4, 8)), min=chance.randint(1, replicas)
            )
            spec = replace(
                role_gang(member),
                queue=chance.choice(LEAVES),
                duration_s=chance.choice((None, 60.0, 6_000.0)),
            )
            submit(world, spec, f"j{step}", age=step + 1, priority=chance.choice((0, 0, 5)))
        live = sorted(uid for uid in world.jobs if world.live_pods(uid))
        if live and chance.random() < 0.5:
            report_all(world, JobId(chance.choice(live)), PodState.SUCCEEDED, 0)
        if chance.random() < 0.1:
            world.set_queues(
                replace(q, limit_gpus=q.limit_gpus and q.limit_gpus + chance.choice((0, 8)))
                for q in world.queues.values()
            )
        cycle(world, policy, float(step))
        check(world)
        for uid in sorted(world.jobs):
            for pod in world.live_pods(uid):
                if pod.state is PodState.TERMINATING:
                    report_all(world, uid, PodState.STOPPED)
                    break
    assert world.accounts.total["org"].gpus > 0


def test_queue_that_is_closed_keeps_what_runs_and_starts_nothing() -> None:
    world = world_with(queue("q"))
    first = submit(world, replace(role_gang(role()), queue="q"), "first")
    cycle(world)
    world.set_queues([queue("q", closed=True)])
    second = submit(world, replace(role_gang(role()), queue="q"), "second")
    cycle(world)
    assert world.jobs[first].state is JobState.BOUND
    waits = world.jobs[second]
    assert (waits.state, waits.reason) == (JobState.PENDING, Reason.CLOSED)
    assert "queue 'q' is closed" in waits.message
    world.set_queues([queue("q")])
    cycle(world)
    assert world.jobs[second].state is JobState.BOUND


def test_elastic_gang_grows_no_further_than_its_queue_may() -> None:
    world = world_with(queue("q", limit_gpus=20))
    uid = submit(world, replace(role_gang(role("m", 8, 4, min=2)), queue="q"), "j")
    cycle(world)
    assert len(world.live_pods(uid)) == 5
    world.set_queues([queue("q", limit_gpus=24)])
    cycle(world)
    assert len(world.live_pods(uid)) == 6


def test_queues_share_a_full_cluster_by_weight_over_time() -> None:
    """64 GPUs; queues of weight 1 and 3 with more gangs than fit, each of one node; gangs end one
    after the other, oldest first. From the first full cluster on, 16 and 48."""
    world = world_with(queue("a"), queue("b", weight=3.0))
    for index in range(64):
        for name in "ab":
            spec = replace(role_gang(role()), queue=name)
            submit(world, spec, f"{name}{index:02d}", age=2 * index + (name == "b"))
    cycle(world)
    for _ in range(40):
        oldest = min(
            (j for j in world.jobs.values() if world.live_pods(j.uid)), key=lambda j: j.age
        )
        report_all(world, oldest.uid, PodState.SUCCEEDED, 0)
        cycle(world)
        assert (world.accounts.total["a"].gpus, world.accounts.total["b"].gpus) == (16, 48)


def test_gang_that_a_queue_can_never_hold_says_so_and_holds_up_nobody() -> None:
    world = world_with(queue("q", limit_gpus=8))
    large = submit(world, replace(role_gang(role("m", 2)), queue="q"), "large", priority=9)
    small = submit(world, replace(role_gang(role("m", 1)), queue="q"), "small")
    plan = cycle(world)
    assert world.jobs[small].state is JobState.BOUND
    (move,) = [move for move in plan.job_moves if move.uid == large]
    assert move.reason is Reason.LIMIT
    assert move.verdict is not None
    assert move.verdict.never
    assert "queue 'q' has a limit_gpus of 8; the job wants 16 GPUs" in move.message


def test_queue_gets_its_quota_although_its_sibling_fills_the_limit_of_both() -> None:
    """The team may have 16 GPUs, 8 for each queue; 'a' has borrowed the 8 of 'b'."""
    tree = (
        queue("team", limit_gpus=16, quota_gpus=16),
        queue("a", "team", quota_gpus=8),
        queue("b", "team", quota_gpus=8),
        queue("other"),
    )
    world = world_with(*tree)
    elsewhere = submit(world, replace(role_gang(role()), queue="other"), "elsewhere")
    first = submit(world, replace(role_gang(role()), queue="a"), "first")
    second = submit(world, replace(role_gang(role()), queue="a"), "second")
    cycle(world)
    assert world.accounts.total["team"].gpus == 16
    owed = submit(world, replace(role_gang(role()), queue="b"), "owed")
    cycle(world)
    assert world.jobs[owed].state is JobState.RESERVED
    assert world.accounts.total["team"].gpus == 16
    leaving = [uid for uid in (first, second) if world.jobs[uid].state is JobState.EVICTING]
    assert len(leaving) == 1
    report_all(world, leaving[0], PodState.STOPPED)
    cycle(world)
    assert world.jobs[owed].state is JobState.BOUND
    assert world.accounts.total["team"].gpus == 16
    assert world.jobs[elsewhere].state is JobState.BOUND


def test_nobody_leaves_for_a_job_that_borrows_under_a_full_limit() -> None:
    world = world_with(queue("team", limit_gpus=16), queue("a", "team"), queue("b", "team"))
    for name in ("first", "second"):
        submit(world, replace(role_gang(role()), queue="a"), name)
    cycle(world)
    waits = submit(world, replace(role_gang(role()), queue="b"), "waits")
    cycle(world)
    assert world.jobs[waits].reason is Reason.LIMIT
    assert all(j.state is not JobState.EVICTING for j in world.jobs.values())


def test_job_of_higher_priority_takes_its_place_in_a_queue_that_is_full() -> None:
    world = world_with(queue("q", limit_gpus=8))
    low = submit(world, replace(role_gang(role()), queue="q"), "low")
    cycle(world)
    high = submit(world, replace(role_gang(role()), queue="q"), "high", priority=5)
    cycle(world)
    assert (world.jobs[high].state, world.jobs[low].state) == (
        JobState.RESERVED,
        JobState.EVICTING,
    )
    assert world.accounts.total["q"].gpus == 8
    report_all(world, low, PodState.STOPPED)
    cycle(world)
    assert (world.jobs[high].state, world.jobs[low].state) == (JobState.BOUND, JobState.PENDING)
    assert world.accounts.total["q"].gpus == 8
