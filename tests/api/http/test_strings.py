"""Texts and numbers that are aimed at what lies behind: what is taken in comes out the same."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.store.ledger import audit_ledger
from tests.api.http.contract import description
from tests.api.http.yard import Yard

QUICK = settings(
    max_examples=3,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)

EVIL = (
    "'; DROP TABLE jobs; --", "' OR '1'='1", '"; SELECT 1; --', "a\\'; --", "%s %(a)s %n", ":name",
    "${jndi:ldap://evil/a}", "{{7*7}}", "$(reboot)", "`reboot`", "<script>alert(1)</script>",
    'x\n{"event": "forged"}', "a\r\nSet-Cookie: b", "\x1b[2J", "\x00", "a\x00b", "\u202egnp",
    "\ud800",
    "../../etc/passwd", "file:///etc/passwd", "*", "%", "_", "e\u0301", "\U0001f4a3", "A" * 10_000,
)  # fmt: skip
TEXTS = st.sampled_from(EVIL) | st.text(max_size=12)

LIMITS = (
    -1, 0, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 2**64, 10**40, 1e308,
    -1e308, 1e-320,
)  # fmt: skip
NUMBERS = st.sampled_from(LIMITS)

Path_ = tuple[Any, ...]
Where = tuple[str, str, str]


def bodies() -> Iterator[tuple[str, str, Any]]:
    """Method, path and an example body of everything that takes JSON."""
    for path, methods in description()["paths"].items():
        for method, operation in methods.items():
            content = operation.get("requestBody", {}).get("content", {})
            examples = content.get("application/json", {}).get("examples", {})
            for example in list(examples.values())[:1]:
                if path != "/v1/test/clock" and isinstance(example["value"], dict):
                    yield method.upper(), path, example["value"]


def leaves(value: object, kinds: tuple[type, ...], path: Path_ = ()) -> Iterator[Path_]:
    """Places of values of some kinds."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, kinds, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from leaves(inner, kinds, (*path, index))
    elif isinstance(value, kinds) and not isinstance(value, bool):
        yield path


def with_value(body: object, path: Path_, value: object) -> object:
    made = copy.deepcopy(body)
    at: Any = made
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return made


PLACES = [
    pytest.param(method, path, body, id=f"{method} {path}") for method, path, body in bodies()
]


def fill_in(path: str) -> str:
    found = {"namespace": "default", "kind": "rack", "id": "1"}
    for name, value in found.items():
        path = path.replace("{" + name + "}", value)
    here = "r1" if "/sets/" in path else "a1" if "/nodes/" in path else "job"
    return path.replace("{name}", here)


def send(yard: Yard, method: str, path: str, body: object) -> None:
    """Whatever it is, the answer is described and no fault of the service."""
    content = json.dumps(body)
    kind = {"Content-Type": "application/json"}
    answer = yard.call(method, fill_in(path), content=content, headers=kind)
    assert answer.status_code < 500, (method, path, content[:300], answer.text[:300])
    if 400 <= answer.status_code < 500:
        assert answer.json()["errors"], answer.text


@pytest.mark.parametrize(("method", "path", "body"), PLACES)
def test_evil_text_in_any_field_is_kept_or_refused(
    any_yard: Yard, method: str, path: str, body: object
) -> None:
    places = list(leaves(body, (str,)))
    if not places:
        pytest.skip("it has no texts")

    @QUICK
    @given(place=st.sampled_from(places), text=TEXTS)
    def check(place: Path_, text: str) -> None:
        send(any_yard, method, path, with_value(body, place, text))

    check()
    assert audit_ledger(any_yard.database).is_clean


@pytest.mark.parametrize(("method", "path", "body"), PLACES)
def test_number_beyond_its_bounds_in_any_field_is_refused_or_means_itself(
    any_yard: Yard, method: str, path: str, body: object
) -> None:
    places = list(leaves(body, (int, float)))
    if not places:
        pytest.skip("it has no numbers")

    @QUICK
    @given(place=st.sampled_from(places), number=NUMBERS)
    def check(place: Path_, number: float) -> None:
        send(any_yard, method, path, with_value(body, place, number))

    check()


QUERIES = [
    (path, parameter["name"])
    for path, methods in description()["paths"].items()
    if "get" in methods and path not in {"/v1/watch"}
    for parameter in methods["get"].get("parameters", ())
    if parameter["in"] == "query" and parameter["name"] != "wait"
]


@pytest.mark.parametrize(("path", "name"), QUERIES)
def test_query_of_any_kind_is_answered_or_refused(any_yard: Yard, path: str, name: str) -> None:
    for value in (*EVIL[::5], "9" * 25, "-1", "0", "1e9", "NaN", "\ud800"):
        query = {name: value.encode("utf-8", "replace").decode()}
        answer = any_yard.client.request("GET", fill_in(path), params=query | SOON)
        assert answer.status_code < 500, (path, query, answer.text[:300])


SOON = {"wait_s": "0.01"}


def test_text_that_is_free_comes_back_as_it_went_in(yard: Yard) -> None:
    """A word of a job's command, a variable, a reason: no names, so anything readable may be."""
    yard.load()
    kept, reasons = {}, {}
    kind = {"Content-Type": "application/json"}
    role = [{"name": "w", "replicas": 1, "gpus": 1}]
    for number, text in enumerate(EVIL):
        run = {"command": ["python", text], "env": {"A": text}}
        body = json.dumps({"name": f"j{number}", "roles": role, "run": run})
        answer = yard.call("POST", "/v1/jobs", content=body, headers=kind)
        assert answer.status_code in {201, 400, 422}
        if answer.status_code == 201:
            kept[f"j{number}"] = text
        reason = json.dumps({"reason": text})
        answer = yard.call("POST", "/v1/nodes/c4/cordon", content=reason, headers=kind)
        assert answer.status_code in {200, 400, 422}
        if answer.status_code == 200:
            reasons[text] = yard.ok("GET", "/v1/nodes/c4")["cordoned"]
    yard.cycle()
    assert {"'; DROP TABLE jobs; --", "%s %(a)s %n", "$(reboot)"} <= set(kept.values())
    found = {}
    for node in {pod["node"] for pod in yard.items("/v1/pods?limit=1000")}:
        heartbeat = {"session": "s", "boot_id": "b", "pods": []}
        for pod in _list(yard.ok("POST", f"/v1/nodes/{node}/heartbeat", heartbeat)["desired"]):
            launch = pod["launch"]
            assert launch["command"][1] == launch["env"]["A"]
            found[pod["job"].partition("/")[2]] = launch["env"]["A"]
    assert found == kept
    assert len(reasons) > 5
    for text, cordoned in reasons.items():
        assert isinstance(cordoned, dict)
        assert cordoned["reason"] == text


def _list(value: object) -> list[Any]:
    assert isinstance(value, list)
    return value


def test_one_bad_job_of_a_batch_is_told_and_harms_no_other(yard: Yard) -> None:
    yard.load()
    role = [{"name": "w", "replicas": 1, "gpus": 1}]
    good = [{"name": f"g{n}", "roles": role} for n in range(3)]
    bad: object
    for bad in ({"name": "'; DROP TABLE jobs; --", "roles": role}, {"name": "b"}, [], None, 7):
        answer = yard.call("POST", "/v1/jobs:batch", {"jobs": [*good, bad]})
        assert answer.status_code < 500
        names = {job["name"] for job in yard.items("/v1/jobs")}
        assert names in (set(), {"g0", "g1", "g2"})
