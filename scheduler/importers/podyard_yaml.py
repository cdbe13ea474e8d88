"""Podyard's own inventory format: YAML or JSON -> Inventory, and back."""

from collections.abc import Mapping

from scheduler.importers.fields import Fields, name_problem, place_problem
from scheduler.importers.hostlist import NAMES_MAX
from scheduler.importers.node_type_data import BUILT_IN
from scheduler.importers.node_types import read_type
from scheduler.importers.plain_values import shown
from scheduler.importers.podyard_nodes import FIELDS as NODE_FIELDS
from scheduler.importers.podyard_nodes import NodeEntries, read_names, refuse_bad, refuse_twice
from scheduler.importers.podyard_render import render
from scheduler.importers.refusals import Refusals, refuse
from scheduler.importers.yaml_text import read
from scheduler.model.node import NODE_LEVEL, FabricLevel, Inventory, NodeType, RackRecord
from scheduler.topology.build import unknown_scale_up
from scheduler.topology.natural import natural_key

__all__ = ["DEFAULT_LEVELS", "parse", "render"]

DEFAULT_LEVELS = ("block", "leaf", "rack", NODE_LEVEL)
"""Levels of an inventory that names none."""

LEVELS_MAX = 16
"""Levels of one inventory; the deepest known fabric has 7."""

SET_MEMBERS_MAX = 300_000
"""Members of all sets together: every node of 100,000 in three of them."""

_TOP_FIELDS = ("cluster", "levels", "scale_up", "node_types", "nodes", "racks", "sets", "fabric")
_RACK_FIELDS = ("names", "power_kw", "cdu")
_RACK = "rack"
_FABRIC_FIELDS = ("gbps_per_gpu", "oversubscription")

_RESERVED_LEVELS = (*NODE_FIELDS, "scale_up")
"""Fields of a node entry, and the word by which rules mean whichever level a node type names."""

_RACK_POWER_KW_MAX = 1e4
_GBPS_MIN, _GBPS_MAX = 1e-3, 1e6
_OVERSUBSCRIPTION_MAX = 1e3


def parse(text: str | bytes) -> Inventory:
    """The inventory that a text describes; nodes, racks and sets in natural order.

    Raises:
        InventoryError: With up to 50 problems, each at the path of its field, as `nodes[3].rack`.
    """
    document = read(text)
    if not isinstance(document.value, dict):
        raise refuse("", f"an inventory is a mapping; found {shown(document.value)}")
    refusals = Refusals()
    top = Fields(document.value, "", document, refusals)
    top.allow(_TOP_FIELDS)
    levels = _levels(top)
    if not levels:
        # Without levels every field of every node would look wrong.
        refusals.raise_if_any()
    inventory = _inventory(top, levels)
    refusals.raise_if_any()
    return inventory


def _inventory(top: Fields, levels: tuple[str, ...]) -> Inventory:
    types = _declared_types(top)
    if top.values.get("nodes") is None:
        top.refuse("nodes", "missing; write `nodes: []` for none")
    nodes = NodeEntries(levels[:-1], {**BUILT_IN, **types})
    for entry in top.mappings("nodes"):
        nodes.read(entry)
    types |= {name: BUILT_IN[name] for name in sorted(nodes.used_types - types.keys())}
    return Inventory(
        cluster=top.name("cluster") or "default",
        levels=levels,
        scale_up=_scale_up(top, types, levels),
        node_types=types,
        nodes=tuple(sorted(nodes.records, key=lambda node: natural_key(node.name))),
        racks=_racks(top),
        sets=_sets(top),
        fabric=_fabric(top, levels),
    )


def _levels(top: Fields) -> tuple[str, ...]:
    """The levels, outermost first; empty if they are wrong."""
    written = top.values.get("levels")
    if written is None:
        return DEFAULT_LEVELS
    levels = tuple(top.texts("levels"))
    if len(levels) != (len(written) if isinstance(written, list) else 1):
        return ()
    problems = [problem for problem in map(name_problem, levels) if problem]
    problems += [
        f"'{level}' cannot name a level; it has a meaning of its own"
        for level in _RESERVED_LEVELS
        if level in levels
    ]
    problems += [f"'{name}' comes twice" for name in sorted(set(levels)) if levels.count(name) > 1]
    if levels[-1:] != (NODE_LEVEL,):
        problems.append(f"the last level is '{NODE_LEVEL}'; found {', '.join(levels) or 'none'}")
    if len(levels) > LEVELS_MAX:
        problems.append(f"there are {len(levels)} levels; at most {LEVELS_MAX} are allowed")
    for problem in problems:
        top.refuse("levels", problem)
    return () if problems else levels


