"""Gangs that make others leave: who yields, what is kept, and what never happens."""

from dataclasses import replace

import pytest

from scheduler.cluster.world import World
from scheduler.model.claim import ClaimWhy
from scheduler.model.ids import JobId
from scheduler.model.job import JobSpec
from scheduler.model.lifecycle import JobState, PodState
from scheduler.model.plan import Eviction, EvictStep, FactKind, Plan
from scheduler.model.queue import QueueRecord
from scheduler.policy import Policy
from tests.builders import make_cluster, make_node, make_topology
from tests.core.gangs import (
    cycle,
    gang,
    job_nodes,
    parts,
    preferred,
    report,
    report_all,
    required,
    role,
    role_gang,
    tell,
)
from tests.core.gangs import submit as submit_at_0

NOW_S = 10_000.0


def world_of(racks: int = 1, nodes: int = 4) -> World:
    return World(make_cluster(racks=racks, nodes_per_rack=nodes))


def submit(
    world: World, spec: JobSpec, name: str, age: int | None = None, priority: int = 0
) -> JobId:
    """A gang that has just begun to wait, so that it is not promised a place yet."""
    uid = submit_at_0(world, spec, name, age, priority)
    world.put_job(replace(world.jobs[uid], submitted_s=NOW_S))
    return uid


def run(
    world: World, spec: JobSpec, name: str, priority: int = 0, *, ran_s: float = 100.0
) -> JobId:
    """A gang that has run for a while."""
    uid = submit(world, spec, name, priority=priority)
    cycle(world, now_s=NOW_S - ran_s)
    report_all(world, uid, PodState.RUNNING)
    cycle(world, now_s=NOW_S - ran_s)
    assert world.jobs[uid].state is JobState.RUNNING
    return uid


def now(world: World, policy: Policy | None = None, after_s: float = 0.0) -> Plan:
    return cycle(world, policy, NOW_S + after_s)


def stop(world: World, *jobs: JobId) -> None:
    """Every pod that was told to stop has done so."""
    for uid in jobs:
        for pod in world.live_pods(uid):
            if pod.state is PodState.TERMINATING:
                report(world, pod, PodState.STOPPED)


def test_a_gang_of_higher_priority_gets_its_place_and_its_victim_leaves_in_one_plan() -> None:
    world = world_of(1, 2)
    low = run(world, gang(8, 1, 2), "low", 10)
    high = submit(world, gang(8, 1, 2), "high", priority=100)
    plan = now(world)
    assert {(m.uid, m.state) for m in plan.job_moves} == {
        (low, JobState.EVICTING),
        (high, JobState.RESERVED),
    }
    assert {m.state for m in plan.pod_moves} == {PodState.TERMINATING}
    assert [c.why for c in plan.claims] == [ClaimWhy.PREEMPTION] * 2
    assert world.jobs[low].evict == Eviction(
        JobState.PENDING,
        EvictStep.TERMINATING,
        None,
        "made way for a job of priority 100",
        high,
    )


def test_the_place_is_kept_while_victims_leave_at_different_times() -> None:
    world = world_of(1, 2)
    low = run(world, gang(8, 1, 2), "low", 10)
    high = submit(world, gang(8, 1, 2), "high", priority=100)
    now(world)
    other = submit(world, gang(8), "other", priority=50)
    report(world, world.live_pods(low)[0], PodState.STOPPED)
    now(world)
    assert world.jobs[high].state is JobState.RESERVED
    assert world.jobs[other].state is JobState.PENDING
    stop(world, low)
    plan = now(world)
    assert world.jobs[high].state is JobState.BOUND
    assert not world.claims
    assert len(plan.claims_gone) == 2
    assert world.jobs[low].state is JobState.PENDING
    assert world.jobs[low].age == 1


def test_nothing_is_decided_twice_while_victims_leave() -> None:
    world = world_of(1, 2)
    run(world, gang(8, 1, 2), "low", 10)
    submit(world, gang(8, 1, 2), "high", priority=100)
    now(world)
    assert now(world).is_empty()


