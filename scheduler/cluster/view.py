"""How many pods of one shape fit, per node and per domain, kept up to date by edits.

A decision reads only these counts; nodes and GPUs are looked at once a place is chosen.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate

from scheduler.cluster.buckets import Buckets
from scheduler.cluster.floors import Floors, Units
from scheduler.cluster.nodes import NodeTable
from scheduler.model.job import Toleration
from scheduler.model.node import Taint, TaintEffect
from scheduler.model.resources import NOTHING, Resources
from scheduler.topology.dead_rails import gpus_on
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
        mask: The GPUs of every pod, where all are to have the same; 0 = any.
        dead_allowed: Rails that may be dead where the pod's GPUs are, as a mask; None = any.
        clean: Only nodes without a `PreferNoSchedule` taint that is not tolerated.
        exclusive: Only nodes that no other job uses.
        large: Of a large gang: no lemons.
    """

    node_type: str | None = None
    gpus: int = 0
    resources: Resources = NOTHING
    single: bool = False
    labels: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    nodes: frozenset[str] = frozenset()
    named: tuple[int, ...] = ()
    mask: int = 0
    dead_allowed: int | None = None
    clean: bool = False
    exclusive: bool = False
    large: bool = False

    def for_gang_of(self, table: NodeTable, pods: int) -> "Shape":
        """The same for a gang of so many pods: one bad node costs a large one too much."""
        if not table.lemons or pods < LARGE_GANG:
            return self
        return replace(self, large=True)


LARGE_GANG = 8
"""Pods from which on a gang keeps off nodes that fail far more often than their like."""

FLOORS_LIMIT = 32
"""Sets of units whose capacities are kept for one shape; the one used longest ago goes first."""

