"""Candidate domains: where free, leaving and evictable GPUs would suffice, and at what price."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TypeAlias

from scheduler.cluster.world import World
from scheduler.place.fits import Fit
from scheduler.preempt.victims import Unit

Offer: TypeAlias = tuple[Unit, int]
"""A candidate, and its GPUs in some domain."""


@dataclass(slots=True)
class Candidates:
    """The candidates of one domain.

    Attributes:
        level, domain: -1 and 0 for the whole cluster.
        least_cost: What any set of them costs at least with which the gang has a place; 0 where
            counts of GPUs cannot tell.
        units: Cheapest for what is needed first.
    """

    level: int
    domain: int
    units: list[Unit] = field(default_factory=list)
    least_cost: float = 0.0


def candidate_domains(world: World, fit: Fit, units: Sequence[Unit]) -> list[Candidates]:
    """Domains whose GPUs could suffice, the one that may be cheapest first, inner ones first.

    A gang that must lie in one domain of a level has only those; any other has the whole cluster
    too, and every domain that is large enough.

    Args:
        units: Cheapest for what is needed first, for the cluster as a whole.
    """
    wanted = fit.least_gpus
    free = _FreeGpus(world)
    out: list[Candidates] = []
    for (level, domain), offers in _by_domain(world, units, _levels(world, fit)).items():
        lacking = wanted - free.of(world, level, domain)
        if _most_gpus(offers) >= lacking:
            least = _least_cost(offers, lacking)
            out.append(Candidates(level, domain, _in_order(offers, wanted), least))
    if fit.whole is None:
        everywhere = [(unit, unit.gpus) for unit in units]
        lacking = wanted - free.all
        if _most_gpus(everywhere) >= lacking:
            least = _least_cost(everywhere, lacking)
            out.append(Candidates(-1, 0, list(units), least))
    # The whole cluster goes before its domains where it may be cheaper: then it bounds them.
    return sorted(out, key=lambda c: (c.least_cost, c.level, c.domain))


def by_price(unit: Unit, gpus: int, wanted: int) -> tuple[float, float, tuple[int, str, str, int]]:
    """The order in which units are taken: what each useful GPU costs; more than wanted is no use.

    Args:
        gpus: Those of the unit that are in the domain.
    """
    return unit.cost / max(1, min(gpus, wanted)), unit.cost, unit.key


def _in_order(offers: Iterable[Offer], wanted: int) -> list[Unit]:
    return [u for u, _ in sorted(offers, key=lambda o: by_price(o[0], o[1], wanted))]


def _levels(world: World, fit: Fit) -> list[int]:
    """Levels whose domains are looked at one by one."""
    topology = world.topology
    if fit.whole is not None:
        return [fit.whole]
    if fit.is_uniform and fit.least_pods <= 1:
        return []
    gpus = max((kind.gpus for kind in topology.kinds), default=0)
    out = []
    for depth, level in enumerate(topology.levels[:-1]):
        nodes = max(hi - lo for lo, hi in zip(level.node_lo, level.node_hi, strict=True))
        if len(level.names) > 1 and nodes * gpus >= fit.least_gpus:
            out.append(depth)
    return out


class _FreeGpus:
    """Free GPUs of usable nodes, summed over ranges of nodes."""

    def __init__(self, world: World) -> None:
        table = world.table
        usable = (
            0 if aside else mask.bit_count()
            for mask, aside in zip(table.free, table.aside, strict=True)
        )
        self._sums = [0, *accumulate(usable)]
        self.all = self._sums[-1]

    def of(self, world: World, level: int, domain: int) -> int:
        row = world.topology.levels[level]
        return self._sums[row.node_hi[domain]] - self._sums[row.node_lo[domain]]


def _most_gpus(offers: Iterable[Offer]) -> int:
    """GPUs that all of them can free at most; a place that is given up may be worth any number."""
    gpus = 0
    for unit, useful in offers:
        if unit.claims:
            return 1 << 62
        gpus += useful if unit.is_whole else 0
    return gpus


def _least_cost(offers: Sequence[Offer], lacking: int) -> float:
    """The GPUs that lack, at the cheapest prices there are for them.

    A gang of which members could leave alone is priced by those, for all of its GPUs in the domain.
    """
    if lacking <= 0 or any(unit.claims for unit, _ in offers):
        return 0.0
    elastic = {unit.job.uid for unit, _ in offers if not unit.is_whole}
    priced = sorted(
        (unit.cost / (unit.gpus if unit.job.uid in elastic else useful), useful)
        for unit, useful in offers
        if useful and unit.is_whole
    )
    cost = 0.0
    for price, gpus in priced:
        share = min(gpus, lacking)
        cost += price * share
        lacking -= share
        if not lacking:
            break
    return cost


def _by_domain(
    world: World, units: Iterable[Unit], levels: Sequence[int]
) -> dict[tuple[int, int], list[Offer]]:
    """What units could free in each named domain of some levels."""
    topology = world.topology
    rows = [(level, topology.place[level], topology.levels[level].is_blank) for level in levels]
    out: dict[tuple[int, int], list[Offer]] = {}
    for unit in units:
        held = list(_held(world, unit))
        for level, row, is_blank in rows:
            useful: dict[int, int] = {}
            for node, gpus in held:
                useful[row[node]] = useful.get(row[node], 0) + gpus
            for domain, gpus in useful.items():
                if not is_blank(domain):
                    out.setdefault((level, domain), []).append((unit, gpus))
    return out


def _held(world: World, unit: Unit) -> Iterator[tuple[int, int]]:
    """(node index, GPUs) of each pod or claim of a unit."""
    index = world.topology.node_index
    for held in unit.pods or unit.claims:
        if held.node in index:
            yield index[held.node], held.gpu_mask.bit_count()
