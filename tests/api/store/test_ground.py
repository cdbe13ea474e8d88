"""What submissions are checked against: kept while it holds, and never longer."""

from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise

import pytest

from api.admission.admit import Door, NeverFits
from api.schemas.job import JobBody
from api.store import ground as module
from api.store.engine import Database
from api.store.ground import Moved, current_ground
from api.store.jobs import list_jobs, submit_job
from api.store.nodes import import_inventory
from api.store.policy import put_policy
from api.store.queues import delete_queue, put_queue
from api.store.schema import open_database
from scheduler.errors import JobError
from scheduler.model.queue import QueueRecord
from tests.api.store.build import NOW_S, load_cluster, make_spec, submit
from tests.builders import make_inventory


@pytest.fixture
def other(database: Database) -> Iterator[Database]:
    """The same database, as another process has it."""
    with closing(open_database(database.url)) as found:
        yield found


def body(**more: object) -> JobBody:
    return JobBody.model_validate({"name": "a", "parallelism": {"tp": 8}} | more)


def test_ground_is_not_read_again_for_what_jobs_do(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_cluster(database)
    before = current_ground(database)
    for name in "abc":
        submit(database, name)

    def refuse(*_args: object) -> None:
        raise AssertionError("the ground was read")

    monkeypatch.setattr(module, "_key", refuse)
    assert current_ground(database) is before
    submit(database, "d")


def test_ground_moves_with_queues_policy_and_map(database: Database) -> None:
    load_cluster(database)
    seen = [current_ground(database)]

    def look() -> None:
        seen.append(current_ground(database))

    put_queue(database, QueueRecord("q"), now_s=NOW_S)
    look()
    put_queue(database, QueueRecord("q", closed=True), now_s=NOW_S)
    look()
    delete_queue(database, "q", now_s=NOW_S)
    look()
    put_policy(database, {"priorities": {"high": 9}}, now_s=NOW_S)
    look()
    new = make_inventory({"block": 1, "leaf": 1, "rack": 2, "node": 4})
    import_inventory(database, new, prune=False, dry_run=False, now_s=NOW_S)
    look()
    assert all(before.key != after.key for before, after in pairwise(seen))
    assert ["q" in ground.queues for ground in seen] == [False, True, True, False, False, False]
    assert dict(seen[4].priorities) == {"high": 9}
    assert seen[5].topology.node_count > seen[4].topology.node_count


def test_job_admitted_before_another_process_closed_its_queue_is_checked_anew(
    database: Database, other: Database
) -> None:
    load_cluster(database)
    door = Door(database)
    read = door.admit(body())
    put_queue(other, QueueRecord("default", closed=True), now_s=NOW_S)
    with pytest.raises(Moved):
        submit_job(database, read.spec, read.body, now_s=NOW_S, ground=read.ground)
    assert list_jobs(database).items == ()
    door.look_again()
    with pytest.raises(JobError, match="closed"):
        door.admit(body())


def test_nobody_is_refused_for_what_is_over_elsewhere(database: Database, other: Database) -> None:
    load_cluster(database)
    door = Door(database)
    with pytest.raises(NeverFits):
        door.admit(body(parallelism={"tp": 8, "dp": 5}))
    with pytest.raises(JobError, match="queue"):
        door.admit(body(queue="new"))
    new = make_inventory({"block": 1, "leaf": 1, "rack": 2, "node": 4})
    import_inventory(other, new, prune=False, dry_run=False, now_s=NOW_S)
    put_queue(other, QueueRecord("new"), now_s=NOW_S)
    assert door.admit(body(parallelism={"tp": 8, "dp": 5})).spec.name == "a"
    assert door.admit(body(queue="new")).spec.queue == "new"
    results = door.admit_all([body(queue="new"), body(queue="none")])
    assert [isinstance(result, JobError) for result in results] == [False, True]


def test_job_of_a_queue_that_the_same_transaction_makes_is_taken(database: Database) -> None:
    load_cluster(database)
    current_ground(database)
    put_queue(database, QueueRecord("q"), now_s=NOW_S)
    job, _ = submit_job(database, make_spec("a", queue="q"), {}, now_s=NOW_S)
    assert job.queue == "q"
