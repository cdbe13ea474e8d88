"""The best layout of a gang that fits: preferred rules, seconds, then what stays free."""

from dataclasses import dataclass, replace

from scheduler.errors import invariant
from scheduler.model.job import Mode
from scheduler.place.assign import Spots
from scheduler.place.bounds import cost_levels
from scheduler.place.improve import improve
from scheduler.place.layout import Layout, Measure, damage, lay_out, measure_of, spots_for
from scheduler.place.nesting import MANY_PODS, Nesting, nestings
from scheduler.place.tiles import elsewhere, evenly, plain, tilings
from scheduler.place.uniform import Ask, Settled

CUT_WORTH = 0.08
"""Share of its seconds that a gang must gain where its heaviest axis is cut though it need not be:
what stays inside a domain meets no traffic of others, which predictions know little of."""

TILINGS_TRIED, PODS_TRIED = 8, 2_048
"""Ways to cut a gang into tiles that are laid out and priced, and the pods of all these together:
each costs time in proportion to them."""

PLAIN_TRIED = 3
"""Layouts in the order of nodes that are priced however many pods they have."""

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


Way = tuple[Arranged, Nesting]


def arrange(ask: Ask, settled: Settled) -> Arranged:
    """Lay out the gang in each way worth comparing and take the best."""
    ways, alone = nestings(ask, settled)
    if len(ways) == 1 and alone and not settled.broken:
        return Arranged(ask, lay_out(ask, settled.pods, ways[0]), _unmet(ask, settled))
    measure = measure_of(ask, settled.pods)
    best = _best_way(ask, settled, ways, measure, alone=alone)
    if not best.proven:
        found = improve(ask, settled, measure, best.layout)
        if found.layout is not None:
            best = _best(ask, [best, judged(ask, measure, found.layout, alone=alone)])
        if found.least_s is not None:
            best = _known(best, found.least_s)
    return replace(best, unmet=_unmet(ask, settled))


def _best_way(
    ask: Ask, settled: Settled, ways: list[Nesting], measure: Measure, *, alone: bool
) -> Arranged:
    """The best nesting. Until it is known, nodes are chosen no further than they are priced."""
    pods = settled.pods
    coarse = len(ways) > 1 and pods > MANY_PODS and ask.view.takes_whole_nodes
    stop = _priced_level(ask, measure) if coarse else None
    tried: list[tuple[Arranged, Nesting]] = []
    places: dict[tuple[object, ...], Spots | None] = {}
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
    if ask.price is not None and not (alone or best.proven or little):
        best, way = _best_tiling(ask, settled, (best, way), measure, stop)
    if stop is None:
        return best
    return replace(best, layout=lay_out(ask, pods, way))


def _best_tiling(ask: Ask, settled: Settled, first: Way, measure: Measure, stop: int | None) -> Way:
    """The best so far or, where links are narrow, a better one that is cut into tiles."""
    best = _best_of_tiled(ask, settled, first, measure, stop, cut_heaviest=False)
    if not best[0].proven:
        best = _best_of_plain(ask, settled, best, measure, stop)
    if best[0].proven:
        return best
    worth = (1.0 - CUT_WORTH) * (best[0].seconds or 0.0)
    limit = replace(best[0], seconds=worth), best[1]
    cut = _best_of_tiled(ask, settled, limit, measure, stop, cut_heaviest=True)
    return best if cut is limit else cut


def _best_of_plain(
    ask: Ask, settled: Settled, best: Way, measure: Measure, stop: int | None
) -> Way:
    """The best so far or a better one whose ranks follow the order of nodes."""
    seen: list[Spots] = []
    limit = max(PLAIN_TRIED, PODS_TRIED // settled.pods)
    for way in plain(ask, settled):
        spots = spots_for(ask, settled.pods, way, stop)
        if spots is None or spots in seen:
            continue  # ranks are in the same order in all of these
        seen.append(spots)
        layout = lay_out(ask, settled.pods, way, spots)
        best = _better(ask, best, (judged(ask, measure, layout, alone=False), way))
        if best[0].proven or len(seen) >= limit:
            break
    return best


def _better(ask: Ask, one: Way, other: Way) -> Way:
    return one if _best(ask, [one[0], other[0]]) is one[0] else other


def _best_of_tiled(
    ask: Ask,
    settled: Settled,
    best: Way,
    measure: Measure,
    stop: int | None,
    *,
    cut_heaviest: bool,
) -> Way:
    """The best of some tilings, looked at for as long as counts let hope that one is better."""
    tried, first = 0, best
    limit = max(1, min(TILINGS_TRIED, PODS_TRIED // settled.pods))
    for hope_s, way in tilings(ask, settled, cut_heaviest=cut_heaviest):
        if best[0].proven or tried >= limit or hope_s >= (best[0].seconds or 0.0):
            break
        found = _tiled(ask, settled, way, measure, stop)
        if found is None:
            other = elsewhere(ask, way)
            found = None if other is None else _tiled(ask, settled, other, measure, stop)
        if found is not None:
            tried += 1
            best = _better(ask, best, found)
    return best if best is first else _varied(ask, settled, best, measure, stop)


def _varied(ask: Ask, settled: Settled, best: Way, measure: Measure, stop: int | None) -> Way:
    """The way, or a better one with other domains or other shares of them."""
    for vary in (elsewhere, evenly):
        other = None if best[0].proven else vary(ask, best[1])
        found = None if other is None else _tiled(ask, settled, other, measure, stop)
        best = best if found is None else _better(ask, best, found)
    return best


def _tiled(
    ask: Ask, settled: Settled, way: Nesting, measure: Measure, stop: int | None
) -> Way | None:
    """A way laid out; None where the gang cannot be cut so."""
    spots = spots_for(ask, settled.pods, way, stop)
    if spots is None:
        return None
    layout = lay_out(ask, settled.pods, way, spots)
    return judged(ask, measure, layout, alone=False), way


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
    seconds = ask.seconds(layout.nodes, layout.masks)
    least = ask.least_s()
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
