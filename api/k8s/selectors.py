"""Label and field selectors: read once, then asked of many objects."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from api.k8s.errors import bad_request
from api.k8s.kinds import Kind, Obj

Test = Callable[[Obj], bool]

_KEY = re.compile(
    r"^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
)
_VALUE = re.compile(r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$")
_SET = re.compile(r"^(\S+)\s+(in|notin)\s*\(([^()]*)\)$")
_PAIR = re.compile(r"^(\S+?)\s*(==|!=|=)\s*(\S*)$")
_SPLIT = re.compile(r",(?![^(]*\))")

REQUIREMENTS_MAX = 100


def is_label_key(text: str) -> bool:
    return bool(_KEY.match(text))


def is_label_value(text: str) -> bool:
    return bool(_VALUE.match(text))


def label_selector(text: str) -> Test | None:
    """Whether an object's labels fit; None where any do.

    Raises:
        StatusError: 400 if it cannot be read.
    """
    tests = [_label_test(part.strip(), text) for part in _parts(text)]
    if not tests:
        return None
    return lambda obj: _all(tests, obj["metadata"].get("labels") or {})


def field_selector(kind: Kind, text: str) -> Test | None:
    """Whether an object's fields fit; an absent field is an empty text. None where any do.

    Raises:
        StatusError: 400 if it cannot be read, or the kind has no selection by such a field.
    """
    allowed = ("metadata.name", *(("metadata.namespace",) if kind.namespaced else ()))
    allowed += kind.selectable
    tests: list[tuple[tuple[str, ...], str, bool]] = []
    for part in _parts(text):
        path, wanted, is_equal = _field(part.strip(), text)
        if path not in allowed:
            raise bad_request(
                f'field label "{path[:80]}" not supported for {kind.resource}; supported are '
                + ", ".join(allowed)
            )
        tests.append((tuple(path.split(".")), wanted, is_equal))
    if not tests:
        return None
    return lambda obj: all((_at(obj, path) == wanted) is equal for path, wanted, equal in tests)


def exact_fields(text: str) -> Mapping[str, str]:
    """What a field selector asks to be equal, so that a read may begin there."""
    found = (_field(part.strip(), text) for part in _parts(text))
    return {path: wanted for path, wanted, is_equal in found if is_equal}


def _field(part: str, text: str) -> tuple[str, str, bool]:
    match = _PAIR.match(part)
    if match is None:
        raise bad_request(f'invalid field selector "{text[:200]}": "{part[:80]}" is no a=b or a!=b')
    path, operator, wanted = match.groups()
    return path, wanted, operator != "!="


def _parts(text: str) -> list[str]:
    if not text.strip():
        return []
    parts = _SPLIT.split(text)
    if len(parts) > REQUIREMENTS_MAX:
        raise bad_request(f"a selector has at most {REQUIREMENTS_MAX} requirements")
    return parts


def _label_test(part: str, text: str) -> Callable[[Mapping[str, str]], bool]:
    if match := _SET.match(part):
        key, operator, inside = match.groups()
        values = frozenset(v.strip() for v in inside.split(","))
        _check(key, values, text)
        if operator == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if match := _PAIR.match(part):
        key, operator, value = match.groups()
        _check(key, (value,), text)
        if operator == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if part.startswith("!"):
        absent = part[1:].strip()
        _check(absent, (), text)
        return lambda labels: absent not in labels
    _check(part, (), text)
    return lambda labels: part in labels


def _check(key: str, values: "Sequence[str] | frozenset[str]", text: str) -> None:
    for found, is_fine in ((key, is_label_key(key)), *((v, is_label_value(v)) for v in values)):
        if not is_fine:
            raise bad_request(
                f'unable to parse requirement: "{found[:80]}" in label selector "{text[:200]}": '
                "a key is [prefix/]name, a value has at most 63 letters, digits, '-', '_' and '.'"
            )


def _all(tests: Sequence[Callable[[Mapping[str, str]], bool]], labels: Mapping[str, str]) -> bool:
    return all(test(labels) for test in tests)


def _at(obj: Obj, path: Sequence[str]) -> str:
    value: Any = obj
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def both(*tests: Test | None) -> Test | None:
    """All of some selectors."""
    found = [test for test in tests if test is not None]
    if not found:
        return None
    return lambda obj: all(test(obj) for test in found)
