"""Worlds that are told of this process's own writes equal those that read them."""

import random

import pytest

from api.clock import ManualClock
from api.loop.runner import Runner
from api.store.engine import Database
from api.store.job_rows import later_view
from api.store.jobs import cancel_job, get_job_by_uid, list_jobs, submit_job
from api.store.pods import list_pods, report_pod
from api.store.snapshot import load_world
from api.store.tail import Piece, Standing
from api.store.telling import follow_told
from api.store.views import JobView
from scheduler.model.job import JobSpec
from scheduler.model.lifecycle import LIVE_POD, JobState, PodState
from tests.api.loop.turns import settle
from tests.api.store.build import NOW_S, load_cluster, make_spec
from tests.api.store.test_snapshot import same


def make_runner(database: Database) -> Runner:
    runner = Runner(database, ManualClock(NOW_S))
    settle(runner)
    return runner


def test_submission_and_binding_are_told_and_nothing_is_read(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_cluster(database)
    runner = make_runner(database)

    def refuse(*_args: object) -> None:
        raise AssertionError("the world was read")

    monkeypatch.setattr("api.loop.runner.follow_with_policy", refuse)
    submit_job(database, make_spec("a", replicas=1, gpus=4), {}, now_s=NOW_S)
    assert runner.turn()
    assert runner._known is not None
    assert follow_told(database, runner._known.world)
    assert same(runner._known.world, load_world(database))
    monkeypatch.undo()
    runner.stop()


def test_reports_and_ends_are_told_and_nothing_is_read(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_cluster(database)
    submit_job(database, make_spec("a", replicas=1, gpus=4), {}, now_s=NOW_S)
    runner = make_runner(database)

    def refuse(*_args: object) -> None:
        raise AssertionError("the world was read")

    monkeypatch.setattr("api.loop.runner.follow_with_policy", refuse)
    pod = list_pods(database).items[0]
    report_pod(
        database,
        "default",
        pod.name,
        attempt=1,
        state=PodState.RUNNING,
        exit_code=None,
        now_s=NOW_S,
    )
    assert runner.turn()
    cancel_job(database, "default", "a", now_s=NOW_S)
    assert runner.turn()
    # Placed after the end was asked for and before that end was written: both are told.
    submit_job(database, make_spec("b", replicas=1, gpus=4), {}, now_s=NOW_S)
    assert runner.turn()
    cancel_job(database, "default", "a", now_s=NOW_S)  # its record
    submit_job(database, make_spec("c", replicas=9, gpus=4), {}, now_s=NOW_S)
    cancel_job(database, "default", "c", now_s=NOW_S)
    assert runner._known is not None
    assert follow_told(database, runner._known.world)
    assert same(runner._known.world, load_world(database))
    monkeypatch.undo()
    runner.stop()


def test_fact_that_changes_nothing_is_not_taken_account_of_twice(database: Database) -> None:
    """It leaves without an event that would tell of it, so facts are read then."""
    load_cluster(database)
    submit_job(database, make_spec("a", replicas=1, gpus=4), {}, now_s=NOW_S)
    runner = make_runner(database)
    pod = list_pods(database).items[0]
    states = (PodState.RUNNING, PodState.STOPPED)
    for state in states:  # the second comes before the first is taken account of
        report_pod(
            database, "default", pod.name, attempt=1, state=state, exit_code=None, now_s=NOW_S
        )
    cancel_job(database, "default", "a", now_s=NOW_S)
    runner.turn()
    submit_job(database, make_spec("b", replicas=1, gpus=4), {}, now_s=NOW_S)
    settle(runner)
    assert runner._known is not None
    assert not runner._known.world.facts
    assert same(runner._known.world, load_world(database))
    runner.stop()


@pytest.mark.parametrize("seed", range(3))
def test_world_that_is_told_equals_one_read_anew_whatever_happens(
    database: Database, seed: int
) -> None:
    load_cluster(database)
    runner, chance = make_runner(database), random.Random(seed)
    told = 0
    for step in range(40):
        _do_something(database, chance, step)
        if chance.random() < 0.7:
            runner.turn()
        assert runner._known is not None
        told += follow_told(database, runner._known.world)
        if runner._known.world.revision == load_world(database).revision:
            assert same(runner._known.world, load_world(database)), step
    assert told > 5
    runner.stop()


@pytest.mark.parametrize("seed", range(3))
def test_what_waiting_requests_are_told_is_what_they_would_read(
    database: Database, seed: int
) -> None:
    load_cluster(database)
    runner, chance = make_runner(database), random.Random(seed)
    known: dict[str, JobView] = {}
    heard: list[tuple[str, Standing]] = []

    def hear(piece: Piece | None) -> None:
        heard.extend(() if piece is None else piece.jobs.items())

    database.tail.listen(hear)
    compared = 0
    for step in range(40):
        _do_something(database, chance, step)
        known |= {job.uid: job for job in list_jobs(database).items}
        runner.turn()
        for uid, standing in heard:
            assert later_view(known[uid], standing) == get_job_by_uid(database, uid), step
        compared += len(heard)
        heard.clear()
    assert compared
    runner.stop()


def _do_something(database: Database, chance: random.Random, step: int) -> None:
    jobs = [j for j in list_jobs(database).items if j.state is not JobState.CANCELLED]
    pods = [pod for pod in list_pods(database).items if pod.state in LIVE_POD]
    kind = chance.choice(["submit", "submit", "report", "report", "cancel"])
    if kind == "submit" or not jobs:
        spec: JobSpec = make_spec(f"j{step}", replicas=chance.choice([1, 2]), gpus=4)
        submit_job(database, spec, {"name": spec.name}, now_s=NOW_S)
    elif kind == "report" and pods:
        pod = chance.choice(pods)
        state = PodState.RUNNING if pod.state is PodState.BOUND else PodState.SUCCEEDED
        report_pod(
            database,
            pod.namespace,
            pod.name,
            attempt=pod.attempt,
            state=state,
            exit_code=0 if state is PodState.SUCCEEDED else None,
            now_s=NOW_S,
        )
    elif kind == "cancel":
        job = chance.choice(jobs)
        if job.finished_at is None:
            cancel_job(database, job.namespace, job.name, now_s=NOW_S)
