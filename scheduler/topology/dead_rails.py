"""Rails that nodes have lost, as a label of theirs says.

A label survives every way in which nodes are made known, and whoever watches links can set it.
"""

from collections.abc import Mapping, Sequence

from scheduler.model.node import NodeRecord, NodeType

DEAD_RAILS = "podyard.io/dead-rails"
"""Label of a node whose NICs, cables or leaf switches are dead: the rails, as in `3` or `0_3`."""


def dead_rails_of(nodes: Sequence[NodeRecord], types: Sequence[NodeType]) -> Mapping[int, int]:
    """Position in `nodes` -> mask of dead rails; what is no rail of the node's type is left out."""
    found: dict[int, int] = {}
    for index, node in enumerate(nodes):
        if DEAD_RAILS in node.labels:
            mask = sum(1 << rail for rail in _rails(node.labels[DEAD_RAILS], types[index]))
            if mask:
                found[index] = mask
    return found


def wrong_rails(node: NodeRecord, node_type: NodeType) -> str | None:
    """What is wrong with the label, where something is."""
    text = node.labels.get(DEAD_RAILS)
    if text is None or all(part in _names(node_type) for part in text.split("_")):
        return None
    rails = rail_count(node_type)
    allowed = f"rails 0 to {rails - 1}, as in '0_{rails - 1}'" if rails > 1 else "its type has none"
    return f"node '{node.name}': label {DEAD_RAILS} is '{text}'; {allowed}"


def rail_count(node_type: NodeType) -> int:
    """Rails of a type; where it does not say, one for each GPU."""
    return node_type.rails or node_type.gpus


def gpus_on(node_type: NodeType, rails: int) -> int:
    """Mask of the GPUs next to any rail of a mask."""
    table = node_type.rail_of_gpu or range(node_type.gpus)
    return sum(1 << gpu for gpu, rail in enumerate(table) if rails >> rail & 1)


def _rails(text: str, node_type: NodeType) -> set[int]:
    names = _names(node_type)
    return {names[part] for part in text.split("_") if part in names}


def _names(node_type: NodeType) -> Mapping[str, int]:
    return {str(rail): rail for rail in range(rail_count(node_type))}
