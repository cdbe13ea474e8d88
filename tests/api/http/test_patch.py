"""Changes of jobs: what may change, when, and what becomes of members too many."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from api.store.engine import Database
from api.store.events import current_revision, list_events
from tests.api.http.yard import Json, Yard

JOB = "/v1/namespaces/default/jobs/job"


def member(replicas: int = 4, **fields: object) -> dict[str, object]:
    return {"name": "member", "replicas": replicas, "gpus": 8} | fields


def submit(yard: Yard, *roles: dict[str, object], **fields: object) -> Json:
    yard.load()
    return yard.submit("job", roles=list(roles) or [member()], **fields)


def running(yard: Yard, *roles: dict[str, object], **fields: object) -> Json:
    """A job of which all that have a place run."""
    submit(yard, *roles, **fields)
    yard.cycle()
    yard.report_all("running")
    found = yard.ok("GET", JOB)
    assert found["state"] == "running"
    return found


def indices(yard: Yard, *states: str) -> list[object]:
    wanted = states or ("bound", "running")
    return [pod["index"] for pod in yard.items("/v1/pods") if pod["state"] in wanted]


def spec(job: Json) -> dict[str, Any]:
    found = job["spec"]
    assert isinstance(found, dict)
    return found


def test_plain_fields_change_and_say_so(yard: Yard, database: Database) -> None:
    before = submit(yard, duration_s=60.0)
    change = {"priority": 7, "duration_s": 120.0, "time_limit_s": 600.0}
    changed = yard.ok("PATCH", JOB, change)
    assert changed["priority"] == 7
    assert spec(changed) == spec(before) | change
    assert changed == yard.ok("GET", JOB)
    event = list_events(database, int(str(before["revision"]))).items[0]
    assert (event.kind, event.revision) == ("job.changed", changed["revision"])
    assert event.message == (
        "priority: 0 -> 7, duration_s: 60.0 -> 120.0, time_limit_s: none -> 600.0"
    )


def test_null_takes_a_time_away(yard: Yard) -> None:
    submit(yard, duration_s=60.0)
    changed = yard.ok("PATCH", JOB, {"duration_s": None})
    assert "duration_s" not in spec(changed)


def test_change_to_what_is_there_writes_nothing(yard: Yard, database: Database) -> None:
    submit(yard, priority=3)
    before = current_revision(database)
    for same in ({}, {"priority": 3}, {"roles": [{"name": "member", "replicas": 4}]}):
        yard.ok("PATCH", JOB, same)
    assert current_revision(database) == before


def test_higher_priority_goes_first(yard: Yard) -> None:
    yard.load()
    yard.submit("first", parallelism={"tp": 8, "dp": 12})
    yard.submit("job", parallelism={"tp": 8, "dp": 12})
    yard.ok("PATCH", JOB, {"priority": 1})
    yard.cycle()
    assert yard.ok("GET", JOB)["state"] == "bound"


def test_pending_job_changes_its_queue_and_another_does_not(yard: Yard) -> None:
    submit(yard)
    yard.ok("POST", "/v1/queues", {"name": "q", "max_priority": 5})
    assert yard.ok("PATCH", JOB, {"queue": "q"})["queue"] == "q"
    assert "nope" in yard.refused(422, "PATCH", JOB, {"queue": "nope"})["queue"]
    assert "5" in yard.refused(422, "PATCH", JOB, {"priority": 6})["priority"]
    yard.cycle()
    assert "bound" in yard.refused(409, "PATCH", JOB, {"queue": "default"})["queue"]
    assert yard.ok("PATCH", JOB, {"queue": "q", "priority": 1})["priority"] == 1


def test_limit_that_was_lowered_does_not_stop_an_unrelated_change(yard: Yard) -> None:
    submit(yard, priority=7)
    yard.ok("PATCH", "/v1/queues/default", {"max_priority": 5})
    assert spec(yard.ok("PATCH", JOB, {"duration_s": 60.0}))["duration_s"] == 60.0


@pytest.mark.parametrize("field", ["parallelism", "topology", "namespace", "gpu", "spares", "run"])
def test_field_that_never_changes_is_named_with_those_that_do(any_yard: Yard, field: str) -> None:
    said = any_yard.refused(422, "PATCH", JOB, {field: 1, "priority": 1})[field]
    assert "cannot be changed" in said
    for allowed in ("priority", "queue", "duration_s", "time_limit_s", "replicas", "min", "roles"):
        assert allowed in said


def test_field_of_a_role_that_never_changes_is_named(any_yard: Yard) -> None:
    change = {"roles": [{"name": "member", "gpus": 4}]}
    said = any_yard.refused(422, "PATCH", JOB, change)["roles[0].gpus"]
    assert said.endswith(
        "cannot be changed once a job is submitted; of a role these can: replicas, min"
    )


def test_field_that_no_job_has_is_unknown(any_yard: Yard) -> None:
    found = any_yard.refused(422, "PATCH", JOB, {"prority": 1, "roles": [{"nme": "a"}]})
    assert "did you mean 'priority'" in found["prority"]
    assert "unknown" in found["roles[0].nme"]


def test_job_that_does_not_exist_is_not_found(any_yard: Yard) -> None:
    assert "default/job" in any_yard.refused(404, "PATCH", JOB, {"priority": 1})[""]


@pytest.mark.parametrize(
    ("change", "path", "word"),
    [
        ({"roles": [{"name": "other", "replicas": 1}]}, "roles[0].name", "member"),
        ({"roles": [{"name": "member"}, {"name": "member"}]}, "roles[1].name", "twice"),
        ({"roles": [{"name": "member", "min": 5}]}, "roles[0].min", "1 to replicas, 4"),
        ({"min": 5}, "min", "1 to replicas, 4"),
        ({"min": 0}, "min", "at least 1"),
        ({"replicas": 0}, "replicas", "at least 1"),
        ({"priority": None}, "priority", "null"),
        ({"replicas": 2, "roles": [{"name": "member", "replicas": 3}]}, "replicas", "one of"),
        ({"roles": [{"name": "member", "replicas": 999_999}]}, "roles", "1000000"),
        ({"roles": [{"name": "member", "replicas": 13}]}, "roles", "never fits"),
    ],
)
def test_numbers_that_make_no_sense_are_refused_with_their_place(
    yard: Yard, change: object, path: str, word: str
) -> None:
    submit(yard)
    assert word in yard.refused(422, "PATCH", JOB, change)[path]


def test_numbers_of_a_job_with_several_roles_say_of_which(yard: Yard) -> None:
    submit(yard, member(2), {"name": "b", "replicas": 1})
    assert "member, b" in yard.refused(422, "PATCH", JOB, {"replicas": 3})["replicas"]
    changed = yard.ok("PATCH", JOB, {"roles": [{"name": "b", "replicas": 3}]})
    assert (changed["members"], changed["minimum"]) == (5, 5)


def test_parallel_job_keeps_its_size(yard: Yard) -> None:
    yard.load()
    yard.submit()
    assert "parallel sizes" in yard.refused(422, "PATCH", JOB, {"min": 1})["min"]
    change = {"roles": [{"name": "a", "replicas": 1}]}
    assert "parallel sizes" in yard.refused(422, "PATCH", JOB, change)["roles[0].name"]
    assert yard.ok("PATCH", JOB, {"priority": 2})["priority"] == 2


def test_pending_gang_that_shrinks_starts_when_it_fits(yard: Yard) -> None:
    """12 nodes: with 13 members it waits; its minimum was all of them, and stays all of them."""
    submit(yard, member(13), if_never_fits="wait")
    yard.cycle()
    assert yard.ok("GET", JOB)["state"] == "pending"
    changed = yard.ok("PATCH", JOB, {"roles": [{"name": "member", "replicas": 12}]})
    assert (changed["members"], changed["minimum"], changed["gpus"]) == (12, 12, 96)
    yard.cycle()
    assert yard.ok("GET", JOB)["state"] == "bound"


def test_running_gang_grows_with_the_next_cycle(yard: Yard) -> None:
    """It runs on with what it has: the new members may join, its minimum does not wait for them."""
    running(yard)
    changed = yard.ok("PATCH", JOB, {"roles": [{"name": "member", "replicas": 6}]})
    assert (changed["state"], changed["members"], changed["minimum"]) == ("running", 6, 4)
    yard.cycle()
    yard.report_all("running")
    assert indices(yard, "running") == [0, 1, 2, 3, 4, 5]
    assert yard.ok("GET", JOB)["state"] == "running"


def test_surplus_members_of_a_running_gang_stop_and_free_their_gpus(
    yard: Yard, database: Database
) -> None:
    running(yard)
    before = current_revision(database)
    changed = yard.ok("PATCH", JOB, {"roles": [{"name": "member", "replicas": 2}]})
    assert (changed["members"], changed["minimum"]) == (2, 2)
    yard.cycle()
    assert indices(yard, "running") == [0, 1]
    assert indices(yard, "stopped") == [2, 3]
    gpus: Any = yard.ok("GET", "/v1/overview")["gpus"]
    assert gpus["used"] == 16
    events = list_events(database, before).items
    assert [event.kind for event in events] == ["job.changed", "job.shrunk"]
    assert "2 pods stopped, as the job is to have fewer members" in events[1].message
    assert yard.ok("GET", JOB)["state"] == "running"


def test_members_that_left_may_come_again(yard: Yard) -> None:
    running(yard, member(4, min=1))
    for replicas in (1, 4):
        yard.ok("PATCH", JOB, {"replicas": replicas})
        yard.cycle()
    attempts = {pod["index"]: pod["attempt"] for pod in yard.items("/v1/pods")}
    assert attempts == {0: 1, 1: 2, 2: 2, 3: 2}


def test_whole_parts_leave_and_join(yard: Yard) -> None:
    parts = {"size": 2, "count": 3, "min": 1, "topology": [{"within": "rack"}]}
    running(yard, member(6, parts=parts))
    said = yard.refused(422, "PATCH", JOB, {"replicas": 3})["replicas"]
    assert "multiple of parts.size, 2" in said
    assert "multiple" in yard.refused(422, "PATCH", JOB, {"min": 3})["min"]
    changed = yard.ok("PATCH", JOB, {"replicas": 2})
    assert spec(changed)["roles"][0]["parts"] == parts | {
        "count": 1,
        "topology": [{"within": "rack", "mode": "required"}],
    }
    yard.cycle()
    assert indices(yard) == [0, 1]
    yard.ok("PATCH", JOB, {"replicas": 8, "min": 2})
    yard.cycle()
    assert indices(yard) == [0, 1, 2, 3, 4, 5, 6, 7]


def test_stated_minimum_stays_when_the_role_shrinks(yard: Yard) -> None:
    submit(yard, member(4, min=2))
    assert yard.ok("PATCH", JOB, {"replicas": 3})["minimum"] == 2
    assert "min" in yard.refused(422, "PATCH", JOB, {"replicas": 1})
    assert yard.ok("PATCH", JOB, {"replicas": 1, "min": 1})["minimum"] == 1


def test_minimum_of_a_running_gang_rises_only_to_what_is_there(yard: Yard) -> None:
    """8 of 16 members have a place beside another job; 9 of them would be a part of a gang."""
    yard.load()
    yard.submit("other", parallelism={"tp": 8, "dp": 4})
    yard.cycle()
    yard.submit(roles=[member(16, min=2)])
    yard.cycle()
    assert len(indices(yard)) == 4 + 8
    said = yard.refused(409, "PATCH", JOB, {"min": 9})["roles[0].min"]
    assert "8 members" in said
    assert yard.ok("PATCH", JOB, {"min": 8})["minimum"] == 8


def test_bound_gang_runs_once_its_lower_minimum_does(yard: Yard) -> None:
    submit(yard)
    yard.cycle()
    for index in (0, 1):
        path = f"/v1/namespaces/default/pods/job-member-{index}/status"
        yard.ok("POST", path, {"attempt": 1, "state": "running"})
    yard.ok("PATCH", JOB, {"min": 2})
    yard.cycle()
    assert yard.ok("GET", JOB)["state"] == "running"


def test_larger_gang_that_would_wait_for_ever_may_if_it_said_so(yard: Yard) -> None:
    submit(yard, if_never_fits="wait")
    changed = yard.ok("PATCH", JOB, {"replicas": 13})
    assert changed["minimum"] == 13
    yard.cycle()
    assert yard.ok("GET", JOB)["never"] is True


def test_members_above_the_minimum_may_be_more_than_ever_fit(yard: Yard) -> None:
    submit(yard, member(4, min=2))
    assert yard.ok("PATCH", JOB, {"replicas": 100})["members"] == 100


def test_job_that_has_ended_or_is_about_to_is_not_changed(yard: Yard) -> None:
    running(yard)
    yard.ok("DELETE", JOB)
    assert "being cancelled" in yard.refused(409, "PATCH", JOB, {"priority": 1})["state"]
    yard.cycle()
    assert "cancelled" in yard.refused(409, "PATCH", JOB, {"priority": 1})["state"]


def test_change_of_an_older_revision_is_a_conflict(yard: Yard) -> None:
    first = submit(yard)["revision"]
    answer = yard.call("GET", JOB)
    assert answer.headers["etag"] == f'"{first}"'
    headers = {"If-Match": answer.headers["etag"]}
    answer = yard.call("PATCH", JOB, {"priority": 1}, headers=headers)
    assert answer.status_code == 200
    assert answer.headers["etag"] == f'"{answer.json()["revision"]}"'
    for change, sent in (({"priority": 2}, headers), ({"priority": 2, "revision": first}, None)):
        refused = yard.call("PATCH", JOB, change, headers=sent)
        assert refused.status_code == 409
        assert f"not {first}" in refused.json()["errors"][0]["message"]
    assert yard.call("PATCH", JOB, {"priority": 3}, headers={"If-Match": "*"}).status_code == 200
    current = yard.ok("GET", JOB)["revision"]
    assert yard.ok("PATCH", JOB, {"priority": 4, "revision": current})["priority"] == 4


@pytest.mark.parametrize("value", ["7", "x", '"x"', 'W/"7"', '""', '"1", "2"'])
def test_condition_that_is_no_revision_is_refused(any_yard: Yard, value: str) -> None:
    answer = any_yard.call("PATCH", JOB, {"priority": 1}, headers={"If-Match": value})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["path"] == "If-Match"


def test_two_different_revisions_are_refused(yard: Yard) -> None:
    submit(yard)
    answer = yard.call("PATCH", JOB, {"revision": 1}, headers={"If-Match": '"2"'})
    assert answer.status_code == 422


def test_changes_at_the_same_time_all_count(yard: Yard) -> None:
    """Eight of them change different fields; none is lost."""
    submit(yard)
    changes = [{"priority": 5}, {"duration_s": 60.0}, {"time_limit_s": 90.0}, {"min": 2}] * 2
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda change: yard.call("PATCH", JOB, change), changes))
    assert {answer.status_code for answer in answers} == {200}
    found = yard.ok("GET", JOB)
    assert (found["priority"], found["minimum"]) == (5, 2)
    assert (spec(found)["duration_s"], spec(found)["time_limit_s"]) == (60.0, 90.0)


def test_one_of_many_changes_of_the_same_revision_is_made(yard: Yard) -> None:
    revision = submit(yard)["revision"]
    changes = [{"priority": n + 1, "revision": revision} for n in range(8)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda change: yard.call("PATCH", JOB, change), changes))
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 7


def test_changed_job_is_the_same_after_a_restart(yard: Yard, database: Database) -> None:
    """The change and what is to follow from it are in the database, not in the runner."""
    running(yard)
    yard.ok("PATCH", JOB, {"replicas": 2})
    database.cache.clear()
    yard.cycle()
    assert indices(yard) == [0, 1]
