"""What can be done with objects, whatever their kind: read, write, delete."""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from api.auth import ANYBODY, Caller
from api.k8s import ownership
from api.k8s.body import read_json, read_object, wrong_type
from api.k8s.errors import Cause, StatusError, bad_request, conflict, invalid, not_found
from api.k8s.kinds import Call, Handler, Obj, Parts, Wanted, name_of, namespace_of
from api.k8s.meta import Moved, time_text
from api.k8s.objects import check_metadata, checked, same_identity, set_names, without
from api.k8s.patches import (
    APPLY,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC,
    json_patch,
    merge_patch,
)
from api.k8s.request import Query, Target, check_dry_run
from api.k8s.strategic import strategic_merge
from api.store.look import Look, look_at

TRIES = 6
"""A patch is made anew on the object as it is when another change came in between."""

Done = tuple[int, Obj]
"""Status and body."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A request for one kind.

    Attributes:
        content_type: As the request says it.
        agent: Name of the program that asks, for the fields that it writes.
    """

    handler: Handler
    target: Target
    query: Query
    body: bytes = b""
    content_type: str = ""
    agent: str = "unknown"
    caller: Caller = ANYBODY

    @property
    def namespace(self) -> str:
        """Of objects that are read or written; "" for kinds that have none."""
        if not self.handler.kind.namespaced:
            return ""
        return self.target.namespace or ""

    @property
    def name(self) -> str:
        return self.target.name or ""

    @property
    def manager(self) -> str:
        return self.query.manager or self.agent

    def call(self, parts: Parts, *, dry_run: bool = False) -> Call:
        return Call(
            parts,
            caller=self.caller,
            dry_run=dry_run or self.query.dry_run,
            manager=self.manager,
            subresource=self.target.subresource,
        )


def find(handler: Handler, look: Look, namespace: str, name: str) -> Obj:
    """One object. Raises StatusError 404."""
    wanted = Wanted(namespace=namespace if handler.kind.namespaced else None, name=name)
    for obj in handler.read(look, wanted):
        if name_of(obj) == name and namespace_of(obj) == namespace:
            return obj
    raise not_found(handler.kind.resource, name)


def create(parts: Parts, ask: Ask) -> tuple[Done, list[str]]:
    """POST of a new object; the answer and warnings."""
    obj, doubles = read_object(ask.body, ask.content_type)
    kind = ask.handler.kind
    call = ask.call(parts)
    call.warnings += checked(kind, obj, validation=ask.query.validation, doubles=doubles)
    if kind.nameless:
        obj.setdefault("metadata", {})
        return (201, ask.handler.create(call, obj)), call.warnings
    set_names(kind, obj, ask.namespace if kind.namespaced else None)
    if kind.subresource("status") is not None:
        obj.pop("status", None)
    obj["metadata"].pop("managedFields", None)
    empty = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {}}
    now = time_text(call.now_s)
    obj["metadata"]["managedFields"] = ownership.track(empty, obj, ask.manager, now)
    made = ask.handler.create(call, obj)
    return (201, made), call.warnings


def replace(parts: Parts, ask: Ask) -> tuple[Done, list[str]]:
    """PUT of an object that is there."""
    new, doubles = read_object(ask.body, ask.content_type)
    call = ask.call(parts)
    call.warnings += checked(
        ask.handler.kind, new, validation=ask.query.validation, doubles=doubles
    )
    return (200, _change(parts, ask, call, lambda _: copy.deepcopy(new))), call.warnings


def patch(parts: Parts, ask: Ask) -> tuple[Done, list[str]]:
    """PATCH of an object; an apply makes one that is not there."""
    kind = ask.content_type.partition(";")[0].strip().lower()
    call = ask.call(parts)
    if kind == APPLY:
        return _apply(parts, ask, call)
    allowed = (JSON_PATCH, MERGE_PATCH, *((STRATEGIC,) if ask.handler.kind.strategic else ()))
    if kind not in allowed:
        raise wrong_type(ask.content_type, (*allowed, APPLY))
    if ask.query.force is not None:
        raise bad_request("force: Forbidden: may not be specified for non-apply patch")
    given, doubles = read_json(ask.body)
    if kind != JSON_PATCH and not isinstance(given, dict):
        raise bad_request("a patch is an object")
    patched: dict[str, Callable[[Obj], Obj]] = {
        JSON_PATCH: lambda old: json_patch(old, given),
        MERGE_PATCH: lambda old: merge_patch(old, given),
        STRATEGIC: lambda old: strategic_merge(copy.deepcopy(old), given),
    }
    told: list[str] = []

    def made(old: Obj) -> Obj:
        new = patched[kind](old)
        told[:] = checked(ask.handler.kind, new, validation=ask.query.validation, doubles=doubles)
        return new

    done = (200, _change(parts, ask, call, made))
    return done, call.warnings + told


