"""Counts of whole units: what domains hold when units may not be cut, kept up to date by edits."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from scheduler.cluster.buckets import Buckets

if TYPE_CHECKING:
    from scheduler.cluster.view import View

Units = tuple[tuple[int, int], ...]
"""(level index, pods of a unit), outermost level first."""


class Floors:
    """Capacities of domains in pods of whole units, for one view and one set of units.

    A domain's capacity at a level with a unit is that of its inner domains, rounded down to whole
    units; a blank domain holds none there. Levels inside the innermost unit are the view's counts.

    Attributes:
        caps: For each level down to the innermost one with a unit, the capacity of each domain.
        total: Pods of the whole cluster.
    """

    def __init__(self, view: "View", units: Units) -> None:
        self._view = view
        self._unit_at = dict(units)
        self._innermost = units[-1][0]
        self._topology = view.topology
        self._fill()

    def _fill(self) -> None:
        depth = self._innermost
        # What is inside each domain before rounding; innermost, that is the view's own counts.
        self._sums: list[list[int]] = [[] for _ in range(depth)]
        self.caps: list[list[int]] = [[] for _ in range(depth + 1)]
        inner: list[int] = self._view.counts[depth]
        for level in range(depth, -1, -1):
            if level < depth:
                below = self._topology.levels[level]
                inner = [
                    sum(self.caps[level + 1][lo:hi])
                    for lo, hi in zip(below.child_lo, below.child_hi, strict=True)
                ]
                self._sums[level] = inner
            self.caps[level] = [self._floor(level, d, count) for d, count in enumerate(inner)]
        self.total = sum(self.caps[0])
        self._buckets: list[Buckets | None] = [None] * (depth + 1)
        self._version = self._view.changes

    def _floor(self, level: int, domain: int, count: int) -> int:
        unit = self._unit_at.get(level)
        if unit is None:
            return count
        return 0 if self._topology.levels[level].is_blank(domain) else count - count % unit

    def sync(self) -> None:
        """Take account of every edit that the view has."""
        changed = self._view.changed_since(self._version)
        if changed is None:
            self._fill()
            return
        self._update(changed)
        self._version = self._view.changes

    def _update(self, nodes: Iterable[int]) -> None:
        depth = self._innermost
        place, counts = self._topology.place[depth], self._view.counts[depth]
        for domain in dict.fromkeys(place[node] for node in nodes):
            self._set(depth, domain, self._floor(depth, domain, counts[domain]))

    def _set(self, level: int, domain: int, new: int) -> None:
        """Give a domain its capacity, and those around it theirs."""
        while True:
            old = self.caps[level][domain]
            if new == old:
                return
            self.caps[level][domain] = new
            buckets = self._buckets[level]
            if buckets is not None:
                buckets.move(domain, old, new)
            if level == 0:
                self.total += new - old
                return
            domain = self._topology.levels[level].parent[domain]
            level -= 1
            self._sums[level][domain] += new - old
            new = self._floor(level, domain, self._sums[level][domain])

    def buckets(self, level: int) -> Buckets:
        """The domains of a level, at most as deep as the innermost unit, by capacity."""
        found = self._buckets[level]
        if found is None:
            found = self._buckets[level] = Buckets(self.caps[level])
        return found
