"""Switches that name their children -> the levels of a tree, each node's place in them.

Trees are aligned from the leaf up: a switch with nodes is in the innermost level, its parent at
least one level further out. A branch that skips a level has a domain of the child's name there.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.importers.options import joint_name
from scheduler.importers.refusals import Refusals, first_of, refuse
from scheduler.topology.natural import natural_key
from scheduler.topology.places import listed

LEVEL_NAMES = ("leaf", "block", "core")
"""Names of the levels from the nodes outwards; further ones are `tier-4`, `tier-5` ..."""

LEVELS_MAX = 16
"""Switches on the way from a node to the root; the deepest real fabric has five."""


ANCESTORS_MAX = 1_000_000
"""Switches looked at to tell a leaf from a switch that lists all nodes below it."""

SEVERAL = ""
"""Stands in the place of a domain where ways lead to several; no switch has this name."""


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch as a file states it.

    Attributes:
        line: Where, counted from 1; 0 where it is not known.
        children, nodes: Names, in the order written.
    """

    name: str
    line: int = 0
    children: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"'{self.name}'" + (f" (line {self.line})" if self.line else "")


@dataclass(frozen=True, slots=True)
class Aligned:
    """A tree of switches as levels.

    Attributes:
        levels: Outermost first, without `node`.
        places: For each node in the order first named: level -> domain, or None.
        domain_level: The level whose domains are made for links between the GPUs of several nodes.
    """

    levels: tuple[str, ...]
    places: Mapping[str, Mapping[str, str | None]]
    warnings: tuple[str, ...]
    domain_level: str | None = None


@dataclass(slots=True)
class _Tree:
    """Switches by name, with children that all exist and no cycle.

    Attributes:
        parents: Of each switch that has any, in the order written.
        height: 1 for a switch without children, else one more than its highest child.
    """

    switches: dict[str, Switch]
    parents: dict[str, list[str]] = field(default_factory=dict)
    height: dict[str, int] = field(default_factory=dict)


def align(
    switches: Sequence[Switch],
    *,
    level_names: Sequence[str] = (),
    unknown_children_are_empty: bool = False,
) -> Aligned:
    """The levels of these switches.

    Args:
        level_names: Names from the nodes outwards; `LEVEL_NAMES` where there are none.
        unknown_children_are_empty: Take a child that is no switch here as one without nodes, rather
            than as a mistake.

    Raises:
        InventoryError: If a switch comes twice, a child is unknown, switches form a cycle, or there
            are more than `LEVELS_MAX` levels.
    """
    warnings: list[str] = []
    by_name = _by_name(switches, unknown_children_are_empty=unknown_children_are_empty)
    by_name = _join_twins(by_name, warnings)
    # A cycle is a mistake even where no node is below it.
    _tree(by_name)
    tree = _tree(_without_empty(by_name, warnings))
    depth = max(tree.height.values(), default=0)
    if depth > LEVELS_MAX:
        raise refuse("Switches", f"the tree has {depth} levels; at most {LEVELS_MAX} are allowed")
    names = level_names_for(depth, level_names)
    return Aligned(tuple(reversed(names)), _places(tree, names, warnings), tuple(warnings))


def level_names_for(count: int, wanted: Sequence[str] = ()) -> list[str]:
    """Names of so many levels, innermost first."""
    known = wanted or LEVEL_NAMES
    return [known[i] if i < len(known) else f"tier-{i + 1}" for i in range(count)]


def _tree(switches: dict[str, Switch]) -> _Tree:
    """The switches with their parents and heights.

    Raises:
        InventoryError: If switches form a cycle.
    """
    tree = _Tree(switches)
    for switch in switches.values():
        for child in dict.fromkeys(switch.children):
            tree.parents.setdefault(child, []).append(switch.name)
    tree.height = _heights(tree)
    return tree


