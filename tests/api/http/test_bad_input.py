"""Whatever is sent, the answer is a problem document that names the path; never a 5xx."""

import json
from collections.abc import Mapping

import pytest

from tests.api.http.yard import Yard, problems

GRID = {"tp": 8, "pp": 4, "dp": 2}


def job(**fields: object) -> dict[str, object]:
    return {"name": "bad", "parallelism": GRID} | fields


def roles(**fields: object) -> dict[str, object]:
    return {"name": "bad", "roles": [{"name": "w", "replicas": 4, "gpus": 8} | fields]}


def rule(group: str, within: str) -> list[dict[str, str]]:
    return [{"group": group, "within": within, "mode": "required"}]


BAD_JOBS: Mapping[str, tuple[object, str, list[str]]] = {
    "an unknown field": (job(prio=1), "prio", ["unknown field", "priority"]),
    "a size of zero": (job(parallelism={"tp": 0}), "parallelism.tp", ["at least 1"]),
    "a negative size": (job(parallelism={"tp": -8}), "parallelism.tp", ["-8"]),
    "a fractional size": (job(parallelism={"tp": 1.5}), "parallelism.tp", ["whole number"]),
    "a size over a million": (
        job(parallelism={"dp": 1_000_001}),
        "parallelism.dp",
        ["at most 1000000"],
    ),
    "a world over a million": (
        job(parallelism={"tp": 1000, "dp": 1001}),
        "parallelism",
        ["1001000", "1000000"],
    ),
    "experts that do not divide": (
        job(parallelism=GRID | {"ep": 3}),
        "parallelism.ep",
        ["does not divide", "64"],
    ),
    "an unknown level": (
        job(topology=rule("tp", "rak")),
        "topology[0].within",
        ["rak", "leaf, rack, node"],
    ),
    "an unknown group": (job(topology=rule("tq", "rack")), "topology[0].group", ["tq", "tp"]),
    "a role that is not there": (
        roles() | {"topology": rule("v", "rack")},
        "topology[0].group",
        ["v", "w"],
    ),
    "an unknown level of parts": (
        roles(parts={"size": 2, "count": 2, "topology": [{"within": "rak"}]}),
        "roles[0].parts.topology[0].within",
        ["rak"],
    ),
    "a gang that never fits": (job(parallelism={"tp": 8, "dp": 13}), "parallelism", ["never fits"]),
    "roles that never fit": (roles(replicas=13, one_per_node=True), "roles", ["never fits"]),
    "gpus_per_pod that is refused": (job(gpus_per_pod=3), "gpus_per_pod", ["found 3", "8"]),
    "gpus_per_pod over a node": (job(gpus_per_pod=63), "gpus_per_pod", ["at most 62"]),
    "a malformed name": (job(name="a b"), "name", ["'a b'"]),
    "a name that is a number": (job(name=7), "name", ["a text"]),
    "a malformed role name": (roles(name="w w"), "roles[0].name", ["'w w'"]),
    "a role twice": (
        {"name": "bad", "roles": [{"name": "w", "replicas": 1, "gpus": 1}] * 2},
        "roles[1].name",
        ["roles[0]"],
    ),
    "no members": (roles(replicas=0), "roles[0].replicas", ["at least 1"]),
    "very many members": (roles(replicas=2**62), "roles[0].replicas", ["4611686018427387904"]),
    "negative GPUs": (roles(gpus=-8), "roles[0].gpus", ["-8"]),
    "a minimum above the members": (roles(min=5), "roles[0].min", ["5", "4"]),
    "a minimum of zero": (roles(min=0), "roles[0].min", ["0"]),
    "a minimum below zero": (roles(min=-1), "roles[0].min", ["-1"]),
    "parts that do not add up": (
        roles(replicas=5, parts={"size": 2, "count": 2}),
        "roles[0].parts",
        ["replicas", "parts"],
    ),
    "minima that contradict": (
        roles(min=3, parts={"size": 2, "count": 2, "min": 1}),
        "roles[0].min",
        ["parts"],
    ),
    "neither sizes nor roles": ({"name": "bad"}, "parallelism", ["neither"]),
    "both sizes and roles": (job(roles=[{"name": "w", "replicas": 1}]), "parallelism", ["both"]),
    "an unknown queue": (job(queue="nope"), "queue", ["nope"]),
    "a hostlist of 10^8 names": (job(nodes=["n[1-100000000]"]), "nodes[0]", ["100000000"]),
    "a malformed hostlist": (job(nodes=["a1", "n["]), "nodes[1]", ["n["]),
    "a list": ([job()], "", ["an object"]),
    "a text": ("job", "", ["an object"]),
}


