"""Gangs cut into tiles of their grid where the uplinks of a level are narrow.

A domain has as many uplinks for a gang as the gang has GPUs in it. A ring that passes through a
domain with m pods of its own leaves it once, so it asks 1/m of their uplinks; a gang whose pods
lie there one by one asks for all. So each domain gets a tile of the grid of axes, such as two
stages of three replicas each, whose sides are as long as uplinks are narrow; and none gets less
than so many pods.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate, islice, product
from math import prod
from operator import mul

from scheduler.cost.constants import CONSTANTS
from scheduler.cost.fabric import Narrow, fabric_for
from scheduler.model.job import JOB_GROUP
from scheduler.parallel.units import Digits
from scheduler.place.bounds import Bounds
from scheduler.place.nesting import Nesting
from scheduler.place.pieces import ANYWHERE, FEW, FEW_TIGHT, INSIDE, Tiling
from scheduler.place.uniform import Ask, Settled, bounds_for, harden

FORMS_LIMIT = 512
"""Forms of a tile that are looked at by counts, those with short sides first."""

LEAST_TRIED = 4
"""Pods of the smallest piece that is asked for where ranks follow the order of nodes."""

Hopeful = tuple[float, Nesting]
"""Seconds that it would take if every piece were as the smallest is, by counts; and the way."""


def plain(ask: Ask, settled: Settled) -> Iterator[Nesting]:
    """Ranks in the order of nodes where links are narrow, as schedulers that know no axes do.

    On the largest innermost domains, wherever they are or inside as few outer ones as hold the
    gang: no gang is to be slower here than where it is placed by counts alone. Then with no domain
    of few pods, and with the groups of the inner axes whole.
    """
    kind, axes = ask.node_type, ask.units.axes()
    bounds = bounds_for(ask, settled.wants, settled.pods)
    if kind is None or not axes or bounds.units:
        return
    fabric = fabric_for(ask.view.topology, kind, CONSTANTS)
    levels, whole = ask.view.topology.levels, -1 if bounds.whole is None else bounds.whole
    counted = [d for d in fabric.levels[1:] if d > whole and len(levels[d].names) > 1]
    if not fabric.narrow or not counted:
        return
    outer = counted[1] if len(counted) > 1 else None
    fits = outer is not None and ask.view.buckets(outer).largest >= settled.pods
    alone = (ANYWHERE, FEW, FEW_TIGHT) if outer is not None else (ANYWHERE,)
    least = min(max(narrow.least for narrow in fabric.narrow), LEAST_TRIED)
    wholes = ((unit, unit) for unit in accumulate(axes.values(), mul) if unit < settled.pods)
    shapes = dict.fromkeys((*((pods, 1) for pods in range(1, least + 1)), *wholes))
    for (pods, unit), where in product(shapes, (INSIDE,) if fits else alone):
        tiling = Tiling(counted[0], outer, pods, unit, where, tuple(axes.items()))
        yield Nesting(bounds, (), tiling=tiling)


@dataclass(frozen=True, slots=True)
class _Grid:
    """What may be cut of a gang's axes.

    Attributes:
        axes: Pods along each axis that may be cut, the heaviest first.
        free: Of these, the parts that may lie apart.
        whole: What is kept whole: axes, or runs of neighbours along one that may be cut.
        seconds: Of each axis that may be cut, in one domain.
        others_s: Of all others.
    """

    axes: Mapping[str, int]
    free: Mapping[str, int]
    whole: Digits
    seconds: Mapping[str, float]
    others_s: float


def tilings(ask: Ask, settled: Settled, *, cut_heaviest: bool) -> list[Hopeful]:
    """Ways to cut the gang over the domains of a narrow level, the most hopeful first.

    Args:
        cut_heaviest: Those that cut the heaviest axis though each of its groups could lie in one
            domain, or those that do not; where they could not, it is cut like the others.
    """
    topology, kind, pods = ask.view.topology, ask.node_type, settled.pods
    out: list[Hopeful] = []
    if ask.price is None or kind is None or pods != ask.units.pods:
        return out
    bounds = bounds_for(ask, settled.wants, pods)
    for narrow in fabric_for(topology, kind, CONSTANTS).narrow:
        if ask.view.buckets(narrow.level).largest >= pods:
            continue  # it need not leave a domain
        grid = _grid(ask, settled, bounds, narrow.level, cut_heaviest=cut_heaviest)
        if grid is None or not any(size > 1 for size in grid.free.values()):
            continue
        for unit, digits in _cuts(ask, grid, pods):
            smallest = _smallest_piece(ask, narrow, unit, pods)
            if not smallest:
                continue
            seconds = _hope_s(grid, narrow, digits, smallest)
            where = INSIDE if _fits_outside(ask, narrow, bounds) else ANYWHERE
            tiling = Tiling(narrow.level, narrow.outer, narrow.least, unit, where, digits)
            out.append((seconds, Nesting(bounds, (), tiling=tiling)))
    out.sort(key=lambda one: one[0])  # the order among equals stays
    return out


def evenly(ask: Ask, way: Nesting) -> Nesting | None:
    """The same tiles shared evenly: the domain with the fewest pods has the fewest uplinks."""
    if way.tiling is None or way.tiling.even:
        return None
    return replace(way, tiling=replace(way.tiling, even=True))


def _grid(
    ask: Ask, settled: Settled, bounds: Bounds, level: int, *, cut_heaviest: bool
) -> _Grid | None:
    """None where rules leave nothing to cut there, or nothing new."""
    axes, price = ask.units.axes(), ask.price
    if not axes or price is None or (bounds.whole is not None and bounds.whole >= level):
        return None
    held: frozenset[str] = bounds.units[0][2] if bounds.units else frozenset()
    if any(at < level for at, _, _ in bounds.units) or JOB_GROUP in held:
        return None
    if bounds.units and prod(size for a, size in axes.items() if a in held) != bounds.units[0][1]:
        return None  # what rules keep together is no product of axes
    heaviest = max(ask.units.soft_groups, key=lambda axis: (price.weight(axis), axis))
    is_whole = harden(ask, settled.wants, level, heaviest, settled.pods) is not None
    if cut_heaviest and not is_whole:
        return None
    run = None
    if is_whole and not cut_heaviest and heaviest not in held:
        run = ask.units.run_of(heaviest)
        if run is None or run[0] in held:
            return None
    least_s = price.axis_least_s()
    seconds = {axis: least_s.get(axis, 0.0) for axis in axes if axis not in held}
    heavy_first = sorted(seconds, key=lambda axis: (-seconds[axis], axis))
    runs = dict([run]) if run is not None else {}
    return _Grid(
        {axis: axes[axis] for axis in heavy_first},
        {axis: axes[axis] // runs.get(axis, 1) for axis in heavy_first},
        (*((axis, size) for axis, size in axes.items() if axis in held), *runs.items()),
        seconds,
        sum(least_s.values()) - sum(seconds.values()),
    )


def _fits_outside(ask: Ask, narrow: Narrow, bounds: Bounds) -> bool:
    """Whether one domain of the level outside may hold the gang, and a rule does not say so."""
    outer = narrow.outer
    if outer is None or (bounds.whole is not None and bounds.whole >= outer):
        return False
    return ask.view.buckets(outer).largest >= ask.units.pods


def elsewhere(ask: Ask, way: Nesting) -> Nesting | None:
    """The same tiles where there is more room, or in fewer domains of the level outside."""
    tiling = way.tiling
    if tiling is None or tiling.outer is None:
        return None
    if way.bounds.whole is not None and way.bounds.whole >= tiling.outer:
        return None
    where = ANYWHERE if tiling.where == INSIDE else FEW
    return replace(way, tiling=replace(tiling, where=where))


def _cuts(ask: Ask, grid: _Grid, pods: int) -> Iterator[tuple[int, Digits]]:
    """(pods of a tile, order of all pods): every form of a tile, and two orders of the tiles."""
    unit = prod(size for _, size in grid.whole)
    choices = ([side for side in range(1, n + 1) if n % side == 0] for n in grid.free.values())
    for sides in islice(product(*choices), FORMS_LIMIT):
        size = unit * prod(sides)
        if size >= pods:
            continue
        tile = tuple(zip(grid.free, sides, strict=True))
        tile = tuple((axis, side) for axis, side in tile if side > 1)
        left = zip(grid.free.items(), sides, strict=True)
        outside = [(axis, n // side) for (axis, n), side in left if n > side]
        yield size, (*grid.whole, *tile, *reversed(outside))
        if len(outside) > 1:
            yield size, (*grid.whole, *tile, *outside)


def _smallest_piece(ask: Ask, narrow: Narrow, unit: int, pods: int) -> int:
    """Pods of the smallest of the largest pieces that hold the gang; 0 where they do not."""
    buckets = ask.view.buckets(narrow.level)
    for count in reversed(buckets.counts):
        piece = count - count % unit
        if piece < narrow.least:
            return 0
        pods -= piece * buckets.size(count)
        if pods <= 0:
            return piece
    return 0


def _hope_s(grid: _Grid, narrow: Narrow, digits: Digits, piece: int) -> float:
    """Seconds by counts: a piece holds so many neighbours along each axis."""
    sides = dict.fromkeys(grid.axes, 1.0)
    left = float(piece)
    for axis, size in digits:
        side = min(float(size), max(left, 1.0))
        left /= size
        if axis in sides:
            sides[axis] *= side
    out = grid.others_s
    for axis, side in sides.items():
        cut = narrow.tier * max(1.0, narrow.ratio / side) if side < grid.axes[axis] else 1.0
        out += grid.seconds[axis] * cut
    return out
