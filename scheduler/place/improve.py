"""Exchanges of pods between domains, for gangs small enough to try them all.

Nestings by counts are found at once for any size, but cut a gang only along its axes. Here single
pods and whole groups change places for as long as a preferred rule or the prediction gains.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from scheduler.model.job import JOB_GROUP
from scheduler.place.assign import masks_on
from scheduler.place.bonds import Bonds, are_kept, bonds_of, unit_of_pods
from scheduler.place.bounds import cost_levels
from scheduler.place.every import Worth, bins_of, every_layout
from scheduler.place.layout import Layout, Measure
from scheduler.place.uniform import Ask, Settled

SMALL_PODS = 16
"""Pods up to which anything is tried; nestings of larger gangs stand as they are."""

EVERY_PODS = 8
"""Pods up to which every layout is looked at, if there are not too many."""

TRIES, FEW_TRIES = 600, 150
"""Exchanges looked at before that search ends; a look costs about 20 us. The fewer where not all
domains are looked at, since nothing is proven there."""

SIDEWAYS = 4
"""Steps that lose nothing, taken where none gains."""

DOMAINS_TRIED = 8
"""Further domains that pods may move to, those with most room first."""


@dataclass(frozen=True, slots=True)
class Improved:
    """What came of the search.

    Attributes:
        layout: One that is better; None where none was found.
        least_s: No layout of the least spread takes less; None where not all were looked at.
    """

    layout: Layout | None = None
    least_s: float | None = None


@dataclass(slots=True)
class _Search:
    ask: Ask
    measure: Measure
    level: int
    bonds: Bonds
    nodes: list[int]
    free: dict[int, list[int]]
    all_domains: bool
    tries: int = 0


def improve(ask: Ask, settled: Settled, measure: Measure, layout: Layout) -> Improved:
    """Look for a better layout than this one."""
    if settled.pods > (SMALL_PODS if ask.view.shape.single else EVERY_PODS):
        return Improved()
    search = _begin(ask, settled, measure, list(layout.nodes))
    start = _worth(search, search.nodes)
    if settled.pods <= EVERY_PODS and search.all_domains:
        bins = bins_of(ask, search.level, _all_room(search))
        found, cut = every_layout(ask, measure, search.bonds, bins, settled.pods, start)
        if found is not None:
            search.nodes = found
        if not cut:
            dead = ask.view.table.dead_rails
            # Nodes of one domain that lost different rails were not told apart.
            alike = not dead or all(dead.keys().isdisjoint(place.nodes) for place in bins)
            least_s = _worth(search, search.nodes)[1] if alike else None
            return Improved(None if found is None else _with_masks(ask, found), least_s)
        if not ask.view.shape.single:
            return Improved(None if found is None else _with_masks(ask, found))
        search.free = _room_beside(ask, search.level, search.nodes)[0]
    elif not ask.view.shape.single:
        return Improved()
    _exchange(search, _blocks(ask, settled.pods))
    if _worth(search, search.nodes) >= start:
        return Improved()
    return Improved(_with_masks(ask, search.nodes))


def _exchange(search: _Search, blocks: list[list[list[int]]]) -> None:
    """Take any step that is better, until there is none.

    The busiest link decides: where it has several equals, no single step gains. So steps that lose
    nothing are taken too, none of them twice, and the best layout is kept.
    """
    best = _worth(search, search.nodes)
    limit = TRIES if search.all_domains else FEW_TRIES
    kept, seen, steps = list(search.nodes), {tuple(search.nodes)}, 0
    while search.tries < limit:
        aside: list[int] | None = None
        for nodes in _neighbours(search, blocks):
            search.tries += 1
            worth = _worth(search, nodes, best)
            if worth < best:
                best, kept, aside = worth, nodes, nodes
                break
            if worth == best and aside is None and tuple(nodes) not in seen:
                aside = nodes
            if search.tries >= limit:
                break
        steps += aside is not kept
        if aside is None or steps > SIDEWAYS:
            break
        seen.add(tuple(aside))
        _move(search, aside)
    _move(search, kept)


def _all_room(search: _Search) -> dict[int, list[int]]:
    """Free nodes of each domain, those that the layout has now first; once for each pod."""
    view = search.ask.view
    if not view.shape.single:
        return {
            domain: [node for node in sorted({*nodes}) for _ in range(view.slots[node])]
            for domain, nodes in _domains_in(search).items()
        }
    place = view.topology.place[search.level]
    room = {domain: list(nodes) for domain, nodes in search.free.items()}
    for node in sorted(search.nodes, reverse=True):
        room[place[node]].insert(0, node)
    dead = view.table.dead_rails
    if dead:
        # What is taken first is what is healthy; sorting keeps the order among these.
        for nodes in room.values():
            nodes.sort(key=lambda node: dead.get(node, 0).bit_count())
    return room


def _domains_in(search: _Search) -> dict[int, list[int]]:
    """The domains looked at, and all of their nodes with room."""
    view = search.ask.view
    row = view.topology.levels[search.level]
    return {
        domain: [n for n in range(row.node_lo[domain], row.node_hi[domain]) if view.slots[n]]
        for domain in search.free
    }


def _begin(ask: Ask, settled: Settled, measure: Measure, nodes: list[int]) -> _Search:
    """What may change places, and where there is room beside the pods."""
    topology, bonds = ask.view.topology, bonds_of(ask, settled.must, settled.pods)
    inmost = len(topology.levels) - (2 if ask.view.shape.single else 1)
    wanted = [
        *cost_levels(topology, ask.node_type),
        *(d for d, _ in bonds),
        *(d for d, _, _ in measure.rows),
    ]
    level = max((d for d in wanted if d <= inmost), default=0)
    free, all_domains = _room_beside(ask, level, nodes)
    return _Search(ask, measure, level, bonds, nodes, free, all_domains)


def _room_beside(ask: Ask, level: int, nodes: list[int]) -> tuple[dict[int, list[int]], bool]:
    """Unused free nodes of the domains in use and of some others; and whether that is all."""
    view, used = ask.view, set(nodes)
    row = view.topology.levels[level]
    place, buckets = view.topology.place[level], view.buckets(level)
    domains = {place[node] for node in nodes}
    lo, hi = (0, len(row.names)) if ask.scope is None else view.topology.inside(*ask.scope, level)
    others = (d for c in reversed(buckets.counts) if c for d in buckets.members(c))
    limit, all_domains = DOMAINS_TRIED + len(domains), True
    for domain in others:
        if lo <= domain < hi and domain not in domains:
            if len(domains) >= limit:
                all_domains = False
                break
            domains.add(domain)
    found = {
        domain: [
            node
            for node in range(row.node_lo[domain], row.node_hi[domain])
            if view.slots[node] and node not in used
        ]
        for domain in sorted(domains)
    }
    return found, all_domains


def _blocks(ask: Ask, pods: int) -> list[list[list[int]]]:
    """What changes places together: single pods, then the groups of each axis and of each pair."""
    out = [[[pod] for pod in range(pods)]]
    axes = [group for group in ask.units.soft_groups if group != JOB_GROUP]
    kinds = [frozenset({a}) for a in axes] + [
        frozenset({a, b}) for i, a in enumerate(axes) for b in axes[:i]
    ]
    for groups in kinds:
        by_label: dict[int, list[int]] = {}
        for pod, label in enumerate(unit_of_pods(ask, groups, pods)):
            by_label.setdefault(label, []).append(pod)
        if 1 < len(by_label) < pods:
            out.append(list(by_label.values()))
    return out


def _neighbours(search: _Search, blocks: list[list[list[int]]]) -> Iterator[list[int]]:
    """Layouts one step away that keep every required rule."""
    place = search.ask.view.topology.place[search.level]
    at = [place[node] for node in search.nodes]
    for partition in blocks:
        for number, block in enumerate(partition):
            for domain, room in search.free.items():
                stays = all(at[pod] == domain for pod in block)
                if stays or len(room) < len(block):
                    continue
                nodes = list(search.nodes)
                for pod, node in zip(block, room, strict=False):
                    nodes[pod] = node
                if are_kept(search.ask, search.bonds, nodes):
                    yield nodes
            for other in partition[:number]:
                if len(block) != len(other) or [at[p] for p in block] == [at[p] for p in other]:
                    continue
                nodes = list(search.nodes)
                for one, two in zip(block, other, strict=True):
                    nodes[one], nodes[two] = nodes[two], nodes[one]
                if are_kept(search.ask, search.bonds, nodes):
                    yield nodes


def _worth(search: _Search, nodes: list[int], best: Worth | None = None) -> Worth:
    """Smaller is better. Seconds are not asked for where the domains touched decide."""
    spread = search.measure.of(search.ask, nodes)
    if best is not None and spread > best[0]:
        return spread, float("inf")
    return spread, search.ask.seconds(nodes, ())


def _move(search: _Search, nodes: list[int]) -> None:
    """Take a layout; nodes that were left are free again."""
    place = search.ask.view.topology.place[search.level]
    before, now = set(search.nodes), set(nodes)
    for node in sorted(now - before):
        search.free[place[node]].remove(node)
    for node in sorted(before - now):
        search.free[place[node]].append(node)
        search.free[place[node]].sort()
    search.nodes = nodes


def _with_masks(ask: Ask, nodes: list[int]) -> Layout:
    """A layout on these nodes; where a node holds several pods, best filled in their domains."""
    return Layout(nodes, masks_on(ask.view, nodes))
