"""A gang laid out: a node and a GPU mask for each pod, and what such a layout is worth."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from scheduler.errors import invariant
from scheduler.model.job import Mode
from scheduler.parallel.remembered import LARGE, SMALL_WORLD
from scheduler.parallel.units import Digits, Units
from scheduler.place.assign import Spots, assign
from scheduler.place.bounds import level_of
from scheduler.place.map_key import MapKey
from scheduler.place.nesting import Chain, Nesting
from scheduler.place.pieces import cut
from scheduler.place.room import Room
from scheduler.place.spread import choose
from scheduler.place.uniform import Ask

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Layout:
    """Nodes and masks by pod index."""

    nodes: Sequence[int]
    masks: Sequence[int]


def spots_for(ask: Ask, pods: int, nest: Nesting, stop: int | None = None) -> Spots | None:
    """Places for so many pods in tree order, as the nesting's bounds say.

    Args:
        stop: Level inside whose domains any nodes will do; None = the best ones.

    Returns:
        None where the gang cannot be cut as the nesting would have it.
    """
    room = Room(ask.view, nest.bounds, ask.scope)
    if stop is not None and nest.bounds.units:
        stop = max(stop, nest.bounds.units[-1][0])
    if nest.tiling is not None:
        pieces = cut(room, pods, nest.tiling, stop)
        return None if pieces is None else assign(ask.view, pieces)
    return assign(ask.view, choose(room, pods, nest.soft, stop, even=nest.even))


def lay_out(ask: Ask, pods: int, nest: Nesting, spots: Spots | None = None) -> Layout:
    """So many pods along the domains in tree order, as the nesting says."""
    found = spots_for(ask, pods, nest) if spots is None else spots
    invariant(found is not None, "a gang is laid out as it cannot be cut")
    nodes, masks = found or ([], [])
    digits = () if nest.tiling is None else nest.tiling.digits
    spot_of_pod = _spots_of_pods(ask.units, nest.chain, digits, pods)
    by_pod = list(map(nodes.__getitem__, spot_of_pod))
    if ask.view.takes_whole_nodes:
        return Layout(by_pod, masks)
    return Layout(by_pod, list(map(masks.__getitem__, spot_of_pod)))


def _spots_of_pods(units: Units, chain: Chain, digits: Digits, pods: int) -> Sequence[int]:
    """For each pod its place in the domains' order: what the nesting asks for, the other way."""
    if pods <= SMALL_WORLD:
        return _few_spots(units, chain, digits, pods)
    key = (_spots, units, chain, digits, pods)
    return LARGE.get(key, lambda: _spots(units, chain, digits, pods))


@lru_cache(maxsize=128)
def _few_spots(units: Units, chain: Chain, digits: Digits, pods: int) -> Sequence[int]:
    return _spots(units, chain, digits, pods)


def _spots(units: Units, chain: Chain, digits: Digits, pods: int) -> Sequence[int]:
    spots = [0] * pods
    order = units.tile_order(digits) if digits else units.order(chain)[:pods]
    for spot, pod in enumerate(order):
        spots[pod] = spot
    return spots


@dataclass(frozen=True, slots=True)
class Measure:
    """How well preferred rules are kept, counted in domains.

    Attributes:
        rows: (level index, groups, pods): what is counted, most wanted first; the two arrays say
            which pods are in which group.
        least: The fewest domains that each row could come to.
    """

    rows: tuple[tuple[int, Numbers, Numbers], ...]
    least: tuple[int, ...]

    def of(self, ask: Ask, nodes: Sequence[int]) -> tuple[int, ...]:
        """Domains touched, summed over the groups, for each row."""
        if not self.rows:
            return ()
        at = np.asarray(nodes, dtype=np.int64)
        by_level = {level: _domains(ask, level, at) for level, _, _ in self.rows}
        return tuple(_touched(groups, by_level[level][pods]) for level, groups, pods in self.rows)


def measure_of(ask: Ask, pods: int, *, across_types: bool = False) -> Measure:
    """Preferred rules as listed: at the named level, then at each level above.

    Args:
        across_types: Count nodes too where each pod has one of its own: on another type of node
            the gang may have fewer.
    """
    rows: list[tuple[int, Numbers, Numbers]] = []
    least: list[int] = []
    for rule in ask.rules:
        if rule.mode is not Mode.PREFERRED:
            continue
        level = level_of(rule.within, ask.view.topology, ask.node_type)
        if level is None:
            continue
        groups, members = ask.units.memberships(rule.group)
        if pods < ask.units.pods:
            groups, members = groups[members < pods], members[members < pods]
        sizes = np.bincount(groups)
        if (
            ask.view.shape.single
            and not across_types
            and level == len(ask.view.topology.levels) - 1
        ):
            level -= 1  # no node holds two of these pods, in no layout
        for depth in range(level, -1, -1):
            rows.append((depth, groups, members))
            least.append(sum(_fewest(ask, depth, int(size)) for size in sizes if size))
    return Measure(tuple(rows), tuple(least))


def _fewest(ask: Ask, level: int, pods: int) -> int:
    """Domains that a group of so many pods touches at least, if it were alone."""
    buckets, count = ask.view.buckets(level), 0
    for held in reversed(buckets.counts):
        number = buckets.size(held)
        if held * number >= pods:
            return count + -(-pods // held)
        count, pods = count + number, pods - held * number
        if not held:
            break
    return count + 1


def _domains(ask: Ask, level: int, nodes: Numbers) -> Numbers:
    """The domain of each pod; one in a blank domain is nobody's neighbour."""
    topology = ask.view.topology
    found: Numbers = _places(MapKey(topology))[level][nodes]
    if topology.blanks[level]:
        blank, count = topology.levels[level].is_blank, len(topology.levels[level].names)
        alone = [count + pod if blank(domain) else domain for pod, domain in enumerate(found)]
        return np.array(alone, dtype=np.int64)
    return found


@lru_cache(maxsize=4)
def _places(of: MapKey) -> Numbers:
    """The domain of each node at each level, (levels, nodes)."""
    return np.array(of.topology.place, dtype=np.int64)


def _touched(groups: Numbers, domains: Numbers) -> int:
    pairs = groups * (int(domains.max()) + 1) + domains
    pairs.sort()
    return 1 + int(np.count_nonzero(pairs[1:] != pairs[:-1]))


def damage(ask: Ask, nodes: Sequence[int]) -> tuple[int, ...]:
    """What is left less useful: domains touched and pods free in them, outermost level first."""
    out: list[int] = []
    for level in range(len(ask.view.topology.levels) - 1):
        place, counts = ask.view.topology.place[level], ask.view.counts[level]
        touched = set(map(place.__getitem__, nodes))
        out += (len(touched), sum(map(counts.__getitem__, touched)))
    return tuple(out)
