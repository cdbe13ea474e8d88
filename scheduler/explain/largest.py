"""The largest gang that fits now, for each shape of pod: read off counts that are kept anyway."""

from collections import Counter
from dataclasses import dataclass

from scheduler.cluster.trial import Trial
from scheduler.cluster.view import Shape, View
from scheduler.model.node import NodeType

TYPES_MAX = 16
"""Node types told of, those with most nodes; each has a few shapes whose counts are kept."""


@dataclass(frozen=True, slots=True)
class Room:
    """The most pods of one shape that fit inside one domain of a level.

    Attributes:
        level, domain: The domain that holds most; "" for the whole cluster. The first by position
            in the map where several hold as many.
    """

    level: str
    domain: str
    pods: int
    gpus: int


@dataclass(frozen=True, slots=True)
class Largest:
    """The largest gangs of pods of one shape.

    Attributes:
        whole_nodes: Each pod takes all GPUs of a node.
        cluster: Wherever its pods lie.
        within: For each level, outermost first, the domain that holds most.
    """

    node_type: str
    gpus_per_pod: int
    whole_nodes: bool
    cluster: Room
    within: tuple[Room, ...]


def largest_gangs(trial: Trial) -> tuple[Largest, ...]:
    """For each node type with GPUs: pods of whole nodes, and of 1, 2, 4 ... GPUs.

    Pods without resources other than GPUs, labels and tolerations; several may share a node.
    """
    topology = trial.table.topology
    nodes = Counter(kind.name for kind in topology.types)
    kinds = sorted((k for k in topology.kinds if k.gpus), key=lambda k: (-nodes[k.name], k.name))
    found = [
        _largest(trial, kind, gpus)
        for kind in sorted(kinds[:TYPES_MAX], key=lambda k: k.name)
        for gpus in _sizes(kind)
    ]
    return tuple(found)


def _sizes(kind: NodeType) -> list[int]:
    """1, 2, 4 ... and all GPUs of a node."""
    return [1 << n for n in range(kind.gpus.bit_length()) if 1 << n < kind.gpus] + [kind.gpus]


def _largest(trial: Trial, kind: NodeType, gpus: int) -> Largest:
    view = trial.view(Shape(node_type=kind.name, gpus=gpus))
    levels = range(len(view.topology.levels))
    return Largest(
        node_type=kind.name,
        gpus_per_pod=gpus,
        whole_nodes=gpus == kind.gpus,
        cluster=Room("", "", view.total, view.total * gpus),
        within=tuple(_in_one_domain(view, depth) for depth in levels),
    )


def _in_one_domain(view: View, depth: int) -> Room:
    level = view.topology.levels[depth]
    buckets = view.buckets(depth)
    for pods in reversed(buckets.counts):
        if not pods:
            break
        for domain in buckets.members(pods):
            if not level.is_blank(domain):
                return Room(level.name, level.names[domain], pods, pods * view.shape.gpus)
    return Room(level.name, "", 0, 0)
