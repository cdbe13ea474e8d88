"""What the scale-out network is taken to be where an inventory does not say."""

from collections.abc import Mapping, Sequence

from scheduler.model.node import FabricLevel, Inventory

FIRST_SWITCH = "leaf"
"""A level of this name is what one switch hop joins; racks inside it cost nothing to cross."""


def fabric_of(inventory: Inventory) -> Mapping[str, FabricLevel]:
    """The stated fabric; else non-blocking links from the first switch outwards.

    Their speed is that of the slowest NIC among the types that have one. Empty where neither the
    fabric nor a first switch is named: then crossing any level is taken to cost something.
    """
    if inventory.fabric or FIRST_SWITCH not in inventory.levels:
        return dict(inventory.fabric)
    speeds = [kind.nic_gbps for kind in inventory.node_types.values() if kind.nic_gbps > 0]
    links = FabricLevel(gbps_per_gpu=min(speeds, default=1.0))
    return dict.fromkeys(_outward(inventory.levels), links)


def _outward(levels: Sequence[str]) -> Sequence[str]:
    return levels[levels.index(FIRST_SWITCH) :: -1]