MOST_SLOTS = 10_000
"""Pods without GPUs on one node beyond which nodes are equally tight."""

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
        barred: Node index -> GPUs that the shape may not have there, of nodes with any.
    """

    def __init__(self, table: NodeTable, shape: Shape) -> None:
        self.table = table
        self.shape = shape
        self.topology = table.topology
        self._floors: dict[Units, Floors] = {}
        self._aside: Mapping[str, int] = {}
        self._aside_at = -1
        self._why: dict[int, str] | None = None
        self._why_count: Counter[str] = Counter()
        self._why_stale: set[int] = set()
        self.eligible = _eligible(table, shape)
        self.barred = _barred_gpus(table, shape)
        self._rails_seen = table.rails_changed
        self._never_here: Counter[str] | None = None
        kind = next((t for t in self.topology.kinds if t.name == shape.node_type), None)
        self.takes_whole_nodes = kind is not None and kind.gpus == shape.gpus
        self._fill()

    def _fill(self) -> None:
        table = self.table
        self.slots = [0] * self.topology.node_count
        for node, slots in self._slots_of_all([n for n, ok in enumerate(self.eligible) if ok]):
            self.slots[node] = slots
        for group in range(len(self.topology.power)):
            for node, slots in self._powered(group):
                self.slots[node] = slots
        running = list(accumulate(self.slots, initial=0))
        self.counts: list[list[int]] = [
            [running[hi] - running[lo] for lo, hi in zip(level.node_lo, level.node_hi, strict=True)]
            for level in self.topology.levels[:-1]
        ]
        self.counts.append(self.slots)
        self.total = running[-1]
        self._buckets: list[Buckets | None] = [None] * len(self.counts)
        self._by_free: Buckets | None = None
        self.tightness: list[int] = []
        self._why = None
        self.version = table.version
        # What is kept of these counts starts anew: nobody knows a version as old as this.
        # The old log's length counts, so it goes last.
        self._log_start = getattr(self, "changes", -1) + 1
        self._log: list[int] = []

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
            if self._why is None:
                # From the first question on, only nodes that were edited are looked at again.
                self._why, self._why_count = {}, Counter()
                self._why_stale = {node for node, ok in enumerate(self.eligible) if ok}
            for node in self._why_stale:
                self._note_why(self._why, node)
            self._why_stale = set()
            found = self.never_here + self._why_count
            self._aside, self._aside_at = dict(sorted(found.items())), self.version
        return self._aside

    def _note_why(self, why: dict[int, str], node: int) -> None:
        before = why.pop(node, None)
        if before is not None:
            self._why_count[before] -= 1
        if not self.slots[node]:
            why[node] = reason = self.table.aside[node] or self._why_full(node)
            self._why_count[reason] += 1

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
        if self._rails_seen != self.table.rails_changed:
            # Nodes that lost a rail or have it back are among those that were edited.
            self.barred = _barred_gpus(self.table, self.shape)
            self._rails_seen = self.table.rails_changed
        changed = self.table.changed_since(self.version)
        if changed is None:
            self._fill()
            return
        nodes, groups = dict.fromkeys(changed), self.topology.power_of
        eligible = self.eligible
        if not groups:
            found = self._slots_of_all([node for node in nodes if eligible[node]])
        else:
            found = self._slots_of_all([n for n in nodes if eligible[n] and n not in groups])
            for group in dict.fromkeys(groups[node] for node in nodes if node in groups):
                found += self._powered(group)
        self._update(found)
        self.version = self.table.version

    def _slots_of_all(self, nodes: list[int]) -> list[tuple[int, int]]:
        """(node, slots) of eligible nodes."""
        table, shape, gpus = self.table, self.shape, self.shape.gpus
        is_plain = gpus and not shape.mask and shape.resources.is_zero()
        if not is_plain or self.barred or shape.exclusive or table.exclusive or shape.large:
            return [(node, self._slots_of(node)) for node in nodes]
        # Most gangs ask for GPUs alone; a call for each node would take most of the time.
        free, aside = table.free, table.aside
        if shape.single:
            return [(n, int(free[n].bit_count() >= gpus and aside[n] is None)) for n in nodes]
        return [(n, free[n].bit_count() // gpus if aside[n] is None else 0) for n in nodes]

    def _update(self, found: list[tuple[int, int]]) -> None:
        """Take account of nodes whose slots may have changed, each at most once."""
        if self._why is not None:
            self._why_stale.update(node for node, _ in found)
        if self._by_free is not None:
            for node, new in found:
                before, tight = self.tightness[node], self._tightness_of(node, new)
                if tight != before:
                    self._by_free.move(node, before, tight)
                    self.tightness[node] = tight
        slots = self.slots
        moved = [(node, new - slots[node]) for node, new in found if new != slots[node]]
        if not moved:
            return
        if len(self._log) + len(moved) > CHANGES_KEPT:
            self._log_start += len(self._log)
            self._log = []
        self._log += [node for node, _ in moved]
        for level, counts in enumerate(self.counts):
            # A domain moves once, however many of its nodes do; the nodes are the last level.
            changes: dict[int, int] = {}
            place = self.topology.place[level]
            for node, more in moved:
                changes[place[node]] = changes.get(place[node], 0) + more
            buckets = self._buckets[level]
            for domain, more in changes.items():
                was = counts[domain]
                counts[domain] = was + more
                if buckets is not None and more:
                    buckets.move(domain, was, was + more)
        self.total += sum(more for _, more in moved)

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

    def tightness_of(self, node: int) -> int:
        """Smaller where less is left beside the pods that fit; 0 where none do."""
        return self._tightness_of(node, self.slots[node])

    def _tightness_of(self, node: int, slots: int) -> int:
        """0 where nothing fits, else 1 + free GPUs, or 1 + free pods where there are no GPUs."""
        if not slots:
            return 0
        free, gpus = self.table.free[node].bit_count(), self.topology.types[node].gpus
        if self.shape.gpus:
            return 1 + free
        # Pods without GPUs leave nodes that have some to others, as long as there are any others.
        return min(1 + slots, MOST_SLOTS) if not gpus else MOST_SLOTS + 1 + free

    def free(self, node: int) -> int:
        """Mask of the node's GPUs that the shape may have now."""
        free = self.table.free[node]
        return free & ~self.barred[node] if node in self.barred else free

    def _slots_of(self, node: int) -> int:
        table, shape = self.table, self.shape
        if not self.eligible[node] or table.aside[node] is not None:
            return 0
        if shape.large and node in table.lemons:
            return 0
        alone = shape.exclusive or table.exclusive
        if alone and table.keeps_out(node, exclusive=shape.exclusive):
            return 0
        return slots_on(table, shape, node, self.free(node) if self.barred else table.free[node])

    def _powered(self, group: int) -> list[tuple[int, int]]:
        """(node, slots) of a set of nodes with a power budget: idle ones as far as it reaches.

        A node in use counts its full draw, one with an unknown draw nothing.
        """
        budget, table, types = self.topology.power[group], self.table, self.topology.types
        left, found, idle = budget.power_w, [], []
        for node in range(budget.node_lo, budget.node_hi):
            slots = self._slots_of(node)
            if table.pod_count[node] or node in table.claimed:
                left -= types[node].power_w
                found.append((node, slots))
            else:
                idle.append((-slots, node))
        for slots, node in sorted(idle):
            fits = types[node].power_w <= left
            found.append((node, -slots if fits else 0))
            left -= types[node].power_w if fits and slots else 0
        return found

    def _why_full(self, node: int) -> str:
        table, shape = self.table, self.shape
        if shape.large and node in table.lemons:
            return "lemon"
        if table.keeps_out(node, exclusive=shape.exclusive):
            return "used_by_others" if shape.exclusive else "exclusive"
        if slots_on(table, shape, node, self.free(node)):
            return "rack_power"
        if self.free(node).bit_count() < shape.gpus <= table.free[node].bit_count():
            return "dead_rails"
        return _in_use(table.free[node], shape.gpus)


