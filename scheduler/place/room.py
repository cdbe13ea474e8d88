"""How many pods a domain holds when units may not be cut: exact, by counts alone."""

from collections.abc import Iterator

from scheduler.cluster.buckets import Buckets
from scheduler.cluster.view import View
from scheduler.place.bounds import Bounds

Scope = tuple[int, int]
"""(level index, domain index): search only inside this domain."""


class Room:
    """Capacities of domains for one shape under one set of bounds.

    Counts may not change while a Room is in use.
    """

    def __init__(self, view: View, bounds: Bounds, scope: Scope | None = None) -> None:
        self.view = view
        self.topology = view.topology
        if scope is not None and bounds.whole is not None and bounds.whole <= scope[0]:
            # The scope is inside one domain of that level already.
            bounds = Bounds(None, bounds.units)
        self.bounds = bounds
        self.scope = scope
        units = bounds.sizes
        self._floors = view.floors(units) if units else None
        self._depth = units[-1][0] if units else -1

    def total(self) -> int:
        """Pods that fit in the scope, whatever the level that is to hold the whole gang."""
        if self.scope is not None:
            return self.pods(*self.scope)
        return self.view.total if self._floors is None else self._floors.total

    def pods(self, level: int, domain: int) -> int:
        """Pods that one domain holds, in whole units of its level and of every level inside it."""
        if self._floors is None or level > self._depth:
            return self.view.counts[level][domain]
        return self._floors.caps[level][domain]

    def pods_of(self, level: int, lo: int, hi: int) -> list[int]:
        """The same for a range of domains."""
        if self._floors is None or level > self._depth:
            return self.view.counts[level][lo:hi]
        return self._floors.caps[level][lo:hi]

    def candidates(self, wanted: int) -> Iterator[int]:
        """Domains of the whole-gang level that hold `wanted` pods, those that hold least first."""
        level = self.bounds.whole
        if level is None:
            return
        if self.scope is None:
            found: Iterator[int] = self.buckets(level).at_least(wanted)
        else:
            lo, hi = self.topology.inside(*self.scope, level)
            pods = self.pods_of(level, lo, hi)
            fitting = [(count, lo + i) for i, count in enumerate(pods) if count >= wanted]
            found = (domain for _, domain in sorted(fitting))
        if self.topology.blanks[level]:
            found = (d for d in found if not self.topology.levels[level].is_blank(d))
        yield from found

    def most(self) -> int:
        """The most pods of one gang that fit now: in one domain if the whole gang must be."""
        level = self.bounds.whole
        if level is None:
            return self.total()
        if self.scope is None and not self.topology.blanks[level]:
            return self.buckets(level).largest
        lo, hi = (0, len(self.view.counts[level]))
        if self.scope is not None:
            lo, hi = self.topology.inside(*self.scope, level)
        is_blank = self.topology.levels[level].is_blank
        pods = enumerate(self.pods_of(level, lo, hi))
        return max((count for i, count in pods if not is_blank(lo + i)), default=0)

    def fits(self, wanted: int) -> bool:
        """Whether so many pods of one gang fit now."""
        return self.most() >= wanted

    def buckets(self, level: int) -> Buckets:
        """Domains of a level by what they hold, wherever the scope is."""
        if self._floors is None or level > self._depth:
            return self.view.buckets(level)
        return self._floors.buckets(level)
