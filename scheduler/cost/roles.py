"""Seconds that the members of roles spend talking, as replicas of one model would.

A role says nothing of what its members send. What is priced is the ring that most of them form:
each member's GPUs hold a replica, and gradients go round all members once a step, with the bytes
that a data-parallel axis is taken to carry.
"""

from collections.abc import Mapping, Sequence

from scheduler.cost.constants import CONSTANTS, Constants
from scheduler.cost.step import AxisTime, Prediction, predict
from scheduler.model.job import JobSpec, ParallelSizes
from scheduler.topology.tree import Topology

Spot = tuple[int, int]
"""(node index, GPU mask) of a member."""

_AXIS = "dp"


def predict_roles(
    members: Mapping[str, Sequence[Spot]],
    topology: Topology,
    dead_rails: Mapping[int, int] | None = None,
    *,
    constants: Constants = CONSTANTS,
) -> Prediction:
    """Price the places of roles' members; the axes of the answer are the roles.

    Roles of one member and roles without GPUs, or whose members have different numbers of them,
    have no price and are left out.

    Args:
        members: Role -> its members, by their number.
        dead_rails: Node index -> mask of its dead rails.
    """
    axes: dict[str, AxisTime] = {}
    between_s = exposed_s = 0.0
    for role, spots in members.items():
        counts = {mask.bit_count() for _, mask in spots}
        if len(spots) < 2 or len(counts) != 1 or counts == {0}:
            continue
        gpus = counts.pop()
        sizes = ParallelSizes(tp=gpus, dp=len(spots))
        nodes, masks = [node for node, _ in spots], [mask for _, mask in spots]
        found = predict(
            JobSpec(name=role, parallelism=sizes, gpus_per_pod=gpus),
            topology,
            topology.types[nodes[0]],
            gpus,
            nodes,
            masks,
            dead_rails,
            constants=constants,
        )
        axes[role] = found.axes[_AXIS]
        exposed_s += found.axes[_AXIS].exposed_s
        if len(set(nodes)) > 1:
            between_s += found.axes[_AXIS].seconds
    return Prediction(axes, between_s, exposed_s, bool(axes), constants.version)
