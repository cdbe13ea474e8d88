"""Maps with further nodes, or without some."""

from collections.abc import Iterable, Mapping

from scheduler.model.node import Inventory, NodeRecord, NodeType
from scheduler.topology.build import Built, build
from scheduler.topology.tree import Topology


def with_nodes(
    topology: Topology,
    added: Iterable[NodeRecord],
    types: Mapping[str, NodeType],
    removed: frozenset[str],
) -> Built:
    """The map with nodes added and removed.

    Args:
        types: Node types of the added nodes, by name.

    Raises:
        InventoryError: If the nodes contradict the map, as an import of them would.
    """
    known = {kind.name: kind for kind in topology.kinds}
    kept = (node for node in topology.nodes if node.name not in removed)
    sets = {
        kind: {
            name: tuple(member for member in members if member not in removed)
            for name, members in of_kind.items()
        }
        for kind, of_kind in topology.sets.items()
    }
    return build(
        Inventory(
            cluster=topology.cluster,
            levels=topology.level_names,
            scale_up=topology.scale_up,
            node_types={**types, **known},
            nodes=(*kept, *added),
            racks=tuple(topology.racks.values()),
            sets=sets,
            fabric=topology.fabric,
        )
    )
