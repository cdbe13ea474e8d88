"""`yardctl tree`: the cluster's domains and what is free in them, drawn as a tree."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from client.cli.options import OutputOption, ServerOption
from client.cli.output import write_object
from client.cli.session import open_session
from client.cli.table import Column, Table
from client.cli.text import clean, note
from client.shapes import Topology, TreeDomain

BAR_CELLS = 10
_LINES = ("├── ", "└── ", "│   ")
_PLAIN_LINES = ("|-- ", "`-- ", "|   ")


@dataclass(frozen=True, slots=True)
class Row:
    """One domain, its name behind the lines of the tree."""

    label: str
    nodes: int
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
    """Draw the domains with their free and total GPUs."""
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
    ]
    Table(columns).write(tree_rows(topology, depth))


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
    name = topology.get("cluster") or "cluster"
    yield Row(name, topology.get("nodes", 0), topology.get("gpus", 0), free)
    yield from _below(domains, "", depth, _lines())


def _below(
    domains: Sequence[TreeDomain], prefix: str, depth: int, lines: tuple[str, str, str]
) -> Iterator[Row]:
    if depth == 0:
        return
    between, end, down = lines
    for number, domain in enumerate(domains, 1):
        is_last = number == len(domains)
        name = f"{domain.get('level')} {domain.get('name') or '-'}"
        yield Row(
            f"{prefix}{end if is_last else between}{name}",
            domain.get("nodes", 0),
            domain.get("gpus", 0),
            domain.get("gpus_free", 0),
        )
        below = prefix + (" " * len(down) if is_last else down)
        yield from _below(domain.get("children") or [], below, depth - 1, lines)


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
