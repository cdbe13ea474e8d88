"""scheduling.k8s.io/v1 PriorityClass: a name of the policy's `priorities`."""

from collections.abc import Collection, Iterable
from dataclasses import replace

from api.k8s.base import Base, own
from api.k8s.errors import Cause, already_exists, invalid
from api.k8s.kinds import AGE, NAME, Call, Column, Kind, Obj, Wanted, name_of
from api.k8s.meta import kept_meta, metadata_of
from api.k8s.schema import object_schema
from api.k8s.table import age
from api.k8s.volcano.shape import flag, integer, text
from api.store.look import Look, look_at
from api.store.objects import ObjectRow, drop_object, find_object, put_object
from api.store.policy import get_policy, load_policy, put_policy, read_policy
from api.store.views import EventView

VALUE_MAX = 1_000_000_000

KIND = Kind(
    "scheduling.k8s.io",
    "v1",
    "priorityclasses",
    "priorityclass",
    "PriorityClass",
    object_schema(
        "PriorityClass is a name for a priority; jobs that are there keep what they have.",
        {
            "value": integer(says="The priority that it stands for."),
            "globalDefault": flag(),
            "description": text(),
            "preemptionPolicy": text(),
        },
        required=("value",),
    ),
    namespaced=False,
    short_names=("pc",),
    columns=(
        NAME,
        Column("Value", "integer"),
        Column("Global-Default", "boolean"),
        replace(AGE, name="Age"),
    ),
)
RESOURCE = KIND.resource
_POLICIES = ("PreemptLowerPriority", "Never")


class PriorityClasses(Base):
    kind = KIND

    def read(self, look: Look, wanted: Wanted) -> Iterable[Obj]:
        rows = {row.name: row for row in look.objects(RESOURCE)}
        policy = read_policy(look.connection)
        for name, value in sorted(policy.priorities.items()):
            if wanted.name in (None, name):
                never = name in policy.never_preempt
                yield _shown(name, value, rows.get(name), never=never)

    def create(self, call: Call, obj: Obj) -> Obj:
        name, value = name_of(obj), obj.get("value")
        _check(obj)
        with look_at(call.parts.database) as look:
            known = read_policy(look.connection).priorities
        if name in known:
            raise already_exists(RESOURCE, name)
        if not call.dry_run:
            _set(call, {**known, name: int(value or 0)}, name, never=_never(obj))
            _keep(call, obj)
        return _read(call, name) or obj

    def update(self, call: Call, old: Obj, new: Obj) -> Obj:
        if new.get("value") != old.get("value"):
            cause = Cause("value", f"is {old.get('value')} and cannot be changed")
            raise invalid(KIND.kind, KIND.group, name_of(new), [cause])
        _check(new)
        if call.dry_run:
            return new
        with look_at(call.parts.database) as look:
            known = read_policy(look.connection).priorities
        _set(call, dict(known), name_of(new), never=_never(new))
        _keep(call, new)
        return _read(call, name_of(new)) or new

    def delete(self, call: Call, old: Obj, options: Obj) -> Obj | None:
        name = name_of(old)
        if call.dry_run:
            return None
        with look_at(call.parts.database) as look:
            known = read_policy(look.connection).priorities
            row = find_object(look.connection, RESOURCE, "", name)
        _set(call, {k: v for k, v in known.items() if k != name}, name, never=False)
        if row is not None:
            call.parts.database.grouped(lambda tx: drop_object(tx, row), call.now_s)
        return None

    def cells(self, obj: Obj, now_s: float) -> list[object]:
        created = obj["metadata"].get("creationTimestamp")
        return [name_of(obj), obj["value"], obj.get("globalDefault", False), age(created, now_s)]

    def touched(self, look: Look, event: EventView) -> Collection[str] | None:
        return None if event.subject_kind == "policy" else own(KIND, event)


def _read(call: Call, name: str) -> Obj | None:
    with look_at(call.parts.database) as look:
        return next(iter(PriorityClasses().read(look, Wanted(name=name))), None)


def _check(obj: Obj) -> None:
    causes = []
    value = obj.get("value")
    if not isinstance(value, int) or abs(value) > VALUE_MAX:
        causes.append(Cause("value", f"found {value}; it lies in -{VALUE_MAX} to {VALUE_MAX}"))
    policy = obj.get("preemptionPolicy", _POLICIES[0])
    if policy not in _POLICIES:
        causes.append(Cause("preemptionPolicy", f"allowed are {', '.join(_POLICIES)}"))
    if obj.get("globalDefault"):
        causes.append(Cause("globalDefault", "is not supported; a job without a class has 0"))
    if causes:
        raise invalid(KIND.kind, KIND.group, name_of(obj), causes)


def _never(obj: Obj) -> bool:
    return obj.get("preemptionPolicy") == _POLICIES[1]


def _set(call: Call, priorities: dict[str, int], name: str, *, never: bool) -> None:
    """Have these priorities; jobs of the one named make nobody leave, or may again."""
    policy = get_policy(call.parts.database)
    others = [n for n in load_policy(call.parts.database).never_preempt if n != name]
    changes = {"priorities": priorities, "never_preempt": [*others, name] if never else others}
    put_policy(call.parts.database, policy | changes, now_s=call.now_s)


def _keep(call: Call, obj: Obj) -> None:
    meta, name = obj["metadata"], name_of(obj)
    fields = ("globalDefault", "description", "preemptionPolicy")
    row = ObjectRow(
        uid=f"priority:{name}",
        resource=RESOURCE,
        namespace="",
        name=name,
        created_at=call.now_s,
        labels=meta.get("labels", {}),
        annotations=meta.get("annotations", {}),
        meta=kept_meta(meta),
        managed=meta.get("managedFields", []),
        body={field: obj[field] for field in fields if field in obj},
        generation=1,
    )
    call.parts.database.grouped(lambda tx: put_object(tx, row), call.now_s)


def _shown(name: str, value: int, row: ObjectRow | None, *, never: bool) -> Obj:
    metadata = metadata_of(
        KIND,
        name=name,
        uid=f"priority:{name}",
        revision=0,
        created_s=None if row is None else row.created_at,
        row=row,
    )
    head: Obj = {"apiVersion": KIND.api_version, "kind": KIND.kind, "metadata": metadata}
    kept = row.body if row is not None else {}
    # The policy may have been changed since, in its own face.
    said = {"preemptionPolicy": _POLICIES[never]} if never or "preemptionPolicy" in kept else {}
    return head | {"value": value} | kept | said
