"""What is there and what is free, summed up the tree of domains."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from api.http.shapes import Shape
from api.store.views import NodeUsage
from scheduler.model.node import Health
from scheduler.topology.tree import Level, Topology


@dataclass(frozen=True, slots=True)
class Sums:
    """Running sums over nodes in tree order; a domain's sum is the difference of two of them."""

    before: Sequence[int]

    def of(self, level: Level, domain: int) -> int:
        return self.before[level.node_hi[domain]] - self.before[level.node_lo[domain]]


class MapCounts:
    """Counts of one moment; made once a request, in the size of the cluster.

    Args:
        usage: By node name; a node that it lacks was removed since and counts as out.
        jobs: Uids of the jobs with live pods, by node name.
    """

    def __init__(
        self,
        topology: Topology,
        usage: Mapping[str, NodeUsage],
        jobs: Mapping[str, Sequence[str]],
        revision: int,
    ) -> None:
        self.topology = topology
        self.revision = revision
        self.usage = [usage.get(node.name, _gone(node.name)) for node in topology.nodes]
        self._jobs = jobs
        self._gpus = self._sums(lambda u: u.gpu_mask_all.bit_count())
        self._gpus_free = self._sums(lambda u: 0 if u.aside else _free(u))
        self._nodes_free = self._sums(lambda u: int(u.aside is None and not u.gpu_mask_used))

    def _sums(self, count: Callable[[NodeUsage], int]) -> Sums:
        return Sums(list(accumulate((count(u) for u in self.usage), initial=0)))

    def domain(self, depth: int, domain: int) -> Shape:
        """One domain of the level at `depth`."""
        level = self.topology.levels[depth]
        lo, hi = level.node_lo[domain], level.node_hi[domain]
        above = self.topology.levels[depth - 1] if depth else None
        return {
            "level": level.name,
            "name": level.names[domain],
            "parent": (above.names[level.parent[domain]] or None) if above else None,
            "nodes": hi - lo,
            "nodes_free": self._nodes_free.of(level, domain),
            "gpus": self._gpus.of(level, domain),
            "gpus_free": self._gpus_free.of(level, domain),
            "jobs": len(
                {j for n in self.topology.nodes[lo:hi] for j in self._jobs.get(n.name, ())}
            ),
            "health": dict(sorted(Counter(str(u.health) for u in self.usage[lo:hi]).items())),
        }

    def rack(self, depth: int, domain: int) -> Shape:
        """The same with what is known of a rack's power."""
        level = self.topology.levels[depth]
        record = self.topology.racks.get(level.names[domain])
        nodes = range(level.node_lo[domain], level.node_hi[domain])
        known = all(self.topology.types[n].power_w for n in nodes)
        used_w = sum(self.topology.types[n].power_w for n in nodes if self.usage[n].pods)
        return self.domain(depth, domain) | {
            "power_kw": record.power_w / 1_000 if record and record.power_w else None,
            "power_used_kw": used_w / 1_000 if known else None,
            "cdu": record.cdu if record else None,
        }

    def tree(self) -> list[Shape]:
        """Domains inside domains, down to the level above the nodes."""
        if len(self.topology.levels) == 1:
            return []
        return [self._branch(0, d) for d in range(len(self.topology.levels[0].names))]

    def _branch(self, depth: int, domain: int) -> Shape:
        level = self.topology.levels[depth]
        inner = range(level.child_lo[domain], level.child_hi[domain])
        is_last = depth == len(self.topology.levels) - 2
        return {
            "level": level.name,
            "name": level.names[domain],
            "nodes": level.node_hi[domain] - level.node_lo[domain],
            "nodes_free": self._nodes_free.of(level, domain),
            "gpus": self._gpus.of(level, domain),
            "gpus_free": self._gpus_free.of(level, domain),
            "children": [] if is_last else [self._branch(depth + 1, d) for d in inner],
        }


def _free(usage: NodeUsage) -> int:
    return (usage.gpu_mask_all & ~usage.gpu_mask_used).bit_count()


def _gone(name: str) -> NodeUsage:
    return NodeUsage(name, 0, 0, 0, Health.OUT, "out")
