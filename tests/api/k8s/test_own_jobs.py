"""podyard.io/v1 Job: made, changed, deleted; the same job as that of `/v1`."""

import json

import pytest

from tests.api.http.yard import Yard
from tests.api.k8s.asking import (
    APPLY,
    JOBS,
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    Obj,
    fields,
    job,
    names,
    ok,
    refused,
    send,
)


@pytest.fixture
def served(yard: Yard) -> Yard:
    yard.load()
    return yard


def version(obj: Obj) -> int:
    return int(obj["metadata"]["resourceVersion"])


def test_job_that_is_made_here_is_the_job_of_v1(served: Yard) -> None:
    made = ok(served, "POST", JOBS, job("a", {"team": "x"}, parallelism={"tp": 8, "pp": 2}))
    there = served.ok("GET", "/v1/namespaces/default/jobs/a")
    assert there["uid"] == made["metadata"]["uid"]
    assert there["if_never_fits"] == "wait"
    assert made["spec"]["parallelism"]["pp"] == 2
    assert made["metadata"]["labels"] == {"team": "x"}
    assert made["metadata"]["generation"] == 1
    assert made["status"]["state"] == "pending"
    assert ok(served, "GET", f"{JOBS}/a") == made


def test_job_of_v1_is_shown_here(served: Yard) -> None:
    served.submit("b")
    shown = ok(served, "GET", f"{JOBS}/b")
    assert (shown["kind"], shown["spec"]["parallelism"]["pp"]) == ("Job", 4)


def test_dry_run_says_what_would_be_and_writes_nothing(served: Yard) -> None:
    made = ok(served, "POST", f"{JOBS}?dryRun=All", job("a"))
    assert made["status"]["members"] == 2
    assert names(ok(served, "GET", JOBS)) == []
    ok(served, "POST", JOBS, job("a"))
    before = ok(served, "GET", f"{JOBS}/a")
    changed = ok(served, "PATCH", f"{JOBS}/a?dryRun=All", {"spec": {"priority": 9}}, kind=MERGE)
    assert changed["spec"]["priority"] == 9
    ok(served, "DELETE", f"{JOBS}/a", {"dryRun": ["All"]})
    assert ok(served, "GET", f"{JOBS}/a") == before


def test_name_that_is_in_use_is_refused(served: Yard) -> None:
    ok(served, "POST", JOBS, job("a"))
    assert refused(served, 409, "POST", JOBS, job("a"))["reason"] == "AlreadyExists"
    assert refused(served, 409, "POST", f"{JOBS}?dryRun=All", job("a"))["reason"] == "AlreadyExists"


def test_name_is_made_of_its_beginning(served: Yard) -> None:
    manifest = job() | {"metadata": {"generateName": "run-"}}
    made = ok(served, "POST", JOBS, manifest)
    assert made["metadata"]["name"].startswith("run-")
    assert len(made["metadata"]["name"]) == len("run-") + 5


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"parallelism": {"tp": "many"}}, "spec.parallelism.tp"),
        ({"parallelism": {"tp": 0}}, "spec.parallelism.tp"),
        ({"parallelism": {"tp": 8}, "queue": "nope"}, "spec.queue"),
        ({"parallelism": {"tp": 8}, "priority": 10**12}, "spec.priority"),
        ({"roles": [{"name": "w"}]}, "spec.roles[0].replicas"),
        ({"parallelism": {"tp": 8}, "topology": [{"group": "pp", "within": "moon"}]},
         "spec.topology[0].within"),
        ({"parallelism": {"tp": 8}, "topology": "rack"}, "spec.topology"),
        ({"parallelism": {"tp": 16}, "if_never_fits": "refuse"}, "spec.parallelism"),
    ],
)  # fmt: skip
def test_job_that_makes_no_sense_is_refused_by_its_field(
    any_yard: Yard, spec: Obj, field: str
) -> None:
    told = refused(any_yard, 422, "POST", JOBS, job("b", **spec))
    assert told["reason"] == "Invalid"
    assert any(found.startswith(field) for found in fields(told)), told
    refused(any_yard, 404, "GET", f"{JOBS}/b")


def test_unknown_field_is_refused_told_of_or_left_out_as_asked(served: Yard) -> None:
    wrong = job("a", parallelism={"tp": 8}, nosuchfield=1)
    told = refused(served, 400, "POST", f"{JOBS}?fieldValidation=Strict", wrong)
    assert 'strict decoding error: unknown field "spec.nosuchfield"' in told["message"]
    answer = send(served, "POST", f"{JOBS}?fieldValidation=Warn", wrong)
    assert answer.status_code == 201
    assert answer.headers["warning"] == '299 - "unknown field \\"spec.nosuchfield\\""'
    other = wrong | {"metadata": {"name": "b"}}
    answer = send(served, "POST", f"{JOBS}?fieldValidation=Ignore", other)
    assert answer.status_code == 201
    assert "warning" not in answer.headers


