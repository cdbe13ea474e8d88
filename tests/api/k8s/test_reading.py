"""Bodies, selectors, durations: what is read and written without a service."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.k8s.body import DEPTH_MAX, read_object
from api.k8s.errors import StatusError
from api.k8s.kinds import Kind, Obj
from api.k8s.protobuf import MAGIC, decode
from api.k8s.selectors import field_selector, label_selector
from api.k8s.table import duration

KIND = Kind("", "v1", "pods", "pod", "Pod", {}, selectable=("spec.nodeName", "status.phase"))


def labelled(**labels: str) -> Obj:
    return {"metadata": {"name": "a", "namespace": "ns", "labels": labels}}


@pytest.mark.parametrize(
    ("selector", "fits"),
    [
        ("", True),
        ("app=x", True),
        ("app==x", True),
        ("app!=x", False),
        ("app", True),
        ("!app", False),
        ("nope", False),
        ("!nope", True),
        ("nope!=1", True),
        ("app in (x, y)", True),
        ("app notin (x,y)", False),
        ("nope notin (x)", True),
        ("app=x,tier in (front),!nope", True),
        ("app=x,tier=back", False),
    ],
)
def test_label_selector_chooses_as_kubernetes_does(selector: str, *, fits: bool) -> None:
    test = label_selector(selector)
    assert (test is None or test(labelled(app="x", tier="front"))) is fits


@pytest.mark.parametrize("selector", ["a=b=c", "a b", "=x", "a in x", "a in (x", "a,,b", "a=ü"])
def test_label_selector_that_does_not_parse_is_refused(selector: str) -> None:
    with pytest.raises(StatusError) as error:
        label_selector(selector)
    assert error.value.code == 400


def test_field_selector_takes_an_absent_field_for_an_empty_text() -> None:
    test = field_selector(KIND, "spec.nodeName=,status.phase!=Failed")
    assert test is not None
    assert test({"metadata": {"name": "a"}})
    assert not test({"metadata": {"name": "a"}, "spec": {"nodeName": "n1"}})


@pytest.mark.parametrize("selector", ["spec.what=x", "spec.nodeName", "a>b"])
def test_field_selector_that_makes_no_sense_is_refused(selector: str) -> None:
    with pytest.raises(StatusError) as error:
        field_selector(KIND, selector)
    assert error.value.code == 400


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0, "0s"),
        (119.9, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (599, "9m59s"),
        (600, "10m"),
        (10_799, "179m"),
        (10_800, "3h"),
        (11_100, "3h5m"),
        (28_800, "8h"),
        (172_799, "47h"),
        (172_800, "2d"),
        (180_000, "2d2h"),
        (691_200, "8d"),
        (63_071_999, "729d"),
        (63_072_000, "2y"),
        (63_158_400, "2y1d"),
        (-5, "<invalid>"),
    ],
)
def test_duration_is_told_in_two_units_at_most(seconds: float, told: str) -> None:
    assert duration(seconds) == told


def test_object_of_yaml_and_json_is_the_same() -> None:
    json_form, _ = read_object(b'{"kind": "X", "n": 1}', "application/json; charset=utf-8")
    yaml_form, _ = read_object(b"kind: X\nn: 1\n", "application/yaml")
    untyped, _ = read_object(b"kind: X\nn: 1\n", "")
    assert json_form == yaml_form == untyped == {"kind": "X", "n": 1}


def test_keys_that_are_given_twice_are_told_of() -> None:
    assert read_object(b'{"a": 1, "b": {"c": 1, "c": 2}}', "application/json")[1] == ["c"]


@pytest.mark.parametrize(
    ("body", "kind", "code"),
    [
        (b"", "application/json", 400),
        (b"", "application/yaml", 400),
        (b"[]", "application/json", 400),
        (b"null", "application/json", 400),
        (b'{"a": NaN}', "application/json", 400),
        (b'{"a": 1e999}', "application/json", 400),
        (b'{"a": 99999999999999999999}', "application/json", 400),
        (b'{"a": ' + b"9" * 5_000 + b"}", "application/json", 400),
        (b'\xff\xfe{"a": 1}', "application/json", 400),
        (b'{"a":' * 100_000, "application/json", 400),
        (b'{"a":' * (DEPTH_MAX + 1) + b"1" + b"}" * (DEPTH_MAX + 1), "application/json", 400),
        (b"a: [" * 10_000, "application/yaml", 400),
        (b"a: b: c", "application/yaml", 400),
        (b"a: 1\n---\nb: 2\n", "application/yaml", 400),
        (b"{}", "text/html", 415),
        (b"{}", "application/xml", 415),
        (b"{}", "application/vnd.kubernetes.protobuf", 400),
        (MAGIC, "application/vnd.kubernetes.protobuf", 415),
        (MAGIC + b"\xff", "application/vnd.kubernetes.protobuf", 400),
        (MAGIC + b"\x0a\x7f", "application/vnd.kubernetes.protobuf", 400),
    ],
)
def test_body_that_cannot_be_read_is_refused(body: bytes, kind: str, code: int) -> None:
    with pytest.raises(StatusError) as error:
        read_object(body, kind)
    assert error.value.code == code


def test_yaml_bomb_is_refused() -> None:
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x]"]
    lines += [f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 9)]
    with pytest.raises(StatusError) as error:
        read_object("\n".join(lines).encode(), "application/yaml")
    assert error.value.code == 400


def test_namespace_that_kubectl_sends_as_protobuf_is_read() -> None:
    """The bytes of `kubectl create namespace nsx` of version 1.32."""
    body = bytes.fromhex(
        "6b387300 0a0f 0a02 7631 1209 4e616d657370616365 121b 0a13 0a03 6e7378 1200 1a00 2200 2a00"
        "3200 3800 4200 1200 1a02 0a00 1a00 2200"
    )
    found = decode(body)
    assert (found["apiVersion"], found["kind"]) == ("v1", "Namespace")
    assert found["metadata"] == {"name": "nsx"}


@given(st.binary(max_size=200))
def test_any_bytes_are_read_as_protobuf_or_refused(data: bytes) -> None:
    wrapped = MAGIC + b"\x0a\x14\x0a\x02v1\x12\x0eDeleteOptions\x00" + data
    assert {code_of(decode, body) for body in (data, MAGIC + data, wrapped)} <= {0, 400, 415}


def code_of(read: Callable[[Any], object], value: object) -> int:
    """Status of what cannot be read, 0 of what can."""
    try:
        read(value)
    except StatusError as error:
        return error.code
    return 0


@given(st.text(max_size=60))
def test_any_selector_is_read_or_refused(text: str) -> None:
    assert code_of(label_selector, text) in {0, 400}
    assert code_of(lambda found: field_selector(KIND, found), text) in {0, 400}
