"""A world that learns the end of a long line later is in the end the one that is read whole."""

from dataclasses import replace

import pytest
import sqlalchemy as sa

from api.store import backlog, tables
from api.store.commit import commit
from api.store.control import control_job
from api.store.engine import Database
from api.store.job_changes import JobChange, change_job
from api.store.job_recovery import NOTHING_LEFT, dump_recovered
from api.store.jobs import cancel_job, get_job
from api.store.pods import pods_of
from api.store.policy import put_policy
from api.store.queues import put_queue
from api.store.snapshot import Snapshot, follow, load_snapshot, load_world, read_part
from api.store.views import JobView
from scheduler.cycle import run_cycle
from scheduler.model.ids import JobId
from scheduler.model.lifecycle import JobState, PodState
from scheduler.model.plan import FactKind, Plan
from scheduler.model.queue import QueueRecord
from tests.api.store.build import (
    NOW_S,
    binding,
    job_move,
    load_cluster,
    make_spec,
    pod_moves,
    submit,
)
from tests.api.store.test_snapshot import same


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlog, "HEAD", 2)
    monkeypatch.setattr(backlog, "LONG", 4)
    monkeypatch.setattr(backlog, "PART", 3)


def line(database: Database, count: int = 9) -> list[JobView]:
    return [submit(database, make_spec(f"w{n}", replicas=4)) for n in range(count)]


def names(known: Snapshot) -> set[str]:
    return {job.spec.name for job in known.world.jobs.values()}


def read_rest(database: Database, known: Snapshot) -> int:
    """Read all parts; how many there were."""
    parts = 1
    assert known.backlog is not None
    while not read_part(database, known.world, known.backlog):
        parts += 1
    return parts


def test_head_of_each_queues_line_is_read_first_and_the_rest_in_parts(database: Database) -> None:
    load_cluster(database)
    put_queue(database, QueueRecord("other"), now_s=NOW_S)
    line(database, 7)
    submit(database, make_spec("o0", queue="other"))
    submit(database, make_spec("high", priority=5))
    known = load_snapshot(database, head_first=True)
    assert names(known) == {"high", "w0", "o0"}
    assert read_rest(database, known) == 4
    assert same(known.world, load_world(database))


def test_short_line_is_read_whole(database: Database) -> None:
    line(database, 4)
    known = load_snapshot(database, head_first=True)
    assert known.backlog is None
    assert same(known.world, load_world(database))


def test_line_of_another_order_is_read_whole(database: Database) -> None:
    line(database)
    put_policy(database, {"order": "shortest_first"}, now_s=NOW_S)
    assert load_snapshot(database, head_first=True).backlog is None


def test_what_has_a_place_is_read_first_with_its_pods(database: Database) -> None:
    load_cluster(database)
    jobs = line(database)
    commit(database, binding(database, jobs[8], ["n001", "n002", "n003", "n004"]), 0, NOW_S)
    known = load_snapshot(database, head_first=True)
    assert names(known) == {"w0", "w1", "w8"}
    assert len(known.world.live_pods(JobId(jobs[8].uid))) == 4


def test_hold_of_a_job_that_is_yet_to_be_read_is_not_lost(database: Database) -> None:
    load_cluster(database)
    line(database)
    control_job(database, "default", "w7", FactKind.HOLD, now_s=NOW_S)
    known = load_snapshot(database, head_first=True)
    assert "w7" in names(known)
    control_job(database, "default", "w6", FactKind.HOLD, now_s=NOW_S)
    assert follow(database, known.world)
    assert "w6" in names(known)
    commit(database, run_cycle(known.world, known.policy, NOW_S), 0, NOW_S)
    assert [get_job(database, "default", name).held for name in ("w5", "w6", "w7")] == [
        False,
        True,
        True,
    ]


def test_job_that_is_cancelled_before_it_is_read_never_comes(database: Database) -> None:
    line(database)
    known = load_snapshot(database, head_first=True)
    cancel_job(database, "default", "w7", now_s=NOW_S)
    assert follow(database, known.world)
    read_rest(database, known)
    assert "w7" not in names(known)
    assert same(known.world, load_world(database))


def test_change_of_a_job_that_is_yet_to_be_read_is_learnt(database: Database) -> None:
    jobs = line(database)
    known = load_snapshot(database, head_first=True)
    spec = replace(jobs[6].spec, priority=9)
    wanted = JobChange(spec, {"name": "w6"}, jobs[6].spec_revision, None)
    change_job(database, "default", "w6", wanted, now_s=NOW_S)
    assert follow(database, known.world)
    assert known.world.jobs[JobId(jobs[6].uid)].spec.priority == 9
    read_rest(database, known)
    assert same(known.world, load_world(database))


def test_job_submitted_meanwhile_is_learnt_as_news(database: Database) -> None:
    line(database)
    known = load_snapshot(database, head_first=True)
    submit(database, "late")
    read_rest(database, known)
    assert "late" not in names(known)
    assert follow(database, known.world)
    assert same(known.world, load_world(database))


def test_pod_of_a_gang_that_is_read_later_keeps_its_attempt(database: Database) -> None:
    load_cluster(database)
    jobs = line(database)
    nodes = ["n001", "n002", "n003", "n004"]
    commit(database, binding(database, jobs[8], nodes), 0, NOW_S)
    revision = get_job(database, "default", "w8").revision
    back = Plan(
        revision,
        job_moves=(job_move(jobs[8], JobState.PENDING),),
        pod_moves=pod_moves(jobs[8], 4, PodState.STOPPED),
    )
    commit(database, back, 0, NOW_S)
    known = load_snapshot(database, head_first=True)
    assert "w8" not in names(known)
    read_rest(database, known)
    uids = {pod.uid for pod in pods_of(database, jobs[8].uid)}
    assert {pod.uid for pod in known.world.pods[JobId(jobs[8].uid)].values()} == uids
    assert same(known.world, load_world(database))


def test_gang_that_failed_before_is_read_first(database: Database) -> None:
    jobs = line(database)
    with database.write(NOW_S) as tx:
        told = sa.update(tables.jobs).where(tables.jobs.c.uid == jobs[8].uid)
        tx.connection.execute(
            told.values(recovery=dump_recovered(replace(NOTHING_LEFT, crashes=1)))
        )
    known = load_snapshot(database, head_first=True)
    assert names(known) == {"w0", "w1", "w8"}


def test_head_of_a_line_is_found_by_an_index(database: Database) -> None:
    line(database)
    query = backlog._line([tables.jobs.c.uid, tables.jobs.c.age], "default")
    dialect = database.engine.dialect
    text = str(query.compile(dialect=dialect, compile_kwargs={"literal_binds": True}))
    with database.read() as connection:
        if dialect.name == "postgresql":
            # With as few rows any way is as short.
            for way in ("seqscan", "bitmapscan", "sort"):
                connection.exec_driver_sql(f"SET LOCAL enable_{way} = off")
            text = "EXPLAIN " + text
        else:
            text = "EXPLAIN QUERY PLAN " + text
        plan = "\n".join(str(row) for row in connection.exec_driver_sql(text))
    assert "ix_jobs_line" in plan
    assert "SORT" not in plan.upper()
    assert "B-TREE" not in plan
