"""Usage accounting: every GPU-second once, whoever ends when."""

import random
from collections import Counter

import pytest

from api.store.commit import commit
from api.store.engine import Database
from api.store.errors import BadCursor
from api.store.jobs import cancel_job
from api.store.months import by_month, month_of
from api.store.queues import create_queue
from api.store.usage import BY, UsageRow, read_usage
from api.store.views import JobView
from scheduler.model.lifecycle import JobState, PodState
from scheduler.model.plan import Plan
from scheduler.model.queue import QueueRecord
from tests.api.store.build import (
    NOW_S,
    binding,
    job_move,
    load_cluster,
    make_pods,
    make_spec,
    pod_moves,
    submit,
)

MONTH = "2027-01"
FEBRUARY_S = 1_801_440_000.0
"""2027-02-01T00:00:00Z."""


def used(
    database: Database, by: str = "queue", month: str = MONTH, *, now_s: float, **only: str
) -> dict[str, float]:
    """GPU-seconds by owner."""
    found = read_usage(database, by=by, month=month, now_s=now_s, **only)  # type: ignore[arg-type]  # by name
    return {row.owner: row.gpu_ms / 1_000 for row in found.items}


def start(database: Database, job: JobView, nodes: list[str], at_s: float) -> None:
    assert not commit(database, binding(database, job, nodes), 0, at_s).dropped


def stop(database: Database, job: JobView, count: int, at_s: float) -> None:
    plan = Plan(
        revision=database.notifier.wait(-1, 0.0),
        job_moves=(job_move(job, JobState.SUCCEEDED),),
        pod_moves=pod_moves(job, count, PodState.SUCCEEDED),
    )
    assert not commit(database, plan, 0, at_s).dropped


def test_job_counts_while_it_runs_and_after_it(database: Database) -> None:
    """Two nodes of 8 GPUs for 100 s."""
    load_cluster(database)
    job = submit(database, make_spec("a"))
    start(database, job, ["n001", "n002"], NOW_S)
    assert used(database, now_s=NOW_S + 100) == {"default": 1_600.0}
    stop(database, job, 2, NOW_S + 100)
    assert used(database, now_s=NOW_S + 900) == {"default": 1_600.0}


def test_usage_outlives_the_record_of_its_job(database: Database) -> None:
    load_cluster(database)
    job = submit(database, make_spec("a"))
    start(database, job, ["n001", "n002"], NOW_S)
    stop(database, job, 2, NOW_S + 10)
    cancel_job(database, "default", "a", now_s=NOW_S)
    (row,) = read_usage(database, by="job", month=MONTH, now_s=NOW_S).items
    assert row == UsageRow(job.uid, "H100-80GB", 160_000, "default", "default", "a")


def test_job_that_runs_over_the_end_of_a_month_counts_in_both(database: Database) -> None:
    load_cluster(database)
    job = submit(database, make_spec("a", replicas=1))
    start(database, job, ["n001"], FEBRUARY_S - 60)
    assert used(database, now_s=FEBRUARY_S + 40) == {"default": 480.0}
    assert used(database, month="2027-02", now_s=FEBRUARY_S + 40) == {"default": 320.0}
    stop(database, job, 1, FEBRUARY_S + 40)
    assert used(database, now_s=FEBRUARY_S + 90) == {"default": 480.0}
    assert used(database, month="2027-02", now_s=FEBRUARY_S + 90) == {"default": 320.0}
    assert used(database, month="2026-12", now_s=FEBRUARY_S + 90) == {}


def test_pod_that_starts_anew_in_the_same_plan_counts_both_lives(database: Database) -> None:
    load_cluster(database)
    job = submit(database, make_spec("a", replicas=1))
    start(database, job, ["n001"], NOW_S)
    again = Plan(
        revision=database.notifier.wait(-1, 0.0),
        job_moves=(job_move(job, JobState.BOUND, attempt=2),),
        pods=make_pods(job, ["n002"], attempt=2),
    )
    assert not commit(database, again, 0, NOW_S + 10).dropped
    assert used(database, now_s=NOW_S + 15) == {"default": 120.0}


def test_commit_that_is_refused_accounts_for_nothing(database: Database) -> None:
    load_cluster(database)
    job = submit(database, make_spec("a", replicas=1))
    start(database, job, ["n001"], NOW_S)
    stale = Plan(
        revision=0,
        job_moves=(job_move(job, JobState.SUCCEEDED),),
        pod_moves=pod_moves(job, 1, PodState.SUCCEEDED),
    )
    assert commit(database, stale, 0, NOW_S + 10).dropped
    assert used(database, now_s=NOW_S + 10) == {"default": 80.0}


