"""Which axis is innermost in the fabric: the ways to nest a gang's groups in the domains."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

from scheduler.model.job import JOB_GROUP
from scheduler.parallel.units import segment_group
from scheduler.place.bounds import Bounds, Wants, cost_levels
from scheduler.place.pieces import Tiling
from scheduler.place.spread import Soft
from scheduler.place.uniform import Ask, Settled, bounds_for, harden

PERMUTED_AXES = 3
"""Axes of which every order is tried; with more, each is tried as the innermost one."""

FEW_PODS = 16
"""Pods up to which every order is also laid out without keeping any group whole."""

MANY_PODS = 128
"""Pods from which on fewer orders are laid out, since each costs time in proportion to them."""

Chain = tuple[frozenset[str], ...]
Rows = frozenset[tuple[int, frozenset[str]]]


@dataclass(frozen=True, slots=True)
class Nesting:
    """One way to lay out a gang.

    Attributes:
        chain: Kinds of groups whose units are consecutive in the domains' order, outermost first.
        soft: Units that are kept whole in a domain as long as they fit.
        even: Domains that are not filled share what is left evenly.
        tiling: Takes the place of all of these where the gang is cut into tiles.
    """

    bounds: Bounds
    chain: Chain
    soft: Soft | None = None
    even: bool = False
    tiling: Tiling | None = None


def nestings(ask: Ask, settled: Settled) -> tuple[list[Nesting], bool]:
    """Ways to nest the gang, the most hopeful first; and whether no other could be faster."""
    topology, pods = ask.view.topology, settled.pods
    last = len(topology.levels) - 1
    if pods == 1:
        return [_nesting(ask, _first(ask, settled.wants, (last,), JOB_GROUP, pods), pods, ())], True
    inmost = last - 1 if ask.view.shape.single else last
    costly = tuple(c for c in cost_levels(topology, ask.node_type) if c <= inmost)
    inside = range(inmost, costly[0] - 1, -1) if costly else range(0)
    wants = _first(ask, settled.wants, inside, JOB_GROUP, pods)
    outside = [d for d in range(inmost, -1, -1) if d not in costly and d not in inside]
    together = not costly or _kept(wants, inside, JOB_GROUP)
    if together:
        # All of it fits one domain as tight as any group could ask for, so every group does.
        if not costly:
            wants = _first(ask, wants, outside, JOB_GROUP, pods)
        found = [_nesting(ask, wants, pods, ask.units.soft_groups)]
    else:
        found = list(_different(ask, settled, costly, outside))
    return [way for nest in found for way in _for_broken(ask, settled, nest)], together


def _order(ask: Ask) -> tuple[str, ...]:
    """Axes worth keeping together, the one with most to gain first."""
    axes = [group for group in ask.units.soft_groups if group != JOB_GROUP]
    price = ask.price
    if price is not None:
        axes.sort(key=lambda axis: (-price.weight(axis), axis))
    return tuple(axes)


def _different(
    ask: Ask, settled: Settled, costly: Sequence[int], outside: Sequence[int]
) -> Iterator[Nesting]:
    """Nestings that differ, from hardening groups in different orders."""
    pods, wants = settled.pods, settled.wants
    whole = _first(ask, wants, costly, JOB_GROUP, pods)
    even = _segmented(ask, wants, costly[0], pods)
    seen: set[tuple[object, ...]] = set()
    steps: dict[tuple[Rows, str], Wants] = {}

    def with_group(reached: Wants, group: str) -> Wants:
        """Orders meet: what the same wants lead to is looked up once."""
        step = (frozenset(reached.items()), group)
        if step not in steps:
            steps[step] = _first(ask, reached, costly, group, pods)
        return steps[step]

    many = pods > MANY_PODS
    for number, order in enumerate(_orders(_order(ask), many=many)):
        starts = [(even, order)] if even is not wants else []
        starts.append((wants, order))
        if whole is not wants:
            starts.append((whole, order))
        if pods <= FEW_PODS or number == 0:
            starts.append((whole, ()))
        for start, axes in starts:
            reached = start
            for axis in (*axes, JOB_GROUP):
                reached = with_group(reached, axis)
            state = (frozenset(reached.items()), order)
            if state in seen:
                continue
            seen.add(state)
            nest = _nesting(ask, _first(ask, reached, outside, JOB_GROUP, pods), pods, order)
            key = (nest.bounds.whole, nest.bounds.units, nest.chain)
            if key not in seen:
                seen.add(key)
                yield nest


def _segmented(ask: Ask, wants: Wants, level: int, pods: int) -> Wants:
    """The wants and equal segments in the scale-up domains, where these have several nodes.

    Of 18 trays a gang of 64 then takes 16 in each of four racks, and leaves two to others.
    """
    if ask.price is None or level == len(ask.view.topology.levels) - 1:
        return wants
    room = ask.view.buckets(level).largest
    size = next((n for n in range(min(room, pods), 1, -1) if pods % n == 0), 1)
    return _first(ask, wants, (level,), segment_group(size), pods) if size > 1 else wants


def _orders(axes: tuple[str, ...], *, many: bool) -> Iterator[tuple[str, ...]]:
    if not axes or (len(axes) <= PERMUTED_AXES and not many):
        yield from permutations(axes)
        return
    yield from ((first, *(a for a in axes if a != first)) for first in axes)


def _first(ask: Ask, wants: Wants, levels: Sequence[int], group: str, pods: int) -> Wants:
    """The wants with the group kept in the first level that allows it, if any does."""
    depth = len(ask.view.topology.levels)
    for level in levels:
        if _kept(wants, range(level, depth), group):
            return wants
        hardened = harden(ask, wants, level, group, pods)
        if hardened is not None:
            return hardened
    return wants


def _kept(wants: Wants, levels: Sequence[int], group: str) -> bool:
    """Whether the group is kept together in one domain of one of these levels."""
    for level in levels:
        groups = wants.get(level)
        if groups and (group in groups or JOB_GROUP in groups):
            return True
    return False


def _nesting(ask: Ask, wants: Wants, pods: int, order: tuple[str, ...]) -> Nesting:
    bounds = bounds_for(ask, wants, pods)
    chain = list(bounds.chain())
    order = tuple(axis for axis in order if axis != JOB_GROUP)
    for count in range(len(order) - 1, 0, -1):
        # Also where no domain holds whole groups, neighbours on an inner axis lie side by side.
        link = frozenset(order[:count])
        if link not in chain:
            chain.append(link)
    return Nesting(bounds, tuple(chain))


def _for_broken(ask: Ask, settled: Settled, nest: Nesting) -> Iterator[Nesting]:
    """The nesting, and some that cut few groups of the first preferred rule that cannot hold."""
    yield nest
    if not settled.broken or settled.pods != ask.units.pods:
        return
    rule, level = settled.broken[0]
    if level is None:
        return
    chain = nest.chain
    outer = frozenset({rule.group}) | (nest.bounds.chain() or (frozenset(),))[0]
    unit = ask.units.unit(outer)
    if unit >= settled.pods:
        # What is counted first is the named level; that the levels above be few comes after.
        bounds = bounds_for(ask, settled.stated, settled.pods)
        if not bounds.units or bounds.units[0][0] >= level:
            yield Nesting(bounds, chain, (level, settled.pods))
        return
    longer = Nesting(nest.bounds, (outer, *(link for link in chain if link != outer)))
    if longer.chain != chain:
        yield longer
    if unit <= ask.view.buckets(level).largest:
        yield Nesting(longer.bounds, longer.chain, (level, unit))
