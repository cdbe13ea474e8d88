"""Clusters for simulations: regular, uneven, with nodes of two types and of no known place."""

from collections.abc import Sequence

from scheduler.model.node import NodeRecord
from scheduler.topology.tree import Topology
from tests.builders import make_cluster, make_node, make_topology, make_type


def cluster_of(seed: int) -> Topology:
    """One of a few small clusters, chosen by the seed."""
    kinds = (regular, uneven, mixed)
    return kinds[seed % len(kinds)]()


def regular() -> Topology:
    """32 nodes: 2 blocks of 2 leaves of 2 racks of 4."""
    return make_cluster(racks=2, nodes_per_rack=4, leaves=2, blocks=2)


def uneven() -> Topology:
    """23 nodes in racks of 1 to 6, one of them in no rack."""
    nodes: list[NodeRecord] = []
    for rack, size in enumerate([1, 2, 3, 4, 6, 6]):
        nodes += [
            make_node(f"n{rack}{i}", rack=f"r{rack}", leaf=f"l{rack // 2}", block=f"b{rack // 4}")
            for i in range(size)
        ]
    nodes.append(make_node("n99", rack=None, leaf="l2", block="b1"))
    return make_topology(nodes)


def mixed() -> Topology:
    """24 nodes, a third of them with 4 GPUs."""
    large, small = make_type(gpus=8), make_type(gpus=4)
    nodes: Sequence[NodeRecord] = [
        make_node(
            f"n{i:02d}",
            small if i % 3 == 2 else large,
            rack=f"r{i // 4}",
            leaf=f"l{i // 8}",
            block=f"b{i // 16}",
        )
        for i in range(24)
    ]
    return make_topology(nodes, {large.name: large, small.name: small})
