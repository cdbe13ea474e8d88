"""What jobs have saved: steps do not go back, copies are lost with their nodes."""

import pytest
import sqlalchemy as sa

from api.store.checkpoints import (
    KEPT,
    Checkpoint,
    is_below,
    list_checkpoints,
    newest_that_exists,
    save_checkpoint,
)
from api.store.engine import Database
from api.store.errors import Conflict
from api.store.events import list_events
from api.store.jobs import cancel_job, get_job, submit_job
from api.store.tables import nodes
from api.store.views import JobView
from scheduler.errors import JobError, StateError
from scheduler.model.job import JobSpec
from tests.api.store.build import NOW_S, load_cluster, make_spec, submit


@pytest.fixture
def job(database: Database) -> JobView:
    load_cluster(database)
    return submit(database, "j")


def save(database: Database, step: int, uri: str = "", **more: object) -> JobView:
    made = Checkpoint(step, uri or f"s3://b/{step}", **more)  # type: ignore[arg-type]  # by name
    return save_checkpoint(database, "default", "j", made, now_s=NOW_S + step)


def newest(database: Database, job: JobView, *lost: str) -> int | None:
    with database.read() as connection:
        found = newest_that_exists(connection, job.uid, lost)
    return None if found is None else found.step


def test_the_newest_checkpoint_is_shown_with_its_job(database: Database, job: JobView) -> None:
    save(database, 10)
    view = save(database, 20, tier="remote")
    assert view.saved is not None
    assert (view.saved.step, view.saved.uri, view.saved.at) == (20, "s3://b/20", NOW_S + 20)
    steps = [known.checkpoint.step for known in list_checkpoints(database, "default", "j").items]
    assert steps == [20, 10]


def test_steps_do_not_go_back(database: Database, job: JobView) -> None:
    save(database, 10)
    with pytest.raises(Conflict, match="found 9; job 'default/j' has saved step 10 already"):
        save(database, 9)
    assert len(list_checkpoints(database, "default", "j").items) == 1


def test_a_job_that_has_ended_saves_no_more(database: Database, job: JobView) -> None:
    cancel_job(database, "default", "j", now_s=NOW_S)
    with pytest.raises(StateError, match="is cancelled; it saves no more"):
        save(database, 1)


def test_the_same_again_does_nothing(database: Database, job: JobView) -> None:
    save(database, 10, nodes=("n001",))
    before = get_job(database, "default", "j").revision
    save(database, 10, nodes=("n001",))
    assert get_job(database, "default", "j").revision == before
    assert [e.kind for e in list_events(database, 0, kind="job.saved").items] == ["job.saved"]


def test_a_copy_is_lost_with_the_last_node_that_has_it(database: Database, job: JobView) -> None:
    save(database, 10)
    save(database, 20, nodes=("n001", "n002"))
    save(database, 30, nodes=("n003",))
    assert newest(database, job) == 30
    assert newest(database, job, "n003") == 20
    assert newest(database, job, "n001", "n003") == 20
    assert newest(database, job, "n001", "n002", "n003") == 10


def test_a_job_whose_copies_are_all_lost_has_none(database: Database, job: JobView) -> None:
    assert newest(database, job) is None
    save(database, 10, nodes=("n001",))
    assert newest(database, job, "n001") is None


def test_of_two_copies_of_a_step_the_one_that_is_left_counts(
    database: Database, job: JobView
) -> None:
    save(database, 10, "s3://b/remote/10")
    save(database, 10, "s3://b/local/10", nodes=("n001",))
    with database.read() as connection:
        there = newest_that_exists(connection, job.uid, ())
        left = newest_that_exists(connection, job.uid, ("n001",))
    assert there is not None
    assert left is not None
    assert (there.uri, left.uri) == ("s3://b/local/10", "s3://b/remote/10")


def test_the_list_says_which_copies_are_known_to_be_lost(database: Database, job: JobView) -> None:
    save(database, 10, nodes=("n001",))
    save(database, 20, nodes=("n001", "n002"))
    with database.write_quietly() as connection:
        connection.execute(sa.update(nodes).where(nodes.c.name == "n001").values(health="lost"))
    both, one = list_checkpoints(database, "default", "j").items
    assert (both.lost, both.exists) == (("n001",), True)
    assert (one.lost, one.exists) == (("n001",), False)


def test_only_so_many_are_remembered(database: Database, job: JobView) -> None:
    for step in range(KEPT + 5):
        save(database, step)
    items = list_checkpoints(database, "default", "j").items
    assert len(items) == KEPT
    assert items[0].checkpoint.step == KEPT + 4


def stated(uri: str) -> dict[str, object]:
    return {"checkpoint": {"uri": uri, "grace_s": 1.0}}


@pytest.mark.parametrize(
    "uri", ["s3://b/runs", "s3://b/run2/1", "s3://b/run/../x", "s3://b/run/%2e%2e/x", "s3://c/run"]
)
def test_an_address_outside_of_the_stated_one_is_refused(database: Database, uri: str) -> None:

    load_cluster(database)
    spec: JobSpec = make_spec("j")
    submit_job(database, spec, {"name": "j"} | stated("s3://b/run"), now_s=NOW_S)
    with pytest.raises(JobError, match="saves below 's3://b/run'"):
        save(database, 1, uri)
    assert list_checkpoints(database, "default", "j").items == ()


@pytest.mark.parametrize(
    ("base", "uri"),
    [
        ("s3://b/run", "s3://b/run"),
        ("s3://b/run/", "s3://b/run/1"),
        ("s3://b/run", "s3://b/run/"),
        ("s3://b/run", "s3://b/run/a..b/1"),
        ("/data", "/data/1"),
    ],
)
def test_an_address_at_or_below_the_stated_one_is_taken(base: str, uri: str) -> None:
    assert is_below(base, uri)
