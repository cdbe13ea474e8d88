"""Node records -> Topology. What contradicts itself in one domain costs that domain alone.

Names are unique in their level. Domains and nodes are numbered in the natural order of their names
within their parent, so that the order of the records never matters.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from scheduler.errors import InventoryError, Problem, invariant
from scheduler.model.node import NODE_LEVEL, Inventory
from scheduler.topology.dead_rails import DEAD_RAILS, wrong_rails
from scheduler.topology.fabric_defaults import fabric_of
from scheduler.topology.natural import natural_key
from scheduler.topology.places import Places, listed, settle
from scheduler.topology.tree import Level, Topology

WARNINGS_MAX = 200
"""Warnings handed on; a map with more mistakes than this needs mending, not reading."""


@dataclass(frozen=True, slots=True)
class Built:
    """A topology and what had to be left out or filled in to make it.

    Attributes:
        warnings: Those of the inventory first, then contradictions, then smaller things.
    """

    topology: Topology
    warnings: tuple[str, ...] = ()


def build(inventory: Inventory) -> Built:
    """The tree of an inventory's nodes.

    A domain that lies in two parents is left out with a warning: its nodes have no place at that
    level, all else stays. An outer place that some nodes of a domain leave open is taken from the
    others.

    Raises:
        InventoryError: If a node comes twice, a type or level is unknown, or the levels are
            malformed.
    """
    _check(inventory)
    level_names = inventory.levels[:-1]
    declared = [[node.places.get(name) for node in inventory.nodes] for name in level_names]
    settled = settle(level_names, declared, [node.name for node in inventory.nodes])
    codes, names = _number(settled.places, [node.name for node in inventory.nodes])
    order = sorted(range(len(inventory.nodes)), key=list(zip(*codes, strict=True)).__getitem__)
    levels, place = _levels(
        inventory.levels, [[column[n] for n in order] for column in codes], names
    )
    nodes = tuple(inventory.nodes[n] for n in order)
    sets, set_warnings = _known_members(inventory)
    topology = Topology(
        cluster=inventory.cluster,
        levels=levels,
        nodes=nodes,
        types=tuple(inventory.node_types[node.type] for node in nodes),
        place=place,
        node_index={node.name: index for index, node in enumerate(nodes)},
        level_index={name: depth for depth, name in enumerate(inventory.levels)},
        scale_up=inventory.scale_up,
        fabric=fabric_of(inventory),
        racks={
            rack.name: rack for rack in sorted(inventory.racks, key=lambda r: natural_key(r.name))
        },
        sets=sets,
    )
    rack_warnings = _racks_without_nodes(inventory, levels)
    rail_warnings = [
        f"{wrong}; ignored"
        for node, node_type in zip(nodes, topology.types, strict=True)
        if DEAD_RAILS in node.labels and (wrong := wrong_rails(node, node_type))
    ]
    found = chain(inventory.warnings, settled.warnings, set_warnings, rack_warnings, rail_warnings)
    return Built(topology, _capped(list(found)))


def _check(inventory: Inventory) -> None:
    """Refuse what no tree can be made of; importers that know the line refuse it earlier."""
    problems = _level_problems(inventory)
    seen: set[str] = set()
    used: dict[str, str] = {}
    for node in inventory.nodes:
        if node.name in seen:
            problems.append(
                Problem("nodes", f"node '{node.name}' comes twice; a node has one record")
            )
        seen.add(node.name)
        used.setdefault(node.type, node.name)
    for type_name, node_name in used.items():
        node_type = inventory.node_types.get(type_name)
        if node_type is None:
            message = (
                f"node '{node_name}' is of type '{type_name}', which is not among the node types"
            )
            problems.append(Problem("node_types", message))
        elif node_type.scale_up is not None and node_type.scale_up not in inventory.levels:
            problems.append(unknown_scale_up(type_name, node_type.scale_up, inventory.levels))
    if problems:
        raise InventoryError(problems)


def unknown_scale_up(type_name: str, level: str, levels: Sequence[str]) -> Problem:
    """The problem of a type whose scale-up links span a level that the inventory does not have."""
    return Problem(
        f"node_types.{type_name}.scale_up",
        f"the GPUs of type '{type_name}' talk inside one '{level}', which is not among the levels "
        f"{', '.join(levels)}; add that level, or name the level that holds one scale-up domain: "
        f"node_types: {{{type_name}: {{scale_up: {NODE_LEVEL}}}}}",
    )


def _level_problems(inventory: Inventory) -> list[Problem]:
    levels, problems = inventory.levels, []
    if not levels or levels[-1] != NODE_LEVEL:
        problems.append(
            Problem(
                "levels", f"the last level is '{NODE_LEVEL}'; found {', '.join(levels) or 'none'}"
            )
        )
    if len(set(levels)) != len(levels):
        problems.append(Problem("levels", f"a level comes twice: {', '.join(levels)}"))
    for path, named in (
        ("scale_up", [inventory.scale_up]),
        ("fabric.levels", list(inventory.fabric)),
    ):
        problems += [
            Problem(path, f"'{name}' is not among the levels {', '.join(levels)}")
            for name in named
            if name not in levels
        ]
    return problems


def _number(places: Places, node_names: Sequence[str]) -> tuple[list[list[int]], list[str]]:
    """A code for every node's domain at every level, and the name behind each code.

    Codes follow the natural order of names and grow with the level. A node without a place has the
    code of the nearest inner domain that it is in, which gives that domain a blank parent of its
    own and puts blanks behind named siblings.
    """
    columns: list[list[int]] = []
    names: list[str] = []
    for column in (*places, node_names):
        ordered = sorted({name for name in column if name is not None}, key=natural_key)
        code_of: dict[str | None, int] = {
            name: code for code, name in enumerate(ordered, start=len(names))
        }
        code_of[None] = -1
        names += ordered
        columns.append([code_of[name] for name in column])
    for outer, inner in zip(columns[-2::-1], columns[:0:-1], strict=True):
        for node, code in enumerate(outer):
            if code < 0:
                outer[node] = inner[node]
    return columns, names


def _levels(
    level_names: Sequence[str], codes: Sequence[Sequence[int]], names: Sequence[str]
) -> tuple[tuple[Level, ...], tuple[tuple[int, ...], ...]]:
    """The rows of domains over nodes in tree order, and each node's place in each row."""
    levels: list[Level] = []
    places = [_runs(column) for column in codes]
    for depth, level_name in enumerate(level_names):
        starts, place = places[depth]
        inner_starts, inner_place = places[min(depth + 1, len(places) - 1)]
        node_count, last = len(place), depth == len(places) - 1
        node_hi = (*starts[1:], node_count) if starts else ()
        child_lo = tuple(inner_place[node] for node in starts)
        inner = codes[depth + 1] if not last else codes[depth]
        levels.append(
            Level(
                name=level_name,
                names=tuple(
                    "" if not last and codes[depth][n] == inner[n] else names[codes[depth][n]]
                    for n in starts
                ),
                parent=tuple(places[depth - 1][1][n] for n in starts)
                if depth
                else (0,) * len(starts),
                node_lo=tuple(starts),
                node_hi=node_hi,
                child_lo=child_lo,
                child_hi=(*child_lo[1:], len(inner_starts)) if starts else (),
            )
        )
        invariant(
            len(set(codes[depth])) == len(starts),
            f"the domains of level '{level_name}' are not contiguous",
        )
    return tuple(levels), tuple(place for _, place in places)


