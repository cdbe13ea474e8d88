"""The plain submission is answered as its route would answer it."""

from typing import Any

import pytest

from api.http.express import _plain
from tests.api.http.yard import Yard

BODIES: list[Any] = [
    {"name": "a", "parallelism": {"tp": 8}},
    {"name": "a", "parallelism": {"tp": 3, "pp": 0}},
    {"name": "a", "parallelism": {"tp": 8, "dp": 4_000}},
    {"name": "a", "parallelism": {"tp": 8}, "queue": "none"},
    {"name": "a", "parallelism": {"tp": 8}, "unknown": 1},
    {"name": "taken", "parallelism": {"tp": 8}},
    [],
]
CHANGES = ("uid", "name", "revision", "submitted_at")


def scope(**more: object) -> dict[str, Any]:
    headers = [(b"content-type", b"application/json")]
    plain = {"type": "http", "method": "POST", "path": "/v1/jobs", "query_string": b""}
    return plain | {"headers": headers} | more


@pytest.mark.parametrize("body", BODIES)
def test_plain_submission_is_answered_as_by_its_route(yard: Yard, body: object) -> None:
    yard.load()
    yard.submit(name="taken")
    kinds = ("application/json", "application/json; charset=utf-8")
    answers = []
    for number, kind in enumerate(kinds):
        sent = body
        if isinstance(body, dict) and body["name"] != "taken":
            sent = body | {"name": f"a{number}"}
        answer = yard.call("POST", "/v1/jobs", sent, headers={"content-type": kind})
        told = answer.json()
        spec = told.pop("spec", {})
        spec.pop("name", None)
        shown = {key: value for key, value in told.items() if key not in CHANGES}
        text = repr((shown, spec)).replace(f"a{number}", "a")
        answers.append((answer.status_code, answer.headers["content-type"], text))
    assert answers[0] == answers[1]


def test_text_that_is_no_json_is_refused(yard: Yard) -> None:
    answer = yard.client.post(
        "/v1/jobs", content=b"{", headers={"content-type": "application/json"}
    )
    assert answer.status_code == 400


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        (b"", (None, None, 30.0)),
        (b"wait=bound", (None, "bound", 30.0)),
        (b"wait=bound&timeout_s=10", (None, "bound", 10.0)),
        (b"timeout_s=300&wait=finished", (None, "finished", 300.0)),
        (b"timeout_s=301", None),
        (b"timeout_s=-1", None),
        (b"wait=never", None),
        (b"wait=bound&wait=bound", None),
        (b"dry_run=true", None),
        (b"x=1", None),
    ],
)
def test_only_plain_queries_are_taken(query: bytes, asked: object) -> None:
    assert _plain(scope(query_string=query)) == asked


@pytest.mark.parametrize(
    ("keys", "taken"),
    [
        ([b"k"], "k"),
        ([b"!" * 255], "!" * 255),
        ([b"!" * 256], None),
        ([b""], None),
        ([b"a b"], None),
        ([b"k\n"], None),
        ([b"\xc3\xa4"], None),
        ([b"k", b"k"], None),
    ],
)
def test_only_a_key_as_it_should_be_is_taken(keys: list[bytes], taken: str | None) -> None:
    headers = [(b"content-type", b"application/json"), *((b"idempotency-key", k) for k in keys)]
    assert _plain(scope(headers=headers)) == (None if taken is None else (taken, None, 30.0))


def test_a_key_means_the_same_here_and_at_the_route(yard: Yard) -> None:
    yard.load()
    body = {"name": "a", "parallelism": {"tp": 8}}
    found = set()
    for kind, status in [("application/json", 201), ("application/json; charset=utf-8", 200)]:
        headers = {"content-type": kind, "Idempotency-Key": "k"}
        answer = yard.call("POST", "/v1/jobs", body, headers=headers)
        assert answer.status_code == status
        found.add(answer.json()["uid"])
        other = yard.call("POST", "/v1/jobs", body | {"priority": 1}, headers=headers)
        assert other.status_code == 409
    assert len(found) == 1


def test_anything_unusual_goes_on_to_the_route() -> None:
    kind = (b"content-type", b"application/json")
    assert _plain(scope(method="GET")) is None
    assert _plain(scope(path="/v1/jobs:batch")) is None
    assert _plain(scope(headers=[])) is None
    assert _plain(scope(headers=[kind, kind])) is None
    assert _plain(scope(headers=[(b"content-type", b"application/yaml")])) is None
