"""Inventory -> Podyard's own format, as short as the reader allows."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import yaml

from scheduler.importers.hostlist import compress
from scheduler.importers.node_type_data import BUILT_IN
from scheduler.importers.node_types import default_rails
from scheduler.importers.plain_values import Value, resolve
from scheduler.model.node import (
    NODE_LEVEL,
    FabricLevel,
    Inventory,
    NodeRecord,
    NodeType,
    RackRecord,
    Taint,
)

_LINE_LENGTH = 100


def render(inventory: Inventory) -> str:
    """The text that `podyard_yaml.parse` reads as this inventory.

    Nodes that differ in nothing but their names share an entry. Warnings are not written. The order
    of nodes, racks and sets is lost; the reader's is natural.
    """
    entries: dict[str, Value] = {
        "cluster": inventory.cluster,
        "levels": list(inventory.levels),
        "scale_up": inventory.scale_up,
        "node_types": _types(inventory),
        "nodes": _nodes(inventory),
        "racks": _racks(inventory.racks),
        "sets": _sets(inventory.sets),
        "fabric": _fabric(inventory.fabric),
    }
    kept = {key: value for key, value in entries.items() if value or key == "nodes"}
    return yaml.dump(
        kept,
        Dumper=_Dumper,
        sort_keys=False,
        default_flow_style=None,
        allow_unicode=True,
        width=_LINE_LENGTH,
    )


def _types(inventory: Inventory) -> dict[str, Value]:
    used = {node.type for node in inventory.nodes}
    return {
        name: _type(node_type)
        for name, node_type in inventory.node_types.items()
        if name not in used or node_type != BUILT_IN.get(name)
    }


def _type(node_type: NodeType) -> dict[str, Value]:
    """What differs from the built-in type of the same name, or from a type without figures."""
    base = BUILT_IN.get(node_type.name) or NodeType(node_type.name, gpu="", gpus=0)
    values, before = _figures(node_type), _figures(base)
    changed = {key: value for key, value in values.items() if value != before[key]}
    if node_type.name not in BUILT_IN:
        changed = {"gpus": node_type.gpus} | changed
    if node_type.rail_of_gpu == _unwritten_rails(node_type, base):
        changed.pop("rail_of_gpu", None)
    else:
        changed["rail_of_gpu"] = list(node_type.rail_of_gpu)
    return changed


def _unwritten_rails(node_type: NodeType, base: NodeType) -> tuple[int, ...]:
    if (node_type.gpus, node_type.rails) == (base.gpus, base.rails):
        return base.rail_of_gpu
    return default_rails(node_type.gpus, node_type.rails)


def _figures(node_type: NodeType) -> dict[str, Value]:
    capacity = node_type.capacity
    return {
        "gpu": node_type.gpu,
        "gpus": node_type.gpus,
        "rails": node_type.rails,
        "nic_gbps": _plain(node_type.nic_gbps),
        "scale_up": node_type.scale_up,
        "scale_up_gbps": _plain(node_type.scale_up_gbps),
        "power_kw": _plain(node_type.power_w / 1e3),
        "cpus": _plain(capacity.cpu_milli / 1e3),
        "memory_gib": _plain(capacity.memory_mib / 1024),
        "nvme_gb": node_type.nvme_gb,
        "resources": dict(capacity.other),
        "source": node_type.source,
    }


def _nodes(inventory: Inventory) -> list[Value]:
    alike: dict[object, list[NodeRecord]] = {}
    outer = [level for level in inventory.levels if level != NODE_LEVEL]
    for node in inventory.nodes:
        places = tuple(node.places.get(level) for level in outer)
        labels = tuple(sorted(node.labels.items()))
        alike.setdefault((node.type, places, labels, node.taints), []).append(node)
    return [_entry(nodes, outer) for nodes in alike.values()]


def _entry(nodes: list[NodeRecord], outer: list[str]) -> dict[str, Value]:
    first = nodes[0]
    entry: dict[str, Value] = {"names": compress(node.name for node in nodes), "type": first.type}
    entry |= {level: first.places.get(level) for level in outer}
    if first.labels:
        entry["labels"] = dict(sorted(first.labels.items()))
    if first.taints:
        entry["taints"] = [_taint(taint) for taint in first.taints]
    return entry


def _taint(taint: Taint) -> Value:
    return {"key": taint.key, "value": taint.value, "effect": str(taint.effect)}


def _racks(racks: Iterable[RackRecord]) -> list[Value]:
    alike: dict[tuple[int, str | None], list[str]] = {}
    for rack in racks:
        alike.setdefault((rack.power_w, rack.cdu), []).append(rack.name)
    entries: list[Value] = []
    for (power_w, cdu), names in alike.items():
        entry: dict[str, Value] = {"names": compress(names)}
        if power_w:
            entry["power_kw"] = _plain(power_w / 1e3)
        if cdu is not None:
            entry["cdu"] = cdu
        entries.append(entry)
    return entries


def _sets(sets: Mapping[str, Mapping[str, tuple[str, ...]]]) -> dict[str, Value]:
    return {
        kind: {name: compress(members) or [] for name, members in by_name.items()}
        for kind, by_name in sets.items()
    }


def _fabric(fabric: Mapping[str, FabricLevel]) -> dict[str, Value]:
    levels: dict[str, Value] = {
        level: {
            "gbps_per_gpu": _plain(links.gbps_per_gpu),
            "oversubscription": _plain(links.oversubscription),
        }
        for level, links in fabric.items()
    }
    return {"levels": levels} if levels else {}


def _plain(number: float) -> int | float:
    """A whole number without the point."""
    return int(number) if number == int(number) else number


if TYPE_CHECKING:
    _Emitter = yaml.SafeDumper
else:
    # The same emitter in C is five times as fast; PyYAML is also built without it.
    _Emitter = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_Emitter):
    """Quotes what the reader would not take for text; aliases would only surprise people."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    style = None if _is_plain_text(text) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _is_plain_text(text: str) -> bool:
    try:
        return isinstance(resolve(text), str)
    except ValueError:
        return False


_Dumper.add_representer(str, _represent_text)
