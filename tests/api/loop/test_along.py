"""Gangs that are decided on in the very transaction that brings them."""

import math
import threading
from collections.abc import Iterator
from functools import partial

import pytest
import sqlalchemy as sa

from api.clock import ManualClock
from api.loop import runner as module
from api.loop.replay import replay_all
from api.loop.runner import Runner
from api.store import commit as commit_module
from api.store.decisions import DecisionLog
from api.store.engine import Database, Transaction
from api.store.epoch import read_leader, take_epoch
from api.store.errors import Conflict, Deposed
from api.store.events import list_events
from api.store.jobs import get_job, submit_job
from api.store.ledger import audit_ledger
from api.store.nodes import cordon_node
from api.store.pods import pods_of
from api.store.snapshot import load_world
from api.store.tables import deliveries
from api.store.views import IdempotencyKey, JobView
from scheduler.model.job import JobSpec
from scheduler.model.lifecycle import JobState
from tests.api.loop.turns import settle
from tests.api.store.build import NOW_S, load_cluster, make_spec, submit
from tests.api.store.test_engine import has_queued
from tests.api.store.test_snapshot import same
from tests.crash.service import until

NODES = 8


@pytest.fixture
def runner(database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runner]:
    """One that has decided already, on a job that takes the first of eight nodes.

    No decision counts as long, however slow the machine is.
    """
    monkeypatch.setattr(module, "ALONG_S", math.inf)
    load_cluster(database, NODES)
    log = DecisionLog(database, keep=1_000, keep_bytes=1 << 24)
    made = Runner(database, ManualClock(NOW_S), decisions=log)
    submit(database, make_spec("first", replicas=1))
    settle(made)
    database.decider = made.decide_along
    yield made
    made.stop()


def wait_for(database: Database, spec: JobSpec, key: str | None = None) -> JobView:
    """Submit a job as somebody who waits for its place does; the job as it is afterwards."""
    given = None if key is None else IdempotencyKey("me", "default", key, "hash")
    submit_job(database, spec, {"name": spec.name}, now_s=NOW_S, idempotency=given, is_awaited=True)
    return get_job(database, "default", spec.name)


def check(database: Database, runner: Runner) -> None:
    """The loop has nothing to add, remembers what there is, and would decide the same again."""
    assert not runner.turn()
    assert runner._known is not None
    assert same(runner._known.world, load_world(database))
    assert audit_ledger(database).is_clean
    assert [done.differences for done in replay_all(database) if done.differences] == []


def check_later(database: Database, runner: Runner, name: str) -> None:
    """The loop binds what was left to it."""
    settle(runner)
    assert get_job(database, "default", name).state is JobState.BOUND
    check(database, runner)


def kinds(database: Database, after: int) -> list[str]:
    return [event.kind for event in list_events(database, after, 100).items]


def test_gang_that_fits_is_bound_by_the_write_that_brings_it(
    database: Database, runner: Runner
) -> None:
    before = database.notifier.known
    job = wait_for(database, make_spec("a", replicas=2))
    assert (job.state, job.live, job.bound_at) == (JobState.BOUND, 2, NOW_S)
    assert len(pods_of(database, job.uid)) == 2
    assert kinds(database, before) == ["job.submitted", "job.bound"]
    assert [event.kind for event in database.tail.after(before, 10)] == kinds(database, before)
    check(database, runner)


def test_gang_bound_so_is_as_one_that_the_loop_binds(database: Database, runner: Runner) -> None:
    along = wait_for(database, make_spec("a", replicas=2))
    submit(database, make_spec("b", replicas=2))
    settle(runner)
    later = get_job(database, "default", "b")
    others = {"uid", "name", "age", "revision", "spec_revision", "spec", "body"}
    shown = {k: (getattr(along, k), getattr(later, k)) for k in later.__slots__ if k not in others}
    assert {name: pair for name, pair in shown.items() if pair[0] != pair[1]} == {}


def test_one_after_the_other_until_the_cluster_is_full(database: Database, runner: Runner) -> None:
    states = [wait_for(database, make_spec(f"j{n}", replicas=1)).state for n in range(NODES)]
    assert states == [JobState.BOUND] * (NODES - 1) + [JobState.PENDING]
    settle(runner)
    last = get_job(database, "default", f"j{NODES - 1}")
    assert (last.state, last.reason is None) == (JobState.PENDING, False)
    check(database, runner)


def test_gang_that_does_not_fit_is_left_to_the_loop(database: Database, runner: Runner) -> None:
    """It may have to look for long who could leave for it; all other writes would wait."""
    cycles = runner.stats.cycles
    high = make_spec("high", replicas=NODES, priority=9)
    assert wait_for(database, high).state is JobState.PENDING
    assert runner.stats.cycles == cycles + 1
    assert get_job(database, "default", "high").reason is None
    settle(runner)
    assert get_job(database, "default", "first").evict is not None
    check(database, runner)


