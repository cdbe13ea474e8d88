"""Gangs of equal pods: harden one preference after another for as long as the counts allow it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from scheduler.cluster.view import View
from scheduler.model.job import JOB_GROUP, Mode, Rule
from scheduler.model.node import NodeType
from scheduler.parallel.units import Units
from scheduler.place.assign import Spot, assign
from scheduler.place.bounds import Bounds, Wants, add_want, bounds_of, cost_levels, level_of
from scheduler.place.room import Room, Scope
from scheduler.place.spread import Soft, choose


@dataclass(frozen=True, slots=True)
class Ask:
    """Equal pods that are to be placed together.

    Attributes:
        view: Counts of the pods' shape.
        units: The pods wanted and their groups.
        rules: Required and preferred, with groups as `units` names them.
        least: Pods that must be placed; at most `units.pods`.
        step: Pods come in multiples of this (the size of a part).
        scope: Only inside this domain; None = anywhere.
    """

    view: View
    units: Units
    rules: tuple[Rule, ...]
    node_type: NodeType | None
    least: int
    step: int = 1
    scope: Scope | None = None


@dataclass(frozen=True, slots=True)
class Settled:
    """Which pods get a place and what will hold of it.

    Attributes:
        bounds: Required rules and every preference that could be kept.
        unmet: For each preference in the order of its weight, whether it could not be kept; smaller
            is better when compared as a whole.
        broken: Preferred rules that will not hold.
    """

    pods: int
    bounds: Bounds
    unmet: tuple[bool, ...] = ()
    broken: tuple[Rule, ...] = field(default=())


def required_wants(ask: Ask) -> Wants | Rule:
    """Required rules by level; or a rule whose level the map does not have."""
    wants: Wants = {}
    for rule in ask.rules:
        if rule.mode is not Mode.REQUIRED:
            continue
        level = level_of(rule.within, ask.view.topology, ask.node_type)
        if level is None:
            return rule
        wants = add_want(wants, level, {rule.group})
    return wants


def settle(ask: Ask, wants: Wants) -> Settled | None:
    """How many pods fit under the required rules, and which preferences hold beside them."""
    units = ask.units
    most = Room(ask.view, bounds_of(wants, units), ask.scope).most()
    pods = min(units.pods, most - most % ask.step)
    if pods < ask.least or pods == 0:
        return None
    broken: list[Rule] = []
    unmet: list[bool] = []
    for rule in ask.rules:
        if rule.mode is Mode.PREFERRED:
            level = level_of(rule.within, ask.view.topology, ask.node_type)
            if level is None:
                broken.append(rule)
                continue
            for depth in range(level, -1, -1):
                hardened = _try(ask, wants, depth, rule.group, pods)
                unmet.append(hardened is None)
                if hardened is not None:
                    wants = hardened
                    break
                if depth == level:
                    broken.append(rule)
    for choices in _by_traffic(ask, wants, pods):
        for depth, group in choices:
            hardened = _try(ask, wants, depth, group, pods)
            unmet.append(hardened is None)
            if hardened is not None:
                wants = hardened
                break
    return Settled(pods, _bounds(ask, wants, pods), tuple(unmet), tuple(broken))


def _bounds(ask: Ask, wants: Wants, pods: int) -> Bounds:
    """Bounds for so many of the pods: a unit that holds all that start is the whole gang."""
    bounds = bounds_of(wants, ask.units)
    if pods == ask.units.pods or not bounds.units:
        return bounds
    inner = tuple(u for u in bounds.units if u[1] < pods)
    whole = max((u[0] for u in bounds.units if u[1] >= pods), default=bounds.whole)
    return Bounds(whole, inner)


def _try(ask: Ask, wants: Wants, level: int, group: str, pods: int) -> Wants | None:
    buckets = ask.view.buckets
    if group == JOB_GROUP and pods > buckets(level).largest:
        return None
    harder = add_want(wants, level, {group})
    bounds = _bounds(ask, harder, pods)
    if any(unit > buckets(at).largest for at, unit, _ in bounds.units):
        return None
    if bounds.whole is not None and pods > buckets(bounds.whole).largest:
        return None
    return harder if Room(ask.view, bounds, ask.scope).fits(pods) else None


def _by_traffic(ask: Ask, wants: Wants, pods: int) -> Iterator[list[tuple[int, str]]]:
    """Preferences nobody stated: lists of (level, group), of which the first possible one is kept.

    Heavy axes first, each in the innermost level whose crossing costs time; then the gang as a
    whole; then the levels that cost nothing, since a compact gang leaves more room for the next.
    """
    last = len(ask.view.topology.levels) - 1
    if pods == 1:
        yield [(last, JOB_GROUP)]
        return
    inmost = last - 1 if ask.view.shape.single else last
    costly = tuple(c for c in cost_levels(ask.view.topology, ask.node_type) if c <= inmost)
    inside = range(inmost, costly[0] - 1, -1) if costly else ()
    together = next((d for d in inside if _try(ask, wants, d, JOB_GROUP, pods) is not None), None)
    groups = tuple(g for g in ask.units.soft_groups if g != JOB_GROUP)
    if together is not None:
        # All of it fits one domain as tight as any group could ask for, so every group does.
        yield [(together, JOB_GROUP)]
    else:
        for group in (*groups, JOB_GROUP):
            yield [(level, group) for level in costly]
    free = [d for d in range(inmost, -1, -1) if d not in costly and d != together]
    if free and (together is None or together in costly):
        for group in groups if together is not None else (JOB_GROUP, *groups):
            yield [(level, group) for level in free]


def place_settled(ask: Ask, settled: Settled) -> list[tuple[int, Spot]]:
    """(pod index, spot) of every pod placed, by pod index."""
    best = _laid_out(ask, settled, None, settled.bounds.chain())
    cut = [rule for rule in settled.broken if settled.pods == ask.units.pods]
    for rule in cut[:1]:
        best = _least_cut(ask, settled, rule, best)
    return best


def _laid_out(
    ask: Ask, settled: Settled, soft: Soft | None, chain: tuple[frozenset[str], ...]
) -> list[tuple[int, Spot]]:
    room = Room(ask.view, settled.bounds, ask.scope)
    spots = assign(ask.view, choose(room, settled.pods, soft))
    order: Sequence[int] = ask.units.order(chain)
    return sorted(zip(order[: settled.pods], spots, strict=True))


def _least_cut(
    ask: Ask, settled: Settled, rule: Rule, plain: list[tuple[int, Spot]]
) -> list[tuple[int, Spot]]:
    """The layout with the fewest domains summed over the groups of an unmet preferred rule."""
    level = level_of(rule.within, ask.view.topology, ask.node_type)
    if level is None:
        return plain
    chain = settled.bounds.chain()
    outer = frozenset({rule.group}) | (chain[0] if chain else frozenset())
    unit = ask.units.unit(outer)
    if unit >= settled.pods:
        return plain
    longer = (outer, *chain)
    choices = [
        plain,
        _laid_out(ask, settled, None, longer),
        _laid_out(ask, settled, (level, unit), longer),
    ]
    return min(choices, key=lambda layout: _domains_touched(ask, layout, rule.group, level))


def _domains_touched(ask: Ask, layout: list[tuple[int, Spot]], group: str, level: int) -> int:
    """Domains of a level, summed over the groups that lie in them."""
    place = ask.view.topology.place[level]
    domains = np.array([place[node] for _, (node, _) in layout], dtype=np.int64)
    labels = ask.units.labels(group)
    return int(np.unique(labels * (int(domains.max()) + 1) + domains).size)