def _runs(column: Sequence[int]) -> tuple[list[int], tuple[int, ...]]:
    """Where each run of equal codes starts, and the run that each position is in."""
    starts: list[int] = []
    place: list[int] = []
    before = -1
    for position, code in enumerate(column):
        if code != before:
            starts.append(position)
            before = code
        place.append(len(starts) - 1)
    return starts, tuple(place)


def _known_members(inventory: Inventory) -> tuple[dict[str, dict[str, tuple[str, ...]]], list[str]]:
    """The sets with the nodes that there are, and a warning for each set that names others."""
    known = {node.name for node in inventory.nodes}
    sets: dict[str, dict[str, tuple[str, ...]]] = {}
    warnings: list[str] = []
    for kind, by_name in sorted(inventory.sets.items()):
        sets[kind] = {}
        for name, members in sorted(by_name.items(), key=lambda item: natural_key(item[0])):
            sets[kind][name] = tuple(sorted(known.intersection(members), key=natural_key))
            missing = sorted(set(members) - known, key=natural_key)
            if missing:
                warnings.append(
                    f"set {kind} '{name}': {listed('node', missing)} not in the inventory; left out"
                )
    return sets, warnings


def _racks_without_nodes(inventory: Inventory, levels: Sequence[Level]) -> list[str]:
    domains = set(chain.from_iterable(level.names for level in levels[:-1]))
    without = sorted(
        (rack.name for rack in inventory.racks if rack.name not in domains), key=natural_key
    )
    return [f"{listed('rack', without)} without nodes"] if without else []


def _capped(warnings: list[str]) -> tuple[str, ...]:
    if len(warnings) <= WARNINGS_MAX:
        return tuple(warnings)
    return (*warnings[:WARNINGS_MAX], f"and {len(warnings) - WARNINGS_MAX} warnings more")
