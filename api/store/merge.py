"""What an import comes to: the inventory that is there and the one that was given, as one."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from api.store.complete import complete
from scheduler.errors import InventoryError, Problem
from scheduler.importers.coverage import WHOLE, Coverage
from scheduler.model.node import FabricLevel, Inventory, NodeRecord, NodeType, RackRecord
from scheduler.model.resources import full_mask, indices_of


@dataclass(frozen=True, slots=True)
class Held:
    """What live pods hold of one node, GPUs that gangs have claimed there included.

    Attributes:
        by: Who holds it, in words.
    """

    gpu_mask: int
    cpu_milli: int = 0
    memory_mib: int = 0
    by: str = "live pods"


@dataclass(frozen=True, slots=True)
class Merged:
    """The outcome of a merge.

    Attributes:
        new: The whole inventory after it.
        created, updated, removed: Names of nodes.
        unchanged: Nodes that were given just as they are.
        kept: Nodes that stay, or stay as they are, for their live pods.
        is_change: Whether anything at all differs.
    """

    new: Inventory
    created: tuple[str, ...]
    updated: tuple[str, ...]
    removed: tuple[str, ...]
    kept: tuple[str, ...]
    unchanged: int
    is_change: bool


@dataclass(slots=True)
class _Work:
    """What a merge has found so far."""

    held: Mapping[str, Held]
    types: dict[str, NodeType] = field(default_factory=dict)
    nodes: dict[str, NodeRecord] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)
    kept: set[str] = field(default_factory=set)
    warnings: list[str] = field(default_factory=list)

    def keep(self, node: str, warning: str) -> None:
        self.kept.add(node)
        self.warnings.append(warning)


def merge(
    old: Inventory,
    given: Inventory,
    held: Mapping[str, Held],
    *,
    prune: bool,
    coverage: Coverage = WHOLE,
) -> Merged:
    """Merge an inventory with what is there.

    The cluster's name, its levels and the scale-up level are the given ones. Nodes, types, racks,
    sets and fabric levels that are given are created or replaced; the others stay, or go if
    `prune`. What its description does not tell, by its `coverage`, stays as well. No node loses
    what its live pods hold: it is kept with a warning.

    Raises:
        InventoryError: If a node is given twice.
    """
    given = complete(old, given, coverage)
    work = _Work(held, warnings=list(given.warnings))
    given_nodes = _by_name(given)
    _merge_types(work, old, given)
    _keep_or_remove(work, old, given_nodes, prune=prune)
    _take_given(work, old, given_nodes, given.levels)
    _tell_of_levels(work, old, given.levels)
    used = {node.type for node in work.nodes.values()}
    spare = frozenset() if prune else _spare_types(old, given, coverage)
    # What a description tells of its sets stands as it is; the sets of others lose what goes.
    gone = frozenset() if coverage.whole else frozenset(work.removed)
    new = Inventory(
        cluster=given.cluster,
        levels=given.levels,
        scale_up=given.scale_up,
        node_types={n: work.types[n] for n in sorted(work.types) if n in used or n in spare},
        nodes=tuple(work.nodes[name] for name in sorted(work.nodes)),
        racks=_merge_racks(() if prune else old.racks, given.racks),
        sets=_merge_sets({} if prune else old.sets, given.sets, gone),
        fabric=({} if prune or not coverage.whole else _known(old, given.levels))
        | dict(given.fabric),
        warnings=tuple(work.warnings),
    )
    return _compare(work, old, new, given_nodes)


def _by_name(given: Inventory) -> dict[str, NodeRecord]:
    """The given nodes, null places left out, which mean the same as absent ones."""
    by_name: dict[str, NodeRecord] = {}
    for node in given.nodes:
        if node.name in by_name:
            message = f"node '{node.name}' comes twice; a node has one record"
            raise InventoryError(Problem("nodes", message))
        places = {level: name for level, name in node.places.items() if name is not None}
        by_name[node.name] = replace(node, places=places)
    return by_name


def _merge_types(work: _Work, old: Inventory, given: Inventory) -> None:
    """Take the given types, but for those that have no room for what live pods hold."""
    work.types = dict(old.node_types)
    holders: dict[str, list[str]] = {}
    for node in old.nodes:
        if node.name in work.held:
            holders.setdefault(node.type, []).append(node.name)
    for name, kind in given.node_types.items():
        losing = [n for n in holders.get(name, ()) if _loss(work.held[n], kind) is not None]
        if losing:
            loss = _loss(work.held[losing[0]], kind)
            work.warnings.append(f"type '{name}' stays as it was: on node '{losing[0]}' {loss}")
            work.kept.update(losing)
        else:
            work.types[name] = kind


def _keep_or_remove(
    work: _Work, old: Inventory, given_nodes: Mapping[str, NodeRecord], *, prune: bool
) -> None:
    """Decide on the nodes that are there and were not given."""
    for node in old.nodes:
        if node.name in given_nodes:
            continue
        if not prune:
            work.nodes[node.name] = node
        elif node.name in work.held:
            work.nodes[node.name] = node
            by = work.held[node.name].by
            work.keep(node.name, f"node '{node.name}' was not given but holds {by}; it stays")
        else:
            work.removed.append(node.name)


def _take_given(
    work: _Work,
    old: Inventory,
    given_nodes: Mapping[str, NodeRecord],
    levels: tuple[str, ...],
) -> None:
    """Take the given nodes, but not a type that has no room for their live pods.

    Places at levels that the cluster no longer has do not make a node another one.
    """
    old_nodes = {node.name: node for node in old.nodes}
    for name, node in given_nodes.items():
        kind, before = work.types.get(node.type), old_nodes.get(name)
        taken = node
        loss = _loss(work.held[name], kind) if name in work.held and kind is not None else None
        if loss is not None and before is not None and before.type != node.type:
            work.keep(name, f"node '{name}' keeps its type '{before.type}': {loss}")
            taken = replace(node, type=before.type)
        same = before is not None and _on_levels(taken, levels) == _on_levels(before, levels)
        work.nodes[name] = before if before is not None and same else taken


def _tell_of_levels(work: _Work, old: Inventory, levels: tuple[str, ...]) -> None:
    """Warn of each level that goes from under nodes which stay; their places come back with it."""
    for level in old.levels:
        if level in levels:
            continue
        count = sum(level in node.places and node.name in work.nodes for node in old.nodes)
        if count:
            nodes = "1 node has" if count == 1 else f"{count} nodes have"
            work.warnings.append(f"level '{level}' goes: it was not given; {nodes} a place there")


def _on_levels(node: NodeRecord, levels: tuple[str, ...]) -> NodeRecord:
    """The node without places at other levels than these."""
    places = {level: name for level, name in node.places.items() if level in levels}
    return node if len(places) == len(node.places) else replace(node, places=places)


def _loss(held: Held, kind: NodeType) -> str | None:
    """What of a node's live pods a type has no room for; a capacity of 0 is not known."""
    beyond = held.gpu_mask & ~full_mask(kind.gpus)
    if beyond:
        holder = "a live pod" if held.by == "live pods" else "a claim"
        return f"{holder} holds GPU {indices_of(beyond)[0]}; '{kind.name}' has {kind.gpus} GPUs"
    if 0 < kind.capacity.cpu_milli < held.cpu_milli:
        has = kind.capacity.cpu_milli / 1000
        return f"live pods hold {held.cpu_milli / 1000:g} CPUs; '{kind.name}' has {has:g}"
    if 0 < kind.capacity.memory_mib < held.memory_mib:
        has = kind.capacity.memory_mib
        return f"live pods hold {held.memory_mib} MiB; '{kind.name}' has {has} MiB"
    return None


