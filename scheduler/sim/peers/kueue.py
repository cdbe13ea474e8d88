"""Kueue's topology-aware scheduling with its default algorithm `BestFit`.

Source: KEP-2724, "Computing the assignment" (kubernetes-sigs/kueue, keps/2724-topology-aware-
scheduling). Required: one domain of the level that fits, or wait. Preferred: the same from the
level named upwards; at the top as many domains as needed. Then level by level down: domains with
the most free first, the last one as tight as it can be. Jobs that name no level are asked for as
preferred at the innermost one, which is the most that Kueue can do for them.
"""

from collections.abc import Sequence

from scheduler.cluster.view import View
from scheduler.model.job import JobSpec
from scheduler.sim.peers.placer import required_level, tightest


class Kueue:
    """Pods get their index along the domains of the assignment, which are sorted by name.

    Attributes:
        levels: Names of the topology's levels above the node, outermost first.
    """

    name = "kueue"

    def __init__(self, levels: Sequence[str]) -> None:
        self.levels = tuple(levels)

    def choose(self, view: View, count: int, spec: JobSpec) -> Sequence[int] | None:
        if view.total < count:
            return None
        node = len(view.topology.levels) - 1
        if count == 1:
            return self._one(view)
        depths = [view.topology.level_index[name] for name in self.levels]
        limit = required_level(view, spec)
        start, chosen = self._start(view, depths, count, limit)
        if not chosen:
            return None
        for depth in [*(d for d in depths if d > start), node]:
            below = [
                child
                for domain in chosen
                for child in range(*view.topology.inside(start, domain, depth))
                if view.counts[depth][child]
            ]
            chosen = most_free(view.counts[depth], below, count)
            start = depth
        return sorted(chosen)

    def _one(self, view: View) -> list[int]:
        """The host with the least free capacity that holds it."""
        free = view.table.free
        hosts = (node for node, slots in enumerate(view.slots) if slots)
        return [min(hosts, key=lambda node: (free[node].bit_count(), node))]

    def _start(
        self, view: View, depths: Sequence[int], count: int, limit: int | None
    ) -> tuple[int, list[int]]:
        """The level at which the search ends and its domains; no domains = it does not fit."""
        for depth in reversed(depths):
            if limit is not None and depth > limit:
                continue
            best = tightest(view.counts[depth], range(len(view.counts[depth])), count)
            if best is not None:
                return depth, [best]
            if limit is not None:
                return depth, []
        top = depths[0]
        domains = [d for d, free in enumerate(view.counts[top]) if free]
        return top, most_free(view.counts[top], domains, count)


def most_free(counts: Sequence[int], domains: Sequence[int], need: int) -> list[int]:
    """Domains with the most free first; the last one is the tightest that holds the rest."""
    left = sorted(domains, key=lambda domain: (-counts[domain], domain))
    out: list[int] = []
    while need > 0 and left:
        best = left[0] if counts[left[0]] < need else tightest(counts, left, need)
        if best is None:
            break
        left.remove(best)
        out.append(best)
        need -= counts[best]
    return out