def _apply(parts: Parts, ask: Ask, call: Call) -> tuple[Done, list[str]]:
    kind = ask.handler.kind
    if not ask.query.manager:
        raise bad_request(
            'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for '
            "apply patch"
        )
    applied, doubles = read_object(ask.body, "")
    validation = ask.query.validation if ask.query.text("fieldValidation") else "Strict"
    call.warnings += checked(kind, applied, validation=validation, doubles=doubles)
    if applied.setdefault("metadata", {}).get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    now, force = time_text(call.now_s), bool(ask.query.force)

    def made(old: Obj) -> Obj:
        version = applied["metadata"].get("resourceVersion")
        if version and version != old["metadata"]["resourceVersion"]:
            raise _modified(ask)
        return ownership.apply(old, applied, ask.manager, now, force=force)

    try:
        return (200, _change(parts, ask, call, made, is_apply=True)), call.warnings
    except StatusError as error:
        if error.code != 404 or ask.target.subresource:
            raise
    applied["metadata"].setdefault("name", ask.name)
    set_names(kind, applied, ask.namespace if kind.namespaced else None)
    if applied["metadata"]["name"] != ask.name:
        raise bad_request("the name of the object does not match the name on the URL")
    empty = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {}}
    applied["metadata"]["managedFields"] = ownership.apply(
        empty, applied, ask.manager, now, force=True
    )["metadata"]["managedFields"]
    applied.pop("status", None)
    return (201, ask.handler.create(call, applied)), call.warnings


def _change(
    parts: Parts,
    ask: Ask,
    call: Call,
    made: Callable[[Obj], Obj],
    *,
    is_apply: bool = False,
) -> Obj:
    """Write what `made` makes of the object, on the object as it is when it is written."""
    for tries_left in reversed(range(TRIES)):
        with look_at(parts.database) as look:
            old = find(ask.handler, look, ask.namespace, ask.name)
        new = made(copy.deepcopy(old))
        if not isinstance(new.get("metadata"), dict):
            raise bad_request("metadata must be an object")
        has_version = bool(new["metadata"].get("resourceVersion"))
        is_conditional = has_version and new["metadata"]["resourceVersion"] != _version(old)
        if is_conditional:
            raise _modified(ask)
        same_identity(ask.handler.kind, old, new)
        new["metadata"]["resourceVersion"] = _version(old)
        _only_its_part(ask, old, new)
        check_metadata(ask.handler.kind, new)
        if without(new, "managedFields") == without(old, "managedFields"):
            if not is_apply and _managed(new) == _managed(old):
                return old
            if is_apply and _shape(new) == _shape(old):
                return old
        elif not is_apply:
            now = time_text(call.now_s)
            new["metadata"]["managedFields"] = ownership.track(old, new, ask.manager, now)
        try:
            return ask.handler.update(call, old, new)
        except Moved:
            if not tries_left:
                raise _modified(ask) from None
    raise _modified(ask)


def _only_its_part(ask: Ask, old: Obj, new: Obj) -> None:
    """A write of an object leaves its status as it is, a write of its status everything else."""
    kind, part = ask.handler.kind, ask.target.subresource
    if kind.subresource("status") is None:
        return
    if part == "status":
        status, metadata = new.get("status"), new["metadata"]
        for key in [k for k in new if k not in old]:
            del new[key]
        new.update(copy.deepcopy({k: v for k, v in old.items() if k != "metadata"}))
        new["metadata"] = metadata
        if status is not None:
            new["status"] = status
    elif "status" in old:
        new["status"] = old["status"]
    else:
        new.pop("status", None)


def _managed(obj: Obj) -> list[Any]:
    return obj["metadata"].get("managedFields") or []


def _shape(obj: Obj) -> list[Any]:
    """Who owns what, without the times."""
    return [{k: v for k, v in entry.items() if k != "time"} for entry in _managed(obj)]


def _version(obj: Obj) -> str:
    return str(obj["metadata"]["resourceVersion"])


