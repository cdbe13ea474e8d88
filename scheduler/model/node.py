"""Nodes, their types and what an inventory says of a cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from scheduler.model.resources import Resources

NODE_LEVEL = "node"
"""The last level of every inventory; its domains are the nodes themselves."""


class Health(StrEnum):
    """What is known of a node's machine; only `healthy` takes new pods."""

    HEALTHY = "healthy"
    SUSPECT = "suspect"
    LOST = "lost"
    OUT = "out"
    TESTING = "testing"


class TaintEffect(StrEnum):
    """As in Kubernetes; `PreferNoSchedule` is a price, not a bar."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


@dataclass(frozen=True, slots=True, order=True)
class Taint:
    key: str
    value: str = ""
    effect: TaintEffect = TaintEffect.NO_SCHEDULE


@dataclass(frozen=True, slots=True)
class FabricLevel:
    """The scale-out network inside one domain of a level.

    Attributes:
        gbps_per_gpu: Bandwidth of one GPU to another of the same domain, in Gbit/s, one way; above
            0.
        oversubscription: How many times the links below exceed those above in the switches that
            join its parts: leaf switches with half as many uplinks as ports down make the level
            around them, `block`, 2:1. At least 1.
    """

    gbps_per_gpu: float
    oversubscription: float = 1.0


@dataclass(frozen=True, slots=True)
class NodeType:
    """One model of server or tray.

    Attributes:
        name: As written in inventories, e.g. `hgx-h100`.
        gpu: GPU model, e.g. `H100-80GB`; empty for a node without GPUs.
        gpus: GPUs of one node, 0 to 62.
        rails: NICs of the scale-out fabric that have a rail of their own; 0 where unknown.
        rail_of_gpu: Rail next to each GPU; length `gpus`.
        nic_gbps: One NIC's bandwidth in Gbit/s, one way.
        scale_up: The level inside which GPUs talk over NVLink or the like; None = the cluster's
            own.
        scale_up_gbps: One GPU's bandwidth inside the scale-up domain in Gbit/s, one way; 0 where
            unknown.
        power_w: Full draw of one node in watts; 0 where unknown.
        capacity: CPUs, memory and other countable resources of one node.
        nvme_gb: Local NVMe in gigabytes; 0 where unknown.
        source: Where the numbers come from.
    """

    name: str
    gpu: str
    gpus: int
    rails: int = 0
    rail_of_gpu: tuple[int, ...] = ()
    nic_gbps: float = 0.0
    scale_up: str | None = None
    scale_up_gbps: float = 0.0
    power_w: int = 0
    capacity: Resources = Resources()
    nvme_gb: int = 0
    source: str = ""


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A node as an inventory states it.

    Attributes:
        places: For each level but `node`, the name of the domain it is in, or None; a level that
            is absent counts as None. Where an importer scopes names (labels, CSV), it gives
            path-like names that are unique in their level.
    """

    name: str
    type: str
    places: Mapping[str, str | None] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()


@dataclass(frozen=True, slots=True)
class RackRecord:
    """What is known of a rack beside its nodes; 0 watts = no budget known."""

    name: str
    power_w: int = 0
    cdu: str | None = None


@dataclass(frozen=True, slots=True)
class Inventory:
    """A cluster, or the part of one that a request describes.

    Attributes:
        levels: Outermost first; the last is `node`.
        scale_up: Level inside which GPUs talk over the scale-up links, unless a node type says
            otherwise.
        node_types: Types used here, by name.
        sets: Named sets of nodes that need not nest: kind -> name -> node names.
        fabric: The scale-out network by level; levels not named here are taken from defaults.
        warnings: What was left out and why.
    """

    cluster: str
    levels: tuple[str, ...]
    scale_up: str
    node_types: Mapping[str, NodeType]
    nodes: tuple[NodeRecord, ...]
    racks: tuple[RackRecord, ...] = ()
    sets: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    fabric: Mapping[str, FabricLevel] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
