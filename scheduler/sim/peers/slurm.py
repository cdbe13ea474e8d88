"""Slurm's `topology/tree`: the lowest switch that suffices, then leaf switches by best fit.

Sources: Slurm's Topology Guide (slurm.schedmd.com/topology.html): "identify the lowest level switch
in the hierarchy that can satisfy a job's request and then allocate resources on its underlying leaf
switches using a best-fit algorithm"; topology.conf(5). Backfill, which it is run with, is in
`peers/cycle.py`.
"""

from collections.abc import Sequence

from scheduler.cluster.view import View
from scheduler.model.job import JobSpec
from scheduler.sim.peers.placer import free_nodes, required_level, tightest


class Slurm:
    """Tasks are numbered in blocks along the node list, which is sorted.

    Attributes:
        levels: Names of the levels that are switches, outermost first; the last are leaf switches.
            Above the outermost there is one root.
    """

    name = "slurm"

    def __init__(self, levels: Sequence[str]) -> None:
        self.levels = tuple(levels)

    def choose(self, view: View, count: int, spec: JobSpec) -> Sequence[int] | None:
        if view.total < count:
            return None
        depths = [view.topology.level_index[name] for name in self.levels]
        leaf = depths[-1]
        limit = required_level(view, spec)
        for depth in reversed(depths):
            domains = range(len(view.counts[depth]))
            top = tightest(view.counts[depth], domains, count)
            if top is not None:
                lo, hi = view.topology.inside(depth, top, leaf)
                return self._leaves(view, leaf, range(lo, hi), count)
            if limit is not None and depth <= limit:
                return None
        if limit is not None:
            return None
        return self._leaves(view, leaf, range(len(view.counts[leaf])), count)

    def _leaves(self, view: View, leaf: int, among: Sequence[int], count: int) -> list[int]:
        """Leaf by leaf: the tightest that holds the rest, else the one with the most."""
        counts = view.counts[leaf]
        left = [domain for domain in among if counts[domain]]
        out: list[int] = []
        while len(out) < count:
            need = count - len(out)
            best = tightest(counts, left, need)
            if best is None:
                best = min(left, key=lambda domain: (-counts[domain], domain))
            left.remove(best)
            out += free_nodes(view, leaf, best)[:need]
        return sorted(out)
