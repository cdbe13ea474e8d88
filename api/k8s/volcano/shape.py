"""Structural schemas, as definitions of custom resources have them: check, prune, fill in.

A schema is a plain mapping in the words of OpenAPI, so that the same value describes a kind to
`kubectl explain`. A null counts as left out, as it does for the programs Volcano is made of.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from api.k8s.volcano.quantity import parse_quantity
from scheduler.errors import Problem

Shape = Mapping[str, object]
Tree = dict[str, object]
"""A JSON object."""

OPEN_MARK = "x-kubernetes-preserve-unknown-fields"
AMOUNT_MARK = "x-kubernetes-int-or-string"

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

_TYPES: Mapping[str, tuple[type, str]] = {
    "object": (dict, "an object"),
    "array": (list, "a list"),
    "string": (str, "a text"),
    "boolean": (bool, "true or false"),
    "integer": (int, "a whole number"),
}


def record(fields: Mapping[str, Shape], *, required: Sequence[str] = (), says: str = "") -> Shape:
    """An object with these fields and no others."""
    made: Tree = {"type": "object", "properties": dict(fields)}
    if required:
        made["required"] = list(required)
    return _said(made, says)


def open_record(fields: Mapping[str, Shape], *, says: str = "") -> Shape:
    """An object of which these fields are looked at; others are kept as they are."""
    return _said({"type": "object", OPEN_MARK: True, "properties": dict(fields)}, says)


def array(items: Shape, *, least: int = 0, says: str = "") -> Shape:
    made: Tree = {"type": "array", "items": items}
    if least:
        made["minItems"] = least
    return _said(made, says)


def mapping(values: Shape, *, says: str = "") -> Shape:
    """An object with any keys."""
    return _said({"type": "object", "additionalProperties": values}, says)


def integer(
    *,
    least: int = -INT32_MAX - 1,
    most: int = INT32_MAX,
    default: int | None = None,
    says: str = "",
) -> Shape:
    """A whole number from `least` to `most`."""
    made: Tree = {"type": "integer", "minimum": least, "maximum": most}
    made["format"] = "int32" if most <= INT32_MAX else "int64"
    if default is not None:
        made["default"] = default
    return _said(made, says)


def text(
    *,
    most: int = 0,
    pattern: str = "",
    choice: Sequence[str] = (),
    default: str | None = None,
    says: str = "",
) -> Shape:
    """A text.

    Args:
        most: Characters; 0 = any number.
        pattern: Which it has to match as a whole.
    """
    made: Tree = {"type": "string"}
    if most:
        made["maxLength"] = most
    if pattern:
        made["pattern"] = pattern
    if choice:
        made["enum"] = list(choice)
    if default is not None:
        made["default"] = default
    return _said(made, says)


def flag(*, default: bool | None = None, says: str = "") -> Shape:
    made: Tree = {"type": "boolean"}
    if default is not None:
        made["default"] = default
    return _said(made, says)


def amount(says: str = "") -> Shape:
    """A quantity: a number, or a text such as `500m`."""
    return _said({AMOUNT_MARK: True, "anyOf": [{"type": "integer"}, {"type": "string"}]}, says)


def _said(made: Tree, says: str) -> Shape:
    return {"description": says, **made} if says else made


# -- check ----------------------------------------------------------------------------------------


def shape_problems(
    shape: Shape, value: object, path: str, *, limits: bool = True
) -> Iterator[Problem]:
    """What is of another kind than the schema says, by path.

    Args:
        limits: Look at numbers, lengths and choices too; an object that is yet to be mutated may
            still be beyond them.
    """
    if AMOUNT_MARK in shape:
        yield from _amount_problems(value, path)
        return
    kind = shape.get("type")
    if kind is None:
        return
    of, words = _TYPES[str(kind)]
    if not isinstance(value, of) or (kind == "integer" and isinstance(value, bool)):
        yield Problem(path, f"found {shown(value)}; it must be {words}")
    elif isinstance(value, dict):
        yield from _object_problems(shape, value, path, limits=limits)
    elif isinstance(value, list):
        if limits and len(value) < cast(int, shape.get("minItems", 0)):
            yield Problem(path, f"found none; at least {shape['minItems']} is required")
        for index, item in enumerate(value):
            inner = cast(Shape, shape["items"])
            yield from shape_problems(inner, item, f"{path}[{index}]", limits=limits)
    elif limits and isinstance(value, str):
        yield from _text_problems(shape, value, path)
    elif limits and isinstance(value, int) and kind == "integer":
        least, most = cast(int, shape["minimum"]), cast(int, shape["maximum"])
        if not least <= value <= most:
            yield Problem(path, f"found {shown(value)}; it must lie in {least} to {most}")


def _amount_problems(value: object, path: str) -> Iterator[Problem]:
    try:
        parse_quantity(value)
    except ValueError as error:
        yield Problem(path, str(error))


def _object_problems(shape: Shape, value: Tree, path: str, *, limits: bool) -> Iterator[Problem]:
    fields = _fields(shape)
    for name in cast(Sequence[str], shape.get("required", ())):
        if limits and value.get(name) is None:
            yield Problem(_at(path, name), "is required")
    for name, inner in fields.items():
        if value.get(name) is not None:
            yield from shape_problems(inner, value[name], _at(path, name), limits=limits)
    others = shape.get("additionalProperties")
    if isinstance(others, Mapping):
        for name, item in value.items():
            if item is not None:
                yield from shape_problems(others, item, _at(path, name), limits=limits)


def _text_problems(shape: Shape, value: str, path: str) -> Iterator[Problem]:
    most = cast(int, shape.get("maxLength", 0))
    choice = cast(Sequence[str], shape.get("enum", ()))
    if most and len(value) > most:
        yield Problem(path, f"found {len(value)} characters; at most {most} are allowed")
    elif choice and value not in choice:
        yield Problem(path, f"found {shown(value)}; allowed are {', '.join(choice)}")
    elif "pattern" in shape and not re.fullmatch(str(shape["pattern"]), value):
        yield Problem(path, f"found {shown(value)}; it must match {shape['pattern']}")


# -- prune, fill in -------------------------------------------------------------------------------


def unknown_fields(shape: Shape, value: object, path: str) -> Iterator[str]:
    """Paths of fields that the schema does not have; the value is of the schema's kinds."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from unknown_fields(cast(Shape, shape.get("items", {})), item, f"{path}[{index}]")
    elif isinstance(value, dict) and "properties" in shape:
        fields = _fields(shape)
        for name, item in value.items():
            if name in fields:
                yield from unknown_fields(fields[name], item, _at(path, name))
            elif OPEN_MARK not in shape:
                yield _at(path, name)
    elif isinstance(value, dict) and isinstance(shape.get("additionalProperties"), Mapping):
        for name, item in value.items():
            inner = cast(Shape, shape["additionalProperties"])
            yield from unknown_fields(inner, item, _at(path, name))