def _merge_racks(
    old: tuple[RackRecord, ...], given: tuple[RackRecord, ...]
) -> tuple[RackRecord, ...]:
    racks = {rack.name: rack for rack in (*old, *given)}
    return tuple(racks[name] for name in sorted(racks))


def _merge_sets(
    old: Mapping[str, Mapping[str, tuple[str, ...]]],
    given: Mapping[str, Mapping[str, tuple[str, ...]]],
    gone: frozenset[str],
) -> dict[str, dict[str, tuple[str, ...]]]:
    """The given sets and the old ones beside them, without those of which all nodes are gone."""
    merged: dict[str, dict[str, tuple[str, ...]]] = {}
    for kind in sorted({*old, *given}):
        for name, members in (dict(old.get(kind, {})) | dict(given.get(kind, {}))).items():
            left = tuple(member for member in members if member not in gone)
            if left or not members:
                merged.setdefault(kind, {})[name] = left
    return merged


def _spare_types(old: Inventory, given: Inventory, coverage: Coverage) -> frozenset[str]:
    """Types that stay though no node is of them: those that were given or kept for their own sake.

    Other formats make up types for the hardware they find; one that was found nowhere this time
    goes.
    """
    if coverage.whole:
        return frozenset((*old.node_types, *given.node_types))
    made_up = {node.type for node in old.nodes} - given.node_types.keys()
    return frozenset((*old.node_types, *given.node_types)) - made_up


def _known(old: Inventory, levels: tuple[str, ...]) -> dict[str, FabricLevel]:
    return {level: fabric for level, fabric in old.fabric.items() if level in levels}


def _compare(
    work: _Work, old: Inventory, new: Inventory, given_nodes: Mapping[str, NodeRecord]
) -> Merged:
    before = {node.name: node for node in old.nodes}
    retyped = {
        name
        for name, kind in new.node_types.items()
        if old.node_types.get(name) not in {None, kind}
    }
    updated = [
        node.name
        for node in new.nodes
        if node.name in before and (node != before[node.name] or node.type in retyped)
    ]
    changed = set(updated)
    return Merged(
        new=new,
        created=tuple(node.name for node in new.nodes if node.name not in before),
        updated=tuple(updated),
        removed=tuple(work.removed),
        kept=tuple(sorted(work.kept)),
        unchanged=sum(name in before and name not in changed for name in given_nodes),
        is_change=replace(old, warnings=()) != replace(new, warnings=()),
    )