def slots_on(table: NodeTable, shape: Shape, node: int, free: int) -> int:
    """Pods of the shape that the node's free GPUs and resources hold, at most 1 if `single`.

    A capacity of 0 CPUs or memory means that the inventory did not say; it is not checked then.
    """
    limit = 1 if shape.single else 1 << 30
    if shape.gpus:
        if shape.mask & free != shape.mask:
            return 0
        limit = min(limit, free.bit_count() // shape.gpus)
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
    if shape.clean and _soft(record.taints, shape.tolerations):
        return "tainted"
    return "no_place_at_the_level"


def _barred(taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...]) -> bool:
    return any(
        taint.effect is not TaintEffect.PREFER_NO_SCHEDULE
        and not any(t.tolerates(taint) for t in tolerations)
        for taint in taints
    )


def is_shunned(topology: Topology, node: int, tolerations: tuple[Toleration, ...]) -> bool:
    """Whether a taint of the node asks, but does not demand, that these pods go elsewhere."""
    return node in topology.shunned and _soft(topology.nodes[node].taints, tolerations)


def _soft(taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...]) -> bool:
    return any(
        taint.effect is TaintEffect.PREFER_NO_SCHEDULE
        and not any(t.tolerates(taint) for t in tolerations)
        for taint in taints
    )


def _barred_gpus(table: NodeTable, shape: Shape) -> dict[int, int]:
    """Node -> GPUs whose rail is dead, where the shape may not have such."""
    if shape.dead_allowed is None or not shape.gpus:
        return {}
    found = {
        node: gpus_on(table.topology.types[node], rails & ~shape.dead_allowed)
        for node, rails in table.dead_rails.items()
    }
    return {node: gpus for node, gpus in found.items() if gpus}


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
        ok
        and not (
            record.taints
            and (
                _barred(record.taints, shape.tolerations)
                or (shape.clean and _soft(record.taints, shape.tolerations))
            )
        )
        for ok, record in zip(out, topology.nodes, strict=True)
    ]
