"""Clocks of gangs stand still while the service is away."""

from dataclasses import replace

import pytest

from api.clock import ManualClock
from api.loop import outage
from api.loop.runner import Runner
from api.store.commit import commit
from api.store.engine import Database
from api.store.errors import Deposed
from api.store.events import current_revision
from api.store.fault_reports import Report, report_fault
from api.store.jobs import get_job
from api.store.ledger import audit_ledger
from api.store.outage import extend_limits, read_pulse
from api.store.policy import put_policy
from api.store.snapshot import follow, load_world
from scheduler.model.ids import JobId
from scheduler.model.job import Failure, Scope
from scheduler.model.lifecycle import JobState
from scheduler.model.plan import Eviction, EvictStep, Plan
from scheduler.recover.codes import CODES
from tests.api.loop.turns import settle
from tests.api.store.build import NOW_S, bind, job_move, load_cluster, make_spec, submit

HOLD_S = 600.0
LOST_AFTER_S = 100.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW_S)


@pytest.fixture
def recovering(database: Database, clock: ManualClock) -> Runner:
    """A leader, and gang `j` of two nodes with nowhere else to go, one of them lost."""
    load_cluster(database, 2, racks=1)
    put_policy(database, {"breaker_share": 1.0}, now_s=NOW_S)
    submit(database, make_spec(failure=Failure(Scope.POD, hold_s=HOLD_S)))
    runner = Runner(database, clock)
    settle(runner)
    clock.advance(LOST_AFTER_S)
    report_fault(database, "n001", Report(CODES["node_lost"]), now_s=clock.now_s())
    settle(runner)
    assert hold_until(database) == NOW_S + LOST_AFTER_S + HOLD_S
    return runner


def hold_until(database: Database) -> float | None:
    return get_job(database, "default", "j").recovery.hold_until_s


def state(database: Database) -> str:
    return get_job(database, "default", "j").state


def pass_time(runner: Runner, clock: ManualClock, seconds: float) -> None:
    """Time passes, and the leader looks."""
    clock.advance(seconds)
    runner.wake()
    settle(runner)


def test_a_hold_goes_on_where_it_was_when_the_service_comes_back(
    database: Database, clock: ManualClock, recovering: Runner
) -> None:
    pass_time(recovering, clock, 60.0)
    recovering.stop()
    clock.advance(HOLD_S)
    after = Runner(database, clock)
    settle(after)
    assert state(database) == "recovering"
    assert hold_until(database) == NOW_S + LOST_AFTER_S + 2 * HOLD_S
    pass_time(after, clock, HOLD_S - 61.0)
    assert state(database) == "recovering"
    pass_time(after, clock, 1.0)
    assert state(database) == "pending"
    assert audit_ledger(database).is_clean
    after.stop()


def test_a_hold_runs_on_while_somebody_looks(
    database: Database, clock: ManualClock, recovering: Runner
) -> None:
    for _ in range(4):
        pass_time(recovering, clock, 100.0)
    recovering.stop()
    clock.advance(2.0)
    after = Runner(database, clock)
    settle(after)
    # Another leader after a moment is no outage.
    assert hold_until(database) == NOW_S + LOST_AFTER_S + HOLD_S
    pass_time(after, clock, 198.0)
    assert state(database) == "pending"
    after.stop()


def test_an_outage_before_a_gang_was_in_recovery_gives_it_nothing(
    database: Database, clock: ManualClock, recovering: Runner
) -> None:
    """Nobody said since the start that he looks: nothing was to be timed before the loss."""
    assert read_pulse(database) is not None
    recovering.stop()
    clock.advance(5.0)
    after = Runner(database, clock)
    settle(after)
    assert hold_until(database) == NOW_S + LOST_AFTER_S + HOLD_S
    after.stop()


def test_a_leader_whose_process_stood_still_gives_the_time_back(
    database: Database,
    clock: ManualClock,
    recovering: Runner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pass_time(recovering, clock, 10.0)
    clock.advance(300.0)
    monkeypatch.setattr(outage, "STALLED_S", -1.0)
    recovering.wake()
    assert recovering.turn()
    monkeypatch.undo()
    found = hold_until(database)
    assert found == NOW_S + LOST_AFTER_S + HOLD_S + 300.0
    recovering.stop()


def test_nobody_says_that_he_looks_while_no_clock_runs(
    database: Database, clock: ManualClock
) -> None:
    load_cluster(database, 2, racks=1)
    submit(database, replace(make_spec(), time_limit_s=10_000.0))
    runner = Runner(database, clock)
    settle(runner)
    first = read_pulse(database)
    for _ in range(3):
        pass_time(runner, clock, 100.0)
    assert read_pulse(database) == first == NOW_S
    runner.stop()


def test_a_gang_that_saves_has_its_time_when_the_service_comes_back(database: Database) -> None:
    load_cluster(database)
    job = submit(database, make_spec())
    bind(database, job, ["n001", "n002"])
    leaving = Eviction(
        JobState.PENDING, EvictStep.SAVING, NOW_S + 60.0, "made way", None, "r-1", NOW_S
    )
    move = replace(job_move(job, JobState.EVICTING), evict=leaving)
    commit(database, Plan(current_revision(database), job_moves=(move,)), 0, NOW_S)
    world = load_world(database)
    times = {"since_s": NOW_S + 10.0, "least_s": 10.0, "now_s": NOW_S + 310.0}
    assert extend_limits(database, epoch=0, **times) == 1
    assert follow(database, world)
    evict = world.jobs[JobId(job.uid)].evict
    assert evict is not None
    assert evict.deadline_s == NOW_S + 360.0
    with pytest.raises(Deposed):
        extend_limits(database, epoch=7, **times)