def test_only_the_member_in_the_rack_that_takes_the_gang_is_stopped() -> None:
    """The rule of the claimant holds however room was made; the victim keeps its minimum."""
    nodes = [make_node(f"n{i}", rack=f"r{i // 2}", block="b0") for i in range(4)]
    world = World(make_topology(nodes, levels=("block", "rack", "node")))
    for name in ("n0", "n3"):
        world.set_node(name, aside="cordoned")
    low = run(world, role_gang(role("m", 2, min=1)), "low", 10)
    for name in ("n0", "n3"):
        world.set_node(name, aside=None)
    assert job_nodes(world, low) == ["n1", "n2"]
    spec = role_gang(role("m", 2, one_per_node=True), rules=(required("job", "rack"),))
    high = submit(world, spec, "high", priority=100)
    plan = now(world)
    assert [m.state for m in plan.pod_moves] == [PodState.TERMINATING]
    assert world.jobs[low].state is JobState.RUNNING
    stop(world, low)
    now(world)
    assert job_nodes(world, high) in (["n0", "n1"], ["n2", "n3"])
    assert world.jobs[low].state is JobState.RUNNING
    assert world.jobs[low].evict is None
    now(world)
    assert len(job_nodes(world, low)) == 2


def test_nobody_leaves_for_a_gang_that_has_no_place_even_then() -> None:
    world = world_of(1, 2)
    lows = [run(world, gang(8), name, 10) for name in ("a", "b")]
    high = submit(world, gang(8, 1, 3), "high", priority=100)
    now(world)
    assert world.jobs[high].state is JobState.PENDING
    assert all(world.jobs[low].state is JobState.RUNNING for low in lows)


def test_nobody_leaves_for_a_gang_that_its_queue_denies() -> None:
    world = world_of(1, 2)
    world.set_queues([QueueRecord("small", limit_gpus=8)])
    lows = [run(world, gang(8), name, 10) for name in ("a", "b")]
    denied = submit(world, gang(8, 1, 2, queue="small"), "k", priority=100)
    allowed = submit(world, gang(8, queue="small"), "m", priority=100)
    now(world)
    assert world.jobs[denied].state is JobState.PENDING
    assert "small" in world.jobs[denied].message
    assert world.jobs[allowed].state is JobState.RESERVED
    states = [world.jobs[low].state for low in lows]
    assert sorted(states) == [JobState.EVICTING, JobState.RUNNING]


def test_nobody_leaves_for_a_gang_that_is_patient() -> None:
    """It could have started before and waits for something better; then the room is gone."""
    world = world_of(2, 2)
    run(world, gang(8), "low", 10)
    patient = submit(world, gang(8, 1, 4, patience_s=600.0), "p", priority=100)
    world.put_job(replace(world.jobs[patient], could_start_s=NOW_S - 10.0))
    plan = now(world)
    assert world.jobs[patient].state is JobState.PENDING
    assert plan.wake_at_s == NOW_S + 590.0
    now(world, after_s=600.0)
    assert world.jobs[patient].state is JobState.RESERVED


@pytest.mark.parametrize("fields", [{"preemptible": False}, {"priority": 100}])
def test_a_victim_that_may_not_be_touched_is_passed_over(fields: dict[str, object]) -> None:
    world = world_of(1, 2)
    spared = submit(world, gang(8), "spared", priority=10)
    spec = replace(world.jobs[spared].spec, **fields)  # type: ignore[arg-type]  # by name
    world.put_job(replace(world.jobs[spared], spec=spec))
    low = run(world, gang(8), "low", 10, ran_s=5_000.0)
    high = submit(world, gang(8), "high", priority=100)
    now(world)
    assert world.jobs[spared].state is not JobState.EVICTING
    assert world.jobs[low].state is JobState.EVICTING
    assert world.jobs[high].state is JobState.RESERVED


def test_the_least_lost_work_leaves_first() -> None:
    world = world_of(1, 3)
    old = run(world, gang(8), "old", 10, ran_s=9_000.0)
    saved = run(world, gang(8), "saved", 10, ran_s=8_000.0)
    young = run(world, gang(8), "young", 10, ran_s=700.0)
    world.put_job(replace(world.jobs[saved], saved_s=NOW_S - 60.0))
    submit(world, gang(8), "h1", priority=100)
    now(world)
    assert world.jobs[saved].state is JobState.EVICTING
    submit(world, gang(8), "h2", priority=100)
    now(world)
    assert world.jobs[young].state is JobState.EVICTING
    assert world.jobs[old].state is JobState.RUNNING


