"""Volcano's network-topology-aware plugin: tiers of hypernodes from the lowest up.

Sources: volcano-sh/volcano, its design page "Network Topology Aware Scheduling" and the page
of that name on volcano.sh: tiers are tried from low to high and the search stops at the first whose
hypernode can hold the job; hard mode goes no further than `highestTierAllowed`; hypernodes and
nodes are scored, fuller ones higher (binpack), and nodes higher the lower the tier that joins them
with the pods placed already. Soft mode may take the whole cluster.
"""

from collections.abc import Sequence

from scheduler.cluster.view import View
from scheduler.model.job import JobSpec
from scheduler.sim.peers.placer import free_nodes, required_level, tightest


class Volcano:
    """Tasks are numbered as they are placed: node by node in order of score.

    Attributes:
        levels: Names of the levels whose domains are hypernodes, outermost (highest tier) first.
    """

    name = "volcano"

    def __init__(self, levels: Sequence[str]) -> None:
        self.levels = tuple(levels)

    def choose(self, view: View, count: int, spec: JobSpec) -> Sequence[int] | None:
        if view.total < count:
            return None
        depths = [view.topology.level_index[name] for name in self.levels]
        limit = required_level(view, spec)
        for depth in reversed(depths):
            if limit is not None and depth < limit:
                return None
            best = tightest(view.counts[depth], range(len(view.counts[depth])), count)
            if best is not None:
                return self._fill(view, depths, free_nodes(view, depth, best), count)
        if limit is not None:
            return None
        every = [node for node, slots in enumerate(view.slots) if slots]
        return self._fill(view, depths, every, count)

    def _fill(
        self, view: View, depths: Sequence[int], nodes: Sequence[int], count: int
    ) -> list[int]:
        """The fullest node first; then those nearest to where the job is, fuller ones before."""
        free, place = view.table.free, view.topology.place
        first = min(nodes, key=lambda node: (free[node].bit_count(), node))

        def score(node: int) -> tuple[int, int, int]:
            shared = sum(place[depth][node] == place[depth][first] for depth in depths)
            return -shared, free[node].bit_count(), node

        return [first, *sorted((n for n in nodes if n != first), key=score)][:count]
