"""core/v1 Node: machines, as the inventory, agents and operators say that they are."""

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

from api.auth import Right, check
from api.k8s.base import Base, names_of, own, scope
from api.k8s.errors import Cause, invalid
from api.k8s.kinds import NAME, Call, Column, Kind, Obj, Subresource, Wanted, name_of
from api.k8s.meta import Moved, kept_meta, metadata_of, version_of
from api.k8s.schema import ANYTHING, BOOLEAN, TEXT, object_schema
from api.k8s.table import age
from api.k8s.verbs import find
from api.store.look import Look, look_at
from api.store.nodes import cordon_node, import_inventory, uncordon_node
from api.store.objects import ObjectRow, put_object
from api.store.topology import read_inventory
from api.store.views import EventView, NodeView
from scheduler.model.node import Health, NodeRecord, Taint, TaintEffect

PODS_MAX = 110
"""What Kubernetes lets run on a node; nobody counts here."""

VERSION = "podyard"

_TAINT = {
    "type": "object",
    "required": ["key", "effect"],
    "properties": {
        "key": TEXT,
        "value": TEXT,
        "effect": TEXT | {"description": "NoSchedule, PreferNoSchedule or NoExecute."},
        "timeAdded": TEXT,
    },
}

KIND = Kind(
    "",
    "v1",
    "nodes",
    "node",
    "Node",
    object_schema(
        "Node is one machine with its GPUs. It comes with the inventory; labels, annotations, "
        "taints and whether it takes new pods can be changed here.",
        {
            "spec": {
                "type": "object",
                "description": "What operators say of the node.",
                "properties": {
                    "unschedulable": BOOLEAN | {"description": "It takes no new pods: cordoned."},
                    "taints": {
                        "type": "array",
                        "description": "Keep off pods that do not tolerate them.",
                        "items": _TAINT,
                    },
                    "podCIDR": TEXT,
                    "providerID": TEXT,
                },
            },
            "status": ANYTHING | {"description": "Capacity, health and addresses, as observed."},
        },
    ),
    namespaced=False,
    verbs=("get", "list", "patch", "update", "watch"),
    short_names=("no",),
    subresources=(Subresource("status", ("get", "patch", "update")),),
    columns=(
        NAME,
        Column("Status", description="Health, and whether it takes new pods."),
        Column("Roles", description="Of labels node-role.kubernetes.io/ROLE."),
        Column("Age"),
        Column("Version", description="Who runs it."),
        Column("Internal-IP", priority=1),
        Column("External-IP", priority=1),
        Column("OS-Image", priority=1),
        Column("Kernel-Version", priority=1),
        Column("Container-Runtime", priority=1),
    ),
    strategic=True,
    selectable=("spec.unschedulable",),
)

ROLE = "node-role.kubernetes.io/"

_READY = {
    Health.HEALTHY: ("True", "NodeHealthy", "takes its part in the cluster"),
    Health.SUSPECT: ("Unknown", "NodeSilent", "its agent has not been heard for a while"),
    Health.LOST: ("Unknown", "NodeLost", "its agent has not been heard for long"),
    Health.OUT: ("False", "NodeOut", "was taken out for its faults"),
    Health.TESTING: ("False", "NodeTesting", "is being tested"),
}


