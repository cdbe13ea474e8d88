"""A small drawing of where a job is: one character for each node, levels as they come."""

import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from client.cli.columns import node_health
from client.cli.text import BOLD, GREEN, cell_count, clean, coloured, count, padded
from client.shapes import Node, Pod

WHOLE, PART, FREE, FULL, ASIDE = "#", "+", ".", "o", "x"
LEGEND = {
    WHOLE: "whole node",
    PART: "part of the node",
    FREE: "has free GPUs",
    FULL: "in use by others",
    ASIDE: "takes no new pods",
}
PIPE_WIDTH = 100
"""Columns of a row where no terminal says how many it has."""

CELLS_MAX = 64
"""Nodes of one innermost domain on one line."""


@dataclass(slots=True)
class Branch:
    """A domain of the drawing: its children by name, or its nodes as characters."""

    children: dict[str, "Branch"] = field(default_factory=dict)
    cells: list[str] = field(default_factory=list)

    @property
    def all_cells(self) -> Iterator[str]:
        yield from self.cells
        for child in self.children.values():
            yield from child.all_cells

    @property
    def has_job(self) -> bool:
        return any(cell in {WHOLE, PART} for cell in self.all_cells)


def draw_map(
    levels: Sequence[str], nodes: Iterable[Node], pods: Iterable[Pod], width: int | None = None
) -> Iterator[str]:
    """Lines of the drawing; domains without the job are counted, not drawn.

    The innermost level above the nodes is drawn side by side, in one row for each domain of
    the level around it; levels further out are headings.

    Args:
        levels: Outermost first, without the nodes; may be empty.
        width: Columns of a row; the terminal's, or 100, without.
    """
    root = _branches(levels, nodes, pods)
    if width is None:
        is_terminal = sys.stdout.isatty()
        width = shutil.get_terminal_size().columns if is_terminal else PIPE_WIDTH
    yield from _draw(root, list(levels), "", width)
    used = dict.fromkeys(root.all_cells)
    yield ""
    yield "   ".join(f"{cell} {text}" for cell, text in LEGEND.items() if cell in used)


def _branches(levels: Sequence[str], nodes: Iterable[Node], pods: Iterable[Pod]) -> Branch:
    held: dict[str, int] = {}
    for pod in pods:
        held[pod.get("node", "")] = held.get(pod.get("node", ""), 0) + len(pod.get("gpus") or [])
    root = Branch()
    for node in nodes:
        branch = root
        places = node.get("domains") or {}
        for level in levels:
            branch = branch.children.setdefault(places.get(level) or "-", Branch())
        branch.cells.append(_cell(node, held.get(node.get("name", ""))))
    return root


def _cell(node: Node, held: int | None) -> str:
    if held is not None:
        return WHOLE if held >= node.get("gpus", 0) else PART
    if node_health(node) != "healthy":
        return ASIDE
    return FREE if node.get("gpus_free") or not node.get("gpus") else FULL


def _draw(branch: Branch, levels: list[str], indent: str, width: int) -> Iterator[str]:
    if not levels:
        yield from _wrapped(indent, _pieces("", branch.cells), width)
        return
    level, *below = levels
    with_job = {name: child for name, child in branch.children.items() if child.has_job}
    if not below:
        yield from _row(f"{indent}{clean(level)}  ", with_job, width)
    elif len(below) == 1:
        label = max((cell_count(clean(name)) for name in with_job), default=0)
        for name, child in with_job.items():
            head = f"{indent}{clean(level)} {padded(clean(name), label)}  "
            yield from _row(head, child.children, width)
    else:
        for name, child in with_job.items():
            yield f"{indent}{clean(level)} {clean(name)}"
            yield from _draw(child, below, indent + "  ", width)
    if others := len(branch.children) - len(with_job):
        what = count(others, f"other {clean(level)} domain")
        yield f"{indent}({what} without this job)"


def _row(head: str, domains: Mapping[str, Branch], width: int) -> Iterator[str]:
    """Domains side by side, each its name and a character for each of its nodes."""
    label = max((cell_count(clean(name)) for name in domains), default=0)
    pieces = [
        piece
        for name, domain in domains.items()
        for piece in _pieces(padded(clean(name), label) + " ", domain.cells)
    ]
    yield from _wrapped(head, pieces, width)


def _pieces(label: str, cells: Sequence[str]) -> Iterator[tuple[str, str]]:
    """A domain's label and cells; cells that are too many go on without the label."""
    for start in range(0, len(cells), CELLS_MAX):
        yield label if start == 0 else "", "".join(cells[start : start + CELLS_MAX])


def _wrapped(head: str, pieces: Iterable[tuple[str, str]], width: int) -> Iterator[str]:
    """Lines of pieces, two spaces apart, the later ones below the first piece."""
    start = cell_count(head)
    line, used = head, start
    for label, cells in pieces:
        size = cell_count(label) + len(cells)
        if used > start and used + size > width:
            yield line.rstrip()
            line, used = " " * start, start
        line += label + _coloured_cells(cells) + "  "
        used += size + 2
    yield line.rstrip()


def _coloured_cells(cells: str) -> str:
    return "".join(
        coloured("".join(run), f"{BOLD};{GREEN}") if is_job else "".join(run)
        for is_job, run in groupby(cells, key=lambda cell: cell in {WHOLE, PART})
    )
