"""The history: complete, in order, and bounded."""

import pytest

from api.store.engine import Database
from api.store.errors import FutureRevision, Gone
from api.store.events import TRIM_STEP, current_revision, list_events, trim_history
from api.store.jobs import cancel_job, submit_job
from api.store.pods import report_pod
from api.store.policy import get_policy, load_policy, put_policy
from api.store.snapshot import load_world
from api.store.views import IdempotencyKey
from scheduler.model.lifecycle import PodState
from scheduler.policy import Policy, PolicyError
from tests.api.store.build import NOW_S, bind, load_cluster, make_spec, submit
from tests.api.store.raw import execute


def fill(database: Database, count: int) -> None:
    with database.write(NOW_S) as tx:
        for number in range(count):
            tx.emit("test.happened", subject_kind="test", name=str(number))


def test_events_are_read_from_any_revision_on_in_pages(database: Database) -> None:
    fill(database, 10)
    seen, since, more = [], 3, True
    while more:
        page = list_events(database, since, 3)
        seen += [event.revision for event in page.items]
        more = page.next is not None
        since = int(page.next or 0)
        assert page.revision == 10
    assert seen == [4, 5, 6, 7, 8, 9, 10]
    assert list_events(database, 10).items == ()


def test_start_in_the_future_is_refused(database: Database) -> None:
    fill(database, 2)
    with pytest.raises(FutureRevision, match="revision 3 lies ahead; the current revision is 2"):
        list_events(database, 3)


def test_events_of_one_job_are_those_of_its_pods_too(database: Database) -> None:
    load_cluster(database)
    job, other = submit(database, "a"), submit(database, "b")
    bind(database, job, ["n001", "n002"])
    for name in ("a-member-0", "a-member-1"):
        report_pod(
            database,
            "default",
            name,
            attempt=1,
            state=PodState.RUNNING,
            exit_code=None,
            now_s=NOW_S,
        )
    cancel_job(database, "default", "b", now_s=NOW_S)
    kinds = [event.kind for event in list_events(database, 0, job_uid=job.uid).items]
    assert kinds == ["job.submitted", "job.bound", "pod.reported", "pod.reported"]
    assert [e.kind for e in list_events(database, 0, uid=other.uid).items] == [
        "job.submitted",
        "job.cancelled",
    ]
    assert len(list_events(database, 0, subject_kind="pod").items) == 2
    assert len(list_events(database, 0, kind="job.submitted", name="b").items) == 1
    assert list_events(database, 0, namespace="none").items == ()


def test_old_events_are_forgotten_and_a_start_before_them_is_refused(database: Database) -> None:
    fill(database, 10)
    assert trim_history(database, keep=4, now_s=NOW_S) == 6
    assert trim_history(database, keep=4, now_s=NOW_S) == 0
    assert [event.revision for event in list_events(database, 6).items] == [7, 8, 9, 10]
    with pytest.raises(Gone, match="the oldest start is 6"):
        list_events(database, 5)
    assert current_revision(database) == 10


def test_history_is_trimmed_in_steps(database: Database) -> None:
    fill(database, TRIM_STEP + 10)
    assert trim_history(database, keep=5, now_s=NOW_S) == TRIM_STEP
    assert trim_history(database, keep=5, now_s=NOW_S) == 5


def test_trimming_keeps_facts_that_were_not_acted_on(database: Database) -> None:
    load_cluster(database)
    bind(database, submit(database, "a"), ["n001", "n002"])
    cancel_job(database, "default", "a", now_s=NOW_S)
    fill(database, 10)
    trim_history(database, keep=1, now_s=NOW_S)
    assert len(load_world(database).facts) == 1
    execute(database, "UPDATE facts SET applied_at = 1")
    fill(database, 1)
    trim_history(database, keep=1, now_s=NOW_S)
    with database.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM facts").scalar_one() == 0


def test_trimming_forgets_keys_after_a_day(database: Database) -> None:
    key = IdempotencyKey("", "default", "k", "h")
    submit_job(database, make_spec("a"), {}, now_s=NOW_S, idempotency=key)
    query = "SELECT count(*) FROM idempotency"
    for later_s, left in ((86_399.0, 1), (86_400.0, 0)):
        trim_history(database, keep=100, now_s=NOW_S + later_s)
        with database.read() as connection:
            assert connection.exec_driver_sql(query).scalar_one() == left


def test_policy_has_defaults_and_is_replaced_whole(database: Database) -> None:
    assert load_policy(database) == Policy()
    changed = get_policy(database) | {"lost_after_s": 60, "paused": True}
    assert put_policy(database, changed, now_s=NOW_S) == get_policy(database)
    assert load_policy(database) == Policy(lost_after_s=60.0, paused=True)
    assert load_world(database).paused
    revision = current_revision(database)
    put_policy(database, changed, now_s=NOW_S)
    assert current_revision(database) == revision
    put_policy(database, {}, now_s=NOW_S)
    assert load_policy(database) == Policy()


@pytest.mark.parametrize(
    "body",
    [
        {"colour": "red"},
        {"lost_after_s": "long"},
        {"lost_after_s": True},
        {"paused": 1},
        {"breaker_share": 2.0},
        {"suspect_after_s": float("nan")},
    ],
)
def test_policy_that_is_wrong_is_refused(database: Database, body: dict[str, object]) -> None:
    with pytest.raises(PolicyError) as caught:
        put_policy(database, body, now_s=NOW_S)
    assert caught.value.problems[0].path == next(iter(body))
    assert current_revision(database) == 0


def test_policy_field_of_an_older_program_is_passed_over(database: Database) -> None:
    execute(database, 'INSERT INTO policy VALUES (1, \'{"old": 1, "paused": true}\', 1)')
    assert load_policy(database) == Policy(paused=True)
