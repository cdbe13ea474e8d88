"""Changes of jobs in the store: optimistic, with an event, followed by the world in memory."""

from dataclasses import replace

import pytest
import sqlalchemy as sa

from api.store.commit import commit
from api.store.engine import Database
from api.store.errors import Conflict, NotFound
from api.store.events import current_revision, list_events
from api.store.job_changes import JobChange, Moved, change_job
from api.store.jobs import cancel_job, get_job
from api.store.snapshot import follow, load_world
from api.store.tables import facts
from api.store.views import JobView
from scheduler.errors import StateError
from scheduler.model.ids import JobId
from scheduler.model.job import JobSpec
from scheduler.model.plan import FactKind
from tests.api.store.build import NOW_S, bind, binding, load_cluster, make_spec, submit


def change(
    database: Database, job: JobView, spec: JobSpec, *, revision: int | None = None
) -> JobView:
    wanted = JobChange(spec, {"name": job.name}, job.spec_revision, revision)
    return change_job(database, job.namespace, job.name, wanted, now_s=NOW_S)


def resized(spec: JobSpec, replicas: int, least: int | None = None) -> JobSpec:
    (role,) = spec.roles
    return replace(spec, roles=(replace(role, replicas=replicas, min=least or replicas),))


def open_facts(database: Database) -> list[tuple[str, str]]:
    with database.read() as connection:
        query = sa.select(facts.c.kind, facts.c.job_uid).where(facts.c.applied_at.is_(None))
        return [(kind, uid) for kind, uid in connection.execute(query)]


def test_change_has_an_event_and_reaches_the_world_in_memory(database: Database) -> None:
    load_cluster(database)
    job = submit(database)
    world = load_world(database)
    changed = change(database, job, resized(replace(job.spec, priority=9), 3))
    assert changed.revision == changed.spec_revision == current_revision(database)
    assert (changed.priority, changed.members, changed.minimum, changed.gpus) == (9, 3, 3, 24)
    (event,) = list_events(database, job.revision).items
    assert event.kind == "job.changed"
    assert event.body["changed"] == {
        "priority": {"from": 0, "to": 9},
        "roles.member.replicas": {"from": 2, "to": 3},
        "roles.member.min": {"from": 2, "to": 3},
    }
    assert follow(database, world)
    assert world.jobs[JobId(job.uid)].spec == changed.spec
    assert load_world(database).jobs == world.jobs


def test_pending_job_needs_no_fact_and_one_with_a_place_does(database: Database) -> None:
    load_cluster(database)
    job = submit(database)
    changed = change(database, job, resized(job.spec, 3))
    assert open_facts(database) == []
    bind(database, changed, ["n001", "n002", "n003"])
    bound = get_job(database, "default", "j")
    change(database, bound, replace(bound.spec, priority=1))
    assert open_facts(database) == []
    bound = get_job(database, "default", "j")
    change(database, bound, resized(bound.spec, 2))
    assert open_facts(database) == [(FactKind.RESIZE, job.uid)]
    assert not get_job(database, "default", "j").cancelling


def test_change_on_an_older_one_is_to_be_made_anew(database: Database) -> None:
    job = submit(database)
    change(database, job, replace(job.spec, priority=1))
    with pytest.raises(Moved):
        change(database, job, replace(job.spec, priority=2))
    assert get_job(database, "default", "j").priority == 1


def test_change_may_ask_for_the_exact_revision(database: Database) -> None:
    load_cluster(database)
    job = submit(database)
    bind(database, job, ["n001", "n002"])
    with pytest.raises(Conflict, match=f"at revision 3, not {job.revision}") as caught:
        change(database, job, replace(job.spec, priority=1), revision=job.revision)
    assert caught.value.path == "revision"
    assert change(database, job, replace(job.spec, priority=1), revision=3).priority == 1


def test_change_between_the_decision_and_its_commit_drops_the_gang(database: Database) -> None:
    load_cluster(database)
    job = submit(database)
    plan = binding(database, job, ["n001", "n002"])
    change(database, job, resized(job.spec, 3))
    assert commit(database, plan, 0, NOW_S).dropped == (job.uid,)
    assert get_job(database, "default", "j").live == 0


def test_queue_changes_while_pending_alone_and_to_one_that_is_there(database: Database) -> None:
    load_cluster(database)
    job = submit(database)
    with pytest.raises(NotFound, match="queue 'none'"):
        change(database, job, replace(job.spec, queue="none"))
    bind(database, job, ["n001", "n002"])
    with pytest.raises(StateError, match="only a pending job"):
        change(database, job, replace(job.spec, queue="none"))


def test_minimum_does_not_rise_above_the_members_that_are_there(database: Database) -> None:
    load_cluster(database)
    spec = make_spec()
    job = submit(database, resized(spec, 4, 2))
    bind(database, job, ["n001", "n002", "n003"])
    with pytest.raises(StateError, match="3 members") as caught:
        change(database, job, resized(job.spec, 4, 4))
    assert caught.value.problems[0].path == "roles[0].min"
    assert change(database, job, resized(job.spec, 4, 3)).minimum == 3


def test_job_that_ends_is_not_changed(database: Database) -> None:
    load_cluster(database)
    ended, bound = submit(database, "a"), submit(database, "b")
    cancel_job(database, "default", "a", now_s=NOW_S)
    bind(database, bound, ["n001", "n002"])
    cancel_job(database, "default", "b", now_s=NOW_S)
    for job, said in ((ended, "is cancelled"), (bound, "being cancelled")):
        with pytest.raises(StateError, match=said):
            change(database, job, replace(job.spec, priority=1))


def test_change_to_what_is_there_writes_nothing(database: Database) -> None:
    job = submit(database)
    assert change(database, job, job.spec) == job
    assert current_revision(database) == job.revision
