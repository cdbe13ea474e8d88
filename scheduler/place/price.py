"""What a layout costs: predicted seconds of communication between nodes."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Protocol

import numpy as np

from scheduler.cost.constants import CONSTANTS
from scheduler.cost.fabric import SCALE_UP_LINK, fabric_for
from scheduler.cost.step import LATENCY, Prediction, predict
from scheduler.errors import invariant
from scheduler.model.job import JobSpec, ParallelSizes
from scheduler.model.node import NodeType
from scheduler.parallel.traffic import AxisTraffic, traffic_of
from scheduler.parallel.units import Units, pod_grid
from scheduler.place.map_key import MapKey
from scheduler.topology.tree import Topology

REMEMBERED_PODS = 64
"""Pods up to which a prediction is kept by its pattern; with more, patterns hardly come twice."""

PATTERNS_KEPT = 4_096
"""Patterns kept for one kind of gang; then its table starts anew."""

KINDS_KEPT = 512
"""Kinds of gangs remembered for one map."""

DIGITS = 10
"""Decimals of seconds that count."""

TP = "tp"

NONE_DEAD: Mapping[int, int] = MappingProxyType({})


Holds = Callable[[int, int], bool]


class Price(Protocol):
    """Seconds that one gang's pods spend talking between nodes in a step, by where they lie."""

    def seconds(self, nodes: Sequence[int], masks: Sequence[int], dead: Mapping[int, int]) -> float:
        """Of a layout.

        Args:
            nodes: Node index by pod index.
            masks: GPU mask by pod index; empty = the same on every node.
            dead: Node index -> mask of its dead rails, of nodes that have any.
        """

    @property
    def levels(self) -> Sequence[int]:
        """Levels outside the scale-up domain whose crossing costs something, innermost first."""

    def least_s(self, room: Sequence[Holds] = ()) -> float:
        """No layout takes less; 0.0 where nothing is known.

        Args:
            room: For each of `levels`, whether so many groups of so many pods each have room in
                one domain each; empty = they have.
        """

    def axis_least_s(self) -> Mapping[str, float]:
        """The same of each axis by itself, where there is enough room."""

    def weight(self, axis: str) -> float:
        """Bytes of an axis, to compare axes of one gang by."""


class _Known:
    """Predictions of one kind of gang on one map so far."""

    def __init__(self, topology: Topology, node_type: NodeType) -> None:
        fabric = fabric_for(topology, node_type, CONSTANTS)
        levels = fabric.levels
        self.counted = levels[1:]
        # Each pod is on a node of its own: that level tells no two layouts apart.
        self.levels = [level for level in levels if level < len(topology.levels) - 1]
        self.seconds: dict[object, float] = {}
        self.least_s: dict[tuple[str, int], float] = {}
        self.groups: dict[str, tuple[int, int]] | None = None


@lru_cache(maxsize=4)
def _kinds(of: MapKey) -> dict[object, _Known]:
    """What is known of each kind of gang on a map; only the maps used last are kept."""
    return {}


