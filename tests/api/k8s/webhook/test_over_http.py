"""The webhook as an API server reaches it: envelopes, sizes, and whatever else comes."""

import json
from typing import Any, cast

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.k8s.webhook.hooks import HOOKS
from api.k8s.webhook.review import BODY_BYTES_MAX, answer_review
from tests.api.http.yard import Yard
from tests.api.k8s.damage import OBJECTS, TREES, damaged
from tests.api.k8s.reviews import SITE, job, queue, review_of

PATHS = sorted(HOOKS)
JSON = {"Content-Type": "application/json"}


def post(yard: Yard, path: str, body: object, **headers: str) -> httpx2.Response:
    content = body if isinstance(body, str | bytes) else json.dumps(body)
    return yard.client.post(f"{path}?timeout=10s", content=content, headers=JSON | headers)


def response_to(yard: Yard, path: str, body: object) -> dict[str, Any]:
    answer = post(yard, path, body)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    return cast(dict[str, Any], answer.json()["response"])


def test_job_is_judged_by_the_queues_of_the_service(yard: Yard) -> None:
    yard.ok("POST", "/v1/queues", {"name": "lab"})
    yard.ok("POST", "/v1/queues", {"name": "team", "parent": "lab"})
    yard.ok("POST", "/v1/queues", {"name": "old", "closed": True})
    path = "/jobs/validate"
    allowed = {
        name: response_to(yard, path, review_of(path, job(queue=name)))["allowed"]
        for name in ("default", "lab", "team", "old", "root", "nowhere")
    }
    assert allowed == {
        "default": True, "lab": False, "team": True, "old": False, "root": False, "nowhere": False
    }  # fmt: skip


def test_queue_with_placed_pods_gets_none_below_it(yard: Yard) -> None:
    yard.load()
    yard.ok("POST", "/v1/queues", {"name": "busy"})
    yard.submit("here", queue="busy", roles=[{"name": "w", "replicas": 1, "gpus": 1}])
    yard.cycle()
    path = "/queues/validate"
    answer = response_to(yard, path, review_of(path, queue(parent="busy")))
    assert "1 pods of its own" in answer["status"]["message"]
    deleted = review_of(path, None, queue("nowhere"), operation="DELETE")
    assert not response_to(yard, path, deleted)["allowed"]


def test_content_type_other_than_json_gets_an_empty_answer(any_yard: Yard) -> None:
    body = review_of("/jobs/validate", job())
    for kind in ("text/plain", "application/yaml", "application/json; charset=utf-8"):
        answer = post(any_yard, "/jobs/validate", body, **{"Content-Type": kind})
        assert (answer.status_code, answer.content) == (200, b"")


def test_review_above_three_mebibytes_is_turned_away(any_yard: Yard) -> None:
    big = review_of("/jobs/validate", job() | {"padding": "x" * BODY_BYTES_MAX})
    assert post(any_yard, "/jobs/validate", big).status_code == 413
    small = review_of("/jobs/validate", job() | {"padding": "x" * (BODY_BYTES_MAX - 10_000)})
    assert post(any_yard, "/jobs/validate", small).status_code == 200


@pytest.mark.parametrize("path", PATHS)
def test_only_posts_are_answered(any_yard: Yard, path: str) -> None:
    assert any_yard.client.get(path).status_code == 405


@pytest.mark.parametrize(
    "body",
    ["", "{", "[]", "null", "{}", '{"request": 3}', "\xff", "[" * 100_000, '{"request": {}}'],
)
def test_what_is_no_review_is_denied(any_yard: Yard, body: str) -> None:
    answer = post(any_yard, "/jobs/validate", body.encode("latin-1"))
    assert answer.status_code == 200
    assert answer.json()["response"]["allowed"] is False
    assert answer.json()["response"]["status"]["message"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("operation", "CONNECT"),
        ("operation", "DELETE"),
        ("resource", {"group": "batch", "version": "v1", "resource": "jobs"}),
        ("uid", ""),
        ("object", None),
        ("object", [1]),
    ],
)
def test_review_about_something_else_is_denied(any_yard: Yard, field: str, value: object) -> None:
    body = review_of("/jobs/validate", job())
    cast(dict[str, object], body["request"])[field] = value
    assert not response_to(any_yard, "/jobs/validate", body)["allowed"]


def test_review_of_another_version_is_denied(any_yard: Yard) -> None:
    body = review_of("/jobs/validate", job()) | {"apiVersion": "admission.k8s.io/v1beta1"}
    assert not response_to(any_yard, "/jobs/validate", body)["allowed"]


# -- whatever comes -------------------------------------------------------------------------------


@settings(max_examples=300)
@given(st.sampled_from(PATHS), OBJECTS | damaged(), st.none() | OBJECTS | damaged(), st.data())
def test_every_object_is_answered_with_a_verdict(
    path: str, obj: object, old: object, data: st.DataObject
) -> None:
    operation = data.draw(st.sampled_from(HOOKS[path].operations))
    body = review_of(path, cast(Any, obj if isinstance(obj, dict) else {}), operation=operation)
    cast(dict[str, object], body["request"]).update({"object": obj, "oldObject": old})
    answer = answer_review(HOOKS[path], json.dumps(body).encode(), lambda: SITE)
    response = cast(dict[str, Any], answer["response"])
    assert isinstance(response["allowed"], bool)
    assert response["allowed"] or response["status"]["message"]


@settings(max_examples=200)
@given(
    st.sampled_from(PATHS), st.binary(max_size=200) | TREES.map(lambda t: json.dumps(t).encode())
)
def test_every_body_is_answered_with_a_verdict(path: str, body: bytes) -> None:
    answer = answer_review(HOOKS[path], body, lambda: SITE)
    assert cast(dict[str, Any], answer["response"])["allowed"] is False