def filled(shape: Shape, value: object) -> object:
    """A copy with defaults in, unknown fields and nulls out; the value is of the schema's kinds."""
    if isinstance(value, list):
        return [filled(cast(Shape, shape.get("items", {})), item) for item in value]
    if not isinstance(value, dict):
        return value
    if "properties" not in shape:
        inner = shape.get("additionalProperties")
        if not isinstance(inner, Mapping):
            return dict(value)
        return {k: filled(inner, item) for k, item in value.items() if item is not None}
    fields = _fields(shape)
    made: Tree = {}
    for name, item in value.items():
        if item is not None and (name in fields or OPEN_MARK in shape):
            made[name] = filled(fields.get(name, {}), item)
    for name, field in fields.items():
        if name not in made and "default" in field:
            made[name] = field["default"]
    return made


def _fields(shape: Shape) -> Mapping[str, Shape]:
    return cast(Mapping[str, Shape], shape.get("properties", {}))


def _at(path: str, name: str) -> str:
    name = name if re.fullmatch(r"[A-Za-z0-9_-]{1,63}", name) else f"[{name[:80]}]"
    if not path or name.startswith("["):
        return f"{path}{name}"
    return f"{path}.{name}"


def shown(value: object) -> str:
    """What was found, short enough for a message."""
    if isinstance(value, str):
        return f"'{value[:60]}'"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, int) and abs(value) > 10**30:
        return "a number of more than 30 digits"
    return repr(value)[:40]