class StepPrice:
    """Seconds by the cost model, remembered by the pattern of domains that the pods lie in."""

    def __init__(self, spec: JobSpec, topology: Topology, node_type: NodeType, gpus: int) -> None:
        self._spec, self._topology, self._type, self._gpus = spec, topology, node_type, gpus
        self._found: _Known | None = None
        self._traffic: Mapping[str, AxisTraffic] | None = None

    def weight(self, axis: str) -> float:
        if self._traffic is None:
            self._traffic = traffic_of(self._spec)
        carried = self._traffic.get(axis)
        return 0.0 if carried is None else carried.bytes_per_step

    def seconds(self, nodes: Sequence[int], masks: Sequence[int], dead: Mapping[int, int]) -> float:
        unlike = len(set(masks)) > 1
        is_hurt = bool(dead) and not dead.keys().isdisjoint(nodes)
        if len(nodes) > REMEMBERED_PODS or unlike or is_hurt:
            return self._predicted(nodes, masks if unlike or is_hurt else None, dead)
        known = self._kept()
        pattern = self._pattern(known, nodes)
        found = known.seconds.get(pattern)
        if found is None:
            if len(known.seconds) >= PATTERNS_KEPT:
                known.seconds.clear()
            found = known.seconds[pattern] = self._predicted(nodes, None, NONE_DEAD)
        return found

    @property
    def levels(self) -> Sequence[int]:
        return self._kept().counted

    def least_s(self, room: Sequence[Holds] = ()) -> float:
        # A group that no domain is left for lies in several, and its ring has a hop between them.
        return sum(
            self._axis_least(axis, sum(not holds(groups, pods) for holds in room))
            for axis, (groups, pods) in self._groups().items()
        )

    def axis_least_s(self) -> Mapping[str, float]:
        return {axis: self._axis_least(axis, 0) for axis in self._groups()}

    def _kept(self) -> _Known:
        if self._found is None:
            spec, kinds = self._spec, _kinds(MapKey(self._topology))
            weights = tuple(sorted(spec.axis_weights.items()))
            key = (spec.parallelism, spec.model, weights, self._gpus, self._type.name)
            if key not in kinds:
                if len(kinds) >= KINDS_KEPT:
                    kinds.clear()
                kinds[key] = _Known(self._topology, self._type)
            self._found = kinds[key]
        return self._found

    def _pattern(self, known: _Known, nodes: Sequence[int]) -> tuple[int, ...]:
        """Domains by the order in which pods first lie in them: names make no difference."""
        out: list[int] = []
        for level in known.levels:
            domains = list(map(self._topology.place[level].__getitem__, nodes))
            numbers = {domain: number for number, domain in enumerate(dict.fromkeys(domains))}
            out += map(numbers.__getitem__, domains)
        return tuple(out)

    def _predict(
        self,
        nodes: Sequence[int],
        masks: Sequence[int] | None,
        dead: Mapping[int, int],
        left: int = 0,
    ) -> Prediction:
        return predict(
            self._spec,
            self._topology,
            self._type,
            self._gpus,
            nodes,
            masks or None,
            dead,
            left=left,
        )

    def _predicted(
        self, nodes: Sequence[int], masks: Sequence[int] | None, dead: Mapping[int, int]
    ) -> float:
        # Sums may differ in their last digits by the order of domains; no choice may.
        return round(between_s(self._predict(nodes, masks, dead)), DIGITS)

    def _groups(self) -> Mapping[str, tuple[int, int]]:
        """Axes whose groups lie in several pods, tp left out -> groups apart, pods of each."""
        known = self._kept()
        if known.groups is None:
            invariant(self._spec.parallelism is not None, "a job of roles has no traffic")
            known.groups = {}
            units = pod_grid(self._spec.parallelism or ParallelSizes(), self._gpus)
            for axis in traffic_of(self._spec):
                if axis != TP and units.unit(frozenset({axis})) > 1:
                    sizes = np.unique(units.memberships(axis)[0], return_counts=True)[1]
                    apart = len(sizes) if int(sizes.sum()) == units.pods else 1
                    known.groups[axis] = apart, int(sizes.min())
        return known.groups

    def _axis_least(self, axis: str, left: int) -> float:
        """An axis by itself inside one innermost domain that costs something to leave.

        Args:
            left: Of `levels`, how many its groups have to leave.
        """
        known = self._kept()
        if (axis, left) not in known.least_s:
            units = pod_grid(self._spec.parallelism or ParallelSizes(), self._gpus)
            nodes = _along(units, axis, self._one_domain())
            found = self._predict(nodes, None, NONE_DEAD, left) if nodes else None
            known.least_s[axis, left] = 0.0 if found is None else found.axes[axis].seconds
        return known.least_s[axis, left]

    def _one_domain(self) -> Sequence[int]:
        """Nodes of the largest domain of the innermost level that costs something to leave."""
        levels = self._kept().levels
        if not levels:
            return range(self._topology.node_count)
        row = self._topology.levels[levels[0]]
        lo, hi = max(zip(row.node_lo, row.node_hi, strict=True), key=lambda at: at[1] - at[0])
        return range(lo, hi)


def _along(units: Units, axis: str, inside: Sequence[int]) -> list[int]:
    """A node for each pod such that neighbours on an axis are on different ones, all near.

    Pods of other groups may have the same node: what it tells of their axis is not used.
    """
    labels = units.unit_labels(frozenset({axis})).tolist()
    size = units.unit(frozenset({axis}))
    width = min(size, len(inside))
    if width > 1 and size % width == 1:
        width -= 1  # the last of a ring would meet the first on its node
    if width < 2:
        return []
    position: dict[int, int] = {}
    out: list[int] = []
    for label in labels:
        at = position.get(label, 0)
        position[label] = at + 1
        out.append(inside[at % width])
    return out


def between_s(found: Prediction) -> float:
    """Seconds between nodes, before overlap; those of tp where it leaves its scale-up domain."""
    tp = found.axes.get(TP)
    if tp is None or tp.bottleneck in (SCALE_UP_LINK, LATENCY):
        return found.inter_node_s
    return found.inter_node_s + tp.seconds
