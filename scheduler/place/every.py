"""Every layout of a small gang that differs in more than names, up to a number of steps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.place.bonds import Bonds
from scheduler.place.layout import Measure
from scheduler.place.uniform import Ask

STEPS = 4_000
"""Pods put into domains before the search is cut; a step costs about 5 us."""

PRICED = 400
"""Layouts priced before the search is cut; one costs up to 0.1 ms."""

Worth = tuple[tuple[int, ...], float]
"""Domains touched by preferred rules, then seconds; smaller is better."""


@dataclass(frozen=True, slots=True)
class Bin:
    """A domain with room.

    Attributes:
        path: Its domain at each level from the outermost to its own.
        forms: For each of these, a number for what it is made of: the same where the same can be
            done while both are empty.
        nodes: Free ones, in the order in which they are taken.
    """

    path: tuple[int, ...]
    forms: tuple[int, ...]
    nodes: Sequence[int]


@dataclass(slots=True)
class _Search:
    """State of the search, and the best so far.

    Attributes:
        rows: What is counted for the spread: level, and the numbers of its groups for each pod.
        touched: For each row, which groups lie in which domains.
        held: For each bond, the domain of each unit.
        inside: (level, domain) -> pods there.
        twins: For each pod, whether it may change places with the one before: then it goes no
            further to the front, since that would be the same layout again.
    """

    ask: Ask
    pods: int
    bins: Sequence[Bin]
    rows: Sequence[tuple[int, Sequence[Sequence[int]]]]
    bonds: Bonds
    touched: list[set[tuple[int, int]]]
    held: list[dict[int, int]]
    worth: Worth
    twins: Sequence[bool]
    best: list[int] | None = None
    cut: bool = False
    steps: int = 0
    priced: int = 0
    chosen: list[int] = field(default_factory=list)
    inside: dict[tuple[int, int], int] = field(default_factory=dict)


def every_layout(
    ask: Ask, measure: Measure, bonds: Bonds, bins: Sequence[Bin], pods: int, start: Worth
) -> tuple[list[int] | None, bool]:
    """The best layout (nodes by pod index), if any is better than one known already.

    Args:
        bins: Of one level, at least as far in as every bond and everything measured; a node comes
            once for each pod that it holds.

    Returns:
        The layout, or None; and whether the search was cut.
    """
    rows = []
    for level, groups, members in measure.rows:
        of_pod: list[list[int]] = [[] for _ in range(pods)]
        for group, pod in zip(groups.tolist(), members.tolist(), strict=True):
            of_pod[pod].append(group)
        rows.append((level, of_pod))
    touched: list[set[tuple[int, int]]] = [set() for _ in rows]
    twins = _twins(ask, rows, bonds, pods)
    search = _Search(ask, pods, bins, rows, bonds, touched, [{} for _ in bonds], start, twins)
    _extend(search)
    return search.best, search.cut


def _twins(
    ask: Ask, rows: Sequence[tuple[int, Sequence[Sequence[int]]]], bonds: Bonds, pods: int
) -> list[bool]:
    if ask.price is not None:
        return [False] * pods
    return [
        pod > 0
        and all(groups[pod] == groups[pod - 1] for _, groups in rows)
        and all(labels[pod] == labels[pod - 1] for _, labels in bonds)
        for pod in range(pods)
    ]


def bins_of(ask: Ask, level: int, room: Mapping[int, Sequence[int]]) -> list[Bin]:
    """The domains of a level with their free nodes; domains in each other's place look alike."""
    topology = ask.view.topology
    numbers: dict[object, int] = {}
    first = topology.levels[level].node_lo
    paths = {d: tuple(topology.place[up][first[d]] for up in range(level + 1)) for d in room}
    forms = {path: _number(numbers, ask, path, (len(room[d]),)) for d, path in paths.items()}
    for depth in range(level, 0, -1):
        inner: dict[tuple[int, ...], list[int]] = {}
        for path, form in forms.items():
            if len(path) == depth + 1:
                inner.setdefault(path[:depth], []).append(form)
        for path, within in inner.items():
            forms[path] = _number(numbers, ask, path, tuple(sorted(within)))
    return [
        Bin(path, tuple(forms[path[: up + 1]] for up in range(level + 1)), room[domain])
        for domain, path in sorted(paths.items())
        if room[domain]
    ]


def _number(
    numbers: dict[object, int], ask: Ask, path: tuple[int, ...], within: tuple[int, ...]
) -> int:
    # A place without a name is another thing than a domain: no rule can hold in it.
    blank = ask.view.topology.levels[len(path) - 1].is_blank(path[-1])
    return numbers.setdefault((len(path), blank, within), len(numbers))


def _extend(search: _Search) -> None:
    """Give the next pod each place in turn that is not like one it had."""
    pod = len(search.chosen)
    if pod == search.pods:
        _judge(search)
        return
    seen: set[object] = set()
    first = search.chosen[-1] if search.twins[pod] else 0
    for number, place in enumerate(search.bins):
        if search.cut:
            return
        if number < first:
            continue
        if search.chosen.count(number) == len(place.nodes) or not _allowed(search, pod, place):
            continue
        key = tuple(
            domain if search.inside.get((up, domain)) else -1 - form
            for up, (domain, form) in enumerate(zip(place.path, place.forms, strict=True))
        )
        if key in seen:
            continue
        seen.add(key)
        search.steps += 1
        search.cut = search.steps >= STEPS
        _put(search, pod, number, place)


def _allowed(search: _Search, pod: int, place: Bin) -> bool:
    """Whether the pod keeps to its units; a place without a name holds no unit."""
    levels = search.ask.view.topology.levels
    for (level, labels), held in zip(search.bonds, search.held, strict=True):
        if levels[level].is_blank(place.path[level]):
            return False
        if held.get(labels[pod], place.path[level]) != place.path[level]:
            return False
    return True


def _put(search: _Search, pod: int, number: int, place: Bin) -> None:
    """Put the pod there, go on with the next, and take it back."""
    levels = search.ask.view.topology.levels
    new_rows = []
    for row, (level, groups) in enumerate(search.rows):
        domain = -1 - pod if levels[level].is_blank(place.path[level]) else place.path[level]
        for group in groups[pod]:
            if (group, domain) not in search.touched[row]:
                search.touched[row].add((group, domain))
                new_rows.append((row, (group, domain)))
    new_bonds = []
    for bond, (level, labels) in enumerate(search.bonds):
        if labels[pod] not in search.held[bond]:
            search.held[bond][labels[pod]] = place.path[level]
            new_bonds.append((bond, labels[pod]))
    search.chosen.append(number)
    for up, domain in enumerate(place.path):
        search.inside[up, domain] = search.inside.get((up, domain), 0) + 1
    # Domains are only ever added, so what is wide already stays so.
    if tuple(len(found) for found in search.touched) <= search.worth[0]:
        _extend(search)
    for up, domain in enumerate(place.path):
        search.inside[up, domain] -= 1
    search.chosen.pop()
    for row, entry in new_rows:
        search.touched[row].discard(entry)
    for bond, label in new_bonds:
        del search.held[bond][label]


def _judge(search: _Search) -> None:
    price = search.ask.price
    used: dict[int, int] = {}
    nodes = []
    for number in search.chosen:
        nodes.append(search.bins[number].nodes[used.get(number, 0)])
        used[number] = used.get(number, 0) + 1
    spread = tuple(len(found) for found in search.touched)
    seconds = search.ask.seconds(nodes, ())
    search.priced += price is not None
    search.cut = search.cut or search.priced >= PRICED
    if (spread, seconds) < search.worth:
        search.worth, search.best = (spread, seconds), nodes
