"""Promises in time: who gets a reservation, what may start in between, and when it moves."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.cluster.world import World
from scheduler.model.claim import ClaimWhy, Window
from scheduler.model.ids import JobId, NodeId
from scheduler.model.job import JobSpec
from scheduler.model.lifecycle import JobState, PodState, Reason
from scheduler.model.plan import Plan
from scheduler.model.queue import QueueRecord
from scheduler.model.resources import Resources
from scheduler.policy import Policy
from tests.builders import make_cluster
from tests.core.gangs import cycle, gang, job_nodes, report_all, required, role, role_gang
from tests.core.gangs import submit as submit_at_0

NOW_S = 1_000_000.0
"""13:46 UTC."""


def world_of(racks: int = 1, nodes: int = 4) -> World:
    return World(make_cluster(racks=racks, nodes_per_rack=nodes))


def now(world: World, after_s: float = 0.0, policy: Policy | None = None) -> Plan:
    return cycle(world, policy, NOW_S + after_s)


def submit(
    world: World, spec: JobSpec, name: str, priority: int = 0, after_s: float = 0.0
) -> JobId:
    uid = submit_at_0(world, spec, name, priority=priority, age=len(world.jobs) + 1)
    world.put_job(replace(world.jobs[uid], submitted_s=NOW_S + after_s))
    return uid


def run(world: World, name: str, ends_s: float | None, *, nodes: int = 1, rule: str = "") -> JobId:
    """A gang that runs and says when it ends, in seconds from now."""
    rules = (required("job", rule),) if rule else ()
    spec = gang(8, 1, nodes, *rules, patience_s=0.0)
    if ends_s is not None:
        spec = replace(spec, duration_s=ends_s + 500.0)
    uid = submit(world, spec, name)
    now(world, -500.0)
    report_all(world, uid, PodState.RUNNING)
    now(world, -500.0)
    assert world.jobs[uid].state is JobState.RUNNING
    return uid


def end(world: World, uid: JobId) -> None:
    report_all(world, uid, PodState.SUCCEEDED, 0)


def short(seconds: float, nodes: int = 1, **fields: object) -> JobSpec:
    return gang(8, 1, nodes, duration_s=seconds, patience_s=0.0, **fields)


def test_a_gang_at_the_head_is_promised_a_place_when_the_last_that_it_waits_for_ends() -> None:
    world = world_of(1, 3)
    for i, ends_s in enumerate((1_000.0, 2_000.0, 3_000.0)):
        run(world, f"r{i}", ends_s)
    head = submit(world, gang(8, 1, 2), "head")
    plan = now(world)
    job = world.jobs[head]
    assert (job.state, job.reason) == (JobState.RESERVED, Reason.RESERVATION)
    assert job.expected_start_s == NOW_S + 2_000.0
    assert "starts by 14:20 UTC" in job.message
    assert {(c.why, c.starts_s) for c in plan.claims} == {(ClaimWhy.RESERVATION, NOW_S + 2_000.0)}
    assert plan.wake_at_s == NOW_S + 600.0


def test_nothing_is_decided_twice_while_a_reservation_stands() -> None:
    world = world_of(1, 2)
    run(world, "r", 1_000.0, nodes=2)
    submit(world, gang(8, 1, 2), "head")
    now(world)
    again = now(world, 10.0)
    assert again.is_empty()


def test_only_what_ends_in_time_starts_where_a_place_is_promised() -> None:
    world = world_of(1, 2)
    run(world, "r", 1_000.0)
    submit(world, gang(8, 1, 2), "head")
    now(world)
    too_long = submit(world, short(1_001.0), "long")
    unbounded = submit(world, gang(8), "unbounded")
    in_time = submit(world, short(1_000.0), "short")
    now(world)
    assert world.jobs[too_long].state is JobState.PENDING
    assert world.jobs[unbounded].state is JobState.PENDING
    assert world.jobs[in_time].state is JobState.BOUND
    assert now(world).is_empty()


def test_elsewhere_anybody_may_start() -> None:
    world = world_of(2, 2)
    run(world, "a", 1_000.0, nodes=2, rule="rack")
    run(world, "b", 2_000.0)
    submit(world, gang(8, 1, 2, required("job", "rack")), "head")
    now(world)
    assert {c.node for c in world.claims.values()} == {"n001", "n002"}
    other = submit(world, gang(8), "other")
    now(world)
    assert job_nodes(world, other) == ["n004"]


def test_a_gang_with_a_reservation_starts_as_soon_as_it_fits() -> None:
    world = world_of(1, 2)
    running = run(world, "r", 1_000.0, nodes=2)
    head = submit(world, gang(8, 1, 2), "head")
    now(world)
    end(world, running)
    plan = now(world, 300.0)
    assert world.jobs[head].state is JobState.BOUND
    assert world.jobs[head].expected_start_s is None
    assert len(plan.claims_gone) == 2
    assert not world.claims


def test_a_start_that_nobody_knows_is_reserved_after_a_wait() -> None:
    world = world_of(1, 2)
    run(world, "r", None, nodes=2)
    head = submit(world, gang(8, 1, 2), "head")
    plan = now(world)
    assert world.jobs[head].state is JobState.PENDING
    assert plan.wake_at_s == NOW_S + 600.0
    now(world, 600.0)
    job = world.jobs[head]
    assert (job.state, job.expected_start_s) == (JobState.RESERVED, None)
    assert "nobody knows when" in job.message
    assert {c.starts_s for c in world.claims.values()} == {0.0}


def test_short_work_is_not_held_up_for_a_gang_that_is_not_due_yet() -> None:
    """Shortest first, ageing 0.5: 100 s of run time are due 200 s after the submission."""
    policy = Policy(order="shortest_first", ageing=0.5)
    world = world_of(1, 2)
    run(world, "r", 1_000.0)
    head = submit(world, short(100.0, 2), "head")
    plan = now(world, 199.0, policy)
    assert world.jobs[head].state is JobState.PENDING
    assert plan.wake_at_s == NOW_S + 200.0
    now(world, 200.0, policy)
    assert world.jobs[head].state is JobState.RESERVED
    assert world.jobs[head].expected_start_s == NOW_S + 1_000.0


def test_one_gang_of_each_queue_root_has_a_reservation() -> None:
    world = world_of(1, 4)
    world.set_queues([QueueRecord("x"), QueueRecord("y"), QueueRecord("x1", parent="x")])
    run(world, "r", 1_000.0, nodes=4)
    heads = {
        name: submit(world, gang(8, 1, 2, queue=queue), name)
        for name, queue in (("a", "x"), ("b", "x1"), ("c", "y"), ("d", "y"))
    }
    now(world)
    reserved = {n for n, uid in heads.items() if world.jobs[uid].state is JobState.RESERVED}
    assert reserved == {"a", "c"}
    masks: dict[str, int] = {}
    for claim in world.claims.values():
        assert not masks.get(claim.node, 0) & claim.gpu_mask
        masks[claim.node] = claim.gpu_mask


def test_an_overrun_moves_the_forecast_and_says_why() -> None:
    world = world_of(1, 3)
    run(world, "late", 1_000.0)
    run(world, "other", 5_000.0, nodes=2)
    head = submit(world, gang(8, 1, 1), "head")
    now(world)
    assert world.jobs[head].expected_start_s == NOW_S + 1_000.0
    now(world, 1_000.0)
    job = world.jobs[head]
    assert job.expected_start_s == NOW_S + 5_000.0
    assert "was to start by 14:03 UTC, but a job there runs longer than it said" in job.message


def test_a_place_is_kept_when_all_that_it_waits_for_overrun() -> None:
    world = world_of(1, 2)
    run(world, "late", 1_000.0, nodes=2)
    head = submit(world, gang(8, 1, 2), "head")
    now(world)
    now(world, 1_000.0)
    job = world.jobs[head]
    assert (job.state, job.expected_start_s) == (JobState.RESERVED, None)
    assert "runs longer than it said" in job.message
    assert len(world.claims) == 2


def test_an_early_end_brings_the_promise_forward() -> None:
    world = world_of(1, 2)
    run(world, "first", 1_000.0)
    last = run(world, "last", 3_000.0)
    head = submit(world, gang(8, 1, 2), "head")
    now(world)
    assert world.jobs[head].expected_start_s == NOW_S + 3_000.0
    end(world, last)
    now(world, 10.0)
    assert world.jobs[head].expected_start_s == NOW_S + 1_000.0
    assert {c.starts_s for c in world.claims.values()} == {NOW_S + 1_000.0}


def test_a_gang_of_higher_priority_may_start_where_a_place_is_promised() -> None:
    world = world_of(1, 2)
    run(world, "r", 1_000.0)
    head = submit(world, gang(8, 1, 2, preemptible=False), "head")
    now(world)
    urgent = submit(world, gang(8), "urgent", priority=5)
    now(world, 10.0)
    job = world.jobs[head]
    assert world.jobs[urgent].state is JobState.BOUND
    assert (job.state, job.expected_start_s) == (JobState.RESERVED, None)
    assert "another job started there" in job.message


def test_a_new_head_of_higher_priority_takes_over_the_turn() -> None:
    world = world_of(1, 2)
    for job in ("r1", "r2"):
        uid = run(world, job, 1_000.0)
        world.put_job(
            replace(world.jobs[uid], spec=replace(world.jobs[uid].spec, preemptible=False))
        )
    head = submit(world, gang(8, 1, 2), "head")
    now(world)
    urgent = submit(world, gang(8, 1, 2), "urgent", priority=5)
    now(world, 10.0)
    assert world.jobs[urgent].state is JobState.RESERVED
    assert world.jobs[head].state is JobState.PENDING


def test_a_reservation_moves_when_a_node_of_it_is_cordoned() -> None:
    world = world_of(1, 3)
    run(world, "a", 1_000.0)
    run(world, "b", 2_000.0, nodes=2)
    head = submit(world, gang(8), "head")
    now(world)
    (claim,) = world.claims.values()
    world.set_node(claim.node, aside="cordoned")
    now(world, 10.0)
    assert world.jobs[head].expected_start_s == NOW_S + 2_000.0
    assert "out of use" in world.jobs[head].message


def test_a_large_gang_starts_when_promised_behind_a_steady_flow_of_small_jobs() -> None:
    """4 nodes; each minute a job of 5 minutes arrives; the gang needs all 4 nodes."""
    world = world_of(1, 4)
    ends: dict[JobId, float] = {}
    promised: float | None = None
    head = None
    for minute in range(60):
        at_s = minute * 60.0
        submit(world, short(300.0), f"s{minute}", after_s=at_s)
        if minute == 10:
            head = submit(world, short(300.0, 4), "head", after_s=at_s)
        for uid, ends_s in sorted(ends.items()):
            if ends_s <= at_s:
                end(world, uid)
                del ends[uid]
        plan = now(world, at_s)
        for move in plan.job_moves:
            if move.state is JobState.BOUND:
                ends[move.uid] = at_s + 300.0
                report_all(world, move.uid, PodState.RUNNING)
        now(world, at_s)
        if head is None:
            continue
        job = world.jobs[head]
        if job.state is JobState.RESERVED:
            promised = promised or job.expected_start_s
        elif job.state is JobState.RUNNING:
            assert promised is not None
            assert NOW_S + at_s <= promised
            return
    pytest.fail("the gang never started")


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 60), st.integers(1, 40), st.integers(1, 4), st.booleans()),
        min_size=5,
        max_size=40,
    ),
    st.integers(5, 8),
)
def test_no_promise_is_broken_while_everybody_ends_when_he_said(
    arrivals: list[tuple[int, int, int, bool]], size: int
) -> None:
    """Jobs of two queues (after so many s, for so many, so many nodes, which queue) and a gang."""
    world = world_of(2, 4)
    world.set_queues([QueueRecord("a"), QueueRecord("b", weight=3.0)])
    ends: dict[JobId, float] = {}
    promised: list[float] = []
    at_s, left = 0.0, list(arrivals)
    due = [sum(a[0] for a in arrivals[: i + 1]) for i in range(len(arrivals))]
    head: JobId | None = None
    while left or ends:
        moments = [*due[len(arrivals) - len(left) :][:1], *ends.values()]
        at_s = max(at_s, min(moments))
        while left and due[len(arrivals) - len(left)] <= at_s:
            _, run_s, nodes, other = left.pop(0)
            spec = short(float(run_s), nodes, queue="b" if other else "a")
            submit(world, spec, f"s{len(left)}", after_s=at_s)
        if head is None and len(left) < len(arrivals) // 2:
            head = submit(world, short(50.0, size, queue="a"), "head", after_s=at_s)
        for uid in [uid for uid, ends_s in sorted(ends.items()) if ends_s <= at_s]:
            end(world, uid)
            del ends[uid]
        for _ in range(3):
            plan = now(world, at_s)
            for move in plan.job_moves:
                if move.state is JobState.BOUND:
                    ends[move.uid] = at_s + (world.jobs[move.uid].spec.duration_s or 0.0)
                    report_all(world, move.uid, PodState.RUNNING)
        job = world.jobs.get(head) if head is not None else None
        if job is not None and job.state is JobState.RESERVED:
            assert job.expected_start_s is not None
            promised.append(job.expected_start_s)
            assert promised[0] >= job.expected_start_s
        elif job is not None and job.started_s is not None and promised:
            assert job.started_s <= promised[0]


def window(name: str, starts_s: float, ends_s: float, *nodes: str) -> Window:
    return Window(name, tuple(NodeId(n) for n in nodes), NOW_S + starts_s, NOW_S + ends_s)


def test_nothing_starts_in_a_window_that_would_not_have_ended_before_it() -> None:
    world = world_of(1, 1)
    world.set_windows([window("fans", 1_000.0, 2_000.0, "n001")])
    long = submit(world, short(1_001.0), "long")
    plan = now(world)
    (claim,) = plan.claims
    assert (claim.why, claim.window, claim.until_s) == (
        ClaimWhy.MAINTENANCE,
        "fans",
        NOW_S + 2_000.0,
    )
    assert world.jobs[long].state is not JobState.BOUND
    in_time = submit(world, short(1_000.0), "short")
    now(world)
    assert world.jobs[in_time].state is JobState.BOUND


def test_what_runs_when_a_window_opens_runs_on_and_its_gpus_stay_kept() -> None:
    world = world_of(1, 1)
    running = run(world, "r", None)
    world.set_windows([window("fans", 0.0, 2_000.0, "n001")])
    now(world)
    assert world.jobs[running].state is JobState.RUNNING
    end(world, running)
    waiting = submit(world, short(60.0), "w")
    plan = now(world, 10.0)
    assert world.jobs[waiting].state is not JobState.BOUND
    assert plan.wake_at_s is not None
    now(world, 2_000.0)
    assert world.jobs[waiting].state is JobState.BOUND
    assert not world.claims


def test_a_window_that_is_taken_back_or_changed_lets_go() -> None:
    world = world_of(1, 2)
    world.set_windows([window("fans", 0.0, 2_000.0, "n001", "n002")])
    now(world)
    assert len(world.claims) == 2
    world.set_windows([window("fans", 0.0, 3_000.0, "n002")])
    now(world)
    assert [(c.node, c.until_s) for c in world.claims.values()] == [("n002", NOW_S + 3_000.0)]
    world.set_windows([])
    now(world)
    assert not world.claims


def test_a_window_takes_over_what_was_reserved_and_spares_what_is_claimed() -> None:
    world = world_of(1, 2)
    run(world, "r", 1_000.0, nodes=2)
    head = submit(world, gang(8, 1, 2), "head")
    now(world)
    assert len(world.claims) == 2
    world.set_windows([window("fans", 500.0, 2_000.0, "n001")])
    now(world)
    assert {c.node: c.why for c in world.claims.values()} == {"n001": ClaimWhy.MAINTENANCE}
    assert world.jobs[head].state is JobState.PENDING


def test_a_cycle_ends_though_many_could_start_on_what_is_promised_for_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("scheduler.cycle.LATE_EDITS", 0)
    world = world_of(1, 2)
    run(world, "r", 1_000.0)
    submit(world, gang(8, 1, 2), "head")
    now(world)
    in_time = submit(world, short(500.0), "short")
    now(world)
    assert world.jobs[in_time].state is JobState.PENDING
    monkeypatch.setattr("scheduler.cycle.LATE_EDITS", 10_000)
    now(world)
    assert world.jobs[in_time].state is JobState.BOUND


def test_a_gang_without_gpus_may_start_before_a_window_that_it_does_not_reach() -> None:
    world = world_of(1, 1)
    world.set_windows([window("fans", 1_000.0, 2_000.0, "n001")])
    lead = role_gang(role("lead", 1, gpus=0, resources=Resources(cpu_milli=1_000)))
    long = submit(world, replace(lead, duration_s=5_000.0, patience_s=0.0), "long")
    brief = submit(world, replace(lead, duration_s=500.0, patience_s=0.0), "brief")
    now(world)
    assert world.jobs[long].state is JobState.PENDING
    assert world.jobs[brief].state is JobState.BOUND
