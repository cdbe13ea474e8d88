"""JSON patches that the webhooks make (RFC 6902: add and replace), and what they give."""

from collections.abc import Sequence
from typing import cast

from scheduler.errors import invariant

Operation = dict[str, object]
"""`op`, `path` and `value`."""


def apply_patch(value: object, operations: Sequence[Operation]) -> object:
    """A copy of the value with operations of our own making applied, in order."""
    for operation in operations:
        path = str(operation["path"])
        parts = [p.replace("~1", "/").replace("~0", "~") for p in path.split("/")[1:]]
        value = _set(value, parts, operation["value"])
    return value


def _set(value: object, parts: Sequence[str], new: object) -> object:
    if not parts:
        return new
    head, rest = parts[0], parts[1:]
    if isinstance(value, list):
        items = list(value)
        if head == "-":
            return [*items, new]
        items[int(head)] = _set(items[int(head)], rest, new)
        return items
    invariant(isinstance(value, dict), f"a patch of ours leads nowhere at '{head}'")
    inner = cast(dict[str, object], value)
    return inner | {head: _set(inner.get(head), rest, new)}


def pointer(*parts: str) -> str:
    """A path of RFC 6901 from its parts."""
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)
