"""Who is promised a place at once, who waits for chance first, and who takes a promise over."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.backfill.turns import is_large, turn_of
from scheduler.cluster.accounts import Capacity
from scheduler.cluster.world import World
from scheduler.model.ids import JobId
from scheduler.model.job import JobSpec
from scheduler.model.lifecycle import JobState, PodState
from scheduler.model.plan import FactKind, JobRecord, Plan
from scheduler.policy import QUEUE_ORDERS, Policy, PolicyError
from tests.builders import make_cluster
from tests.core.gangs import cycle, gang, job_nodes, report_all, tell
from tests.core.gangs import submit as submit_at_0

NOW_S = 1_000_000.0
SMALL = Policy(reserve_at_once_share=0.5)
"""On four nodes, gangs of one node are small, and of two are not."""


def now(world: World, after_s: float = 0.0, policy: Policy = SMALL) -> Plan:
    return cycle(world, policy, NOW_S + after_s)


def submit(
    world: World, spec: JobSpec, name: str, after_s: float = 0.0, priority: int = 0
) -> JobId:
    uid = submit_at_0(world, spec, name, len(world.jobs) + 1, priority)
    world.put_job(replace(world.jobs[uid], submitted_s=NOW_S + after_s))
    return uid


def whole(nodes: int, duration_s: float | None = None) -> JobSpec:
    return gang(8, 1, nodes, duration_s=duration_s, patience_s=0.0)


def run(world: World, name: str, ends_s: float, nodes: int = 1) -> JobId:
    """A gang that runs from now on and says when it ends."""
    uid = submit(world, whole(nodes, ends_s), name)
    now(world)
    report_all(world, uid, PodState.RUNNING)
    now(world)
    assert world.jobs[uid].state is JobState.RUNNING
    return uid


def full(*ends_s: float) -> World:
    """Four nodes with a gang each."""
    world = World(make_cluster(racks=1, nodes_per_rack=4))
    for number, at_s in enumerate(ends_s):
        run(world, f"r{number}", at_s)
    return world


def test_a_small_gang_waits_for_its_run_time_before_a_place_is_kept_for_it() -> None:
    world = full(1_000.0, 2_000.0, 3_000.0, 4_000.0)
    head = submit(world, whole(1, 300.0), "head")
    plan = now(world)
    assert world.jobs[head].state is JobState.PENDING
    assert not world.claims
    assert plan.wake_at_s == NOW_S + 300.0
    now(world, 300.0)
    job = world.jobs[head]
    assert job.state is JobState.RESERVED
    # Three run times are over by then: the promise is the first end there is.
    assert job.expected_start_s == NOW_S + 1_000.0


def test_the_first_that_waits_without_a_promise_is_told_when_it_could_start() -> None:
    world = full(1_000.0, 2_000.0, 3_000.0, 4_000.0)
    head, next_ = (submit(world, whole(1, 5_000.0), name) for name in ("head", "next"))
    now(world)
    assert world.jobs[head].expected_start_s == NOW_S + 1_000.0
    assert world.jobs[next_].expected_start_s is None
    assert now(world, 1.0).is_empty()


def test_a_forecast_that_has_passed_is_made_anew() -> None:
    world = full(1_000.0, 2_000.0, 3_000.0, 4_000.0)
    head = submit(world, whole(1, 5_000.0), "head")
    now(world)
    now(world, 1_000.0)
    assert world.jobs[head].expected_start_s == NOW_S + 2_000.0


def test_until_the_promised_start_what_ends_in_time_goes_on_starting_there() -> None:
    world = full(150.0, 4_000.0, 4_000.0, 4_000.0)
    head = submit(world, whole(1, 100.0), "head")
    now(world, 100.0)
    job = world.jobs[head]
    assert job.expected_start_s == NOW_S + 300.0
    (claim,) = world.claims.values()
    assert (claim.node, claim.starts_s) == ("n001", NOW_S + 300.0)


def test_a_gang_starts_before_its_promised_start_when_it_fits() -> None:
    world = full(150.0, 4_000.0, 4_000.0, 4_000.0)
    head = submit(world, whole(1, 100.0), "head")
    now(world, 100.0)
    report_all(world, JobId("r0"), PodState.SUCCEEDED, 0)
    now(world, 150.0)
    assert world.jobs[head].state is JobState.BOUND
    assert not world.claims


def test_with_so_much_time_left_one_that_ends_in_time_goes_first() -> None:
    """Two nodes for the head; one is free early and would be idle till the other is."""
    policy = Policy(reserve_at_once_share=0.6, start_by_run_times=4.0)
    world = full(1_000.0, 1_500.0, 9_000.0, 9_000.0)
    head = submit(world, whole(2, 500.0), "head")
    now(world, 500.0, policy)
    assert world.jobs[head].expected_start_s == NOW_S + 2_000.0
    report_all(world, JobId("r0"), PodState.SUCCEEDED, 0)
    fits = submit(world, whole(1, 900.0), "fits", 1_000.0)
    too_long = submit(world, whole(1, 1_100.0), "long", 1_000.0)
    now(world, 1_000.0, policy)
    assert job_nodes(world, fits) == ["n001"]
    assert world.jobs[too_long].state is JobState.PENDING
    report_all(world, JobId("r1"), PodState.SUCCEEDED, 0)
    report_all(world, fits, PodState.SUCCEEDED, 0)
    now(world, 1_950.0, policy)
    assert world.jobs[head].state is JobState.BOUND


def test_a_large_gang_is_promised_a_place_at_once() -> None:
    world = full(1_000.0, 2_000.0, 3_000.0, 4_000.0)
    head = submit(world, whole(2, 300.0), "head")
    now(world)
    assert world.jobs[head].state is JobState.RESERVED
    assert world.jobs[head].expected_start_s == NOW_S + 2_000.0


def test_a_small_gang_that_says_no_run_time_waits_for_as_long_as_for_an_unknown_start() -> None:
    world = full(1_000.0, 2_000.0, 3_000.0, 4_000.0)
    head = submit(world, whole(1), "head")
    assert now(world).wake_at_s == NOW_S + 600.0
    now(world, 600.0)
    assert world.jobs[head].expected_start_s == NOW_S + 1_800.0


def test_who_is_released_takes_his_reservation_back_from_a_younger_gang() -> None:
    world = full(1_000.0, 1_000.0, 2_000.0, 2_000.0)
    big = submit(world, whole(4, 300.0), "big")
    now(world)
    assert world.jobs[big].state is JobState.RESERVED
    younger = submit(world, whole(4, 300.0), "younger")
    tell(world, FactKind.HOLD, big)
    now(world)
    assert world.jobs[younger].state is JobState.RESERVED
    tell(world, FactKind.RELEASE, big)
    now(world)
    assert world.jobs[big].state is JobState.RESERVED
    assert world.jobs[big].expected_start_s == NOW_S + 2_000.0
    assert world.jobs[younger].state is JobState.PENDING
    assert now(world).is_empty()


def test_who_is_promised_a_place_takes_it_before_an_older_gang_that_was_not() -> None:
    """The older one, twice as long, is not due yet, and one node comes free."""
    world = full(1_000.0, 1_000.0, 9_000.0, 9_000.0)
    older = submit(world, whole(1, 400.0), "older")
    head = submit(world, whole(1, 200.0), "head")
    now(world, 200.0)
    assert world.jobs[older].state is JobState.PENDING
    assert world.jobs[head].state is JobState.RESERVED
    report_all(world, JobId("r2"), PodState.SUCCEEDED, 0)
    now(world, 300.0)
    assert job_nodes(world, head) == ["n003"]
    assert world.jobs[older].state is JobState.PENDING


def test_a_promise_is_not_put_before_higher_priorities() -> None:
    world = full(1_000.0, 1_000.0, 9_000.0, 9_000.0)
    head = submit(world, whole(1, 200.0), "head")
    now(world, 200.0)
    assert world.jobs[head].state is JobState.RESERVED
    meek = replace(whole(1, 900.0), preempts=False)
    high = submit(world, meek, "high", 250.0, priority=5)
    report_all(world, JobId("r2"), PodState.SUCCEEDED, 0)
    now(world, 300.0)
    assert job_nodes(world, high) == ["n003"]
    assert world.jobs[head].state is JobState.RESERVED


def test_of_another_queue_nobody_takes_a_reservation_over() -> None:
    """Which of two queues is next changes with every start; a promise does not."""
    world = full(1_000.0, 1_000.0, 2_000.0, 2_000.0)
    big = submit(world, replace(whole(4, 300.0), queue="default"), "big")
    tell(world, FactKind.HOLD, big)
    now(world)
    younger = submit(world, replace(whole(4, 300.0), queue="other"), "younger")
    now(world)
    tell(world, FactKind.RELEASE, big)
    now(world)
    assert world.jobs[younger].state is JobState.RESERVED


def record(gpus: int, duration_s: float | None) -> JobRecord:
    spec = gang(1, 1, gpus, duration_s=duration_s)
    return JobRecord(JobId("j"), spec, JobState.PENDING, 1, submitted_s=NOW_S)


@given(
    st.integers(1, 2_000),
    st.none() | st.floats(1.0, 1e6),
    st.sampled_from(QUEUE_ORDERS),
    st.floats(0.0, 10.0),
    st.floats(0.0, 10.0),
    st.floats(0.0, 1.0),
)
def test_a_turn_never_comes_before_the_job_and_never_after_the_start_it_promises(
    gpus: int, duration_s: float | None, order: str, after: float, more: float, share: float
) -> None:
    policy = Policy(
        order=order,
        reserve_after_run_times=after,
        start_by_run_times=after + more,
        reserve_at_once_share=share,
    )
    job, capacity = record(gpus, duration_s), Capacity(gpus=1_000)
    turn = turn_of(job, policy, capacity)
    assert NOW_S <= turn.from_s <= turn.start_s
    if order == "fair_share" and is_large(job, policy, capacity):
        assert turn.start_s == NOW_S


def test_long_run_times_count_no_more_than_the_limit() -> None:
    policy, capacity = Policy(), Capacity(gpus=1_000)
    short, limit, days = (
        turn_of(record(8, duration_s), policy, capacity) for duration_s in (60.0, 21_600.0, 1e6)
    )
    assert (short.from_s, short.start_s) == (NOW_S + 60.0, NOW_S + 180.0)
    assert limit == days
    assert (days.from_s, days.start_s) == (NOW_S + 21_600.0, NOW_S + 64_800.0)


def test_a_share_is_of_the_model_that_a_gang_asks_for() -> None:
    capacity = Capacity(gpus=1_000, by_model={"A": 100, "B": 900})
    policy = Policy(reserve_at_once_share=0.1)
    job = record(10, None)
    assert not is_large(job, policy, capacity)
    assert is_large(replace(job, spec=replace(job.spec, gpu="A")), policy, capacity)
    assert not is_large(replace(job, spec=replace(job.spec, gpu="B")), policy, capacity)


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"reserve_after_run_times": -0.1}, "reserve_after_run_times"),
        ({"reserve_after_run_times": float("nan")}, "reserve_after_run_times"),
        ({"reserve_after_run_times": 1_001.0}, "reserve_after_run_times"),
        ({"start_by_run_times": 0.5}, "start_by_run_times"),
        ({"start_by_run_times": float("inf")}, "start_by_run_times"),
        ({"reserve_at_once_share": 1.5}, "reserve_at_once_share"),
        ({"reserve_run_s_max": 0.0}, "reserve_run_s_max"),
    ],
)
def test_tunables_of_reservations_out_of_range_are_refused_by_name(
    fields: dict[str, float], name: str
) -> None:
    with pytest.raises(PolicyError) as error:
        Policy(**fields)  # type: ignore[arg-type]  # floats by name
    assert [problem.path for problem in error.value.problems] == [name]