def test_plan_about_others_too_is_written_along(
    database: Database, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the look was wrong, who must leave is told so by the same write."""
    monkeypatch.setattr(module, "all_fit", lambda _world, _uids: True)
    high = wait_for(database, make_spec("high", replicas=NODES, priority=9))
    assert high.state is JobState.RESERVED
    assert get_job(database, "default", "first").evict is not None
    settle(runner)
    check(database, runner)


def test_gangs_that_come_together_are_decided_on_together(
    database: Database, runner: Runner
) -> None:
    cycles = runner.stats.cycles
    specs = [make_spec(f"j{n}", replicas=n + 1) for n in range(3)]
    threads = [threading.Thread(target=wait_for, args=(database, spec)) for spec in specs]
    with database._gate:
        for number, thread in enumerate(threads, 1):
            thread.start()
            # The first leads, and so waits for the gate; the others stand in line behind it.
            until(partial(has_queued, database, number), "it stands in line")
    for thread in threads:
        thread.join()
    assert {get_job(database, "default", spec.name).state for spec in specs} == {JobState.BOUND}
    assert runner.stats.cycles <= cycles + 2
    settle(runner)
    check(database, runner)


def test_hooks_are_told_by_the_same_write(database: Database, runner: Runner) -> None:
    extra = {"hooks": [{"url": "http://127.0.0.1:9/hook"}]}
    wait_for(database, make_spec("a", replicas=1, extra=extra))
    with database.read() as connection:
        rows = connection.execute(sa.select(deliveries)).all()
    assert len(rows) == 1
    check(database, runner)


def test_request_that_is_sent_again_finds_its_job(database: Database, runner: Runner) -> None:
    first = wait_for(database, make_spec("a", replicas=1), key="k")
    assert wait_for(database, make_spec("a", replicas=1), key="k") == first
    check(database, runner)


def test_submission_that_is_refused_decides_nothing(database: Database, runner: Runner) -> None:
    cycles = runner.stats.cycles
    with pytest.raises(Conflict):
        wait_for(database, make_spec("first", replicas=1))
    assert runner.stats.cycles == cycles
    check(database, runner)


def test_nobody_waits_so_the_loop_decides(database: Database, runner: Runner) -> None:
    submit(database, make_spec("a", replicas=1))
    assert get_job(database, "default", "a").state is JobState.PENDING


@pytest.mark.parametrize("why", ["turn", "long", "news", "fresh"])
def test_loop_that_is_busy_is_left_alone(
    database: Database, runner: Runner, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    match why:
        case "turn":
            runner._turning.acquire()
        case "long":
            monkeypatch.setattr(module, "ALONG_S", runner.stats.decide_s / 2)
        case "news":
            cordon_node(
                database, "n008", reason="", by="me", now_s=NOW_S
            )  # is not told, has to be read
        case "fresh":
            runner._forget()
    assert wait_for(database, make_spec("a", replicas=1)).state is JobState.PENDING
    if why == "turn":
        runner._turning.release()
    check_later(database, runner, "a")


def test_leader_that_was_deposed_writes_the_job_alone(database: Database, runner: Runner) -> None:
    epoch = read_leader(database).epoch
    assert take_epoch(database, epoch, "other", now_s=NOW_S) is not None
    runner.turn()  # it follows, has nothing to write, and so does not notice
    assert runner.is_leading
    assert wait_for(database, make_spec("a", replicas=1)).state is JobState.PENDING
    with pytest.raises(Deposed):
        settle(runner)
    assert pods_of(database, get_job(database, "default", "a").uid) == ()


def test_plan_that_the_schema_refuses_leaves_the_job(
    database: Database, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_tx: Transaction, *_: object) -> None:
        raise sa.exc.IntegrityError("INSERT", {}, Exception("ledger: a GPU is held already"))

    with monkeypatch.context() as patched:
        patched.setattr(commit_module, "_write", refused)
        assert wait_for(database, make_spec("a", replicas=1)).state is JobState.PENDING
    check_later(database, runner, "a")


def test_commit_that_fails_is_forgotten(
    database: Database, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The world had been told of what is not there."""

    def fail(_tx: Transaction) -> None:
        raise RuntimeError("connection lost")

    with monkeypatch.context() as patched:
        patched.setattr(Transaction, "finish", fail)
        with pytest.raises(RuntimeError):
            wait_for(database, make_spec("a", replicas=2))
    assert runner._known is None
    assert wait_for(database, make_spec("b", replicas=2)).state is JobState.PENDING
    check_later(database, runner, "b")


def test_fault_in_a_decision_keeps_no_job_out(
    database: Database, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(module, "run_cycle", lambda *_: 1 / 0)
        assert wait_for(database, make_spec("a", replicas=1)).state is JobState.PENDING
    check_later(database, runner, "a")


def test_loop_that_ends_is_not_asked_again(database: Database, runner: Runner) -> None:
    runner.start()
    deciders = [database.decider]
    runner.stop()
    deciders.append(database.decider)
    assert [decider is None for decider in deciders] == [False, True]
    assert wait_for(database, make_spec("a", replicas=1)).state is JobState.PENDING
