"""What is left of a node's NICs where rails are dead."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler.cost.constants import Constants
from scheduler.model.node import NodeType
from scheduler.model.resources import indices_of


def nic_shares(
    node_type: NodeType,
    gpus_per_pod: int,
    nodes: Sequence[int],
    masks: Sequence[int] | None,
    dead_rails: Mapping[int, int] | None,
    constants: Constants,
) -> NDArray[np.float64] | None:
    """For each pod the share of its NICs' rate that its flows still have.

    A GPU whose rail is dead goes over NVLink to the NIC of another of its pod: collectives that
    spread over all NICs have the share that is alive; flows that do not have half where two GPUs
    share a NIC.

    Returns:
        (2, pods): for flows that spread, for flows that do not; None where no rail of these nodes
        is dead.
    """
    if not dead_rails or not any(node in dead_rails for node in nodes):
        return None
    first = (1 << gpus_per_pod) - 1
    shares = np.ones((2, len(nodes)))
    for pod, node in enumerate(nodes):
        dead = dead_rails.get(node, 0)
        if dead:
            mask = first if masks is None else masks[pod]
            shares[:, pod] = _of_pod(node_type, mask, dead, constants)
    return shares


def _of_pod(node_type: NodeType, mask: int, dead: int, constants: Constants) -> tuple[float, float]:
    gpus = indices_of(mask)
    table = node_type.rail_of_gpu or tuple(range(node_type.gpus))
    rails = [table[gpu] for gpu in gpus]
    own = sum(1 for rail in rails if not dead >> rail & 1)
    if own == len(gpus):
        return 1.0, 1.0
    if own:
        return own / len(gpus), 1.0 / -(-len(gpus) // own)
    foreign = sum(1 for rail in set(table) if not dead >> rail & 1)
    if not foreign:
        return constants.no_rail_share, constants.no_rail_share
    share = constants.foreign_rail_share * min(len(gpus), foreign) / len(gpus)
    return share, share
