"""The loop: it places what is submitted, rests when nothing happens, and survives failures."""

import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial

import pytest
from sqlalchemy.exc import DBAPIError

from api.clock import ManualClock, SystemClock
from api.loop import runner as module
from api.loop.runner import Runner
from api.metrics import Metrics
from api.store.engine import Database
from api.store.epoch import take_epoch
from api.store.errors import Deposed
from api.store.events import current_revision, wait_for_revision
from api.store.jobs import cancel_job, get_job
from api.store.nodes import cordon_node, uncordon_node
from api.store.pods import pods_of, report_pod
from api.store.schema import open_database
from api.store.snapshot import Snapshot, load_snapshot
from scheduler.cluster.world import World
from scheduler.cycle import run_cycle
from scheduler.model.lifecycle import FINAL, JobState, PodState
from scheduler.model.plan import Plan
from scheduler.policy import Policy
from tests.api.loop.turns import settle
from tests.api.store.build import NOW_S, load_cluster, make_spec, submit


def report(database: Database, name: str, state: PodState, exit_code: int | None = None) -> None:
    report_pod(database, "default", name, attempt=1, state=state, exit_code=exit_code, now_s=NOW_S)


def test_job_is_placed_runs_and_succeeds(database: Database, runner: Runner) -> None:
    load_cluster(database)
    job = submit(database, "a")
    settle(runner)
    assert runner.is_leading
    assert get_job(database, "default", "a").state is JobState.BOUND
    for pod in pods_of(database, job.uid):
        report(database, pod.name, PodState.RUNNING)
    settle(runner)
    view = get_job(database, "default", "a")
    assert (view.state, view.running, view.started_at) == (JobState.RUNNING, 2, NOW_S)
    for pod in pods_of(database, job.uid):
        report(database, pod.name, PodState.SUCCEEDED, 0)
    settle(runner)
    view = get_job(database, "default", "a")
    assert (view.state, view.live, view.finished_at) == (JobState.SUCCEEDED, 0, NOW_S)


def test_cancel_of_a_bound_job_frees_its_gpus_for_one_that_waits(
    database: Database, runner: Runner
) -> None:
    load_cluster(database)
    submit(database, make_spec("a", replicas=4))
    settle(runner)
    submit(database, make_spec("b", replicas=3))
    settle(runner)
    assert get_job(database, "default", "b").state is JobState.PENDING
    cancel_job(database, "default", "a", now_s=NOW_S)
    settle(runner)
    assert get_job(database, "default", "a").state is JobState.CANCELLED
    assert not get_job(database, "default", "a").cancelling
    assert get_job(database, "default", "b").state is JobState.BOUND