@pytest.mark.parametrize("case", BAD_JOBS)
def test_bad_job_is_refused_with_its_path(any_yard: Yard, case: str) -> None:
    body, path, words = BAD_JOBS[case]
    found = any_yard.refused(422, "POST", "/v1/jobs", body)
    assert path in found
    assert all(word in f"{path}: {found[path]}" for word in words), found
    assert any_yard.items("/v1/jobs") == []


RAW: Mapping[str, bytes] = {
    "nothing": b"",
    "spaces": b"  ",
    "half a body": b'{"name": "a"',
    "invalid UTF-8": b'{"name": "\xff\xfe"}',
    "UTF-16": '{"name": "a"}'.encode("utf-16"),
    "a byte order mark": b"\xef\xbb\xbf{}",
    "NaN": b'{"name": "a", "parallelism": {}, "duration_s": NaN}',
    "Infinity": b'{"name": "a", "parallelism": {}, "duration_s": -Infinity}',
    "1e400": b'{"name": "a", "parallelism": {}, "duration_s": 1e400}',
    "1e400 as a size": b'{"name": "a", "parallelism": {"tp": 1e400}}',
    "NaN in an unknown field": b'{"name": "a", "x": NaN}',
    "10^5 lists": b"[" * 100_000,
    "10^5 objects": b'{"a":' * 100_000,
    "10^5 lists in a field": b'{"name": "a", "nodes": ' + b"[" * 100_000,
    "a number of 10^4 digits": b'{"priority": ' + b"1" * 10_000 + b"}",
    "a key twice": b'{"name": "a", "parallelism": {}, "name": "b"}',
    "half a surrogate": b'{"name": "\\udc00"}',
    "NUL in a label": b'{"name": "a", "parallelism": {}, "labels": {"a": "\\u0000"}}',
    "NUL in the environment": (
        b'{"name": "a", "parallelism": {}, "run": {"env": {"A": "\\u0000"}}}'
    ),
    "very many unknown fields": json.dumps({f"f{i}": 0 for i in range(30_000)}).encode(),
}
PATHS = [
    ("POST", "/v1/jobs"),
    ("POST", "/v1/jobs:batch"),
    ("PATCH", "/v1/namespaces/default/jobs/x"),
    ("POST", "/v1/queues"),
    ("PATCH", "/v1/queues/default"),
    ("PUT", "/v1/queues/default"),
    ("PUT", "/v1/policy"),
    ("POST", "/v1/nodes/a1/cordon"),
    ("POST", "/v1/namespaces/default/pods/x/status"),
    ("POST", "/v1/test/clock"),
]


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
@pytest.mark.parametrize("case", RAW)
def test_malformed_body_is_refused_everywhere(
    any_yard: Yard, case: str, path: tuple[str, str]
) -> None:
    if case == "nothing" and path[1].endswith("cordon"):
        pytest.skip("a cordon needs no body")
    headers = {"Content-Type": "application/json"}
    answer = any_yard.call(*path, content=RAW[case], headers=headers)
    assert answer.status_code in {400, 422}
    assert problems(answer, answer.status_code)
    assert len(answer.content) < 20_000
    assert answer.elapsed.total_seconds() < 30  # a hang, not a speed


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
@pytest.mark.parametrize(
    "kind",
    [
        "",
        "text/html",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/json; charset=latin-1",
        "application/jsonp",
        "json",
        "text/plain",
        "\x7f",
    ],
)
def test_wrong_content_type_is_refused_with_the_right_ones(
    any_yard: Yard, kind: str, path: tuple[str, str]
) -> None:
    headers = {"Content-Type": kind} if kind else {}
    answer = any_yard.call(*path, content=b'{"name": "a"}', headers=headers)
    assert "application/json" in problems(answer, 415)["Content-Type"]


def test_content_type_may_name_its_encoding(any_yard: Yard) -> None:
    headers = {"Content-Type": "Application/JSON; charset=UTF-8"}
    assert any_yard.call("POST", "/v1/jobs", content=b"{}", headers=headers).status_code == 422


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/v1/jobs", "GET, POST"),
        ("DELETE", "/v1/jobs", "GET, POST"),
        ("POST", "/v1/namespaces/a/jobs/b", "GET, PATCH, DELETE"),
        ("GET", "/v1/jobs:batch", "POST"),
        ("POST", "/v1/policy", "GET, PUT"),
        ("POST", "/v1/queues/default", "GET, PUT, PATCH, DELETE"),
        ("DELETE", "/healthz", "GET"),
        ("BREW", "/v1/jobs", "GET, POST"),
    ],
)
def test_wrong_method_is_refused_with_the_right_ones(
    any_yard: Yard, method: str, path: str, allowed: str
) -> None:
    answer = any_yard.call(method, path)
    assert problems(answer, 405)
    assert answer.headers["allow"] == allowed


