"""Submitting, reading and cancelling jobs."""

import pytest
import sqlalchemy as sa

from api.store.batch import run_batch
from api.store.bulk import insert_rows
from api.store.engine import Database
from api.store.errors import BadCursor, Conflict, NotFound
from api.store.events import current_revision, list_events
from api.store.job_rows import new_job_row, whole_row
from api.store.jobs import (
    cancel_job,
    count_jobs,
    get_job,
    get_job_by_uid,
    list_jobs,
    submit_job,
)
from api.store.pods import pods_of
from api.store.queues import create_queue
from api.store.tables import jobs
from api.store.views import IdempotencyKey, Submission
from scheduler.model.job import JobSpec, ParallelSizes, Role
from scheduler.model.lifecycle import JobState
from scheduler.model.queue import QueueRecord
from tests.api.store.build import NOW_S, bind, load_cluster, make_spec, submit
from tests.api.store.raw import execute

DAY_S = 24 * 3600.0


def key(
    text: str = "k", body: str = "h", *, caller: str = "", namespace: str = "default"
) -> IdempotencyKey:
    return IdempotencyKey(caller, namespace, text, body)


def test_submitted_job_is_read_back_as_it_was_given(database: Database) -> None:
    spec = make_spec("a", namespace="ns", priority=7, extra={"run": {"env": {"A": "ü"}}})
    body: dict[str, object] = {"name": "a", "nested": [1, 2.5, None, {"x": "y"}]}
    view, created = submit_job(database, spec, body, now_s=NOW_S)
    assert created
    assert view == get_job(database, "ns", "a") == get_job_by_uid(database, view.uid)
    assert (view.spec, view.body) == (spec, body)
    assert (view.state, view.reason, view.attempt) == (JobState.PENDING, None, 0)
    assert (view.age, view.revision, view.submitted_at) == (1, 1, NOW_S)
    assert (view.minimum, view.members, view.gpus, view.running) == (2, 2, 16, 0)


def test_members_of_a_parallel_job_follow_the_node_type_it_may_use(database: Database) -> None:
    sizes = ParallelSizes(tp=4, dp=8)
    unknown = submit(database, JobSpec(name="a", parallelism=sizes))
    assert (unknown.members, unknown.gpus_per_pod) == (4, 8)
    load_cluster(database)
    told = submit(database, JobSpec(name="b", parallelism=sizes, gpus_per_pod=4))
    assert (told.minimum, told.members, told.gpus_per_pod) == (8, 8, 4)
    known = submit(database, JobSpec(name="c", parallelism=sizes, gpu="H100-80GB"))
    assert (known.members, known.gpus_per_pod) == (4, 8)


def test_minimum_counts_the_members_that_must_run_together(database: Database) -> None:
    roles = (Role("driver", 1, 1), Role("worker", 6, 2, gpus=4))
    view = submit(database, JobSpec(name="a", roles=roles))
    assert (view.minimum, view.members, view.gpus, view.gpus_per_pod) == (3, 7, 24, 0)


def test_name_in_use_is_refused_in_its_namespace_alone(database: Database) -> None:
    submit(database, "a")
    with pytest.raises(Conflict, match="'default/a' exists: it is pending") as caught:
        submit(database, "a")
    assert caught.value.path == "name"
    submit(database, make_spec("a", namespace="other"))
    assert current_revision(database) == 2


def test_name_is_free_again_when_the_job_has_ended(database: Database) -> None:
    first = submit(database, "a")
    cancel_job(database, "default", "a", now_s=NOW_S)
    second = submit(database, "a")
    assert get_job(database, "default", "a").uid == second.uid
    assert get_job_by_uid(database, first.uid).state is JobState.CANCELLED
    assert [job.uid for job in list_jobs(database).items] == [first.uid, second.uid]


def test_unknown_queue_is_refused(database: Database) -> None:
    with pytest.raises(NotFound) as caught:
        submit(database, make_spec(queue="nowhere"))
    assert (caught.value.kind, caught.value.name) == ("queue", "nowhere")


def test_job_that_does_not_exist_is_not_found(database: Database) -> None:
    with pytest.raises(NotFound):
        get_job(database, "default", "none")
    with pytest.raises(NotFound):
        get_job_by_uid(database, "none")
    with pytest.raises(NotFound):
        cancel_job(database, "default", "none", now_s=NOW_S)


def test_same_key_is_one_job(database: Database) -> None:
    first, created = submit_job(database, make_spec("a"), {}, now_s=NOW_S, idempotency=key())
    again, made = submit_job(database, make_spec("a"), {}, now_s=NOW_S + 1, idempotency=key())
    assert (created, made) == (True, False)
    assert again == first
    assert current_revision(database) == 1


def test_same_key_with_another_body_is_refused(database: Database) -> None:
    submit_job(database, make_spec("a"), {}, now_s=NOW_S, idempotency=key())
    with pytest.raises(Conflict, match="'k' was used for another body") as caught:
        submit_job(database, make_spec("b"), {}, now_s=NOW_S, idempotency=key(body="other"))
    assert caught.value.path == "Idempotency-Key"


def test_keys_of_other_callers_and_namespaces_are_other_keys(database: Database) -> None:
    for name, other in (("a", key()), ("b", key(caller="x")), ("c", key(namespace="n"))):
        assert submit_job(database, make_spec(name), {}, now_s=NOW_S, idempotency=other)[1]


def test_key_is_forgotten_after_a_day(database: Database) -> None:
    submit_job(database, make_spec("a"), {}, now_s=NOW_S, idempotency=key())
    for later_s, created in ((DAY_S - 1, False), (DAY_S, True)):
        name = "a" if not created else "b"
        now_s = NOW_S + later_s
        _, made = submit_job(database, make_spec(name), {}, now_s=now_s, idempotency=key())
        assert made is created


