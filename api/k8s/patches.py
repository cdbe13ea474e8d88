"""Patches of objects: RFC 6902 (JSON patch) and RFC 7396 (merge patch)."""

import copy
from collections.abc import Sequence
from typing import Any

from api.k8s.errors import StatusError, bad_request
from api.k8s.kinds import Obj

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"

OPERATIONS_MAX = 10_000


def merge_patch(target: Any, patch: Any) -> Any:  # noqa: ANN401  # any values of JSON
    """The target with a patch merged in; null takes a field away. Neither is changed."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def json_patch(target: Obj, operations: Any) -> Obj:  # noqa: ANN401  # a body that is yet to be checked
    """The target after a list of operations, all or none; it is not changed itself.

    Raises:
        StatusError: 400 if they are no operations, 422 if one of them cannot be done here.
    """
    if not isinstance(operations, list):
        raise bad_request("a JSON patch is a list of operations")
    if len(operations) > OPERATIONS_MAX:
        raise StatusError(413, f"a JSON patch has at most {OPERATIONS_MAX} operations")
    document: Any = copy.deepcopy(target)
    for index, operation in enumerate(operations):
        if not isinstance(operation, dict):
            raise bad_request(f"operation {index} of the JSON patch is not an object")
        document = _apply(document, operation, index)
    if not isinstance(document, dict):
        raise _refused(0, "what it leaves is not an object")
    return document


def _apply(document: Any, operation: Obj, index: int) -> Any:  # noqa: ANN401  # any values of JSON
    # As text: a list or an object cannot be looked up in a set.
    name = str(operation.get("op"))
    path = _pointer(operation, "path", index)
    if name in {"add", "replace", "test"} and "value" not in operation:
        raise bad_request(f"operation {index} of the JSON patch has no value")
    value = copy.deepcopy(operation.get("value"))
    if name == "test":
        if _get(document, path, index) != value:
            raise _refused(index, f"testing value {operation['path'][:200]} failed")
        return document
    if name == "add":
        return _put(document, path, value, index)
    if name == "remove":
        return _remove(document, path, index)
    if name == "replace":
        _get(document, path, index)
        return _put(document, path, value, index, replace=True)
    if name in {"move", "copy"}:
        source = _pointer(operation, "from", index)
        found = copy.deepcopy(_get(document, source, index))
        if name == "move":
            if path[: len(source)] == source and path != source:
                raise _refused(index, "a value cannot be moved into itself")
            document = _remove(document, source, index)
        return _put(document, path, found, index)
    raise bad_request(
        f"operation {index} of the JSON patch is {name[:80]!r}; allowed are add, remove, "
        "replace, move, copy, test"
    )


def _pointer(operation: Obj, field: str, index: int) -> list[str]:
    text = operation.get(field)
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise bad_request(
            f"operation {index} of the JSON patch: {field} must be a path as in /metadata/labels"
        )
    return [p.replace("~1", "/").replace("~0", "~") for p in text.split("/")[1:]]


def _get(document: Any, path: Sequence[str], index: int) -> Any:  # noqa: ANN401  # any values of JSON
    value = document
    for part in path:
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and (at := _position(part, len(value) - 1)) is not None:
            value = value[at]
        else:
            raise _missing(index, path)
    return value


def _put(
    document: Any,  # noqa: ANN401  # any values of JSON
    path: Sequence[str],
    value: Any,  # noqa: ANN401  # any values of JSON
    index: int,
    *,
    replace: bool = False,
) -> Any:  # noqa: ANN401  # any values of JSON
    if not path:
        return value
    parent = _get(document, path[:-1], index)
    last = path[-1]
    if isinstance(parent, dict):
        parent[last] = value
    elif isinstance(parent, list):
        at = len(parent) if last == "-" else _position(last, len(parent))
        if at is None:
            raise _missing(index, path)
        parent[at : at + replace] = [value]
    else:
        raise _missing(index, path)
    return document


def _remove(document: Any, path: Sequence[str], index: int) -> Any:  # noqa: ANN401  # any values of JSON
    if not path:
        raise _refused(index, "the whole object cannot be removed by a patch")
    _get(document, path, index)
    parent = _get(document, path[:-1], index)
    del parent[int(path[-1]) if isinstance(parent, list) else path[-1]]
    return document


def _position(text: str, last: int) -> int | None:
    if not (text.isascii() and text.isdigit()) or len(text) > 9 or (text != "0" and text[0] == "0"):
        return None
    return int(text) if int(text) <= last else None


def _missing(index: int, path: Sequence[str]) -> StatusError:
    return _refused(index, f"there is no /{'/'.join(path)[:200]}")


def _refused(index: int, why: str) -> StatusError:
    return StatusError(
        422,
        f"the server rejected our request due to an error in our request: operation {index} "
        f"of the JSON patch: {why}",
    )
