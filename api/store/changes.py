"""What an import changes, node by node and field by field, for a person to look at beforehand."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import chain, islice, repeat

from api.store.merge import Merged
from scheduler.importers.hostlist import compress
from scheduler.model.node import FabricLevel, Inventory, NodeRecord, NodeType, RackRecord, Taint
from scheduler.model.resources import Resources
from scheduler.topology.natural import natural_key

NODES_SHOWN = 500
"""Nodes told of one import; a person who reads on would not see more."""

CLUSTER_FIELDS_SHOWN = 200
"""The same for what is told of the cluster as a whole."""

TEXT_MAX = 200
"""Characters of one value."""


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field with its text before and after; None = not there."""

    field: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class NodeChange:
    """A node that differs.

    Attributes:
        change: created, updated, removed or kept; a kept one may change in other fields than the
            one it is kept for.
    """

    node: str
    change: str
    fields: tuple[FieldChange, ...] = ()


@dataclass(frozen=True, slots=True)
class Changes:
    """The difference that an import makes.

    Attributes:
        nodes: Kept and removed ones first, then updated, then created ones, by name.
        left_out: How many more nodes differ.
        cluster: What differs beside the nodes: levels, types, racks, sets, fabric.
    """

    nodes: tuple[NodeChange, ...] = ()
    left_out: int = 0
    cluster: tuple[FieldChange, ...] = ()


NO_CHANGES = Changes()


def changes_of(old: Inventory, merged: Merged) -> Changes:
    """The difference between an inventory and what it is merged to."""
    if not merged.is_change and not merged.kept:
        return NO_CHANGES
    kept = set(merged.kept)
    updated = [name for name in merged.updated if name not in kept]
    groups = {
        "kept": merged.kept,
        "removed": merged.removed,
        "updated": updated,
        "created": merged.created,
    }
    total = sum(map(len, groups.values()))
    named = chain.from_iterable(
        zip(repeat(change), sorted(names, key=natural_key)) for change, names in groups.items()
    )
    before = {node.name: node for node in old.nodes}
    after = {node.name: node for node in merged.new.nodes}
    nodes = tuple(
        NodeChange(
            name, change, tuple(_node_fields(old, merged.new, before.get(name), after.get(name)))
        )
        for change, name in islice(named, NODES_SHOWN)
    )
    cluster = tuple(islice(_cluster_fields(old, merged.new), CLUSTER_FIELDS_SHOWN))
    return Changes(nodes, total - len(nodes), cluster)


def _node_fields(
    old: Inventory, new: Inventory, before: NodeRecord | None, after: NodeRecord | None
) -> Iterator[FieldChange]:
    """What differs of a node; of a new one what decides where jobs go, of a removed one nothing."""
    if after is None:
        return
    was = _node_values(before, new) if before else {}
    now = _node_values(after, new, with_labels=before is not None)
    yield from _differences(was, now)
    if before is not None and before.type == after.type:
        yield from _differences(
            _type_values(old.node_types.get(before.type), "type."),
            _type_values(new.node_types.get(after.type), "type."),
        )


def _node_values(
    node: NodeRecord, new: Inventory, *, with_labels: bool = True
) -> Mapping[str, str | None]:
    values: dict[str, str | None] = {"type": node.type}
    values |= {level: node.places.get(level) for level in new.levels[:-1]}
    if with_labels:
        values |= {f"labels.{key}": value for key, value in sorted(node.labels.items())}
        values["taints"] = ", ".join(map(_taint, node.taints)) or None
    return values


def _taint(taint: Taint) -> str:
    return (
        f"{taint.key}={taint.value}:{taint.effect}"
        if taint.value
        else f"{taint.key}:{taint.effect}"
    )


def _type_values(kind: NodeType | None, prefix: str) -> Mapping[str, str | None]:
    if kind is None:
        return {}
    return {
        f"{prefix}{f.name}": _plain(getattr(kind, f.name)) for f in fields(kind) if f.name != "name"
    }


def _plain(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, Resources):
        other = [f"{count} {name}" for name, count in value.other]
        return ", ".join([f"{value.cpu_milli / 1000:g} CPUs", f"{value.memory_mib} MiB", *other])
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _cluster_fields(old: Inventory, new: Inventory) -> Iterator[FieldChange]:
    """What differs beside the nodes; of a type that comes or goes its GPUs alone."""
    # Before the first import there is no cluster, only defaults.
    yield from _differences(_cluster_values(old) if old.cluster else {}, _cluster_values(new))
    yield from _set_fields(old, new)
    for name in sorted({*old.node_types, *new.node_types}, key=natural_key):
        was, now = old.node_types.get(name), new.node_types.get(name)
        if was is None or now is None:
            at = f"node_types.{name}"
            yield FieldChange(at, _gpus(was), _gpus(now))
        else:
            at = f"node_types.{name}."
            yield from _differences(_type_values(was, at), _type_values(now, at))


def _gpus(kind: NodeType | None) -> str | None:
    if kind is None:
        return None
    return f"{kind.gpus} x {kind.gpu}" if kind.gpus else "no GPUs"


def _cluster_values(inventory: Inventory) -> Mapping[str, str | None]:
    values: dict[str, str | None] = {
        "cluster": inventory.cluster or None,
        "levels": ", ".join(inventory.levels),
        "scale_up": inventory.scale_up,
    }
    values |= {f"fabric.{level}": _links(links) for level, links in inventory.fabric.items()}
    return values | {f"racks.{rack.name}": _rack(rack) for rack in inventory.racks}


def _set_fields(old: Inventory, new: Inventory) -> Iterator[FieldChange]:
    for kind in sorted({*old.sets, *new.sets}):
        was, now = old.sets.get(kind, {}), new.sets.get(kind, {})
        for name in sorted({*was, *now}, key=natural_key):
            before, after = was.get(name), now.get(name)
            if before != after:
                at = f"sets.{kind}.{name}"
                yield FieldChange(at, _cut(_members(before)), _cut(_members(after)))


def _members(names: tuple[str, ...] | None) -> str | None:
    return None if names is None else compress(names) or "no nodes"


def _links(links: FabricLevel) -> str:
    return f"{links.gbps_per_gpu:g} Gbit/s, oversubscription {links.oversubscription:g}"


def _rack(rack: RackRecord) -> str:
    power = f"{rack.power_w / 1000:g} kW" if rack.power_w else "power unknown"
    return f"{power}, cdu {rack.cdu}" if rack.cdu else power


def _differences(
    before: Mapping[str, str | None], after: Mapping[str, str | None]
) -> Iterator[FieldChange]:
    for name in dict.fromkeys((*before, *after)):
        was, now = before.get(name), after.get(name)
        if was != now:
            yield FieldChange(name, _cut(was), _cut(now))


def _cut(text: str | None) -> str | None:
    return text if text is None or len(text) <= TEXT_MAX else f"{text[: TEXT_MAX - 3]}..."
