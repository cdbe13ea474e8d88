"""How many pods of one shape fit, per node and per domain, kept up to date by edits.

A decision reads only these counts; nodes and GPUs are looked at once a place is chosen.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from scheduler.cluster.buckets import Buckets
from scheduler.cluster.floors import Floors, Units
from scheduler.cluster.nodes import NodeTable
from scheduler.model.job import Toleration
from scheduler.model.node import Taint, TaintEffect
from scheduler.model.resources import NOTHING, Resources
from scheduler.topology.tree import Topology


@dataclass(frozen=True, slots=True)
class Shape:
    """What one pod asks of its node.

    Attributes:
        node_type: Name of the node type, or None for any.
        gpus: GPUs of one pod.
        single: At most one such pod on a node.
        labels: Labels the node must have, sorted.
        nodes: Names of the only nodes allowed; empty = any.
        named: Indices of levels at which the node must have a place, since a rule binds there.
    """

    node_type: str | None = None
    gpus: int = 0
    resources: Resources = NOTHING
    single: bool = False
    labels: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    nodes: frozenset[str] = frozenset()
    named: tuple[int, ...] = ()


FLOORS_LIMIT = 32
"""Sets of units whose capacities are kept for one shape; the one used longest ago goes first."""

CHANGES_KEPT = 50_000
"""Changes of slots after which their log is cut, and what is further behind starts anew."""


class View:
    """Counts of one shape.

    Attributes:
        slots: Pods of the shape that fit on each node now; 0 where it may not run at all.
        counts: For every level but the last, the sum of `slots` in each domain; for the last,
            `slots`.
        eligible: Whether the node could take the shape when empty, whatever its health.
        takes_whole_nodes: Whether every pod uses all GPUs of its node, which leaves no choice of
            them.
    """

    def __init__(self, table: NodeTable, shape: Shape) -> None:
        self.table = table
        self.shape = shape
        self.topology = table.topology
        self._floors: dict[Units, Floors] = {}
        self._aside: Mapping[str, int] = {}
        self._aside_at = -1
        self.eligible = _eligible(table, shape)
        self._never_here: Counter[str] | None = None
        kind = next((t for t in self.topology.kinds if t.name == shape.node_type), None)
        self.takes_whole_nodes = kind is not None and kind.gpus == shape.gpus
        self._fill()

    def _fill(self) -> None:
        table = self.table
        self.slots = [self._slots_of(node) for node in range(self.topology.node_count)]
        running = [0]
        for slots in self.slots:
            running.append(running[-1] + slots)
        self.counts: list[list[int]] = [
            [running[hi] - running[lo] for lo, hi in zip(level.node_lo, level.node_hi, strict=True)]
            for level in self.topology.levels[:-1]
        ]
        self.counts.append(self.slots)
        self.total = running[-1]
        self._buckets: list[Buckets | None] = [None] * len(self.counts)
        self._by_free: Buckets | None = None
        self.tightness: list[int] = []
        self.version = table.version
        # What is kept of these counts starts anew: nobody knows a version as old as this.
        self._log: list[int] = []
        self._log_start = getattr(self, "changes", -1) + 1

    @property
    def never_here(self) -> Counter[str]:
        """Reason -> nodes that are not eligible; counted when it is first asked, for a verdict."""
        if self._never_here is None:
            self._never_here = Counter(
                why_never(self.topology, self.shape, node)
                for node, eligible in enumerate(self.eligible)
                if not eligible
            )
        return self._never_here

    def set_aside(self) -> Mapping[str, int]:
        """Nodes that hold no pod of the shape now, by reason; as of the last sync."""
        if self._aside_at != self.version:
            found = Counter(self.never_here)
            table, gpus = self.table, self.shape.gpus
            for node, (slots, eligible) in enumerate(zip(self.slots, self.eligible, strict=True)):
                if eligible and not slots:
                    found[table.aside[node] or _in_use(table.free[node], gpus)] += 1
            self._aside, self._aside_at = dict(sorted(found.items())), self.version
        return self._aside

    @property
    def changes(self) -> int:
        """Grows with every node whose slots changed."""
        return self._log_start + len(self._log)

    def changed_since(self, changes: int) -> list[int] | None:
        """Nodes whose slots changed, each at least once; None when that is no longer known."""
        return None if changes < self._log_start else self._log[changes - self._log_start :]

    def floors(self, units: Units) -> Floors:
        """Capacities in whole units, as of the last sync."""
        found = self._floors.pop(units, None)
        if found is None:
            found = Floors(self, units)
            if len(self._floors) >= FLOORS_LIMIT:
                del self._floors[next(iter(self._floors))]
        else:
            found.sync()
        self._floors[units] = found
        return found

    def sync(self) -> None:
        """Take account of every edit since the last call."""
        changed = self.table.changed_since(self.version)
        if changed is None:
            self._fill()
            return
        for node in dict.fromkeys(changed):
            if self.eligible[node]:
                self._update(node)
        self.version = self.table.version

    def _update(self, node: int) -> None:
        new, old = self._slots_of(node), self.slots[node]
        if self._by_free is not None:
            tight = self._tightness_of(node, new)
            if tight != self.tightness[node]:
                self._by_free.move(node, self.tightness[node], tight)
                self.tightness[node] = tight
        if new == old:
            return
        if len(self._log) >= CHANGES_KEPT:
            self._log_start += len(self._log)
            self._log = []
        self._log.append(node)
        last = len(self.counts) - 1
        for level in range(last):
            domain = self.topology.place[level][node]
            was = self.counts[level][domain]
            self.counts[level][domain] = was + new - old
            buckets = self._buckets[level]
            if buckets is not None:
                buckets.move(domain, was, was + new - old)
        self.slots[node] = new
        node_buckets = self._buckets[last]
        if node_buckets is not None:
            node_buckets.move(node, old, new)
        self.total += new - old

    def buckets(self, level: int) -> Buckets:
        """The domains of a level by their count."""
        found = self._buckets[level]
        if found is None:
            found = self._buckets[level] = Buckets(self.counts[level])
        return found

    def tight_nodes(self) -> Iterator[int]:
        """Nodes that hold at least one pod, fewest free GPUs first (then CPUs), then by index."""
        if self._by_free is None:
            self.tightness = [self._tightness_of(n, s) for n, s in enumerate(self.slots)]
            self._by_free = Buckets(self.tightness)
        return self._by_free.at_least(1)

    def _tightness_of(self, node: int, slots: int) -> int:
        """0 where nothing fits, else 1 + free GPUs, or 1 + free pods where there are no GPUs."""
        if not slots:
            return 0
        return 1 + (self.table.free[node].bit_count() if self.topology.types[node].gpus else slots)

    def _slots_of(self, node: int) -> int:
        table, shape = self.table, self.shape
        if not self.eligible[node] or table.aside[node] is not None:
            return 0
        return slots_on(table, shape, node)


def slots_on(table: NodeTable, shape: Shape, node: int) -> int:
    """Pods of the shape that the node's free resources hold, at most 1 if `single`.

    A capacity of 0 CPUs or memory means that the inventory did not say; it is not checked then.
    """
    limit = 1 if shape.single else 1 << 30
    if shape.gpus:
        limit = min(limit, table.free[node].bit_count() // shape.gpus)
    need = shape.resources
    if not need.is_zero():
        capacity = table.topology.types[node].capacity
        if need.cpu_milli and capacity.cpu_milli:
            limit = min(limit, table.cpu_milli[node] // need.cpu_milli)
        if need.memory_mib and capacity.memory_mib:
            limit = min(limit, table.memory_mib[node] // need.memory_mib)
        for name, amount in need.other:
            limit = min(limit, table.other[node].get(name, 0) // amount)
    return max(0, limit)


def _in_use(free: int, gpus: int) -> str:
    return "gpus_in_use" if free.bit_count() < gpus else "cpu_memory_or_other_in_use"


def why_never(topology: Topology, shape: Shape, node: int) -> str:
    """Why a node may not hold the shape even when empty; the node is not eligible for it."""
    record, kind = topology.nodes[node], topology.types[node]
    if shape.nodes and record.name not in shape.nodes:
        return "not_listed"
    if shape.node_type is not None and kind.name != shape.node_type:
        return "other_node_type"
    if shape.gpus > kind.gpus:
        return "too_few_gpus"
    if any(record.labels.get(key) != value for key, value in shape.labels):
        return "labels"
    if _barred(record.taints, shape.tolerations):
        return "tainted"
    return "no_place_at_the_level"


def _barred(taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...]) -> bool:
    return any(
        taint.effect is not TaintEffect.PREFER_NO_SCHEDULE
        and not any(t.tolerates(taint) for t in tolerations)
        for taint in taints
    )


def _eligible(table: NodeTable, shape: Shape) -> list[bool]:
    topology = table.topology
    labels: Mapping[str, str] = dict(shape.labels)
    out = [
        kind.gpus >= shape.gpus and shape.node_type in (None, kind.name) for kind in topology.types
    ]
    if shape.nodes:
        out = [
            ok and record.name in shape.nodes
            for ok, record in zip(out, topology.nodes, strict=True)
        ]
    if labels:
        wanted = labels.items()
        out = [
            ok and wanted <= record.labels.items()
            for ok, record in zip(out, topology.nodes, strict=True)
        ]
    for level in shape.named:
        if topology.blanks[level]:
            names = topology.levels[level].names
            out = [ok and names[d] != "" for ok, d in zip(out, topology.place[level], strict=True)]
    return [
        ok and not (record.taints and _barred(record.taints, shape.tolerations))
        for ok, record in zip(out, topology.nodes, strict=True)
    ]
