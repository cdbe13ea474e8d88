"""Fabrics and layouts for the tests of the cost model."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from scheduler.cost.constants import CONSTANTS, Constants
from scheduler.cost.step import Prediction, predict
from scheduler.model.job import JobSpec, ModelShape, ParallelSizes
from scheduler.model.node import FabricLevel, NodeType
from scheduler.topology.build import build
from scheduler.topology.tree import Topology
from tests.builders import make_inventory, make_type

ROUND = make_type("round", gpus=8)
"""NICs of 400 Gbit/s: 50 GB/s before any efficiency."""

NO_LATENCY = replace(
    CONSTANTS,
    call_s=0.0,
    scale_up_hop_s=0.0,
    network_hop_s=0.0,
    tier_s=0.0,
    detour_s=0.0,
    peer_s=0.0,
)
"""For sums of bytes alone."""


def yard(
    blocks: int = 2,
    leaves: int = 2,
    nodes: int = 4,
    *,
    leaf_uplinks: float = 1.0,
    node_type: NodeType = ROUND,
    gbps: float = 400.0,
) -> Topology:
    """Blocks of leaves of nodes; `leaf_uplinks` to 1 is their oversubscription."""
    inventory = make_inventory(
        {"block": blocks, "leaf": leaves, "node": nodes}, node_type=node_type
    )
    fabric = {"leaf": FabricLevel(gbps), "block": FabricLevel(gbps, leaf_uplinks)}
    return build(replace(inventory, fabric=fabric)).topology


def job(
    weights: Mapping[str, float] | None = None,
    *,
    model: ModelShape | None = None,
    order: tuple[str, ...] | None = None,
    **sizes: int,
) -> JobSpec:
    parallel = ParallelSizes(**sizes)  # type: ignore[arg-type]  # sizes by name
    if order is not None:
        parallel = replace(parallel, order=order)
    return JobSpec(name="a", parallelism=parallel, model=model, axis_weights=dict(weights or {}))


def price(
    spec: JobSpec,
    topology: Topology,
    nodes: Sequence[int],
    *,
    gpus: int = 8,
    masks: Sequence[int] | None = None,
    dead: Mapping[int, int] | None = None,
    constants: Constants = CONSTANTS,
) -> Prediction:
    kind = topology.kinds[0]
    return predict(spec, topology, kind, gpus, nodes, masks, dead, constants=constants)