@pytest.mark.parametrize(
    ("status", "change"),
    [
        (400, {"apiVersion": "podyard.io/v9"}),
        (400, {"kind": "Pod"}),
        (422, {"metadata": {}}),
        (422, {"metadata": {"name": "Bad_Name"}}),
        (422, {"metadata": {"name": "a" * 300}}),
        (422, {"metadata": {"name": 3}}),
        (422, {"metadata": "none"}),
        (400, {"metadata": {"name": "a", "namespace": "other"}}),
        (400, {"metadata": {"name": "a", "resourceVersion": "3"}}),
        (422, {"metadata": {"name": "a", "labels": {"bad key!": "x"}}}),
        (422, {"metadata": {"name": "a", "labels": {"k": "bad value!"}}}),
        (422, {"metadata": {"name": "a", "labels": {"k": 1}}}),
        (422, {"metadata": {"name": "a", "annotations": {"k": "x" * 300_000}}}),
        (422, {"spec": "none"}),
    ],
)
def test_manifest_that_is_malformed_is_refused(any_yard: Yard, status: int, change: Obj) -> None:
    refused(any_yard, status, "POST", JOBS, job("b") | change)
    refused(any_yard, 404, "GET", f"{JOBS}/b")


def test_each_kind_of_patch_changes_the_job_and_its_generation(served: Yard) -> None:
    ok(served, "POST", JOBS, job("a"))
    merged = ok(served, "PATCH", f"{JOBS}/a", {"spec": {"priority": 5}}, kind=MERGE)
    assert (merged["spec"]["priority"], merged["metadata"]["generation"]) == (5, 2)
    operations = [{"op": "replace", "path": "/spec/priority", "value": 6}]
    patched = ok(served, "PATCH", f"{JOBS}/a", operations, kind=JSON_PATCH)
    assert (patched["spec"]["priority"], patched["metadata"]["generation"]) == (6, 3)
    told = refused(served, 415, "PATCH", f"{JOBS}/a", {"spec": {"priority": 7}}, kind=STRATEGIC)
    assert told["reason"] == "UnsupportedMediaType"
    labelled = ok(served, "PATCH", f"{JOBS}/a", {"metadata": {"labels": {"x": "y"}}}, kind=MERGE)
    assert labelled["metadata"]["generation"] == 3
    assert version(labelled) > version(patched) > version(merged)
    assert served.ok("GET", "/v1/namespaces/default/jobs/a")["priority"] == 6


def test_patch_that_changes_nothing_makes_no_new_version(served: Yard) -> None:
    ok(served, "POST", JOBS, job("a"))
    first = ok(served, "PATCH", f"{JOBS}/a", {"spec": {"priority": 5}}, kind=MERGE)
    again = ok(served, "PATCH", f"{JOBS}/a", {"spec": {"priority": 5}}, kind=MERGE)
    assert again == first


def test_write_on_an_old_version_is_a_conflict(served: Yard) -> None:
    old = ok(served, "POST", JOBS, job("a"))
    ok(served, "PATCH", f"{JOBS}/a", {"spec": {"priority": 5}}, kind=MERGE)
    assert refused(served, 409, "PUT", f"{JOBS}/a", old)["reason"] == "Conflict"
    stale = {"metadata": {"resourceVersion": old["metadata"]["resourceVersion"]}, "spec": {}}
    refused(served, 409, "PATCH", f"{JOBS}/a", stale, kind=MERGE)
    other = {"metadata": {"uid": "another"}}
    refused(served, 409, "PATCH", f"{JOBS}/a", other, kind=MERGE)
    refused(served, 409, "DELETE", f"{JOBS}/a", {"preconditions": {"uid": "another"}})
    put = ok(served, "GET", f"{JOBS}/a")
    put["spec"]["priority"] = 8
    assert ok(served, "PUT", f"{JOBS}/a", put)["spec"]["priority"] == 8


@pytest.mark.parametrize(
    ("status", "patch"),
    [
        (422, {"spec": {"rails": "required"}}),
        (422, {"spec": {"parallelism": {"pp": 4}}}),
        (422, {"spec": {"parallelism": None}}),
        (422, {"spec": {"priority": "high"}}),
        (422, {"spec": {"queue": "nope"}}),
        (400, {"kind": "Other"}),
        (400, {"metadata": {"name": "b"}}),
        (400, {"metadata": {"namespace": "b"}}),
        (400, []),
        (400, "x"),
    ],
)
def test_patch_of_what_cannot_change_is_refused(any_yard: Yard, status: int, patch: object) -> None:
    send(any_yard, "POST", JOBS, job("a"))
    before = ok(any_yard, "GET", f"{JOBS}/a")
    refused(any_yard, status, "PATCH", f"{JOBS}/a", json.dumps(patch), kind=MERGE)
    assert ok(any_yard, "GET", f"{JOBS}/a") == before