def _modified(ask: Ask) -> StatusError:
    return conflict(
        ask.handler.kind.resource,
        ask.name,
        "the object has been modified; please apply your changes to the latest version and try "
        "again",
    )


def delete(parts: Parts, ask: Ask) -> Done:
    """DELETE of one object."""
    options = _delete_options(ask)
    return 200, _delete_one(parts, ask, ask.namespace, ask.name, options)


def delete_all(parts: Parts, ask: Ask, objects: Sequence[Obj]) -> Done:
    """DELETE of a collection: one after the other, as `kubectl` does by itself."""
    options = _delete_options(ask)
    for obj in objects:
        try:
            _delete_one(parts, ask, namespace_of(obj), name_of(obj), options)
        except StatusError as error:
            if error.code != 404:
                raise
    kind = ask.handler.kind
    listed = {"apiVersion": kind.api_version, "kind": f"{kind.kind}List"}
    return 200, listed | {"metadata": {}, "items": list(objects)}


def _delete_one(parts: Parts, ask: Ask, namespace: str, name: str, options: Obj) -> Obj:
    kind = ask.handler.kind
    is_dry = check_dry_run(options.get("dryRun"))
    call = ask.call(parts, dry_run=is_dry)
    for tries_left in reversed(range(TRIES)):
        with look_at(parts.database) as look:
            old = find(ask.handler, look, namespace, name)
        _check_preconditions(ask, old, options)
        try:
            left = ask.handler.delete(call, old, options)
            break
        except Moved:
            if not tries_left:
                raise _modified(ask) from None
    else:
        raise _modified(ask)
    if left is not None:
        return left
    details = {
        "name": name,
        "group": kind.group,
        "kind": kind.plural,
        "uid": old["metadata"]["uid"],
    }
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    }


_POLICIES = ("Orphan", "Background", "Foreground")


def _delete_options(ask: Ask) -> Obj:
    options: Obj = {}
    if ask.body.strip():
        options, _ = read_object(ask.body, ask.content_type)
        if options.get("kind", "DeleteOptions") != "DeleteOptions":
            raise bad_request(f"the body is a {str(options['kind'])[:80]!r}, not DeleteOptions")
    if ask.query.text("propagationPolicy"):
        options["propagationPolicy"] = ask.query.text("propagationPolicy")
    grace = ask.query.text("gracePeriodSeconds")
    if grace:
        options["gracePeriodSeconds"] = int(grace) if grace.lstrip("-").isdigit() else grace
    causes = list(_option_causes(options))
    if causes:
        raise invalid("DeleteOptions", "meta.k8s.io", "", causes)
    return options


def _option_causes(options: Obj) -> Iterator[Cause]:
    policy = options.get("propagationPolicy")
    if policy is not None and policy not in _POLICIES:
        allowed = ", ".join(f'"{p}"' for p in _POLICIES)
        yield Cause(
            "propagationPolicy",
            f'Unsupported value: "{str(policy)[:80]}": supported values: {allowed}',
            "FieldValueNotSupported",
        )
    grace = options.get("gracePeriodSeconds")
    if grace is not None and (isinstance(grace, bool) or not isinstance(grace, int) or grace < 0):
        yield Cause(
            "gracePeriodSeconds", f"Invalid value: {str(grace)[:80]}: must be a number of 0 on"
        )
    if not isinstance(options.get("preconditions") or {}, dict):
        yield Cause("preconditions", "Invalid value: must be an object")


def _check_preconditions(ask: Ask, old: Obj, options: Obj) -> None:
    wanted = options.get("preconditions") or {}
    for field, name in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        asked = wanted.get(field)
        if asked and asked != old["metadata"][field]:
            raise conflict(
                ask.handler.kind.resource,
                name_of(old),
                f"Precondition failed: {name} in precondition: {str(asked)[:80]}, {name} in object "
                f"meta: {old['metadata'][field]}",
            )


def act(parts: Parts, ask: Ask) -> tuple[Done, list[str]]:
    """POST on a subresource."""
    body, _ = read_object(ask.body, ask.content_type)
    options = body.get("deleteOptions")
    call = ask.call(
        parts, dry_run=isinstance(options, dict) and check_dry_run(options.get("dryRun"))
    )
    with look_at(parts.database) as look:
        old = find(ask.handler, look, ask.namespace, ask.name)
    return (201, ask.handler.act(call, old, body)), call.warnings