class Nodes(Base):
    kind = KIND
    pages = True

    def read(self, look: Look, wanted: Wanted) -> Iterable[Obj]:
        names: Collection[str] | None = None
        if wanted.scopes is not None:
            names = [name for _, name in names_of(wanted.scopes)]
        elif wanted.limit is not None:
            names = look.node_names(wanted.after[1] if wanted.after else "", wanted.limit)
        if wanted.name is not None:
            names = [wanted.name]
        views = look.nodes(names)
        rows = {row.name: row for row in look.objects(KIND.resource)}
        return [node_object(view, rows.get(view.name)) for view in views]

    def update(self, call: Call, old: Obj, new: Obj) -> Obj:
        """Cordon, labels and taints are facts of their own; the rest is kept as a row."""
        if call.subresource == "status":
            return old
        labels, taints = _own_labels(old, new), _taints(new)
        if labels is not None or taints != _taints(old):
            check(call.caller, Right.ADMIN)  # what the inventory says of it
        name = name_of(old)
        database, now_s = call.parts.database, call.now_s
        if call.dry_run:
            return new
        before = version_of_parts(call, name)
        if before != old["metadata"]["resourceVersion"]:
            raise Moved(name)
        if _is_cordoned(new) != _is_cordoned(old):
            if _is_cordoned(new):
                reason = str((new["metadata"].get("annotations") or {}).get(REASON, ""))
                by = call.caller.name or call.manager
                cordon_node(database, name, reason=reason, by=by, now_s=now_s)
            else:
                uncordon_node(database, name, now_s=now_s)
        if labels is not None or taints != _taints(old):
            _import(call, name, labels, taints)
        metadata = new["metadata"]
        annotations = metadata.get("annotations") or {}
        managed = metadata.get("managedFields") or []
        if (annotations, managed) != (
            old["metadata"].get("annotations") or {},
            old["metadata"].get("managedFields") or [],
        ):
            row = ObjectRow(
                uid=f"node:{name}",
                resource=KIND.resource,
                namespace="",
                name=name,
                created_at=now_s,
                annotations={k: str(v) for k, v in annotations.items()},
                meta=kept_meta(metadata),
                managed=managed,
                generation=0,
            )
            database.grouped(lambda tx: put_object(tx, row), now_s)
        with look_at(database) as look:
            return find(self, look, "", name)

    def cells(self, obj: Obj, now_s: float) -> list[object]:
        info = obj["status"]["nodeInfo"]
        roles = sorted(
            key.removeprefix(ROLE)
            for key in obj["metadata"].get("labels", {})
            if key.startswith(ROLE)
        )
        return [
            name_of(obj),
            status_word(obj),
            ",".join(roles) or "<none>",
            age(obj["metadata"].get("creationTimestamp"), now_s),
            info["kubeletVersion"],
            "<none>",
            "<none>",
            info["osImage"] or "<unknown>",
            info["kernelVersion"] or "<unknown>",
            info["containerRuntimeVersion"] or "<unknown>",
        ]

    def touched(self, look: Look, event: EventView) -> Collection[str] | None:
        if event.subject_kind == "node":
            return (scope("", event.name),)
        if event.subject_kind in {"inventory", "set", "domain"}:
            return None
        return own(KIND, event)


REASON = "podyard.io/cordon-reason"


def version_of_parts(call: Call, name: str) -> str:
    """The node's resourceVersion at this moment."""
    with look_at(call.parts.database) as look:
        rows = look.objects(KIND.resource, name=name)
        views = look.nodes([name])
    newest = max((view.revision for view in views), default=0)
    return version_of(max(newest, rows[0].revision if rows else 0), name)


def node_object(view: NodeView, row: ObjectRow | None) -> Obj:
    """A node as Kubernetes shows it."""
    annotations = {}
    if view.cordon is not None and view.cordon.get("reason"):
        annotations[REASON] = str(view.cordon["reason"])
    spec: Obj = {}
    if view.cordon is not None or view.drain is not None:
        spec["unschedulable"] = True
    if view.taints:
        spec["taints"] = [_taint_object(taint) for taint in view.taints]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata_of(
            KIND,
            name=view.name,
            uid=view.name,
            revision=view.revision,
            created_s=None,
            row=row,
            labels=made_labels(view) | dict(view.labels),
            annotations=annotations,
        ),
        "spec": spec,
        "status": _status(view),
    }


def made_labels(view: NodeView) -> dict[str, str]:
    """Labels that the inventory says in other words: type, GPU and places."""
    labels = {
        "kubernetes.io/hostname": view.name,
        "node.kubernetes.io/instance-type": view.type,
    }
    if view.gpus:
        labels |= {
            "nvidia.com/gpu.product": view.gpu.replace(" ", "-"),
            "nvidia.com/gpu.count": str(view.gpus),
        }
    places = {f"podyard.io/{level}": place for level, place in view.places.items() if place}
    return labels | places


