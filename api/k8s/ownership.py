"""Who wrote which field (`managedFields`), and server-side apply, which is decided by it.

Lists are owned and replaced as a whole: none of the kinds here says by which key its lists merge.
"""

import copy
from collections.abc import Iterator
from typing import Any, TypeAlias

from api.k8s.errors import Cause, StatusError
from api.k8s.kinds import Obj

Path: TypeAlias = tuple[str, ...]

APPLY, UPDATE = "Apply", "Update"

MANAGERS_MAX = 64

_NOT_OWNED = frozenset({"apiVersion", "kind", "metadata", "status"})
_OWNED_METADATA = ("labels", "annotations", "finalizers", "ownerReferences")


def apply(live: Obj, applied: Obj, manager: str, now: str, *, force: bool) -> Obj:
    """The live object after an apply.

    What the manager applied before and does not any more goes, unless others own it too.

    Args:
        now: Time of the request, for the manager's entry.

    Raises:
        StatusError: 409 if others own fields that it would change, and it is not forced.
    """
    wanted = dict(_leaves(applied))
    entries = _entries(live)
    before: set[Path] = set()
    others: list[Obj] = []
    conflicts: list[Cause] = []
    for entry in entries:
        owned = _paths(entry.get("fieldsV1"))
        if (entry.get("manager"), entry.get("operation")) == (manager, APPLY):
            before |= owned
            continue
        taken = {p for p in owned for w in wanted if _meet(p, w) and _at(live, w) != wanted[w]}
        if taken and not force:
            conflicts += [_conflict(entry, path) for path in sorted(taken)]
        others.append(entry | {"fieldsV1": _fields(owned - taken)} if taken else entry)
    if conflicts:
        raise _refused(conflicts)
    merged = copy.deepcopy(live)
    kept = {p for entry in others for p in _paths(entry.get("fieldsV1"))}
    for path in sorted(before - set(wanted)):
        if not any(_meet(path, other) for other in (*kept, *wanted)):
            _remove(merged, path)
    for path, value in wanted.items():
        _set(merged, path, copy.deepcopy(value))
    merged["metadata"]["managedFields"] = [
        *(e for e in others if e.get("fieldsV1")),
        _entry(manager, APPLY, str(live["apiVersion"]), now, set(wanted)),
    ]
    return merged


def track(old: Obj, new: Obj, manager: str, now: str) -> list[Obj]:
    """`managedFields` of an object after a change that was no apply.

    Args:
        old: As it was; of a new object one without fields.
    """
    was, is_now = dict(_leaves(old)), dict(_leaves(new))
    changed = {path for path, value in is_now.items() if was.get(path, _NOTHING) != value}
    gone = set(was) - set(is_now)
    found: list[Obj] = []
    mine: set[Path] = set(changed)
    for entry in _entries(new):
        owned = _paths(entry.get("fieldsV1"))
        if (entry.get("manager"), entry.get("operation")) == (manager, UPDATE):
            mine |= owned - gone
            continue
        left = owned - changed - gone
        if left == owned:
            found.append(entry)
        elif left:
            found.append(entry | {"fieldsV1": _fields(left)})
    if mine:
        found.append(_entry(manager, UPDATE, str(new["apiVersion"]), now, mine))
    return found[-MANAGERS_MAX:]


_NOTHING = object()


def _entry(manager: str, operation: str, version: str, now: str, paths: set[Path]) -> Obj:
    return {
        "manager": manager,
        "operation": operation,
        "apiVersion": version,
        "time": now,
        "fieldsType": "FieldsV1",
        "fieldsV1": _fields(paths),
    }


def _entries(obj: Obj) -> list[Obj]:
    found = obj["metadata"].get("managedFields") or []
    return [entry for entry in found if isinstance(entry, dict) and entry.get("manager")]


def _leaves(obj: Obj) -> Iterator[tuple[Path, Any]]:
    for key, value in obj.items():
        if key not in _NOT_OWNED:
            yield from _below((key,), value)
    metadata = obj.get("metadata") or {}
    for key in _OWNED_METADATA:
        if metadata.get(key):
            yield from _below(("metadata", key), metadata[key])


def _below(path: Path, value: Any) -> Iterator[tuple[Path, Any]]:  # noqa: ANN401  # any value of JSON
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _below((*path, str(key)), inner)
    else:
        yield path, value


def _meet(one: Path, other: Path) -> bool:
    """Whether one is the other or lies in it."""
    size = min(len(one), len(other))
    return one[:size] == other[:size]


def _paths(fields: Any) -> set[Path]:  # noqa: ANN401  # as callers wrote it
    found: set[Path] = set()
    left: list[tuple[Path, Any]] = [((), fields)]
    while left:
        path, value = left.pop()
        inner = [
            ((*path, key[2:]), below)
            for key, below in (value.items() if isinstance(value, dict) else ())
            if key.startswith("f:")
        ]
        if inner:
            left += inner
        elif path:
            found.add(path)
    return found


def _fields(paths: set[Path]) -> Obj:
    made: Obj = {}
    for path in sorted(paths):
        here = made
        for part in path:
            here = here.setdefault(f"f:{part}", {})
    return made


def _at(obj: Obj, path: Path) -> Any:  # noqa: ANN401  # any value of JSON
    value: Any = obj
    for part in path:
        if not isinstance(value, dict) or part not in value:
            return _NOTHING
        value = value[part]
    return value


def _set(obj: Obj, path: Path, value: Any) -> None:  # noqa: ANN401  # any value of JSON
    here = obj
    for part in path[:-1]:
        inner = here.get(part)
        if not isinstance(inner, dict):
            inner = here[part] = {}
        here = inner
    here[path[-1]] = value


def _remove(obj: Obj, path: Path) -> None:
    parents: list[tuple[Obj, str]] = []
    here: Any = obj
    for part in path:
        if not isinstance(here, dict) or part not in here:
            return
        parents.append((here, part))
        here = here[part]
    for number, (parent, part) in enumerate(reversed(parents)):
        if number and parent[part]:
            break
        del parent[part]


def _conflict(entry: Obj, path: Path) -> Cause:
    name, version = entry.get("manager"), entry.get("apiVersion")
    how = f' with subresource "{entry["subresource"]}"' if entry.get("subresource") else ""
    return Cause(
        "." + ".".join(path), f'conflict with "{name}"{how} using {version}', "FieldManagerConflict"
    )


def _refused(conflicts: list[Cause]) -> StatusError:
    count = len(conflicts)
    told = "\n".join(f"- {c.message}: {c.field}" for c in conflicts)
    word = "conflict" if count == 1 else "conflicts"
    return StatusError(
        409, f"Apply failed with {count} {word}: {told.removeprefix('- ')}", causes=conflicts
    )
