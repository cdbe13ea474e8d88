"""`yardctl tree`: the cluster's domains and what is free in them, drawn as a tree."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from client.cli.options import OutputOption, ServerOption
from client.cli.output import write_object
from client.cli.session import open_session
from client.cli.table import Column, Table
from client.cli.text import clean, count, note, out
from client.shapes import Topology, TreeDomain

BAR_CELLS = 10
_Count = Literal["nodes", "nodes_free", "gpus", "gpus_free"]
_COUNTS: tuple[_Count, ...] = ("nodes", "nodes_free", "gpus", "gpus_free")
REST = "no place"
"""Where nodes are counted that are in none of the domains beside."""
_LINES = ("├── ", "└── ", "│   ")
_PLAIN_LINES = ("|-- ", "`-- ", "|   ")


@dataclass(frozen=True, slots=True)
class Row:
    """One domain, its name behind the lines of the tree."""

    label: str
    nodes: int
    nodes_free: int
    gpus: int
    gpus_free: int


def tree(
    ctx: typer.Context,
    *,
    level: Annotated[
        str | None, typer.Option(metavar="LEVEL", help="Deepest level that is drawn.")
    ] = None,
    output: OutputOption = None,
    server: ServerOption = None,
) -> None:
    """Draw the domains with their free and total GPUs, and nodes of which no GPU is in use.

    A domain whose name begins with that of the domain around it is shown by the rest of its name.
    """
    session = open_session(ctx, server=server, output=output)
    topology = session.client.topology()
    depth = _depth(topology.get("levels") or [], level)
    if session.data_output is not None:
        write_object(topology, session.data_output)
        return
    if not topology.get("nodes"):
        note("No nodes yet. Import some: yardctl apply -f INVENTORY.yaml")
        return
    columns: list[Column[Row]] = [
        Column("DOMAIN", lambda row: row.label),
        Column("NODES", lambda row: row.nodes),
        Column("GPUS", lambda row: row.gpus),
        Column("FREE", lambda row: row.gpus_free),
        Column("TAKEN", lambda row: bar(row.gpus - row.gpus_free, row.gpus)),
        Column("FREE NODES", lambda row: row.nodes_free),
    ]
    Table(columns).write(tree_rows(topology, depth))
    room = list(room_rows(topology, depth))
    if room:
        out("\nRoom by level:")
        Table(ROOM, indent="  ").write(room)


@dataclass(frozen=True, slots=True)
class Room:
    """What is free at one level.

    Attributes:
        domains, empty: How many there are; of these, those without a GPU in use.
        largest: The one with the most whole free nodes, and its free GPUs beside.
    """

    level: str
    domains: int
    empty: int
    gpus: int
    gpus_free: int
    largest: TreeDomain


def room_rows(topology: Topology, depth: int) -> Iterator[Room]:
    """Free room of each level, outermost first; its largest block is what one gang could get."""
    for level in (topology.get("levels") or [])[:depth]:
        there = list(_of_level(topology.get("tree") or [], level))
        if there:
            yield Room(
                level,
                len(there),
                sum(d.get("gpus_free", 0) == d.get("gpus", 0) > 0 for d in there),
                sum(d.get("gpus", 0) for d in there),
                sum(d.get("gpus_free", 0) for d in there),
                max(there, key=lambda d: (d.get("nodes_free", 0), d.get("gpus_free", 0))),
            )


def _of_level(domains: Sequence[TreeDomain], level: str) -> Iterator[TreeDomain]:
    for domain in domains:
        if domain.get("level") == level and domain.get("name"):
            yield domain
        else:
            yield from _of_level(domain.get("children") or [], level)


def _largest(room: Room) -> str:
    """`l3: 19 nodes, 152 GPUs`."""
    block = room.largest
    if not block.get("gpus_free"):
        return "nothing free"
    nodes, gpus = block.get("nodes_free", 0), block.get("gpus_free", 0)
    return f"{block.get('name')}: {count(nodes, 'free node')}, {count(gpus, 'free GPU')}"


ROOM: list[Column[Room]] = [
    Column("LEVEL", lambda room: room.level),
    Column("DOMAINS", lambda room: room.domains),
    Column("EMPTY", lambda room: room.empty),
    Column("FREE GPUS", lambda room: room.gpus_free),
    Column("TAKEN", lambda room: bar(room.gpus - room.gpus_free, room.gpus)),
    Column("LARGEST FREE BLOCK", _largest),
]


def _depth(levels: Sequence[str], level: str | None) -> int:
    """How many levels are drawn.

    Raises:
        typer.BadParameter: If there is no such level above the nodes.
    """
    above = levels[:-1]
    if level is None:
        return len(above)
    if level not in above:
        known = ", ".join(clean(name) for name in above) or "none"
        raise typer.BadParameter(f"'{level}' is no level above the nodes; there are: {known}")
    return above.index(level) + 1


def tree_rows(topology: Topology, depth: int) -> Iterator[Row]:
    """The cluster itself, then every domain down to a depth, parents before children."""
    domains = topology.get("tree") or []
    free = sum(domain.get("gpus_free", 0) for domain in domains)
    nodes_free = sum(domain.get("nodes_free", 0) for domain in domains)
    name = topology.get("cluster") or "cluster"
    yield Row(name, topology.get("nodes", 0), nodes_free, topology.get("gpus", 0), free)
    levels = frozenset((topology.get("levels") or [])[:depth])
    yield from _below(domains, "", levels, _lines())


def _below(
    domains: Sequence[TreeDomain],
    prefix: str,
    levels: frozenset[str],
    lines: tuple[str, str, str],
    around: tuple[str, ...] = (),
) -> Iterator[Row]:
    between, end, down = lines
    drawn = named(domains, levels)
    for number, domain in enumerate(drawn, 1):
        is_last = number == len(drawn)
        name = domain.get("name", "")
        yield Row(
            f"{prefix}{end if is_last else between}{domain.get('level')} "
            f"{_short(name, around)}".rstrip(),
            domain.get("nodes", 0),
            domain.get("nodes_free", 0),
            domain.get("gpus", 0),
            domain.get("gpus_free", 0),
        )
        below = prefix + (" " * len(down) if is_last else down)
        yield from _below(domain.get("children") or [], below, levels, lines, (*around, name))


def _short(name: str, around: Sequence[str]) -> str:
    """The name without the path that the domains around it show already."""
    begun = max((len(outer) + 1 for outer in around if name.startswith(f"{outer}/")), default=0)
    return name[begun:].removeprefix("-/")


def named(domains: Sequence[TreeDomain], levels: frozenset[str]) -> list[TreeDomain]:
    """The domains that are drawn: those with a name, and one for nodes that are in none of them.

    A domain without a name stands for nodes without a place at its level; what they have further
    in takes its place. None are drawn where all nodes are without.
    """
    found: list[TreeDomain] = []
    rest: TreeDomain = {"level": REST, "name": ""}
    for domain in domains:
        if domain.get("level") not in levels:
            continue
        inner = [] if domain.get("name") else named(domain.get("children") or [], levels)
        places = [domain] if domain.get("name") else [d for d in inner if d.get("level") != REST]
        found += places
        for key in _COUNTS:
            left = domain.get(key, 0) - sum(place.get(key, 0) for place in places)
            rest[key] = rest.get(key, 0) + left
    return [*found, rest] if found and rest.get("nodes") else found


def _lines() -> tuple[str, str, str]:
    """Lines that the output's encoding has."""
    try:
        "".join(_LINES).encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return _PLAIN_LINES
    return _LINES


def bar(taken: int, total: int) -> str:
    """A share as a bar and a number, never full or empty when it is only nearly so."""
    if total <= 0:
        return "-"
    filled = round(BAR_CELLS * taken / total)
    if 0 < taken < total:
        filled = min(max(filled, 1), BAR_CELLS - 1)
    return f"[{'#' * filled}{'.' * (BAR_CELLS - filled)}] {100 * taken // total}%"