def _status(view: NodeView) -> Obj:
    ready, reason, message = _READY[view.health]
    amounts: dict[str, Any] = {"pods": str(PODS_MAX)}
    if view.cpu_milli:
        amounts["cpu"] = (
            f"{view.cpu_milli}m" if view.cpu_milli % 1000 else str(view.cpu_milli // 1000)
        )
    if view.memory_mib:
        amounts["memory"] = f"{view.memory_mib}Mi"
    if view.gpus:
        amounts["nvidia.com/gpu"] = str(view.gpus)
    empty = dict.fromkeys(
        (
            "machineID",
            "systemUUID",
            "bootID",
            "kernelVersion",
            "osImage",
            "containerRuntimeVersion",
            "kubeProxyVersion",
        ),
        "",
    )
    return {
        "capacity": amounts,
        "allocatable": dict(amounts),
        "conditions": [
            {
                "type": "Ready",
                "status": ready,
                "reason": reason,
                "message": f"the node {message}",
            }
        ],
        "addresses": [{"type": "Hostname", "address": view.name}],
        "nodeInfo": empty
        | {"kubeletVersion": VERSION, "operatingSystem": "linux", "architecture": ""},
    }


def _taint_object(taint: Taint) -> Obj:
    found = {"key": taint.key, "effect": str(taint.effect)}
    return found | ({"value": taint.value} if taint.value else {})


def status_word(obj: Obj) -> str:
    """The STATUS column: `Ready`, `NotReady` or `Unknown`, and whether it takes new pods."""
    ready = next(c["status"] for c in obj["status"]["conditions"] if c["type"] == "Ready")
    word = {"True": "Ready", "False": "NotReady"}.get(ready, "Unknown")
    return f"{word},SchedulingDisabled" if _is_cordoned(obj) else word


def _is_cordoned(obj: Obj) -> bool:
    return bool((obj.get("spec") or {}).get("unschedulable"))


def _taints(obj: Obj) -> tuple[Taint, ...]:
    found: list[Taint] = []
    causes: list[Cause] = []
    for index, item in enumerate((obj.get("spec") or {}).get("taints") or []):
        effect = str(item.get("effect", ""))
        if effect not in list(TaintEffect):
            allowed = ", ".join(f'"{e}"' for e in TaintEffect)
            causes.append(
                Cause(
                    f"spec.taints[{index}].effect",
                    f'Unsupported value: "{effect[:80]}": supported values: {allowed}',
                    "FieldValueNotSupported",
                )
            )
            continue
        taint = Taint(str(item.get("key", "")), str(item.get("value", "")), TaintEffect(effect))
        if not taint.key:
            causes.append(
                Cause(f"spec.taints[{index}].key", "Required value", "FieldValueRequired")
            )
        if any((t.key, t.effect) == (taint.key, taint.effect) for t in found):
            causes.append(Cause(f"spec.taints[{index}]", "Duplicate value", "FieldValueDuplicate"))
        found.append(taint)
    if causes:
        raise invalid("Node", "", name_of(obj), causes)
    return tuple(found)


def _own_labels(old: Obj, new: Obj) -> dict[str, str] | None:
    """What the node's labels are to be beside those made of the inventory; None = no change."""
    was, now = old["metadata"].get("labels") or {}, new["metadata"].get("labels") or {}
    if was == now:
        return None
    changed = {key for key in {*was, *now} if was.get(key) != now.get(key)}
    fixed = sorted(key for key in changed if key in _FIXED or key.startswith("podyard.io/"))
    if fixed:
        causes = [
            Cause(f"metadata.labels[{key}]", "Forbidden: says what the inventory says; change that")
            for key in fixed
        ]
        raise invalid("Node", "", name_of(old), causes)
    return {k: str(v) for k, v in now.items()}


_FIXED = frozenset(
    {
        "kubernetes.io/hostname",
        "node.kubernetes.io/instance-type",
        "nvidia.com/gpu.product",
        "nvidia.com/gpu.count",
    }
)


def _import(
    call: Call, name: str, labels: dict[str, str] | None, taints: tuple[Taint, ...]
) -> None:
    """Change a node's record as an import of this one node would."""
    database = call.parts.database
    with database.read() as connection:
        stored = read_inventory(connection).inventory
        record = next(node for node in stored.nodes if node.name == name)
    kept = {} if labels is None else labels
    made = {k for k in kept if k in _FIXED or k.startswith("podyard.io/")}
    own_labels = {k: v for k, v in kept.items() if k not in made or k in record.labels}
    changed: NodeRecord = replace(
        record, taints=taints, labels=record.labels if labels is None else own_labels
    )
    only = replace(stored, nodes=(changed,), warnings=())
    import_inventory(database, only, prune=False, dry_run=False, now_s=call.now_s)