def test_apply_makes_owns_and_takes_away(served: Yard) -> None:
    manifest = job("a", {"x": "1"}, parallelism={"tp": 8, "pp": 2}, priority=3)
    at = f"{JOBS}/a?fieldManager=me"
    assert send(served, "PATCH", at, manifest, kind=APPLY).status_code == 201
    owner = ok(served, "GET", f"{JOBS}/a")["metadata"]["managedFields"][0]
    assert (owner["manager"], owner["operation"]) == ("me", "Apply")
    assert owner["fieldsV1"]["f:spec"]["f:priority"] == {}
    other = job("a", parallelism={"tp": 8, "pp": 2}, priority=4)
    told = refused(served, 409, "PATCH", f"{JOBS}/a?fieldManager=you", other, kind=APPLY)
    assert told["details"]["causes"][0]["reason"] == "FieldManagerConflict"
    assert fields(told) == [".spec.priority"]
    forced = ok(served, "PATCH", f"{JOBS}/a?fieldManager=you&force=true", other, kind=APPLY)
    assert forced["spec"]["priority"] == 4
    assert forced["metadata"]["labels"] == {"x": "1"}
    mine = job("a", parallelism={"tp": 8, "pp": 2})
    assert "labels" not in ok(served, "PATCH", at, mine, kind=APPLY)["metadata"]


def test_apply_needs_a_manager_and_takes_no_fields_of_others(served: Yard) -> None:
    refused(served, 400, "PATCH", f"{JOBS}/a", job("a"), kind=APPLY)
    owned = job("a") | {"metadata": {"name": "a", "managedFields": [{"manager": "x"}]}}
    refused(served, 400, "PATCH", f"{JOBS}/a?fieldManager=me", owned, kind=APPLY)
    refused(served, 400, "PATCH", f"{JOBS}/b?fieldManager=me", job("a"), kind=APPLY)


def test_number_of_members_can_be_changed(served: Yard) -> None:
    ok(served, "POST", JOBS, job("a", roles=[{"name": "w", "replicas": 2, "min": 1, "gpus": 1}]))
    changed = ok(served, "GET", f"{JOBS}/a")
    changed["spec"]["roles"][0]["replicas"] = 3
    assert ok(served, "PUT", f"{JOBS}/a", changed)["status"]["members"] == 3
    changed = ok(served, "GET", f"{JOBS}/a")
    changed["spec"]["roles"][0]["gpus"] = 3
    assert fields(refused(served, 422, "PUT", f"{JOBS}/a", changed)) == ["spec.roles[0].gpus"]


def test_deleted_job_is_shown_until_its_pods_have_stopped(served: Yard) -> None:
    ok(served, "POST", JOBS, job("a"))
    served.cycle()
    served.report_all("running")
    left = ok(served, "DELETE", f"{JOBS}/a", {"propagationPolicy": "Background"})
    assert left["metadata"]["deletionTimestamp"]
    assert ok(served, "GET", f"{JOBS}/a") == left
    served.cycle()
    refused(served, 404, "GET", f"{JOBS}/a")
    assert served.ok("GET", "/v1/namespaces/default/jobs/a")["state"] == "cancelled"
    ok(served, "POST", JOBS, job("a"))


def test_pending_job_is_gone_as_soon_as_it_is_deleted(served: Yard) -> None:
    ok(served, "POST", JOBS, job("a"))
    told = ok(served, "DELETE", f"{JOBS}/a")
    assert (told["kind"], told["status"], told["details"]["kind"]) == ("Status", "Success", "jobs")
    refused(served, 404, "GET", f"{JOBS}/a")
    refused(served, 404, "DELETE", f"{JOBS}/a")


@pytest.mark.parametrize(
    ("status", "options"),
    [
        (400, {"dryRun": ["Some"]}),
        (422, {"propagationPolicy": "Sometimes"}),
        (422, {"gracePeriodSeconds": -1}),
        (422, {"gracePeriodSeconds": "soon"}),
        (422, {"preconditions": "none"}),
        (400, {"kind": "Pod"}),
    ],
)
def test_options_of_a_delete_that_make_no_sense_are_refused(
    any_yard: Yard, status: int, options: Obj
) -> None:
    send(any_yard, "POST", JOBS, job("a"))
    refused(any_yard, status, "DELETE", f"{JOBS}/a", options)
    ok(any_yard, "GET", f"{JOBS}/a")


def test_collection_is_deleted_by_its_selector(served: Yard) -> None:
    ok(served, "POST", JOBS, job("a", {"x": "1"}, parallelism={"tp": 8}))
    ok(served, "POST", JOBS, job("b", {"x": "2"}, parallelism={"tp": 8}))
    assert names(ok(served, "DELETE", f"{JOBS}?labelSelector=x%3D1")) == ["a"]
    assert names(ok(served, "GET", JOBS)) == ["b"]


def test_wait_conditions_follow_the_state(served: Yard) -> None:
    ok(served, "POST", JOBS, job("a"))
    served.cycle()
    assert holds(served) == {"Bound"}
    served.report_all("running")
    assert holds(served) == {"Bound", "Running"}
    served.report_all("succeeded", 0)
    assert holds(served) == {"Complete"}


def holds(yard: Yard) -> set[str]:
    conditions = ok(yard, "GET", f"{JOBS}/a")["status"]["conditions"]
    return {c["type"] for c in conditions if c["status"] == "True"}