def _declared_types(top: Fields) -> dict[str, NodeType]:
    inner = top.mapping("node_types")
    types: dict[str, NodeType] = {}
    for name in sorted(inner.values, key=natural_key):
        problem = name_problem(name)
        if problem is not None:
            inner.refuse(name, problem)
        fields = inner.mapping(name)
        if isinstance(inner.values[name], dict | None):
            types[name] = read_type(name, fields)
    return types


def _scale_up(top: Fields, types: Mapping[str, NodeType], levels: tuple[str, ...]) -> str:
    scale_up = top.name("scale_up") or NODE_LEVEL
    if scale_up not in levels:
        top.refuse("scale_up", _unknown_level(scale_up, levels))
    for name, node_type in types.items():
        if node_type.scale_up is not None and node_type.scale_up not in levels:
            problem = unknown_scale_up(name, node_type.scale_up, levels)
            top.refuse(problem.path, problem.message)
    return scale_up


def _racks(top: Fields) -> tuple[RackRecord, ...]:
    racks: list[RackRecord] = []
    entry_of: dict[str, str] = {}
    for entry in top.mappings("racks"):
        entry.allow(_RACK_FIELDS)
        names = read_names(entry, "names", limit=NAMES_MAX, used=len(entry_of))
        refuse_bad(entry, names, place_problem)
        refuse_twice(entry, names, entry_of, _RACK)
        power_w = round(1e3 * entry.number("power_kw", 0, 0, _RACK_POWER_KW_MAX))
        cdu = entry.place("cdu")
        racks += [RackRecord(name, power_w, cdu) for name in names]
    return tuple(sorted(racks, key=lambda rack: natural_key(rack.name)))


def _sets(top: Fields) -> dict[str, dict[str, tuple[str, ...]]]:
    sets: dict[str, dict[str, tuple[str, ...]]] = {}
    kinds = top.mapping("sets")
    used = 0
    for kind in sorted(kinds.values, key=natural_key):
        _refuse_key(kinds, kind)
        inner = kinds.mapping(kind)
        sets[kind] = {}
        for name in sorted(inner.values, key=natural_key):
            _refuse_key(inner, name)
            empty = inner.values[name] == []
            limit = SET_MEMBERS_MAX
            members = [] if empty else read_names(inner, name, limit=limit, used=used)
            used += len(members)
            sets[kind][name] = tuple(sorted(set(members), key=natural_key))
    return sets


def _refuse_key(fields: Fields, key: str) -> None:
    problem = place_problem(key)
    if problem is not None:
        fields.refuse(key, problem)


def _fabric(top: Fields, levels: tuple[str, ...]) -> dict[str, FabricLevel]:
    outer = top.mapping("fabric")
    outer.allow(("levels",))
    by_level = outer.mapping("levels")
    fabric: dict[str, FabricLevel] = {}
    for level in by_level.values:
        if level not in levels:
            by_level.refuse(level, _unknown_level(level, levels))
        inner = by_level.mapping(level)
        inner.allow(_FABRIC_FIELDS)
        if inner.values.get("gbps_per_gpu") is None:
            inner.refuse("gbps_per_gpu", "missing; write one GPU's bandwidth in Gbit/s, one way")
        fabric[level] = FabricLevel(
            inner.number("gbps_per_gpu", _GBPS_MIN, _GBPS_MIN, _GBPS_MAX),
            inner.number("oversubscription", 1, 1, _OVERSUBSCRIPTION_MAX),
        )
    return fabric


def _unknown_level(level: str, levels: tuple[str, ...]) -> str:
    return f"{shown(level)} is not among the levels {', '.join(levels)}"
