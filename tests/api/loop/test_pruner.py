"""What is too old is forgotten, and nothing else."""

from api.clock import ManualClock
from api.loop.pruner import Pruner
from api.loop.runner import Runner
from api.store.engine import Database
from api.store.events import current_revision, list_events
from api.store.jobs import cancel_job, list_jobs
from api.store.ledger import audit_ledger
from api.store.pods import list_pods
from api.store.retention import forget_jobs, forget_usage
from api.store.snapshot import load_world
from api.store.usage import read_usage
from tests.api.loop.turns import settle
from tests.api.store.build import NOW_S, bind, load_cluster, make_spec, submit
from tests.api.store.test_snapshot import same

DAY_S = 86_400.0


def make_pruner(database: Database, clock: ManualClock) -> Pruner:
    return Pruner(database, clock, event_history=5, job_history_s=DAY_S)


def test_old_events_are_forgotten_and_the_newest_stay(database: Database) -> None:
    load_cluster(database)
    for number in range(20):
        submit(database, f"j{number}")
    make_pruner(database, ManualClock(NOW_S)).step()
    revision = current_revision(database)
    assert len(list_events(database, revision - 5).items) == 5


def test_records_of_jobs_that_ended_long_ago_are_deleted(database: Database) -> None:
    load_cluster(database)
    for name in ("old", "new", "waits"):
        submit(database, name)
    cancel_job(database, "default", "old", now_s=NOW_S)
    cancel_job(database, "default", "new", now_s=NOW_S + DAY_S)
    clock = ManualClock(NOW_S + DAY_S + 1)
    assert make_pruner(database, clock).step() is False
    assert [job.name for job in list_jobs(database).items] == ["new", "waits"]
    newest = list_events(database, current_revision(database) - 1).items[0]
    assert (newest.kind, newest.name) == ("job.deleted", "old")


def test_job_whose_pods_may_still_run_keeps_its_record(database: Database) -> None:
    load_cluster(database)
    clock = ManualClock(NOW_S)
    runner = Runner(database, clock)
    submit(database, make_spec("j", replicas=1))
    settle(runner)
    (pod,) = list_pods(database).items
    with database.write(NOW_S) as tx:
        revision = tx.emit("job.failed", subject_kind="job", uid=pod.job_uid)
        tx.connection.exec_driver_sql(
            f"UPDATE jobs SET state = 'failed', finished_at = 1, revision = {revision}"
        )
    assert forget_jobs(database, before=NOW_S, now_s=NOW_S) == 0
    runner.stop()


def test_runner_follows_what_is_forgotten(database: Database) -> None:
    load_cluster(database)
    clock = ManualClock(NOW_S)
    runner = Runner(database, clock)
    submit(database, make_spec("j", replicas=1))
    settle(runner)
    cancel_job(database, "default", "j", now_s=NOW_S)
    settle(runner)
    assert forget_jobs(database, before=NOW_S + 1, now_s=NOW_S) == 1
    submit(database, make_spec("j", replicas=2))
    settle(runner)
    assert runner._known is not None
    assert same(runner._known.world, load_world(database))
    assert audit_ledger(database).is_clean
    runner.stop()


def test_what_a_job_used_is_known_for_a_year_and_its_owners_sum_for_good(
    database: Database,
) -> None:
    load_cluster(database)
    runner = Runner(database, ManualClock(NOW_S + 60.0))
    bind(database, submit(database, make_spec("j", replicas=1)), ["n001"])
    cancel_job(database, "default", "j", now_s=NOW_S + 60.0)
    settle(runner)
    runner.stop()

    def used(by: str) -> int:
        return len(read_usage(database, by=by, month="2027-01", now_s=NOW_S + 60.0).items)

    assert (used("job"), used("queue")) == (1, 1)
    assert forget_usage(database, now_s=NOW_S + 360 * DAY_S) == 0
    assert forget_usage(database, now_s=NOW_S + 450 * DAY_S) == 1
    assert (used("job"), used("queue")) == (0, 1)