@pytest.mark.parametrize(
    "path",
    [
        "/dashboard/",
        "/dashboard/none.js",
        "/v1",
        "/v1/",
        "/v1/jobs/",
        "/v2/jobs",
        "/v1/job",
        "//v1/jobs",
        "/%00",
    ],
)
def test_unknown_path_is_named(any_yard: Yard, path: str) -> None:
    assert problems(any_yard.call("GET", path), 404)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/namespaces/a%00b/jobs/c",
        "/v1/namespaces/a/jobs/%0a",
        "/v1/namespaces/a/jobs/" + "x" * 300,
        "/v1/nodes/%00",
        "/v1/nodes/%ff%fe",
        "/v1/queues/%f0%9f%90%b4",
    ],
)
def test_malformed_id_names_nothing(any_yard: Yard, path: str) -> None:
    assert problems(any_yard.call("GET", path), 404)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v1/jobs?limit=0", "limit"),
        ("/v1/jobs?limit=1001", "limit"),
        ("/v1/jobs?limit=1.5", "limit"),
        ("/v1/jobs?limit=x", "limit"),
        ("/v1/jobs?limit=" + "9" * 5_000, "limit"),
        ("/v1/jobs?limit=1&limit=2", "limit"),
        ("/v1/jobs?state=sleeping", "state"),
        ("/v1/jobs?namespace=a%00", "namespace"),
        ("/v1/jobs?namespce=a", "namespce"),
        ("/v1/jobs?cursor=%00", "cursor"),
        ("/v1/nodes?health=ill", "health"),
        ("/v1/nodes?name=%00", "name"),
        ("/v1/pods?node=%00", "node"),
        ("/v1/events?since=-1", "since"),
        ("/v1/events?since=" + "9" * 30, "since"),
        ("/v1/events?cursor=x", "cursor"),
        ("/v1/domains?level=rack&cursor=x", "cursor"),
        ("/v1/domains?level=", "level"),
        ("/v1/namespaces/a/jobs/b?wait=soon", "wait"),
        ("/v1/namespaces/a/jobs/b?wait=bound&timeout_s=nan", "timeout_s"),
        ("/v1/namespaces/a/jobs/b?wait=bound&timeout_s=1e9", "timeout_s"),
        ("/healthz?x=1", "x"),
        ("/metrics?x=1", "x"),
        ("/v1/topology?depth=2", "depth"),
    ],
)
def test_bad_parameter_is_named(any_yard: Yard, path: str, name: str) -> None:
    assert list(problems(any_yard.call("GET", path), 422)) == [name]


@pytest.mark.parametrize(
    "cursor", ["x", "e30", "W10", "WyJhIiwgImIiXQ", "=" * 900, "WyJcdTAwMDAiXQ"]
)
@pytest.mark.parametrize("noun", ["jobs", "pods", "nodes", "queues"])
def test_cursor_that_was_not_given_is_refused_or_harmless(
    any_yard: Yard, noun: str, cursor: str
) -> None:
    answer = any_yard.call("GET", f"/v1/{noun}?cursor={cursor}")
    assert answer.status_code in {200, 400, 422}


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"attempt": 0, "state": "running"}, "attempt"),
        ({"attempt": 2**40, "state": "running"}, "attempt"),
        ({"attempt": 1, "state": "lost"}, "state"),
        ({"attempt": 1, "state": "failed", "exit_code": 2**40}, "exit_code"),
        ({"state": "running"}, "attempt"),
    ],
)
def test_bad_report_is_refused_with_its_path(
    any_yard: Yard, body: dict[str, object], path: str
) -> None:
    url = "/v1/namespaces/default/pods/x/status"
    assert list(any_yard.refused(422, "POST", url, body)) == [path]


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"name": "a b"}, "name"),
        ({}, "name"),
        ({"name": "a", "quota_gpus": -1}, "quota_gpus"),
        ({"name": "a", "limit_gpus": 2**63}, "limit_gpus"),
        ({"name": "a", "weight": 0}, "weight"),
        ({"name": "a", "parent": "A/B"}, "parent"),
        ({"name": "a", "limit": 1}, "limit"),
        ({"name": "a", "namespaces": ["x y"]}, "namespaces[0]"),
    ],
)
def test_bad_queue_is_refused_with_its_path(
    any_yard: Yard, body: dict[str, object], path: str
) -> None:
    assert list(any_yard.refused(422, "POST", "/v1/queues", body)) == [path]
