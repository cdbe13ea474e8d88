"""Clusters and gangs of a size, partly in use, the same in every run."""

import random
from dataclasses import replace

from scheduler.cluster.nodes import Held
from scheduler.cluster.world import World
from scheduler.model.job import JobSpec, Mode, ParallelSizes, Rule
from scheduler.model.node import FabricLevel, Inventory, NodeRecord, NodeType
from scheduler.model.placement import Placement
from scheduler.model.resources import NOTHING, Resources
from scheduler.topology.build import build

NODES_PER_RACK, RACKS_PER_LEAF, LEAVES_PER_BLOCK = 4, 8, 8
H100 = NodeType(
    name="hgx-h100",
    gpu="H100-80GB",
    gpus=8,
    rails=8,
    rail_of_gpu=tuple(range(8)),
    nic_gbps=400.0,
    capacity=Resources(cpu_milli=112_000, memory_mib=2_097_152),
)


def inventory(node_count: int) -> Inventory:
    """H100 servers: racks of 4, leaves of 32, blocks of 256."""
    per_leaf = NODES_PER_RACK * RACKS_PER_LEAF
    nodes = tuple(
        NodeRecord(
            name=f"n{i:06d}",
            type=H100.name,
            places={
                "block": f"b{i // (per_leaf * LEAVES_PER_BLOCK):04d}",
                "leaf": f"l{i // per_leaf:05d}",
                "rack": f"r{i // NODES_PER_RACK:06d}",
            },
        )
        for i in range(node_count)
    )
    links = FabricLevel(gbps_per_gpu=400.0)
    return Inventory(
        cluster=f"bench-{node_count}",
        levels=("block", "leaf", "rack", "node"),
        scale_up="node",
        node_types={H100.name: H100},
        nodes=nodes,
        fabric={"leaf": links, "block": links},
    )


def world(node_count: int, free_share: float, seed: int = 1) -> World:
    """A cluster of which a random share of the nodes is free, each node wholly or not at all."""
    out = World(build(inventory(node_count)).topology)
    chance = random.Random(seed)
    for node in range(node_count):
        if chance.random() >= free_share:
            out.table.hold(Held(node, H100_MASK, NOTHING))
    return out


H100_MASK = (1 << H100.gpus) - 1


def gang(nodes: int, kind: int = 0) -> JobSpec:
    """A job of whole nodes, tp in the node; its other axes and rules vary with `kind`."""
    pp = next(p for p in ((8, 4, 2)[kind % 3], 4, 2, 1) if nodes % p == 0)
    rules: tuple[Rule, ...] = ()
    if kind % 3 == 0 and 1 < pp < nodes:
        rules = (Rule("pp", "leaf"),)
    elif kind % 3 == 1:
        rules = (Rule("dp", "leaf", Mode.PREFERRED), Rule("job", "block", Mode.PREFERRED))
    sizes = ParallelSizes(tp=8, pp=pp, dp=nodes // pp)
    return replace(JobSpec(name=f"g{nodes}"), parallelism=sizes, rules=rules)


def hold(target: World, placement: Placement) -> None:
    """Bind a placement in the world's trial."""
    target.trial.hold_places(placement.pods)
