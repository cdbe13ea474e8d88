"""How many pods a domain holds when units may not be cut: exact, by counts alone."""

from collections.abc import Iterator

from scheduler.cluster.view import View, bits
from scheduler.place.bounds import Bounds

Scope = tuple[int, int]
"""(level index, domain index): search only inside this domain."""


class Room:
    """Capacities of domains for one shape under one set of bounds.

    A domain's capacity at a level with a unit is that of its inner domains, rounded down to whole
    units; blank domains hold no units. Counts may not change while a Room is in use.
    """

    def __init__(self, view: View, bounds: Bounds, scope: Scope | None = None) -> None:
        self.view = view
        self.topology = view.topology
        if scope is not None and bounds.whole is not None and bounds.whole <= scope[0]:
            # The scope is inside one domain of that level already.
            bounds = Bounds(None, bounds.units)
        self.bounds = bounds
        self.scope = scope
        self._levels = [level for level, _, _ in bounds.units]
        self._units = [unit for _, unit, _ in bounds.units]
        self._memo: dict[Scope, int] = {}

    def total(self) -> int:
        """Pods that fit in the scope, whatever the level that is to hold the whole gang."""
        if self.scope is not None:
            return self.pods(*self.scope)
        if not self._units:
            return self.view.total
        level = self._levels[0]
        if len(self._units) == 1 and not self.topology.blanks[level]:
            unit = self._units[0]
            buckets = self.view.buckets(level)
            return sum(
                c // unit * unit * buckets.masks[c].bit_count() for c in buckets.counts if c >= unit
            )
        return sum(self.pods(level, domain) for domain in range(len(self.view.counts[level])))

    def pods(self, level: int, domain: int) -> int:
        """Pods that one domain holds, in whole units of its level and of every level inside it."""
        count = self.view.counts[level][domain]
        if not count or not self._units:
            return count
        depth = next((i for i, at in enumerate(self._levels) if at >= level), None)
        if depth is None:
            return count
        key = (level, domain)
        known = self._memo.get(key)
        if known is None:
            known = self._memo[key] = self._pods_at(level, domain, depth)
        return known

    def _pods_at(self, level: int, domain: int, depth: int) -> int:
        at, unit = self._levels[depth], self._units[depth]
        if at == level:
            if self.topology.levels[level].is_blank(domain):
                return 0
            count = self.view.counts[level][domain]
            if depth + 1 < len(self._levels) and count >= unit:
                count = self._sum_inside(level, domain, self._levels[depth + 1])
            return count - count % unit
        if depth + 1 == len(self._levels) and not self.topology.blanks[at]:
            lo, hi = self.topology.inside(level, domain, at)
            return sum(c - c % unit for c in self.view.counts[at][lo:hi])
        return self._sum_inside(level, domain, at)

    def _sum_inside(self, level: int, domain: int, inner: int) -> int:
        lo, hi = self.topology.inside(level, domain, inner)
        return sum(self.pods(inner, i) for i in range(lo, hi))

    def candidates(self, wanted: int) -> Iterator[int]:
        """Domains of the whole-gang level that hold `wanted` pods, tightest first."""
        level = self.bounds.whole
        if level is None:
            return
        blanks = self.topology.levels[level].names if self.topology.blanks[level] else None
        for domain in self._by_count(level, wanted):
            if (blanks is None or blanks[domain]) and self.pods(level, domain) >= wanted:
                yield domain

    def _by_count(self, level: int, wanted: int) -> Iterator[int]:
        if self.scope is None:
            yield from self.view.buckets(level).at_least(wanted)
            return
        counts = self.view.counts[level]
        lo, hi = self._inside_scope(level)
        yield from sorted(
            (i for i in range(lo, hi) if counts[i] >= wanted), key=lambda i: (counts[i], i)
        )

    def _inside_scope(self, level: int) -> tuple[int, int]:
        if self.scope is None:
            return 0, len(self.view.counts[level])
        return self.topology.inside(*self.scope, level)

    def most(self) -> int:
        """The most pods of one gang that fit now: in one domain if the whole gang must be."""
        level = self.bounds.whole
        if level is None:
            return self.total()
        best = 0
        for domain in self._largest_first(level):
            if self.view.counts[level][domain] <= best:
                break
            if not self.topology.levels[level].is_blank(domain):
                best = max(best, self.pods(level, domain))
        return best

    def fits(self, wanted: int) -> bool:
        """Whether so many pods of one gang fit now."""
        level = self.bounds.whole
        if level is None:
            return self.total() >= wanted
        for domain in self._largest_first(level):
            if self.view.counts[level][domain] < wanted:
                return False
            if (
                not self.topology.levels[level].is_blank(domain)
                and self.pods(level, domain) >= wanted
            ):
                return True
        return False

    def _largest_first(self, level: int) -> Iterator[int]:
        if self.scope is None:
            buckets = self.view.buckets(level)
            for count in reversed(buckets.counts):
                yield from bits(buckets.masks[count])
            return
        counts = self.view.counts[level]
        lo, hi = self._inside_scope(level)
        yield from sorted(range(lo, hi), key=lambda i: (-counts[i], i))