def test_key_of_a_deleted_job_is_refused(database: Database) -> None:
    submit_job(database, make_spec("a"), {}, now_s=NOW_S, idempotency=key())
    for _ in range(2):
        cancel_job(database, "default", "a", now_s=NOW_S)
    with pytest.raises(Conflict, match="was deleted"):
        submit_job(database, make_spec("a"), {}, now_s=NOW_S, idempotency=key())


def test_batch_has_a_result_for_each_job(database: Database) -> None:
    submit(database, "taken")
    specs = [make_spec("a"), make_spec("taken"), make_spec("b", queue="none"), make_spec("a")]
    done = run_batch(database, ends=(), submissions=[Submission(s, {}) for s in specs], now_s=NOW_S)
    results = done.submitted
    assert isinstance(results[0], tuple)
    assert results[0][1]
    assert [type(r) for r in results[1:]] == [Conflict, NotFound, Conflict]
    assert {job.name for job in list_jobs(database).items} == {"a", "taken"}


def test_list_shows_pages_in_the_order_of_submission(database: Database) -> None:
    names = [f"j{n}" for n in range(7)]
    for name in names:
        submit(database, name)
    found, cursor, pages = [], None, 0
    while pages == 0 or cursor is not None:
        page = list_jobs(database, limit=3, cursor=cursor)
        found += [job.name for job in page.items]
        cursor, pages = page.next, pages + 1
        assert page.revision == 7
    assert (found, pages) == (names, 3)


def test_list_shows_only_what_was_asked_for(database: Database) -> None:
    create_queue(database, QueueRecord("q"), now_s=NOW_S)
    submit(database, make_spec("a"))
    submit(database, make_spec("b", namespace="n"))
    submit(database, make_spec("c", queue="q"))
    submit(database, make_spec("d"))
    cancel_job(database, "default", "d", now_s=NOW_S)

    def names(**wanted: object) -> list[str]:
        return [job.name for job in list_jobs(database, **wanted).items]  # type: ignore[arg-type]  # filters by name

    assert names(namespace="n") == ["b"]
    assert names(queue="q") == ["c"]
    assert names(state=JobState.CANCELLED) == ["d"]
    assert names(state=JobState.PENDING, namespace="default", queue="default") == ["a"]
    assert count_jobs(database) == {JobState.PENDING: 3, JobState.CANCELLED: 1}


@pytest.mark.parametrize(
    "cursor", ["", "x", "!!!!", "WyJhIl0", "WzFd" * 99, "ünï", "W10", "bnVsbA"]
)
def test_cursor_that_was_not_given_is_refused(database: Database, cursor: str) -> None:
    with pytest.raises(BadCursor):
        list_jobs(database, cursor=cursor)


def test_pending_job_is_cancelled_at_once_and_deleted_the_next_time(database: Database) -> None:
    job = submit(database, "a")
    cancelled = cancel_job(database, "default", "a", now_s=NOW_S + 1)
    assert (cancelled.state, cancelled.finished_at) == (JobState.CANCELLED, NOW_S + 1)
    assert cancelled == get_job(database, "default", "a")
    deleted = cancel_job(database, "default", "a", now_s=NOW_S + 2)
    assert deleted.uid == job.uid
    with pytest.raises(NotFound):
        cancel_job(database, "default", "a", now_s=NOW_S + 3)
    kinds = [event.kind for event in list_events(database, 0).items]
    assert kinds == ["job.submitted", "job.cancelled", "job.deleted"]


def test_bound_job_is_cancelled_by_one_fact(database: Database) -> None:
    load_cluster(database)
    job = submit(database, "a")
    bind(database, job, ["n001", "n002"])
    asked = cancel_job(database, "default", "a", now_s=NOW_S)
    assert (asked.state, asked.cancelling) == (JobState.BOUND, True)
    assert asked == get_job(database, "default", "a")
    revision = current_revision(database)
    assert cancel_job(database, "default", "a", now_s=NOW_S) == asked
    assert current_revision(database) == revision
    assert len(pods_of(database, job.uid)) == 2


def test_job_that_ended_is_not_deleted_while_its_pods_may_run(database: Database) -> None:
    load_cluster(database)
    job = submit(database, "a")
    bind(database, job, ["n001", "n002"])
    execute(database, "UPDATE pods SET state = 'lost' WHERE pod_index = 0")
    execute(database, "UPDATE pods SET state = 'stopped' WHERE pod_index = 1")
    execute(database, "UPDATE jobs SET state = 'cancelled'")
    with pytest.raises(Conflict, match="1 of its pods may still run"):
        cancel_job(database, "default", "a", now_s=NOW_S)
    with pytest.raises(Conflict, match="has 1 live pods"):
        submit(database, "a")
    execute(database, "UPDATE pods SET state = 'stopped'")
    cancel_job(database, "default", "a", now_s=NOW_S)
    assert pods_of(database, job.uid) == ()


def test_whole_row_has_what_the_table_makes_of_columns_left_out(database: Database) -> None:
    row = new_job_row("u1", make_spec("a"), {"name": "a"}, 8)
    row |= {"age": 9, "spec_revision": 9, "revision": 9, "submitted_at": NOW_S}
    with database.write_quietly() as connection:
        insert_rows(connection, jobs, [row])
        found = connection.execute(sa.select(jobs)).one()
    assert whole_row(row) == {k: v for k, v in found._mapping.items() if k != "holds_name"}
