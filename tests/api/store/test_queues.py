"""Queues: a tree of names with limits."""

import pytest

from api.store.engine import Database
from api.store.errors import BadCursor, Conflict, NotFound
from api.store.events import current_revision
from api.store.jobs import cancel_job, get_job
from api.store.queue_views import get_queue, list_queues
from api.store.queues import create_queue, delete_queue, patch_queue
from scheduler.errors import SchedulerError
from scheduler.model.queue import QueueRecord
from tests.api.store.build import NOW_S, bind, load_cluster, make_spec, submit


def make(database: Database, name: str, parent: str | None = None) -> None:
    create_queue(database, QueueRecord(name, parent), now_s=NOW_S)


def test_default_queue_is_always_there(database: Database) -> None:
    queue = get_queue(database, "default").queue
    assert (queue.parent, queue.quota_gpus, queue.limit_gpus, queue.weight) == (None, None, None, 1)
    with pytest.raises(Conflict, match="always there"):
        delete_queue(database, "default", now_s=NOW_S)


def test_queue_is_read_back_as_it_was_given(database: Database) -> None:
    make(database, "org")
    queue = QueueRecord(
        "team",
        "org",
        quota_gpus=64,
        limit_gpus=128,
        quota_by_model={"H100-80GB": 32},
        limit_by_model={"A100-80GB": 8, "H100-80GB": 64},
        weight=2.5,
        max_priority=100,
        max_pending=7,
        namespaces=("a", "b"),
        closed=True,
    )
    view = create_queue(database, queue, now_s=NOW_S)
    assert view == get_queue(database, "team")
    assert view.queue == queue
    assert view.revision == current_revision(database)


def test_queues_are_listed_by_name_in_pages(database: Database) -> None:
    for name in ("b", "z", "a"):
        make(database, name)
    page = list_queues(database, limit=2)
    assert [queue.name for queue in page.items] == ["a", "b"]
    page = list_queues(database, limit=2, cursor=page.next)
    assert [queue.name for queue in page.items] == ["default", "z"]
    assert page.next is None
    with pytest.raises(BadCursor):
        list_queues(database, cursor="WzFd")


def test_name_in_use_and_unknown_parents_are_refused(database: Database) -> None:
    make(database, "a")
    with pytest.raises(Conflict):
        make(database, "a")
    with pytest.raises(SchedulerError, match="queue 'none' does not exist"):
        make(database, "b", "none")
    with pytest.raises(SchedulerError, match="below itself"):
        make(database, "c", "c")


def test_circle_of_queues_is_refused(database: Database) -> None:
    make(database, "a")
    make(database, "b", "a")
    make(database, "c", "b")
    with pytest.raises(SchedulerError, match=r"found '.*'; queue 'a' would lie below itself"):
        patch_queue(database, "a", {"parent": "c"}, now_s=NOW_S)
    assert get_queue(database, "a").queue.parent is None


def test_tree_that_is_too_deep_is_refused_from_either_end(database: Database) -> None:
    parent = None
    for number in range(32):
        make(database, f"q{number}", parent)
        parent = f"q{number}"
    with pytest.raises(SchedulerError, match="a tree of 33 levels; at most 32"):
        make(database, "one-more", parent)
    make(database, "top")
    with pytest.raises(SchedulerError, match="33 levels"):
        patch_queue(database, "q0", {"parent": "top"}, now_s=NOW_S)


def test_patch_changes_only_what_it_names(database: Database) -> None:
    create_queue(database, QueueRecord("a", quota_gpus=8, namespaces=("x",)), now_s=NOW_S)
    changed = patch_queue(database, "a", {"limit_gpus": 16, "quota_gpus": None}, now_s=NOW_S)
    assert changed.queue == QueueRecord("a", limit_gpus=16, namespaces=("x",))
    revision = current_revision(database)
    assert patch_queue(database, "a", {"limit_gpus": 16}, now_s=NOW_S) == changed
    assert current_revision(database) == revision


def test_patch_of_what_cannot_change_is_refused(database: Database) -> None:
    make(database, "a")
    for changes in ({"name": "b"}, {"colour": "red"}, {"parent": "none"}):
        with pytest.raises(SchedulerError):
            patch_queue(database, "a", changes, now_s=NOW_S)
    with pytest.raises(NotFound):
        patch_queue(database, "none", {}, now_s=NOW_S)
    with pytest.raises(NotFound):
        delete_queue(database, "none", now_s=NOW_S)
    with pytest.raises(NotFound):
        get_queue(database, "none")


def test_queue_shows_what_its_jobs_and_those_below_it_use(database: Database) -> None:
    load_cluster(database)
    make(database, "org")
    make(database, "team", "org")
    make(database, "other", "org")
    upper = submit(database, make_spec("a", replicas=1, queue="other"))
    lower = submit(database, make_spec("b", replicas=1, queue="team"))
    submit(database, make_spec("c", queue="team"))
    bind(database, upper, ["n001"], mask=0b11)
    bind(database, lower, ["n002"], mask=0b111)
    team, org, other = (get_queue(database, name) for name in ("team", "org", "default"))
    assert (team.used_gpus, team.pending) == (3, 1)
    assert (org.used_gpus, org.pending) == (5, 1)
    assert (other.used_gpus, other.pending) == (0, 0)


def test_queue_in_use_is_not_deleted(database: Database) -> None:
    make(database, "org")
    make(database, "team", "org")
    submit(database, make_spec("a", queue="team"))
    with pytest.raises(Conflict, match="queues below it: team"):
        delete_queue(database, "org", now_s=NOW_S)
    with pytest.raises(Conflict, match="1 jobs that have not ended"):
        delete_queue(database, "team", now_s=NOW_S)
    cancel_job(database, "default", "a", now_s=NOW_S)
    delete_queue(database, "team", now_s=NOW_S)
    delete_queue(database, "org", now_s=NOW_S)
    assert [queue.name for queue in list_queues(database).items] == ["default"]
    assert get_job(database, "default", "a").queue == "team"
