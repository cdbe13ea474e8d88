"""Bodies to models: every problem is named by its path and says what is allowed."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.schemas.job import JobBody
from api.schemas.queue import QueueBody
from api.schemas.reading import InvalidFields, MalformedBody, path_of, read_json, write_json
from scheduler.errors import Problem


def problems_of(body: bytes) -> list[Problem]:
    with pytest.raises(InvalidFields) as refused:
        read_json(JobBody, body)
    return list(refused.value.problems)


def job(**fields: object) -> bytes:
    return json.dumps({"name": "a", "parallelism": {"tp": 8}} | fields).encode()


def role(**fields: object) -> bytes:
    roles = [{"name": "w", "replicas": 4, "gpus": 8} | fields]
    return json.dumps({"name": "a", "roles": roles}).encode()


INVALID = {
    "an unknown field": (job(prioritty=1), "prioritty", "did you mean 'priority'?"),
    "an unknown field inside": (role(part={}), "roles[0].part", "did you mean 'parts'?"),
    "a size of zero": (
        job(parallelism={"tp": 0}),
        "parallelism.tp",
        "found 0; it must be at least 1",
    ),
    "a negative size": (
        job(parallelism={"dp": -1}),
        "parallelism.dp",
        "found -1; it must be at least",
    ),
    "a fractional size": (
        job(parallelism={"pp": 1.5}),
        "parallelism.pp",
        "found 1.5; it must be a whole",
    ),
    "a whole float": (job(parallelism={"pp": 2.0}), "parallelism.pp", "it must be a whole number"),
    "a size in a text": (
        job(parallelism={"pp": "2"}),
        "parallelism.pp",
        "found '2'; it must be a whole",
    ),
    "a boolean size": (
        job(parallelism={"pp": True}),
        "parallelism.pp",
        "found true; it must be a whole",
    ),
    "a size over a million": (
        job(parallelism={"cp": 1_000_001}),
        "parallelism.cp",
        "it must be at most 1000000",
    ),
    "very many members": (
        role(replicas=4_611_686_018_427_387_904),
        "roles[0].replicas",
        "found 4611686018427387904; it must be at most 1000000",
    ),
    "negative GPUs": (role(gpus=-8), "roles[0].gpus", "found -8; it must be at least 0"),
    "more GPUs than a node": (role(gpus=63), "roles[0].gpus", "it must be at most 62"),
    "a minimum of zero": (role(min=0), "roles[0].min", "found 0; it must be at least 1"),
    "a negative minimum": (role(min=-1), "roles[0].min", "found -1"),
    "a fractional priority": (job(priority=0.5), "priority", "whole number"),
    "a malformed name": (job(name="Bad Name"), "name", "a name has 1 to 63"),
    "a long name": (job(name="a" * 64), "name", "a name has 1 to 63"),
    "an empty name": (job(name=""), "name", "a name has 1 to 63"),
    "a name with a newline": (job(name="a\n"), "name", "a name has 1 to 63"),
    "a malformed namespace": (job(namespace="a/b"), "namespace", "a name has 1 to 63"),
    "a malformed order": (job(parallelism={"order": "tp,dp"}), "parallelism.order", "five axes"),
    "an unknown mode": (
        job(topology=[{"group": "tp", "within": "rack", "mode": "must"}]),
        "topology[0].mode",
        "found 'must'; allowed are 'required' or 'preferred'",
    ),
    "a text for a flag": (job(preemptible="no"), "preemptible", "it must be true or false"),
    "an object for a list": (job(nodes={}), "nodes", "found an object; it must be a list"),
    "a control character": (job(gpu="H100\u0007"), "gpu", "control characters"),
    "NUL in a command": (job(run={"command": ["a\0b"]}), "run.command[0]", "NUL"),
    "a negative time": (job(duration_s=-1), "duration_s", "it must be above 0"),
    "a label that is a number": (job(labels={"a/b": 1}), "labels['a/b']", "it must be a text"),
    "no name": (b'{"parallelism": {}}', "name", "is required"),
    "a list": (b"[]", "", "found a list; it must be an object"),
    "null": (b"null", "", "found null; it must be an object"),
    "NaN": (b'{"name": "a", "parallelism": {}, "duration_s": NaN}', "duration_s", "finite"),
    "Infinity": (
        b'{"name": "a", "parallelism": {}, "duration_s": Infinity}',
        "duration_s",
        "finite",
    ),
    "1e400": (b'{"name": "a", "parallelism": {}, "duration_s": 1e400}', "duration_s", "finite"),
    "1e400 as a size": (b'{"name": "a", "parallelism": {"tp": 1e400}}', "parallelism.tp", "whole"),
}

MALFORMED = {
    "nothing": (b"", "the body is empty"),
    "no JSON": (b"{name: a}", "is not JSON"),
    "half of it": (b'{"name": "a"', "is not JSON"),
    "invalid UTF-8": (b'{"name": "\xff"}', "byte 10 is not valid UTF-8"),
    "UTF-16": ('{"name": "a"}'.encode("utf-16"), "is not valid UTF-8"),
    "half a surrogate": (b'{"name": "\\ud800"}', "is not JSON"),
    "100,000 brackets": (b"[" * 100_000, "recursion limit exceeded"),
    "100,000 objects": (b'{"a":' * 100_000, "recursion limit exceeded"),
    "a number of 5,000 digits": (b'{"priority": ' + b"9" * 5_000 + b"}", "number out of range"),
    "a key twice": (b'{"name": "a", "parallelism": {}, "name": "b"}', "twice"),
}


@pytest.mark.parametrize("case", INVALID)
def test_invalid_field_is_named_with_what_is_allowed(case: str) -> None:
    body, path, words = INVALID[case]
    found = problems_of(body)
    assert [p.path for p in found] == [path]
    assert words in found[0].message


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_body_is_refused_with_the_place(case: str) -> None:
    body, words = MALFORMED[case]
    with pytest.raises(MalformedBody, match=words):
        read_json(JobBody, body)


def test_every_wrong_field_is_listed() -> None:
    found = problems_of(job(priority="x", spares=-1, rails="never"))
    assert [p.path for p in found] == ["priority", "rails", "spares"]


def test_very_many_problems_are_counted_and_not_listed() -> None:
    body = json.dumps({f"f{i}": 1 for i in range(20_000)}).encode()
    assert "too many to list" in problems_of(body)[0].message


def test_what_was_found_is_shortened() -> None:
    (found,) = problems_of(job(name="x" * 10_000))
    assert len(found.message) < 250


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ((), ""),
        (("name",), "name"),
        (("roles", 0, "parts", "min"), "roles[0].parts.min"),
        ((3, "name"), "[3].name"),
        (("labels", "a b"), "labels['a b']"),
    ],
)
def test_path_is_written_as_in_javascript(location: tuple[object, ...], path: str) -> None:
    assert path_of(location) == path


def test_nan_is_written_as_null() -> None:
    assert write_json({"a": float("nan"), "b": [1.5, "ü"]}) == '{"a":null,"b":[1.5,"ü"]}'.encode()


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    with suppress(MalformedBody, InvalidFields):
        read_json(QueueBody, body)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["name", "roles", "parts", "min", "x"]), inner, max_size=4
            )
        ),
        max_leaves=8,
    )
)
def test_any_values_are_read_or_refused(value: object) -> None:
    with suppress(MalformedBody, InvalidFields):
        read_json(JobBody, json.dumps(value).encode())
