"""How far groups spread: domains they touch at each level, and the fewest they could."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from scheduler.cost.hops import distinct
from scheduler.model.node import NodeType
from scheduler.topology.tree import Topology


@dataclass(frozen=True, slots=True)
class Span:
    """Domains of one level that groups touch.

    Attributes:
        one: Groups that lie in a single domain.
        least_possible: The fewest that one such group could touch on the empty cluster.
    """

    max: int
    mean: float
    one: int
    least_possible: int


def spans_of(
    pods: NDArray[np.int64],
    nodes: Sequence[int],
    topology: Topology,
    node_type: NodeType,
    gpus_per_pod: int,
) -> Mapping[str, Span]:
    """Spans of groups at every level.

    Args:
        pods: Pod of every member, (groups, size); equal ones stand together in a row.
        nodes: Node index of each pod.
    """
    at = np.asarray(nodes, dtype=np.int64)
    # Groups alike down to their pods are counted once.
    rows, counts = np.unique(pods, axis=0, return_counts=True)
    most = int(distinct(rows).max())
    spans: dict[str, Span] = {}
    for depth, level in enumerate(topology.levels):
        row = np.array([topology.place[depth][node] for node in at], dtype=np.int64)
        touched = distinct(np.sort(row[rows], axis=1))
        spans[level.name] = Span(
            max=int(touched.max()),
            mean=round(float((touched * counts).sum() / counts.sum()), 4),
            one=int(counts[touched == 1].sum()),
            least_possible=least_possible(topology, node_type, gpus_per_pod, depth, most),
        )
    return spans


def least_possible(
    topology: Topology, node_type: NodeType, gpus_per_pod: int, depth: int, pods: int
) -> int:
    """The fewest domains of a level that hold so many pods, one a node, on the empty cluster.

    At least 1; all domains where even they are too few.
    """
    sums = _capacity(_Shape(topology, node_type.name, gpus_per_pod, depth))
    return min(int(np.searchsorted(sums, pods)) + 1, max(1, len(sums)))


class _Shape:
    """A level of a map, by the map's identity, and what its nodes are to hold."""

    __slots__ = ("depth", "gpus", "topology", "type_name")

    def __init__(self, topology: Topology, type_name: str, gpus: int, depth: int) -> None:
        self.topology = topology
        self.type_name = type_name
        self.gpus = gpus
        self.depth = depth

    def _identity(self) -> tuple[int, str, int, int]:
        return id(self.topology), self.type_name, self.gpus, self.depth

    def __hash__(self) -> int:
        return hash(self._identity())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Shape) and other._identity() == self._identity()


@lru_cache(maxsize=32)
def _capacity(shape: _Shape) -> NDArray[np.int64]:
    """Pods that the 1, 2, ... largest domains of the level hold."""
    topology = shape.topology
    fits = np.array(
        [t.name == shape.type_name and t.gpus >= shape.gpus for t in topology.types], dtype=np.int64
    )
    counts = np.bincount(np.array(topology.place[shape.depth], dtype=np.int64), fits)
    counts = np.sort(counts[counts > 0])[::-1]
    return np.cumsum(counts).astype(np.int64)
