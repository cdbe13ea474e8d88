"""Which nodes and GPUs the pods of a small gang have where these are not all alike.

Groups whose pods have equal GPUs still talk along their rails, and a dead rail slows the groups of
its pod. So pods change their GPUs and their nodes, and places with each other, for as long as the
prediction gains.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice

from scheduler.model.job import Rule
from scheduler.place.arrange import SAME_SECONDS, Arranged
from scheduler.place.bonds import Bonds, are_kept, bonds_of
from scheduler.place.layout import Layout, Measure, measure_of
from scheduler.place.spread import aligned_masks
from scheduler.place.uniform import required_wants

PODS_MAX = 16
"""Pods of a gang whose GPUs are chosen one by one."""

NODES_TRIED = 24
"""Further nodes that pods may move to, of those that differ from each other."""

LOOKED_AT = 256
"""Nodes looked at for these, near the pods and then anywhere."""

TRIES = 250
"""Layouts priced; one costs about 0.1 ms."""


@dataclass(slots=True)
class _Tuning:
    """The layout so far, and what a change must keep."""

    found: Arranged
    measure: Measure
    bonds: Bonds
    nodes: list[int]
    masks: list[int]
    options: list[list[int]]


def tuned(found: Arranged) -> Arranged:
    """The arrangement with its GPUs chosen, and how far it may be from the best."""
    price, masks = found.ask.price, found.layout.masks
    dead = found.ask.view.table.dead_rails
    if price is None or len(found.layout.nodes) < 2:
        return found
    if len(set(masks)) < 2 and (not dead or dead.keys().isdisjoint(found.layout.nodes)):
        return found
    seconds = found.ask.seconds(found.layout.nodes, masks)
    if len(masks) <= PODS_MAX and found.ask.view.shape.single:
        found, seconds = _tune(found, seconds)
    least = found.ask.least_s()
    if seconds <= least * SAME_SECONDS:
        return replace(found, seconds=seconds, proven=found.proven, gap=None)
    return replace(found, seconds=seconds, proven=False, gap=1.0 - least / seconds)


def _tune(found: Arranged, seconds: float) -> tuple[Arranged, float]:
    must, ask, pods = required_wants(found.ask), found.ask, len(found.layout.nodes)
    if isinstance(must, Rule):
        return found, seconds
    state = _Tuning(
        found,
        measure_of(ask, pods),
        bonds_of(ask, must, pods),
        list(found.layout.nodes),
        list(found.layout.masks),
        [_options(found, node) for node in found.layout.nodes],
    )
    tries, gains = 0, True
    while gains and tries < TRIES:
        gains = False
        for nodes, masks in _changes(state):
            tries += 1
            faster = ask.seconds(nodes, masks)
            if faster < seconds:
                seconds, gains = faster, True
                state.nodes, state.masks = nodes, masks
                state.options = [_options(found, node) for node in nodes]
                break
            if tries >= TRIES:
                break
    return replace(found, layout=Layout(state.nodes, state.masks)), seconds


def _options(found: Arranged, node: int) -> list[int]:
    """Sets of GPUs that a pod may have on a node."""
    view = found.ask.view
    free = view.free(node)
    if view.shape.mask:
        return [view.shape.mask]
    wanted = [
        *aligned_masks(view.topology.types[node].gpus, view.shape.gpus),
        *found.layout.masks,
    ]
    return [mask for mask in dict.fromkeys(wanted) if mask & free == mask]


def _others(state: _Tuning) -> list[int]:
    """Nodes that are not used, one of each kind in each domain: those near the pods first."""
    view, used = state.found.ask.view, set(state.nodes)
    topology = view.topology
    outer = topology.levels[max(len(topology.levels) - 3, 0)]
    place = topology.place[max(len(topology.levels) - 2, 0)]
    near = dict.fromkeys(topology.place[max(len(topology.levels) - 3, 0)][n] for n in state.nodes)
    around = chain.from_iterable(range(outer.node_lo[d], outer.node_hi[d]) for d in near)
    alike: dict[object, int] = {}
    for node in chain(islice(around, LOOKED_AT), islice(view.tight_nodes(), LOOKED_AT)):
        if node not in used and view.slots[node] and len(alike) < NODES_TRIED:
            kind = (place[node], view.free(node), view.table.dead_rails.get(node, 0))
            alike.setdefault(kind, node)
    return list(alike.values())


def _changes(state: _Tuning) -> Iterator[tuple[list[int], list[int]]]:
    """One pod with other GPUs or on another node, or two pods in each other's place."""
    for pod, options in enumerate(state.options):
        for mask in options:
            if mask != state.masks[pod]:
                masks = list(state.masks)
                masks[pod] = mask
                yield list(state.nodes), masks
    ask, dead = state.found.ask, state.found.ask.view.table.dead_rails
    spread = state.measure.of(ask, state.nodes)
    for node in _others(state):
        options = _options(state.found, node)
        for pod in range(len(state.nodes)):
            nodes = list(state.nodes)
            nodes[pod] = node
            if not are_kept(ask, state.bonds, nodes) or state.measure.of(ask, nodes) > spread:
                continue
            for mask in options:
                masks = list(state.masks)
                masks[pod] = mask
                yield nodes, masks
    for one in range(len(state.nodes)):
        for two in range(one):
            same_dead = dead.get(state.nodes[one]) == dead.get(state.nodes[two])
            if same_dead and state.masks[one] == state.masks[two]:
                continue
            nodes, masks = list(state.nodes), list(state.masks)
            nodes[one], nodes[two] = nodes[two], nodes[one]
            masks[one], masks[two] = masks[two], masks[one]
            if are_kept(ask, state.bonds, nodes) and state.measure.of(ask, nodes) <= spread:
                yield nodes, masks