def _by_name(switches: Iterable[Switch], *, unknown_children_are_empty: bool) -> dict[str, Switch]:
    found: dict[str, Switch] = {}
    refusals = Refusals()
    for switch in switches:
        before = found.setdefault(switch.name, switch)
        if before is not switch:
            message = f"switch '{switch.name}' comes twice; the first is on line {before.line}"
            refusals.add("SwitchName", message, line=switch.line)
    for switch in list(found.values()):
        for child in switch.children:
            if child not in found and unknown_children_are_empty:
                found[child] = Switch(child)
            elif child not in found:
                message = (
                    f"switch '{switch.name}' has the child '{child}', which is no switch of this "
                    f"file; a child is named by a line of its own"
                )
                refusals.add("Switches", message, line=switch.line)
    refusals.raise_if_any()
    return found


def _join_twins(switches: dict[str, Switch], warnings: list[str]) -> dict[str, Switch]:
    """Join switches that have the same children: the spines of one block are one domain."""
    for _ in range(LEVELS_MAX):
        twins: dict[frozenset[str], list[str]] = defaultdict(list)
        for switch in switches.values():
            if switch.children:
                twins[frozenset(switch.children)].append(switch.name)
        joined: dict[str, str] = {}
        for children, names in twins.items():
            if len(names) > 1 and not children & set(names):
                name = joint_name(names)
                joined |= dict.fromkeys(names, name)
                warnings.append(
                    f"{listed('switch', sorted(children, key=natural_key))} is each under "
                    f"{', '.join(str(switches[n]) for n in names[:8])}"
                    f"{' ...' if len(names) > 8 else ''}, which is no tree; these are taken as one "
                    f"domain '{name}'"
                )
        if not joined:
            break
        switches = _renamed(switches, joined)
    return switches


def _renamed(switches: Mapping[str, Switch], joined: Mapping[str, str]) -> dict[str, Switch]:
    found: dict[str, Switch] = {}
    for switch in switches.values():
        name = joined.get(switch.name, switch.name)
        children = tuple(dict.fromkeys(joined.get(c, c) for c in switch.children))
        before = found.get(name)
        nodes = (*before.nodes, *switch.nodes) if before else switch.nodes
        line = before.line if before else switch.line
        found[name] = Switch(name, line, children, tuple(dict.fromkeys(nodes)))
    return found


def _without_empty(switches: dict[str, Switch], warnings: list[str]) -> dict[str, Switch]:
    """Leave out switches that no node is below."""
    parents: dict[str, list[str]] = defaultdict(list)
    for switch in switches.values():
        for child in switch.children:
            parents[child].append(switch.name)
    used = {switch.name for switch in switches.values() if switch.nodes}
    frontier = list(used)
    while frontier:
        frontier = [p for name in frontier for p in parents[name] if p not in used]
        frontier = list(dict.fromkeys(frontier))
        used.update(frontier)
    empty = sorted(switches.keys() - used, key=natural_key)
    if empty:
        warnings.append(f"{listed('switch', empty)} without nodes; left out")
    return {
        name: Switch(name, s.line, tuple(c for c in s.children if c in used), s.nodes)
        for name, s in switches.items()
        if name in used
    }


def _heights(tree: _Tree) -> dict[str, int]:
    """Height of every switch.

    Raises:
        InventoryError: If switches form a cycle.
    """
    height = {name: 1 for name, switch in tree.switches.items() if not switch.children}
    waiting = {n: len(set(s.children)) for n, s in tree.switches.items() if s.children}
    frontier = list(height)
    while frontier:
        reached: list[str] = []
        for name in frontier:
            for parent in tree.parents.get(name, ()):
                height[parent] = max(height.get(parent, 0), height[name] + 1)
                waiting[parent] -= 1
                if not waiting[parent]:
                    del waiting[parent]
                    reached.append(parent)
        frontier = reached
    if waiting:
        cycle = _cycle(tree, waiting)
        shown = " -> ".join(str(tree.switches[name]) for name in cycle[:8])
        more = f" -> ... ({len(cycle) - 1} switches)" if len(cycle) > 8 else ""
        raise refuse(
            "Switches",
            f"switches form a cycle: {shown}{more}; a switch of a tree is not below itself",
            line=tree.switches[cycle[0]].line,
        )
    return height


