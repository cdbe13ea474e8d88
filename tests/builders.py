"""Small clusters and their parts, made to measure for a test."""

from collections.abc import Mapping, Sequence

from scheduler.model.node import Inventory, NodeRecord, NodeType, RackRecord
from scheduler.model.resources import Resources
from scheduler.topology.build import build
from scheduler.topology.tree import Topology

LEVELS = ("block", "leaf", "rack", "node")


def make_type(
    name: str = "", *, gpus: int = 8, rails: int | None = None, scale_up: str | None = None
) -> NodeType:
    """An H100 server with as many GPUs as asked, each next to a rail of its own."""
    return NodeType(
        name=name or f"h100-{gpus}",
        gpu="H100-80GB" if gpus else "",
        gpus=gpus,
        rails=gpus if rails is None else rails,
        rail_of_gpu=tuple(range(gpus)),
        nic_gbps=400.0,
        scale_up=scale_up,
        scale_up_gbps=3600.0,
        power_w=10_200,
        capacity=Resources(cpu_milli=112_000, memory_mib=2_048 * 1_024),
    )


def make_inventory(
    sizes: Mapping[str, int],
    *,
    node_type: NodeType | None = None,
    scale_up: str = "node",
    racks: Sequence[RackRecord] = (),
    labels: Mapping[str, str] | None = None,
) -> Inventory:
    """A regular cluster: `{"leaf": 2, "rack": 4, "node": 8}` = 2 leaves of 4 racks of 8 nodes.

    Domains are numbered through the cluster, with the first letter of their level: l1, r01, n001.
    """
    node_type = node_type or make_type()
    totals: dict[str, int] = {}
    total = 1
    for level, size in sizes.items():
        total *= size
        totals[level] = total
    widths = {"rack": 2, "node": 3}

    def name(level: str, index: int) -> str:
        width = max(widths.get(level, 1), len(str(totals[level])))
        return f"{level[0]}{index * totals[level] // total + 1:0{width}d}"

    outer = [level for level in sizes if level != "node"]
    nodes = tuple(
        NodeRecord(
            name=name("node", index),
            type=node_type.name,
            places={level: name(level, index) for level in outer},
            labels=dict(labels or {}),
        )
        for index in range(total)
    )
    return Inventory(
        cluster="test",
        levels=(*outer, "node"),
        scale_up=scale_up,
        node_types={node_type.name: node_type},
        nodes=nodes,
        racks=tuple(racks),
    )


def make_cluster(
    racks: int = 2,
    nodes_per_rack: int = 4,
    *,
    leaves: int = 1,
    blocks: int = 1,
    gpus: int = 8,
    levels: Sequence[str] = LEVELS,
    node_type: NodeType | None = None,
    scale_up: str = "node",
) -> Topology:
    """A cluster of `blocks` blocks of `leaves` leaves of `racks` racks each.

    Nodes are n001, n002 ..., racks r01 ..., leaves l1 ..., blocks b1 ..., numbered through the
    cluster. `levels` may leave some of the four out: its nodes stay, the level goes.
    """
    sizes = {"block": blocks, "leaf": leaves, "rack": racks, "node": nodes_per_rack}
    inventory = make_inventory(
        sizes, node_type=node_type or make_type(gpus=gpus), scale_up=scale_up
    )
    return make_topology(inventory.nodes, inventory.node_types, levels=levels, scale_up=scale_up)


def make_tree(
    sizes: Mapping[str, int], *, node_type: NodeType | None = None, scale_up: str = "node"
) -> Topology:
    """A regular cluster with any levels: `{"row": 2, "supernode": 4, "node": 8}`."""
    return build(make_inventory(sizes, node_type=node_type, scale_up=scale_up)).topology


def make_topology(
    nodes: Sequence[NodeRecord],
    types: NodeType | Mapping[str, NodeType] | None = None,
    *,
    levels: Sequence[str] = LEVELS,
    scale_up: str = "node",
) -> Topology:
    """The tree of the nodes given, e.g. of uneven racks or mixed types."""
    if types is None:
        types = make_type()
    if isinstance(types, NodeType):
        types = {types.name: types}
    return build(Inventory("test", tuple(levels), scale_up, types, tuple(nodes))).topology


def make_node(name: str, node_type: NodeType | str = "h100-8", **places: str | None) -> NodeRecord:
    """`make_node("n1", rack="r1", leaf="l1")`."""
    type_name = node_type if isinstance(node_type, str) else node_type.name
    return NodeRecord(name=name, type=type_name, places=places)
