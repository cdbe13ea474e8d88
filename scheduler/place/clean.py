"""Nodes that cost something are avoided where an equal place exists.

They have a dead rail, a taint that asks others to stay away, or no place at a level that a
preferred rule counts.

Which rails are dead counts for the gang as a whole: a collective waits for its slowest node, so
three nodes that lost the same rail are better than three that lost one each. And pods that share a
node with others talk along their rails only where all have the same GPUs.
"""

from collections.abc import Iterator
from dataclasses import replace

from scheduler.cluster.trial import Trial
from scheduler.cluster.view import Shape, is_shunned
from scheduler.model.job import Rule
from scheduler.place.arrange import SAME_SECONDS, Arranged, arrange
from scheduler.place.layout import measure_of
from scheduler.place.spread import aligned_masks
from scheduler.place.tune import tuned
from scheduler.place.uniform import Ask, required_wants, settle

DEAD_LIMIT = 6
"""Different sets of dead rails that a gang is allowed in turn; those of fewest rails first."""

MASK_LIMIT = 8
"""Different GPUs of a node that all pods of a gang are given in turn."""


def prefer_clean(trial: Trial, found: Arranged) -> Arranged:
    """The layout, or one that is equal or faster on nodes that cost less."""
    if _is_plain(found):
        return found
    shapes = [shape for shape in dict.fromkeys(_cleaner(found)) if shape != found.ask.view.shape]
    best = found
    for shape in shapes:
        other = _again(trial, found, shape)
        if other is not None and _is_better(_key(other), _key(best)):
            best = other
    known = best is found or (found.proven and not _dead(found))
    return tuned(best if known else _among_all(found.ask, best))


def _among_all(ask: Ask, best: Arranged) -> Arranged:
    """The layout with what is known of it beside those on all nodes, not only on clean ones."""
    nodes = best.layout.nodes
    least_spread = measure_of(ask, len(nodes)).of(ask, nodes) == measure_of(ask, len(nodes)).least
    if best.seconds is None:
        return replace(best, proven=best.proven and least_spread)
    least_s = ask.least_s()
    fast = best.seconds <= least_s * SAME_SECONDS
    gap = None if fast else 1.0 - least_s / best.seconds
    return replace(best, proven=best.proven and least_spread and fast, gap=gap)


def _is_plain(found: Arranged) -> bool:
    """Whether no node of the map differs from another in what is looked at here."""
    view, topology = found.ask.view, found.ask.view.topology
    same_gpus = view.takes_whole_nodes or not view.shape.single or len(found.layout.nodes) == 1
    return same_gpus and not (view.table.dead_rails or topology.shunned or any(topology.blanks))


Key = tuple[int, tuple[bool, ...], tuple[int, ...], float, int, int]
"""Pods without a place, unmet rules, spread, seconds, pods on shunned nodes, dead rails."""


def _key(one: Arranged) -> Key:
    nodes = one.layout.nodes
    seconds = one.ask.seconds(nodes, one.layout.masks) if len(nodes) > 1 else 0.0
    measure, dead = measure_of(one.ask, len(nodes)), 0
    for rails in _dead(one):
        dead |= rails
    return (
        one.ask.units.pods - len(nodes),
        one.unmet,
        measure.of(one.ask, nodes),
        seconds,
        _shunned(one),
        dead.bit_count(),
    )


def _is_better(key: Key, than: Key) -> bool:
    if key[:3] != than[:3]:
        return key[:3] < than[:3]
    if key[3] > than[3] * SAME_SECONDS or than[3] > key[3] * SAME_SECONDS:
        return key[3] < than[3]
    return key[4:] < than[4:]


def _shunned(one: Arranged) -> int:
    """Pods on nodes that ask for others not to come."""
    view = one.ask.view
    if not view.topology.shunned:
        return 0
    return sum(is_shunned(view.topology, n, view.shape.tolerations) for n in one.layout.nodes)


def _dead(one: Arranged) -> list[int]:
    """Dead rails of the nodes of a gang that talks between nodes."""
    dead, nodes = one.ask.view.table.dead_rails, one.layout.nodes
    if not dead or not one.ask.view.shape.gpus or len(set(nodes)) < 2:
        return []
    return [dead[node] for node in nodes if node in dead]


def _cleaner(found: Arranged) -> Iterator[Shape]:
    """Shapes that keep off some nodes which the layout uses and need not; the cleanest first."""
    view, nodes = found.ask.view, found.layout.nodes
    shape, topology = view.shape, view.topology
    dead: list[int | None] = [shape.dead_allowed]
    if shape.dead_allowed is None and _dead(found):
        sets = {one | two for one in _known_dead(found) for two in _known_dead(found)}
        fewest = sorted(sets, key=lambda rails: (rails.bit_count(), rails))
        dead = [0, *fewest[:DEAD_LIMIT], shape.dead_allowed]
    masks = [0]
    unlike = len(set(found.layout.masks)) > 1 or len(dead) > 1
    if shape.single and not view.takes_whole_nodes and unlike:
        width = max(topology.types[node].gpus for node in nodes)
        known = [*aligned_masks(width, shape.gpus), *found.layout.masks]
        masks = [*list(dict.fromkeys(known))[:MASK_LIMIT], 0]
    named = dict.fromkeys(((*shape.named, *_nameless(found)), shape.named))
    for clean in (True, False) if _shunned(found) else (False,):
        for allowed in dead:
            for mask in masks:
                for levels in named:
                    yield replace(shape, clean=clean, dead_allowed=allowed, mask=mask, named=levels)


def _known_dead(found: Arranged) -> list[int]:
    """Different sets of dead rails that nodes have which could hold a pod."""
    view = found.ask.view
    sets = {dead for node, dead in view.table.dead_rails.items() if view.slots[node]}
    return sorted(sets, key=lambda rails: (rails.bit_count(), rails))[:DEAD_LIMIT]


def _nameless(found: Arranged) -> tuple[int, ...]:
    """Levels that preferred rules count at which some pod has no place."""
    topology = found.ask.view.topology
    if not any(topology.blanks):
        return ()
    counted = {level for level, _, _ in measure_of(found.ask, len(found.layout.nodes)).rows}
    named = found.ask.view.shape.named
    return tuple(
        level
        for level in sorted(counted)
        if level not in named
        and any(
            topology.levels[level].is_blank(topology.place[level][node])
            for node in found.layout.nodes
        )
    )


def _again(trial: Trial, found: Arranged, shape: Shape) -> Arranged | None:
    """The best layout of the same pods in another shape; None if fewer of them fit."""
    ask = replace(found.ask, view=trial.view(shape))
    wants = required_wants(ask)
    settled = None if isinstance(wants, Rule) else settle(ask, wants)
    if settled is None or settled.pods < len(found.layout.nodes):
        return None
    return arrange(ask, settled)