def test_no_more_leave_than_are_needed() -> None:
    world = world_of(1, 6)
    lows = [run(world, gang(8), f"l{i}", 10) for i in range(6)]
    submit(world, gang(8, 1, 3), "high", priority=100)
    now(world)
    assert sum(world.jobs[low].state is JobState.EVICTING for low in lows) == 3


def test_whole_parts_leave_and_the_least_of_them_stay() -> None:
    world = world_of(1, 4)
    low = run(world, role_gang(role("m", 4, min=2, parts=parts(2, 2, 1))), "low", 10)
    submit(world, gang(8), "high", priority=100)
    plan = now(world)
    assert len(plan.pod_moves) == 2
    assert world.jobs[low].state is JobState.RUNNING
    stop(world, low)
    now(world)
    assert {p.index // 2 for p in world.live_pods(low)} == {0}


def test_a_gang_that_has_run_too_little_is_spared_until_it_has() -> None:
    world = world_of(1, 1)
    low = run(world, gang(8), "low", 10)
    high = submit(world, gang(8), "high", priority=100)
    policy = Policy(min_run_s=300.0)
    plan = now(world, policy)
    assert world.jobs[high].state is JobState.PENDING
    assert plan.wake_at_s == NOW_S + 200.0
    now(world, policy, after_s=200.0)
    assert world.jobs[low].state is JobState.EVICTING


def test_no_more_gpus_leave_at_a_time_than_the_policy_allows() -> None:
    world = world_of(1, 4)
    for i in range(4):
        run(world, gang(8), f"l{i}", 10)
    first = submit(world, gang(8), "h1", priority=100)
    second = submit(world, gang(8), "h2", priority=100)
    now(world, Policy(evict_share=0.25))
    assert world.jobs[first].state is JobState.RESERVED
    assert world.jobs[second].state is JobState.PENDING


def test_what_is_leaving_already_is_used_before_anybody_else_has_to_go() -> None:
    world = world_of(1, 2)
    leaving = run(world, gang(8), "leaving", 10, ran_s=9_000.0)
    stays = run(world, gang(8), "stays", 10)
    tell(world, FactKind.SUSPEND, leaving)
    high = submit(world, gang(8), "high", priority=100)
    now(world)
    assert world.jobs[high].state is JobState.RESERVED
    assert world.jobs[stays].state is JobState.RUNNING
    stop(world, leaving)
    now(world)
    assert world.jobs[high].state is JobState.BOUND
    assert world.jobs[leaving].state is JobState.SUSPENDED


def test_a_queue_that_is_owed_takes_back_what_it_lent_whatever_the_priority() -> None:
    world = world_of(1, 4)
    world.set_queues([QueueRecord("a", quota_gpus=16), QueueRecord("b", quota_gpus=16)])
    lent = [run(world, gang(8, queue="b"), f"b{i}", 100) for i in range(4)]
    owed = submit(world, gang(8, queue="a"), "a1", priority=0)
    now(world)
    assert world.jobs[owed].state is JobState.RESERVED
    assert sum(world.jobs[uid].state is JobState.EVICTING for uid in lent) == 1
    second = submit(world, gang(8, queue="a"), "a2", priority=0)
    third = submit(world, gang(8, queue="a"), "a3", priority=0)
    now(world)
    assert world.jobs[second].state is JobState.RESERVED
    assert world.jobs[third].state is JobState.PENDING
    assert sum(world.jobs[uid].state is JobState.EVICTING for uid in lent) == 2


def test_priority_does_not_take_a_queue_below_its_quota() -> None:
    world = world_of(1, 2)
    world.set_queues([QueueRecord("b", quota_gpus=16)])
    lows = [run(world, gang(8, queue="b"), f"b{i}", 10) for i in range(2)]
    high = submit(world, gang(8), "high", priority=100)
    now(world)
    assert world.jobs[high].state is JobState.PENDING
    assert all(world.jobs[uid].state is JobState.RUNNING for uid in lows)


def test_when_a_node_of_the_place_falls_away_the_gang_waits_again() -> None:
    world = world_of(1, 2)
    low = run(world, gang(8), "low", 10)
    other = run(world, gang(8), "other", 10, ran_s=9_000.0)
    high = submit(world, gang(8), "high", priority=100)
    now(world)
    (node,) = job_nodes(world, low)
    world.set_node(node, aside="cordoned")
    now(world)
    assert world.jobs[other].state is JobState.EVICTING
    assert [c.node for c in world.claims.values()] == job_nodes(world, other)
    world.set_node(job_nodes(world, other)[0], aside="lost")
    now(world)
    assert world.jobs[high].state is JobState.PENDING
    assert not world.claims


def asked(world: World, victim: JobId, claimant: JobId) -> None:
    """Take the eviction back to where the victim was not asked yet."""
    job = world.jobs[victim]
    assert job.evict is not None
    world.put_job(replace(job, evict=replace(job.evict, step=EvictStep.ASKED)))
    world.put_pods(replace(p, state=PodState.RUNNING) for p in world.live_pods(victim))


@pytest.mark.parametrize("kind", [FactKind.CANCEL, FactKind.SUSPEND, FactKind.HOLD])
def test_evictions_not_asked_for_yet_are_withdrawn_when_the_gang_goes_away(kind: FactKind) -> None:
    world = world_of(1, 1)
    low = run(world, gang(8), "low", 10)
    high = submit(world, gang(8), "high", priority=100)
    now(world)
    asked(world, low, high)
    tell(world, kind, high)
    now(world)
    assert world.jobs[low].state is JobState.RUNNING
    assert world.jobs[low].evict is None
    assert not world.claims


def leaves_for_two(second: int) -> tuple[World, JobId, JobId, JobId]:
    """A gang on two nodes that leaves for one on the first; another counts on the second node."""
    world = world_of(1, 2)
    low = run(world, gang(8, dp=2), "low", 10)
    high = submit(world, gang(8), "high", priority=100)
    now(world)
    asked(world, low, high)
    other = submit(world, gang(8), "other", priority=second)
    now(world)
    assert {claim.job for claim in world.claims.values()} == {high, other}
    return world, low, high, other


def test_one_that_another_counts_on_leaves_for_that_one_when_the_first_goes_away() -> None:
    world, low, high, other = leaves_for_two(50)
    tell(world, FactKind.CANCEL, high)
    now(world)
    evict = world.jobs[low].evict
    assert world.jobs[low].state is JobState.EVICTING
    assert evict is not None
    assert evict.for_job == other
    assert {claim.job for claim in world.claims.values()} == {other}


def test_one_that_stays_takes_the_place_from_who_could_not_have_made_it_leave() -> None:
    world, low, high, other = leaves_for_two(10)
    tell(world, FactKind.CANCEL, high)
    now(world)
    assert world.jobs[low].state is JobState.RUNNING
    assert world.jobs[other].state is JobState.PENDING
    assert not world.claims


def test_evictions_asked_for_go_on_when_the_gang_goes_away() -> None:
    world = world_of(1, 1)
    low = run(world, gang(8), "low", 10)
    high = submit(world, gang(8), "high", priority=100)
    now(world)
    tell(world, FactKind.CANCEL, high)
    now(world)
    assert world.jobs[low].state is JobState.EVICTING
    stop(world, low)
    now(world)
    assert world.jobs[low].state is JobState.BOUND
    assert world.jobs[low].attempt == 2


def test_a_gang_that_fits_elsewhere_meanwhile_does_not_wait_for_its_victims() -> None:
    world = world_of(1, 2)
    low = run(world, gang(8), "low", 10)
    ends = run(world, gang(8), "ends", 10, ran_s=9_000.0)
    high = submit(world, gang(8), "high", priority=100)
    now(world)
    asked(world, low, high)
    report_all(world, ends, PodState.SUCCEEDED, 0)
    now(world)
    assert world.jobs[high].state is JobState.BOUND
    assert world.jobs[low].state is JobState.RUNNING
    assert not world.claims


def test_a_gang_waits_for_its_last_victim_rather_than_start_in_two_racks() -> None:
    world = world_of(2, 4)
    low = run(world, gang(8, 1, 2), "low", 10)
    others = gang(8, 1, 3, nodes=("n005", "n006", "n007"))
    run(world, others, "other", 200)
    high = submit(world, gang(8, 1, 4, preferred("job", "rack")), "high", priority=100)
    now(world)
    assert job_nodes(world, high) == []
    first, last = world.live_pods(low)
    report(world, first, PodState.STOPPED)
    now(world)
    assert world.jobs[high].state is JobState.RESERVED
    report(world, last, PodState.STOPPED)
    now(world)
    assert job_nodes(world, high) == ["n001", "n002", "n003", "n004"]


def test_a_gang_of_still_higher_priority_takes_over_place_and_victims() -> None:
    world = world_of(1, 1)
    low = run(world, gang(8), "low", 10)
    high = submit(world, gang(8), "high", priority=100)
    now(world)
    higher = submit(world, gang(8), "higher", priority=200)
    now(world)
    assert world.jobs[high].state is JobState.PENDING
    assert world.jobs[higher].state is JobState.RESERVED
    evict = world.jobs[low].evict
    assert evict is not None
    assert evict.for_job == higher
    stop(world, low)
    now(world)
    assert world.jobs[higher].state is JobState.BOUND


def test_a_victim_that_succeeds_meanwhile_has_succeeded() -> None:
    world = world_of(1, 2)
    low = run(world, gang(8, 1, 2), "low", 10)
    high = submit(world, gang(8, 1, 2), "high", priority=100)
    now(world)
    report_all(world, low, PodState.SUCCEEDED, 0)
    now(world)
    assert low not in world.jobs
    assert world.jobs[high].state is JobState.BOUND


def test_a_victim_of_which_only_a_part_succeeded_waits_in_line() -> None:
    world = world_of(1, 2)
    low = run(world, gang(8, 1, 2), "low", 10)
    submit(world, gang(8, 1, 2), "high", priority=100)
    now(world)
    first, second = world.live_pods(low)
    report(world, first, PodState.SUCCEEDED, 0)
    report(world, second, PodState.FAILED, 143)
    now(world)
    assert world.jobs[low].state is JobState.PENDING


def test_victims_that_never_started_are_told_to_stop_too() -> None:
    world = world_of(1, 1)
    low = submit(world, gang(8), "low", priority=10)
    now(world)
    submit(world, gang(8), "high", priority=100)
    now(world)
    assert [p.state for p in world.live_pods(low)] == [PodState.TERMINATING]


def test_a_job_that_is_placed_in_a_cycle_does_not_leave_in_the_same() -> None:
    world = world_of(1, 1)
    world.set_queues([QueueRecord("a", quota_gpus=8), QueueRecord("b", quota_gpus=0)])
    first = submit(world, gang(8, queue="b"), "b", priority=5)
    submit(world, gang(8, queue="a"), "a", priority=0)
    now(world)
    assert world.jobs[first].state is JobState.BOUND
    now(world)
    assert world.jobs[first].state is JobState.EVICTING


def test_a_cycle_ends_and_who_was_not_searched_for_has_his_turn_in_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """He is not promised a place meanwhile: the next cycle may have a better one."""
    monkeypatch.setattr("scheduler.draft.preempting.SEARCHES", 1)
    world = world_of(1, 2)
    for name in ("a", "b"):
        run(world, gang(8, duration_s=50_000.0, patience_s=0.0), name, 10)
    first, second = (submit(world, gang(8), name, priority=100) for name in ("h1", "h2"))
    now(world)
    assert world.jobs[first].state is JobState.RESERVED
    assert world.jobs[second].state is JobState.PENDING
    plan = now(world)
    assert world.jobs[second].state is JobState.RESERVED
    assert {c.why for c in plan.claims} == {ClaimWhy.PREEMPTION}


def test_a_gang_for_which_there_is_nobody_does_not_keep_others_from_a_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Counts tell at once that 5 nodes cannot be had, so that is no search."""
    monkeypatch.setattr("scheduler.draft.preempting.SEARCHES_IN_VAIN", 1)
    world = world_of(1, 4)
    run(world, gang(8), "low", 10)
    kept = run(world, gang(8, 1, 3), "kept", 10)
    spec = replace(world.jobs[kept].spec, preemptible=False)
    world.put_job(replace(world.jobs[kept], spec=spec))
    large = submit(world, gang(8, 1, 2), "large", priority=100)
    small = submit(world, gang(8), "small", priority=90)
    now(world)
    assert world.jobs[large].state is JobState.PENDING
    assert world.jobs[small].state is JobState.RESERVED