def test_job_that_came_while_the_world_was_read_is_decided_on_with_it(
    database: Database, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_cluster(database)

    def read_slowly(db: Database, kind: type[World], *, head_first: bool) -> Snapshot:
        known = load_snapshot(db, kind, head_first=head_first)
        submit(database, "late")
        return known

    monkeypatch.setattr(module, "load_snapshot", read_slowly)
    assert runner.turn()
    assert get_job(database, "default", "late").state is JobState.BOUND


def test_runner_is_at_rest_when_nothing_happens(database: Database, runner: Runner) -> None:
    load_cluster(database)
    submit(database, make_spec("a", replicas=9))
    settle(runner)
    revision, cycles = current_revision(database), runner.stats.cycles
    for _ in range(5):
        assert not runner.turn()
    assert (current_revision(database), runner.stats.cycles) == (revision, cycles)


def test_waiting_job_follows_the_cluster(database: Database, runner: Runner) -> None:
    load_cluster(database)
    cordon_node(database, "n001", reason="", by="", now_s=NOW_S)
    submit(database, make_spec("a", replicas=4))
    settle(runner)
    view = get_job(database, "default", "a")
    assert view.state is JobState.PENDING
    assert view.verdict is not None
    assert view.message
    uncordon_node(database, "n001", now_s=NOW_S)
    settle(runner)
    assert get_job(database, "default", "a").state is JobState.BOUND


def test_thread_places_jobs_and_ends_when_told(database: Database) -> None:
    load_cluster(database)
    runner = Runner(database, ManualClock(NOW_S))
    assert not runner.is_ready
    runner.start()
    try:
        submit(database, "a")
        _wait_until(database, lambda: get_job(database, "default", "a").live == 2)
        _wait_until(database, lambda: runner.is_ready)
    finally:
        runner.stop()
    assert not runner.is_ready
    assert not runner.is_leading
    assert "podyard-runner" not in {thread.name for thread in threading.enumerate()}


def test_thread_can_be_started_again(database: Database) -> None:
    load_cluster(database)
    runner = Runner(database, ManualClock(NOW_S))
    for name in ("a", "b"):
        runner.start()
        submit(database, make_spec(name, replicas=1))
        _wait_until(database, partial(_is_live, database, name))
        runner.stop()


def test_second_process_stands_by_and_takes_over(database: Database, database_url: str) -> None:
    load_cluster(database)
    with closing(open_database(database_url)) as other:
        first, second = (Runner(db, ManualClock(NOW_S)) for db in (database, other))
        settle(first)
        submit(database, make_spec("a", replicas=1))
        assert not second.turn()
        assert (first.is_leading, second.is_leading) == (True, False)
        assert get_job(database, "default", "a").state is JobState.PENDING
        first.stop()
        settle(second)
        assert get_job(database, "default", "a").state is JobState.BOUND
        second.stop()


def test_deposed_runner_writes_nothing_and_leads_again_later(
    database: Database, runner: Runner
) -> None:
    load_cluster(database)
    settle(runner)
    assert take_epoch(database, 1, "another", now_s=NOW_S) == 2
    submit(database, make_spec("a", replicas=1))
    revision = current_revision(database)
    with pytest.raises(Deposed):
        settle(runner)
    assert current_revision(database) == revision
    runner.stop()
    settle(runner)
    assert get_job(database, "default", "a").state is JobState.BOUND


def test_thread_outlives_a_turn_that_fails(
    database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    load_cluster(database)
    calls = []

    def failing(world: World, policy: Policy, now_s: float) -> Plan:
        calls.append(now_s)
        if len(calls) < 3:
            raise ZeroDivisionError("a fault of ours")
        return run_cycle(world, policy, now_s)

    monkeypatch.setattr(module, "run_cycle", failing)
    monkeypatch.setattr(module, "BACKOFF_S", 0.001)
    runner = Runner(database, ManualClock(NOW_S))
    submit(database, make_spec("a", replicas=1))
    runner.start()
    try:
        _wait_until(database, lambda: get_job(database, "default", "a").live == 1)
        assert runner.stats.failures == 2
    finally:
        runner.stop()


@pytest.mark.parametrize("database_kind", ["postgresql"], indirect=True)
def test_thread_outlives_the_loss_of_all_connections(database: Database) -> None:
    load_cluster(database)
    runner = Runner(database, ManualClock(NOW_S))
    runner.start()
    try:
        _wait_until(database, lambda: runner.is_ready)
        with database.engine.begin() as connection:
            connection.exec_driver_sql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        _retried(lambda: submit(database, make_spec("a", replicas=1)))
        _wait_until(database, lambda: get_job(database, "default", "a").live == 1)
    finally:
        _retried(runner.stop)


def test_moved_clock_wakes_the_runner(database: Database) -> None:
    clock = ManualClock(NOW_S)
    runner = Runner(database, clock)
    clock.on_advance(runner.wake)
    settle(runner)
    cycles = runner.stats.cycles
    assert not runner.turn()
    assert runner.stats.cycles == cycles
    clock.advance(10.0)
    runner.turn()
    assert runner.stats.cycles == cycles + 1
    runner.stop()


def test_runner_looks_again_when_the_time_comes_that_its_plan_named(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody tells it that the clock has moved."""
    wake_at_s: list[float | None] = [NOW_S + 100, NOW_S + 100, None]

    def decide(world: World, _policy: Policy, _now_s: float) -> Plan:
        return Plan(world.revision, wake_at_s=wake_at_s.pop(0))

    monkeypatch.setattr(module, "run_cycle", decide)
    clock = ManualClock(NOW_S)
    runner = Runner(database, clock)
    try:
        for seconds, cycles in ((0, 1), (99, 1), (1, 2), (0, 2), (0.01, 2), (0.1, 3), (1e6, 3)):
            clock.advance(seconds)
            runner.turn()
            assert runner.stats.cycles == cycles, seconds
    finally:
        runner.stop()


def test_thread_sleeps_no_longer_than_to_the_time_that_its_plan_named(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "IDLE_S", 3600.0)
    cycled = threading.Event()
    clock = SystemClock()
    begun_s = clock.now_s()

    def decide(world: World, _policy: Policy, now_s: float) -> Plan:
        if now_s >= begun_s + 0.3:
            cycled.set()
            return Plan(world.revision)
        return Plan(world.revision, wake_at_s=begun_s + 0.3)

    monkeypatch.setattr(module, "run_cycle", decide)
    runner = Runner(database, clock)
    runner.start()
    try:
        assert cycled.wait(30)
    finally:
        runner.stop()


def test_cycles_are_counted_for_metrics(database: Database) -> None:
    load_cluster(database)
    metrics = Metrics()
    runner = Runner(database, ManualClock(NOW_S), metrics=metrics)
    submit(database, make_spec("a", replicas=1))
    submit(database, make_spec("b", replicas=9))
    settle(runner)
    text = metrics.text().decode()
    assert 'podyard_decisions_total{outcome="bound"} 1.0' in text
    assert 'podyard_decisions_total{outcome="pending"} 1.0' in text
    assert "podyard_leader 1.0" in text
    assert runner.stats.events["job.bound"] == 1
    assert runner.stats.revision == current_revision(database)
    runner.stop()


def test_submissions_and_cancels_in_a_race_end_in_one_final_state(database: Database) -> None:
    """Each job is cancelled at some moment of being placed; nothing is left behind."""
    load_cluster(database)
    runner = Runner(database, ManualClock(NOW_S))
    runner.start()
    try:

        def submit_and_cancel(worker: int) -> None:
            for number in range(10):
                name = f"w{worker}-{number}"
                submit(database, make_spec(name, replicas=1, gpus=4))
                wait_for_revision(database, current_revision(database), 0.002 * (number % 3))
                cancel_job(database, "default", name, now_s=NOW_S)

        threads = [threading.Thread(target=submit_and_cancel, args=(w,)) for w in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        names = [f"w{w}-{n}" for w in range(4) for n in range(10)]
        _wait_until(
            database,
            lambda: all(get_job(database, "default", name).state in FINAL for name in names),
        )
        assert {get_job(database, "default", name).live for name in names} == {0}
    finally:
        runner.stop()


def _retried(call: Callable[[], object]) -> None:
    """A call that may meet connections that were cut."""
    for _ in range(20):
        try:
            call()
        except DBAPIError:
            continue
        return
    raise TimeoutError("the database did not come back")


def _is_live(database: Database, name: str) -> bool:
    return get_job(database, "default", name).live > 0


def _wait_until(database: Database, condition: Callable[[], bool]) -> None:
    """Look again after every revision."""
    for _ in range(2_000):
        revision = current_revision(database)
        if condition():
            return
        wait_for_revision(database, revision, 0.1)
    raise TimeoutError("it did not come to pass")