def test_usage_is_told_of_one_queue_or_namespace_alone(database: Database) -> None:
    load_cluster(database)
    create_queue(database, QueueRecord("q"), now_s=NOW_S)
    for name, node, namespace in (("a", "n001", "x"), ("b", "n002", "y")):
        job = submit(database, make_spec(name, replicas=1, queue="q", namespace=namespace))
        start(database, job, [node], NOW_S)
        stop(database, job, 1, NOW_S + 10)
    now_s = NOW_S + 10
    assert used(database, "namespace", now_s=now_s) == {"x": 80.0, "y": 80.0}
    assert used(database, "gpu", now_s=now_s) == {"H100-80GB": 160.0}
    assert used(database, "namespace", now_s=now_s, namespace="x") == {"x": 80.0}
    assert used(database, now_s=now_s, queue="default") == {}


def test_usage_by_job_comes_in_pages_of_past_and_present(database: Database) -> None:
    load_cluster(database)
    made = []
    for index, node in enumerate(("n001", "n002", "n003")):
        job = submit(database, make_spec(f"j{index}", replicas=1))
        start(database, job, [node], NOW_S)
        made.append(job)
    stop(database, made[1], 1, NOW_S + 10)
    seen, cursor, pages = [], None, 0
    while True:
        page = read_usage(database, by="job", month=MONTH, now_s=NOW_S + 10, limit=1, cursor=cursor)
        seen += [row.job for row in page.items]
        cursor, pages = page.next, pages + 1
        if cursor is None:
            break
    assert (sorted(seen), pages) == (["j0", "j1", "j2"], 3)
    with pytest.raises(BadCursor):
        read_usage(database, by="job", month=MONTH, now_s=NOW_S, cursor="WzFd")


@pytest.mark.parametrize("seed", range(3))
def test_each_gpu_second_is_counted_once_whatever_happens(database: Database, seed: int) -> None:
    """Jobs of one node each start and end at random times of three months; the record of some
    goes; what is told at any time, by whatever, is what a list of lives says."""
    chance = random.Random(seed)
    load_cluster(database, 8)
    create_queue(database, QueueRecord("q"), now_s=NOW_S)
    free = [f"n{n:03d}" for n in range(1, 9)]
    running: dict[str, tuple[JobView, str, float]] = {}
    lives: list[tuple[str, int, int]] = []
    now_s = NOW_S
    for step in range(40):
        now_s += chance.choice((0.0, 0.25, 3_600.0, 86_400.0 * chance.random() * 5))
        if free and chance.random() < 0.6:
            queue = chance.choice(("q", "default"))
            job = submit(database, make_spec(f"j{step}", replicas=1, queue=queue))
            node = free.pop()
            start(database, job, [node], now_s)
            running[job.uid] = (job, node, now_s)
        elif running:
            uid = chance.choice(sorted(running))
            job, node, since_s = running.pop(uid)
            stop(database, job, 1, now_s)
            free.append(node)
            lives.append((job.queue, round(since_s * 1_000), round(now_s * 1_000)))
            if chance.random() < 0.5:
                cancel_job(database, "default", job.name, now_s=now_s)
    of_running = [
        (job.queue, round(since_s * 1_000), round(now_s * 1_000))
        for job, _, since_s in running.values()
    ]
    expected: Counter[tuple[str, str]] = Counter()
    for queue, from_ms, to_ms in (*lives, *of_running):
        for month, ms in by_month(from_ms, to_ms):
            expected[month, queue] += 8 * ms
    for month in {month for month, _ in expected}:
        found = {by: read_usage(database, by=by, month=month, now_s=now_s).items for by in BY}
        totals = {by: sum(row.gpu_ms for row in rows) for by, rows in found.items()}
        assert set(totals.values()) == {sum(n for (m, _), n in expected.items() if m == month)}
        assert {row.owner: row.gpu_ms for row in found["queue"]} == {
            queue: n for (m, queue), n in expected.items() if m == month and n
        }


def test_months_cut_a_span_without_loss() -> None:
    """From the last second of a year over a leap day."""
    from_ms = 1_830_297_599_000  # 2027-12-31T23:59:59Z
    to_ms = from_ms + 62 * 86_400_000
    cut = dict(by_month(from_ms, to_ms))
    assert list(cut) == ["2027-12", "2028-01", "2028-02", "2028-03"]
    assert (cut["2027-12"], cut["2028-02"]) == (1_000, 29 * 86_400_000)
    assert sum(cut.values()) == to_ms - from_ms
    assert month_of(from_ms) == "2027-12"
    assert list(by_month(to_ms, from_ms)) == []
