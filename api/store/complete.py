"""What a description does not tell, taken from what is there already."""

from dataclasses import replace

from scheduler.importers.coverage import Coverage
from scheduler.importers.node_type_data import BUILT_IN
from scheduler.model.node import NODE_LEVEL, Inventory, NodeRecord, NodeType
from scheduler.topology.natural import natural_key
from scheduler.topology.places import listed

SPANNING = frozenset(
    (kind.gpu, kind.gpus) for kind in BUILT_IN.values() if kind.scale_up not in (None, NODE_LEVEL)
)
"""Model and number of the GPUs of products whose scale-up domain holds several nodes."""


def complete(old: Inventory, given: Inventory, coverage: Coverage) -> Inventory:
    """The given inventory with all that its description does not tell.

    A list of hosts does not say what is in them, a table of hardware does not say where they are:
    whichever comes later leaves alone what the other one told. Without anything there before, the
    given inventory is what there is.
    """
    if coverage.whole:
        return given
    keeps_levels = not coverage.levels and bool(old.nodes)
    levels = old.levels if keeps_levels else given.levels
    before = {node.name: node for node in old.nodes}
    nodes = tuple(
        _completed(node, before.get(node.name), coverage, keeps_places=keeps_levels)
        for node in given.nodes
    )
    scale_up = old.scale_up if keeps_levels else given.scale_up
    completed = replace(
        given,
        cluster=given.cluster if coverage.cluster or not old.cluster else old.cluster,
        levels=levels,
        scale_up=scale_up,
        nodes=nodes,
        racks=(*old.racks, *given.racks),
        sets={kind: old.sets[kind] for kind in old.sets if kind not in given.sets}
        | dict(given.sets),
        # How fast a level is holds for as long as the levels are the same.
        fabric=given.fabric or (old.fabric if levels == old.levels else {}),
    )
    types, warnings = _types(old, given, completed, coverage)
    warnings += _still_untold(completed, coverage)
    return replace(completed, node_types=types, warnings=(*given.warnings, *warnings))


def _completed(
    node: NodeRecord, before: NodeRecord | None, coverage: Coverage, *, keeps_places: bool
) -> NodeRecord:
    if before is None:
        return node
    return replace(
        node,
        type=before.type if node.type in coverage.untold_types else node.type,
        places=before.places if keeps_places else node.places,
        labels=node.labels if coverage.labels else before.labels,
        taints=node.taints if coverage.labels else before.taints,
    )


def _types(
    old: Inventory, given: Inventory, completed: Inventory, coverage: Coverage
) -> tuple[dict[str, NodeType], list[str]]:
    """The given types and those of nodes that were there before, on the levels that there are."""
    in_use = {node.type for node in (*old.nodes, *completed.nodes)}
    types = {
        name: kind
        for name, kind in given.node_types.items()
        if name in in_use or name not in coverage.untold_types
    }
    if not coverage.levels:
        # Without levels nothing is told of which level the links span.
        for name in types.keys() & old.node_types.keys():
            types[name] = replace(types[name], scale_up=old.node_types[name].scale_up)
    warnings = []
    spanned = _spanned(completed)
    for name in sorted(in_use & old.node_types.keys() - types.keys()):
        kind = old.node_types[name]
        if kind.scale_up is not None and kind.scale_up not in completed.levels:
            types[name] = replace(kind, scale_up=NODE_LEVEL)
            warnings.append(
                f"GPUs of type '{name}' talked inside one '{kind.scale_up}', which is no level any "
                f"more; taken as inside one {NODE_LEVEL}"
            )
        elif kind.scale_up == NODE_LEVEL and name in spanned and (kind.gpu, kind.gpus) in SPANNING:
            types[name] = replace(kind, scale_up=completed.scale_up)
    return types, warnings


def _spanned(completed: Inventory) -> set[str]:
    """Types of which some node has its place in a scale-up domain of several nodes."""
    level = completed.scale_up
    if level == NODE_LEVEL:
        return set()
    return {node.type for node in completed.nodes if node.places.get(level) is not None}


def _still_untold(completed: Inventory, coverage: Coverage) -> list[str]:
    if not coverage.asks_for_type:
        return []
    names = [node.name for node in completed.nodes if node.type in coverage.untold_types]
    if not names:
        return []
    names.sort(key=natural_key)
    return [
        f"nothing says what GPUs there are in {listed('node', names)}: taken as none; name a node "
        f"type for them"
    ]
