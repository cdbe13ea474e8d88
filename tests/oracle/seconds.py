"""The least predicted seconds of a small gang, by trying every layout that is different.

The cost model is the one thing taken from the scheduler: it says what a layout costs, not which is
chosen.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from math import prod

from scheduler.cost.step import predict
from scheduler.topology.tree import Topology
from tests.oracle.cases import Case, world_of
from tests.oracle.exact import Bin, Problem, Spread, pod_groups
from tests.oracle.layouts import layouts

EQUAL = 1.01
"""Predicted seconds this close are equal, as the design has it."""

LAYOUT_LIMIT = 20_000
"""Layouts looked at before a case is left unjudged; most cases have fewer than a hundred."""

PRICE_LIMIT = 3_000
"""Different layouts priced before a case is left unjudged."""


class TooMany(Exception):
    """A case with more layouts than are worth the time."""


@dataclass(slots=True)
class Pricer:
    """What layouts of one problem cost; those alike in all that is priced are priced once."""

    case: Case
    problem: Problem
    topology: Topology
    seen: dict[object, float]

    def price(self, nodes: Sequence[str], masks: tuple[int, ...] | None) -> float:
        indices = [self.topology.node_index[name] for name in nodes]
        dead = tuple(self.topology.dead_rails.get(i, 0) for i in indices)
        key = (
            masks,
            dead,
            # No two pods of a parallel gang share a node, so the last level says nothing.
            tuple(_renamed([row[i] for i in indices]) for row in self.topology.place[:-1]),
        )
        if key not in self.seen:
            if len(self.seen) >= PRICE_LIMIT:
                raise TooMany
            self.seen[key] = seconds_between(self.case, self.problem, self.topology, indices, masks)
        return self.seen[key]


def seconds_between(
    case: Case,
    problem: Problem,
    topology: Topology,
    nodes: Sequence[int],
    masks: Sequence[int] | None,
) -> float:
    """Predicted communication between nodes, that of tensor groups with it where one is cut.

    Tensor groups are taken to talk inside their scale-up domain; one that does not costs its time.
    """
    found = predict(
        case.spec, topology, problem.kind, problem.gpus, nodes, masks, topology.dead_rails
    )
    sizes = case.spec.parallelism
    if sizes is None or sizes.tp == 1:
        return found.inter_node_s
    place = topology.place[case.levels.index(problem.kind.scale_up or case.scale_up)]
    domains = [place[node] for node in nodes]
    groups = pod_groups(sizes, problem.gpus, "tp")
    if all(len({domains[pod] for pod in group}) == 1 for group in groups):
        return found.inter_node_s
    return found.inter_node_s + found.axes["tp"].seconds


def _renamed(domains: Sequence[int]) -> tuple[int, ...]:
    """The same sharing of domains, whatever their names."""
    numbers: dict[int, int] = {}
    return tuple(numbers.setdefault(domain, len(numbers)) for domain in domains)


def least_seconds(
    case: Case, problem: Problem, spread: Spread, topology: Topology, found_s: float
) -> float:
    """The best of all layouts that keep the rules and spread so little.

    Where nodes have different GPUs free or rails dead, which are used is a choice too. None is
    faster than the same GPUs on every node, all rails alive; only where `found_s` is slower than
    that are all choices tried.

    Args:
        found_s: What is to be judged.

    Raises:
        TooMany: If there are too many layouts, or too many ways to choose GPUs.
    """
    split = by_free_mask(case, problem)
    if any(bin.dead for bin in split.bins):
        whole = world_of(replace(case, nodes=tuple(replace(n, dead_rails=0) for n in case.nodes)))
        pricer = Pricer(case, problem, whole.topology, {})
    else:
        pricer = Pricer(case, problem, topology, {})
    best = min(pricer.price(_nodes(problem, at), None) for at in _some(problem, spread))
    alike = len({(bin.free, bin.dead) for bin in split.bins}) == 1
    if found_s <= EQUAL * best or (alike and not split.bins[0].dead):
        return best
    pricer = Pricer(case, problem, topology, {})
    return min(
        pricer.price(_nodes(split, at), masks)
        for at in _some(split, spread)
        for masks in _masks(case, split, at)
    )


def _some(problem: Problem, spread: Spread) -> Iterator[tuple[int, ...]]:
    for number, chosen in enumerate(layouts(problem, spread)):
        if number >= LAYOUT_LIMIT:
            raise TooMany
        yield chosen


def by_free_mask(case: Case, problem: Problem) -> Problem:
    """The same problem with a bin for each place, each set of free GPUs and of dead rails."""
    nodes = {node.name: node for node in case.nodes}
    bins = []
    for bin in problem.bins:
        alike: dict[tuple[int, int], list[str]] = {}
        for name in bin.nodes:
            alike.setdefault((nodes[name].free, nodes[name].dead_rails), []).append(name)
        each = bin.room // len(bin.nodes)
        bins += [
            Bin(bin.domains, each * len(names), tuple(names), free, dead)
            for (free, dead), names in alike.items()
        ]
    return replace(problem, bins=tuple(bins))


def _nodes(problem: Problem, chosen: Sequence[int]) -> list[str]:
    """A node for each pod; nodes of one bin are alike."""
    unused = {b: iter(problem.bins[b].nodes) for b in set(chosen)}
    return [next(unused[b]) for b in chosen]


def _masks(case: Case, problem: Problem, chosen: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """GPUs of each pod: of nodes that are whole and well, only what others may be bound to."""
    gpus, whole = problem.gpus, (1 << problem.kind.gpus) - 1
    bound = {(1 << gpus) - 1}
    options: list[list[int]] = [[] for _ in chosen]
    for pod, b in enumerate(chosen):
        bin = problem.bins[b]
        if bin.free != whole or bin.dead:
            avoided = bin.dead if case.spec.rails_required and len(chosen) > 1 else 0
            options[pod] = _subsets(bin.free & ~avoided, gpus)
            bound.update(options[pod])
    options = [found or sorted(bound) for found in options]
    if prod(len(masks) for masks in options) > PRICE_LIMIT:
        raise TooMany
    yield from product(*options)


def _subsets(free: int, gpus: int) -> list[int]:
    bits = [1 << gpu for gpu in range(free.bit_length()) if free >> gpu & 1]
    return [sum(chosen) for chosen in combinations(bits, gpus)]
