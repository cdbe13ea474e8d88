"""The best layout of a gang that fits: preferred rules, seconds, then what stays free."""

from dataclasses import dataclass, replace

from scheduler.errors import invariant
from scheduler.model.job import Mode
from scheduler.place.assign import Spots
from scheduler.place.bounds import cost_levels
from scheduler.place.improve import improve
from scheduler.place.layout import Layout, Measure, damage, lay_out, measure_of, spots_for
from scheduler.place.nesting import MANY_PODS, Nesting, nestings
from scheduler.place.uniform import Ask, Settled

LITTLE_GAIN = 0.02
"""Share of its seconds below which no further layout of a large gang is worth its price."""

SAME_SECONDS = 1.01
"""Predictions nearer than this are equal; what stays free decides between them."""


@dataclass(frozen=True, slots=True)
class Arranged:
    """A layout and how good it is known to be.

    Attributes:
        unmet: For each preferred rule, whether some group of it lies in several domains.
        spread: Domains touched by preferred rules' groups, most wanted first.
        seconds: Predicted communication between nodes of one step; None where nothing was compared.
        proven: No layout is better in spread, or more than 1 % better in seconds.
        gap: Where that is not proven, the most by which another could be faster, as a share of the
            seconds of this one; None where nothing was compared.
    """

    ask: Ask
    layout: Layout
    unmet: tuple[bool, ...] = ()
    spread: tuple[int, ...] = ()
    seconds: float | None = None
    proven: bool = True
    gap: float | None = None


def arrange(ask: Ask, settled: Settled) -> Arranged:
    """Lay out the gang in each way worth comparing and take the best."""
    ways, alone = nestings(ask, settled)
    if len(ways) == 1 and alone and not settled.broken:
        return Arranged(ask, lay_out(ask, settled.pods, ways[0]), _unmet(ask, settled))
    measure = measure_of(ask, settled.pods)
    best = _best_way(ask, settled.pods, ways, measure, alone=alone)
    if not best.proven:
        found = improve(ask, settled, measure, best.layout)
        if found.layout is not None:
            best = _best(ask, [best, judged(ask, measure, found.layout, alone=alone)])
        if found.least_s is not None:
            best = _known(best, found.least_s)
    return replace(best, unmet=_unmet(ask, settled))


def _best_way(
    ask: Ask, pods: int, ways: list[Nesting], measure: Measure, *, alone: bool
) -> Arranged:
    """The best nesting. Until it is known, nodes are chosen no further than they are priced."""
    coarse = len(ways) > 1 and pods > MANY_PODS and ask.view.takes_whole_nodes
    stop = _priced_level(ask, measure) if coarse else None
    tried: list[tuple[Arranged, Nesting]] = []
    places: dict[tuple[object, ...], Spots] = {}
    for way in ways:
        key = (way.bounds.whole, *(unit[:2] for unit in way.bounds.units), way.soft, way.even)
        if key not in places:
            places[key] = spots_for(ask, pods, way, stop)
        layout = lay_out(ask, pods, way, places[key])
        if any(layout == other.layout for other, _ in tried):
            continue
        tried.append((judged(ask, measure, layout, alone=alone), way))
        if tried[-1][0].proven:
            break
    best = _best(ask, [one for one, _ in tried])
    way = next(way for one, way in tried if one is best)
    little = best.gap is not None and best.gap <= LITTLE_GAIN
    if ask.price is not None and not (alone or best.proven or way.soft or little):
        # A domain with few pods of the gang has few uplinks for it: shared evenly it may be faster.
        level = Nesting(way.bounds, way.chain, even=True)
        layout = lay_out(ask, pods, level, spots_for(ask, pods, level, stop))
        if layout != best.layout:
            tried.append((judged(ask, measure, layout, alone=alone), level))
            best = _best(ask, [best, tried[-1][0]])
            way = level if best is tried[-1][0] else way
    if stop is None:
        return best
    return replace(best, layout=lay_out(ask, pods, way))


def _priced_level(ask: Ask, measure: Measure) -> int:
    """The innermost level at which it makes a difference where a pod lies, nodes aside."""
    last = len(ask.view.topology.levels) - 1
    levels = (*cost_levels(ask.view.topology, ask.node_type), *(row[0] for row in measure.rows))
    return max((level for level in levels if level < last), default=last)


def _known(best: Arranged, least_s: float) -> Arranged:
    """The layout beside the least that any can take."""
    seconds = best.seconds or 0.0
    if seconds <= least_s * SAME_SECONDS:
        return replace(best, proven=True, gap=None)
    return replace(best, gap=1.0 - least_s / seconds)


def _unmet(ask: Ask, settled: Settled) -> tuple[bool, ...]:
    broken = {rule for rule, _ in settled.broken}
    return tuple(rule in broken for rule in ask.rules if rule.mode is Mode.PREFERRED)


def judged(ask: Ask, measure: Measure, layout: Layout, *, alone: bool) -> Arranged:
    """A layout with its worth; `alone` = no layout can be faster than another."""
    spread = measure.of(ask, layout.nodes)
    if alone or ask.price is None:
        return Arranged(ask, layout, (), spread, None, spread == measure.least)
    seconds = ask.price.seconds(layout.nodes, layout.masks)
    least = ask.price.least_s()
    fast = seconds <= least * SAME_SECONDS
    gap = None if fast else 1.0 - least / seconds
    return Arranged(ask, layout, (), spread, seconds, fast and spread == measure.least, gap)


def _best(ask: Ask, found: list[Arranged]) -> Arranged:
    invariant(found, "a gang that fits has no layout")
    spread = min(one.spread for one in found)
    rest = [one for one in found if one.spread == spread]
    limit = min(one.seconds or 0.0 for one in rest) * SAME_SECONDS
    rest = [one for one in rest if (one.seconds or 0.0) <= limit]
    if len(rest) == 1:
        return rest[0]
    return min(rest, key=lambda one: damage(ask, one.layout.nodes))