def _cycle(tree: _Tree, waiting: Mapping[str, int]) -> list[str]:
    """A way from a switch back to itself; every waiting switch has a waiting child."""
    way: dict[str, int] = {}
    name = min(waiting, key=natural_key)
    while name not in way:
        way[name] = len(way)
        name = min((c for c in tree.switches[name].children if c in waiting), key=natural_key)
    return [*list(way)[way[name] :], name]


def _places(
    tree: _Tree, names: Sequence[str], warnings: list[str]
) -> dict[str, Mapping[str, str | None]]:
    torn = _torn(tree, warnings)
    rows = _rows(tree, len(names))
    places: dict[str, Mapping[str, str | None]] = {}
    doubled: list[str] = []
    for node, homes in _homes(tree).items():
        row = _agreed([rows[home] for home in homes])
        places[node] = {
            level: domain if domain != SEVERAL and domain not in torn else None
            for level, domain in zip(reversed(names), reversed(row), strict=True)
        }
        if len(homes) > 1:
            where = " and ".join(str(tree.switches[home]) for home in homes[:4])
            doubled.append(
                f"node '{node}' is in {len(homes)} switches: {where}; a node is in one, so it has "
                f"no place in level '{names[0]}'"
            )
    warnings += first_of(doubled)
    return places


def _torn(tree: _Tree, warnings: list[str]) -> set[str]:
    """Switches that lie in two parents."""
    torn = {name: parents for name, parents in tree.parents.items() if len(parents) > 1}
    told: list[str] = []
    for name, parents in torn.items():
        above = " and ".join(str(tree.switches[p]) for p in parents[:4])
        told.append(
            f"switch {tree.switches[name]} is in {len(parents)} switches: {above}; a switch of a "
            f"tree lies in one, so it was left out and its nodes have no place there"
        )
    warnings += first_of(told)
    return set(torn)


def _rows(tree: _Tree, depth: int) -> dict[str, list[str]]:
    """For each switch the domains around its nodes, innermost first; SEVERAL above a torn one."""
    rows: dict[str, list[str]] = {}
    for name in sorted(tree.switches, key=lambda name: -tree.height[name]):
        ways = []
        for parent in tree.parents.get(name, ()):
            skipped = tree.height[parent] - 1
            ways.append([name] * skipped + rows[parent][skipped:])
        rows[name] = _agreed(ways) if ways else [name] * depth
    return rows


def _agreed(rows: Sequence[list[str]]) -> list[str]:
    """What these rows have in common at each height."""
    if len(rows) == 1:
        return rows[0]
    return [row[0] if len(set(row)) == 1 else SEVERAL for row in zip(*rows, strict=True)]


def _homes(tree: _Tree) -> dict[str, list[str]]:
    """The switches that each node is plugged into, without those that list all below them."""
    listed_in: dict[str, list[str]] = {}
    for switch in tree.switches.values():
        for node in dict.fromkeys(switch.nodes):
            listed_in.setdefault(node, []).append(switch.name)
    several = {node: homes for node, homes in listed_in.items() if len(homes) > 1}
    above: dict[str, set[str]] = {}
    steps = 0
    for name in sorted({home for homes in several.values() for home in homes}):
        above[name] = _ancestors(tree, name)
        steps += len(above[name])
        if steps > ANCESTORS_MAX:
            raise refuse("Nodes", "nodes are in too many switches above one another")
    for node, homes in several.items():
        outer = set().union(*(above[home] for home in homes))
        listed_in[node] = [home for home in homes if home not in outer]
    return listed_in


def _ancestors(tree: _Tree, name: str) -> set[str]:
    found: set[str] = set()
    frontier = set(tree.parents.get(name, ()))
    while frontier:
        found |= frontier
        frontier = {p for f in frontier for p in tree.parents.get(f, ())} - found
    return found
