"""Places and domains of nodes -> Inventory: names scoped by their path, scale-up domains nested."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from scheduler.importers.fields import NAME_LENGTH_MAX
from scheduler.importers.machines import UNTOLD, Machine, type_nodes
from scheduler.importers.nesting import nest, nesting_warnings, with_level
from scheduler.importers.options import Options
from scheduler.model.node import NODE_LEVEL, Inventory, NodeRecord, Taint
from scheduler.topology.natural import natural_key

DOMAIN_LEVEL = "accelerator"
"""Level of the domains of multi-node scale-up links: the word of those who label them."""

DOMAIN_NOUN = "scale-up domain"

GAP = "-"
"""Stands in a path for a level at which a node has no place."""

Columns = dict[str, list[str | None]]
"""For each level, outermost first, the domain of each node."""


@dataclass(frozen=True, slots=True)
class Described:
    """A node and what a description tells of it beside its place."""

    name: str
    machine: Machine = UNTOLD
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()


def inventory_of_domains(
    nodes: Sequence[Described],
    columns: Columns,
    domain_of: Mapping[str, str],
    options: Options,
    *,
    warnings: Iterable[str] = (),
    sets: Mapping[str, Mapping[str, str]] | None = None,
) -> Inventory:
    """An inventory of these places.

    Args:
        nodes: In the order of the columns.
        domain_of: Scale-up domain of each node that has one; they become the level `DOMAIN_LEVEL`
            where they nest, and are kept as named sets too.
        sets: Kind -> node -> set, for what is to be a named set and no level.
    """
    names = [node.name for node in nodes]
    told = list(warnings)
    domain_level = None
    if domain_of:
        kind = [domain_of.get(name) for name in names]
        nested = nest(list(columns.values()), kind)
        inner = list(columns)[nested.position :] if nested.position is not None else []
        told += nesting_warnings(DOMAIN_NOUN, nested, names, next(iter(inner), None))
        columns = with_level(columns, DOMAIN_LEVEL, kind, nested)
        domain_level = DOMAIN_LEVEL if nested.position is not None else None
    levels = (*columns, NODE_LEVEL)
    machines = {node.name: node.machine for node in nodes}
    domains = columns.get(DOMAIN_LEVEL, [])
    typed = type_nodes(
        machines,
        options,
        levels,
        domain_level=domain_level,
        in_domain=[n for n, domain in zip(names, domains, strict=False) if domain is not None],
    )
    records = [
        NodeRecord(
            name=node.name,
            type=typed.type_of[node.name],
            places={level: column[index] for level, column in columns.items()},
            labels=node.labels,
            taints=node.taints,
        )
        for index, node in enumerate(nodes)
    ]
    kinds = {DOMAIN_LEVEL: domain_of, **(sets or {})}
    return Inventory(
        cluster=options.cluster,
        levels=levels,
        scale_up=options.scale_up_of(levels, domain_level or NODE_LEVEL),
        node_types=typed.types,
        nodes=tuple(sorted(records, key=lambda node: natural_key(node.name))),
        sets={kind: _members(names, set_of) for kind, set_of in kinds.items() if set_of},
        warnings=(*told, *typed.warnings),
    )


def _members(names: Sequence[str], set_of: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    members: dict[str, list[str]] = defaultdict(list)
    for name in sorted(names, key=natural_key):
        if name in set_of:
            members[set_of[name]].append(name)
    return {name: tuple(found) for name, found in sorted(members.items())}


def scoped(columns: Columns) -> tuple[Columns, list[str]]:
    """The same places with paths as names, and a warning for each level whose names need them.

    Outer levels at which a node has no place are left out of its paths.
    """
    found: Columns = {level: [] for level in columns}
    for row in zip(*columns.values(), strict=True):
        for depth, level in enumerate(columns):
            found[level].append(_path(row[: depth + 1]))
    return found, [
        warning
        for level, column in columns.items()
        if (warning := _repeated(level, column, found[level]))
    ]


def _path(names: Sequence[str | None]) -> str | None:
    if names[-1] is None:
        return None
    start = next(i for i, name in enumerate(names) if name is not None)
    parts = [GAP if name is None else name.replace("/", "+") for name in names[start:]]
    path = "/".join(parts)
    if len(path) <= NAME_LENGTH_MAX:
        return path
    head = sha256("/".join(parts[:-1]).encode()).hexdigest()[:16]
    return f"x{head}/{parts[-1]}"


def _repeated(level: str, names: Sequence[str | None], paths: Sequence[str | None]) -> str | None:
    """What to tell of names that stand for several domains."""
    places: dict[str, set[str]] = defaultdict(set)
    for name, path in zip(names, paths, strict=True):
        if name is not None and path is not None:
            places[name].add(path)
    several = sorted((n for n, found in places.items() if len(found) > 1), key=natural_key)
    if not several:
        return None
    example = sorted(places[several[0]], key=natural_key)
    return (
        f"{len(several)} names of level '{level}' are used in several places, such as "
        f"'{several[0]}' for '{example[0]}' and '{example[1]}'; each is a {level} of its own"
    )
