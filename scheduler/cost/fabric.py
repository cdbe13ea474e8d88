"""Links between a cluster's nodes as the cost model sees them: boundaries and their speed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil

import numpy as np
from numpy.typing import NDArray

from scheduler.cost.constants import Constants
from scheduler.model.node import FabricLevel, NodeType
from scheduler.topology.fabric_defaults import FIRST_SWITCH
from scheduler.topology.tree import Topology

SCALE_UP_LINK = "scale_up"
RAIL_LINK = "rail"
NIC_LINK = "nic"

_BITS = 8e-9
"""Gigabits in a byte."""


@dataclass(frozen=True, slots=True)
class Narrow:
    """A level by whose links less gets out of a domain than its NICs could send.

    Attributes:
        level: Depth in `Topology.levels`.
        outer: That of the next level outside whose crossing costs something; None = there is none.
        ratio: How many times longer a byte takes at the links than at the NIC that sends it out.
        tier: How many times longer it takes at that NIC than one that stays inside.
        least: Pods of a gang in a domain from which on one that leaves it finds its way as fast.
    """

    level: int
    outer: int | None
    ratio: float
    tier: float
    least: int


@dataclass(frozen=True, slots=True)
class Fabric:
    """What leaving the domains of each level costs, for GPUs of one node type.

    A GPU's message leaves its scale-up domain by the node's NICs, then the domains of each level
    that counts, innermost first, until it is inside the domain that holds both ends.

    Attributes:
        levels: Depth in `Topology.levels` of the scale-up level and of each level that counts.
        links: Name of the link by which the domains of each of `levels` are left.
        s_per_byte: Of one GPU through each link, oversubscription and efficiency included.
        scale_up_s_per_byte: The same inside the scale-up domain.
        hop_s: Fixed time of a hop, by how many of `levels` it leaves.
        at_nic: How many times the bytes of a hop count at its NIC, by the same number: a flow
            through more tiers of switches reaches less of the NIC's rate.
        place: Domain of each node at each of `levels`, (levels, nodes), in numbers that rise from
            level to level, so that no two levels share one.
        narrow: Levels whose links can be busier than a NIC, innermost first.
    """

    levels: tuple[int, ...]
    links: tuple[str, ...]
    s_per_byte: tuple[float, ...]
    scale_up_s_per_byte: float
    hop_s: tuple[float, ...]
    at_nic: NDArray[np.float64]
    place: NDArray[np.int64]
    narrow: tuple[Narrow, ...]


class _Key:
    """A map and a node type by identity; hashing their contents would cost more than the answer."""

    __slots__ = ("node_type", "topology")

    def __init__(self, topology: Topology, node_type: NodeType) -> None:
        self.topology = topology
        self.node_type = node_type

    def __hash__(self) -> int:
        return hash((id(self.topology), id(self.node_type)))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Key)
            and other.topology is self.topology
            and other.node_type is self.node_type
        )


def fabric_for(topology: Topology, node_type: NodeType, constants: Constants) -> Fabric:
    """The links between nodes of a type; kept for the maps used last."""
    return _fabric(_Key(topology, node_type), constants)


@lru_cache(maxsize=8)
def _fabric(key: _Key, constants: Constants) -> Fabric:
    topology, node_type = key.topology, key.node_type
    scale_up = topology.level_index.get(
        topology.scale_up_level(node_type), len(topology.levels) - 1
    )
    counting = counting_levels(topology, scale_up)
    depths = (scale_up, *counting)
    nic_gbps = gpu_nic_gbps(node_type, constants)
    speeds = [_speed(topology, depth, nic_gbps) for depth in counting]
    if speeds:
        last = FabricLevel(speeds[-1].gbps_per_gpu, constants.beyond_oversubscription)
        above = [*speeds, last]
    else:
        above = [FabricLevel(nic_gbps, constants.beyond_oversubscription)]
    s_per_byte = [
        _BITS * level.oversubscription / (level.gbps_per_gpu * constants.nic_efficiency)
        for level in above
    ]
    s_per_byte[0] = max(s_per_byte[0], _BITS / (nic_gbps * constants.nic_efficiency))
    inside_gbps = node_type.scale_up_gbps or constants.default_scale_up_gbps
    hops = [constants.network_hop_s + constants.tier_s * tier for tier in range(len(depths))]
    place = np.array([topology.place[depth] for depth in depths], dtype=np.int64)
    place = place.reshape(len(depths), topology.node_count)
    place += np.arange(len(depths))[:, None] * (int(place.max(initial=0)) + 1)
    at_nic = [0.0, *(constants.tier_efficiency**-tier for tier in range(len(depths)))]
    return Fabric(
        levels=depths,
        links=(
            RAIL_LINK if node_type.rails else NIC_LINK,
            *(topology.levels[depth].name for depth in counting),
        ),
        s_per_byte=tuple(s_per_byte),
        scale_up_s_per_byte=_BITS / (inside_gbps * constants.scale_up_efficiency),
        hop_s=(constants.scale_up_hop_s, *hops),
        at_nic=np.array(at_nic),
        place=place,
        narrow=tuple(_narrow(depths, s_per_byte, at_nic)),
    )


def _narrow(
    depths: Sequence[int], s_per_byte: Sequence[float], at_nic: Sequence[float]
) -> Iterator[Narrow]:
    for tier, depth in enumerate(depths[1:], 1):
        ratio = s_per_byte[tier] / (s_per_byte[0] * at_nic[tier + 1])
        if ratio > 1.0:
            outer = depths[tier + 1] if tier + 1 < len(depths) else None
            yield Narrow(depth, outer, ratio, at_nic[tier + 1], ceil(ratio))


def counting_levels(topology: Topology, scale_up: int) -> tuple[int, ...]:
    """Depths outside the scale-up level whose crossing costs something, innermost first.

    They are those that the fabric names, and the first switch; all of them where nothing is known.
    """
    outer = range(scale_up - 1, -1, -1)
    known = {*topology.fabric, FIRST_SWITCH} & topology.level_index.keys()
    counted = tuple(d for d in outer if topology.levels[d].name in known)
    return counted if known else tuple(outer)


def _speed(topology: Topology, depth: int, nic_gbps: float) -> FabricLevel:
    return topology.fabric.get(topology.levels[depth].name) or FabricLevel(nic_gbps)


def gpu_nic_gbps(node_type: NodeType, constants: Constants) -> float:
    """A GPU's share of its node's NICs in Gbit/s."""
    gbps = node_type.nic_gbps or constants.default_nic_gbps
    if not node_type.rails or not node_type.gpus:
        return gbps
    return gbps * min(1.0, node_type.rails / node_type.gpus)
