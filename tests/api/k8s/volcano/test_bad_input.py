"""Whatever is sent to the face is served or refused with a `Status`; nothing is half-written."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.api.http.yard import Yard
from tests.api.k8s.damage import OBJECTS, TREES, damaged
from tests.api.k8s.reviews import job
from tests.api.k8s.volcano.yards import GROUPS

HEADS = {
    "Job": "batch.volcano.sh/v1alpha1",
    "PodGroup": "scheduling.volcano.sh/v1beta1",
    "Queue": "scheduling.volcano.sh/v1beta1",
    "HyperNode": "topology.volcano.sh/v1alpha1",
    "Command": "bus.volcano.sh/v1alpha1",
    "PriorityClass": "scheduling.k8s.io/v1",
}
QUIET = settings(
    max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)


def check(answer: Any) -> None:  # noqa: ANN401  # of the test client
    assert answer.status_code < 500, answer.text
    found = answer.json()
    if answer.status_code >= 400:
        assert (found["kind"], found["status"]) == ("Status", "Failure")
        assert found["message"]


def send(yard: Yard, kind: str, obj: object, query: str = "") -> None:
    """Create something of a kind, and look at what comes back."""
    body = obj if isinstance(obj, dict) else {}
    meta = body.get("metadata") if isinstance(body.get("metadata"), dict) else {"name": "x"}
    body = body | {"apiVersion": HEADS[kind], "kind": kind, "metadata": meta}
    headers = {"Content-Type": "application/json"}
    path = f"/apis/{GROUPS[kind]}{query}"
    check(yard.client.post(path, content=json.dumps(body), headers=headers))


@QUIET
@given(st.sampled_from(sorted(HEADS)), OBJECTS | damaged(), st.sampled_from(["?dryRun=All", ""]))
def test_every_new_object_is_served_or_refused(
    any_yard: Yard, kind: str, obj: object, query: str
) -> None:
    send(any_yard, kind, obj, query)


@settings(QUIET, max_examples=40)
@given(st.sampled_from(sorted(HEADS)), damaged())
@pytest.mark.parametrize("database_kind", ["postgresql"], indirect=True)
def test_every_new_object_is_served_or_refused_on_postgresql(
    yard: Yard, kind: str, obj: object
) -> None:
    send(yard, kind, obj)


@QUIET
@given(TREES, st.sampled_from(["application/merge-patch+json", "application/json-patch+json"]))
def test_every_patch_of_a_job_is_served_or_refused(
    any_yard: Yard, patch: object, kind: str
) -> None:
    path = f"/apis/{GROUPS['Job']}"
    any_yard.client.post(path, json=job(name="patched"))
    headers = {"Content-Type": kind}
    check(any_yard.client.patch(f"{path}/patched", content=json.dumps(patch), headers=headers))


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("{", 400),
        ("[]", 400),
        ("[" * 100_000, 400),
        (json.dumps(job() | {"apiVersion": "batch.volcano.sh/v2"}), 400),
        (json.dumps(job() | {"kind": "Jub"}), 400),
        (json.dumps(job() | {"padding": "x" * 10_000_000}), 413),
        (json.dumps(job() | {"metadata": {"name": "Not A Name"}}), 422),
        (json.dumps(job() | {"metadata": {"name": "x", "namespace": "other"}}), 400),
        (json.dumps(job() | {"spec": {}}), 422),
        (json.dumps(job() | {"spec": []}), 422),
    ],
)
def test_body_that_is_no_job_is_refused(any_yard: Yard, body: str, status: int) -> None:
    headers = {"Content-Type": "application/json"}
    answer = any_yard.client.post(f"/apis/{GROUPS['Job']}", content=body, headers=headers)
    assert answer.status_code == status, answer.text
    check(answer)


def test_kind_that_is_not_there_is_not_found(any_yard: Yard) -> None:
    for path in ("batch.volcano.sh/v1alpha1/cronjobs", "flow.volcano.sh/v1alpha1/jobflows"):
        answer = any_yard.client.post(f"/apis/{path}", json={})
        assert answer.status_code == 404
        assert answer.json()["kind"] == "Status"
