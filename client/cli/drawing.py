"""A job's verdict drawn for a terminal: the nearest domain, who is there, and what would help."""

import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap

from client.cli.columns import node_health
from client.cli.text import DIM, GREEN, YELLOW, cell_count, clean, coloured, count, padded
from client.cli.verdict import change_text, commands_of, holder_text
from client.shapes import Change, Holder, Node, Verdict

PIPE_WIDTH = 100
"""Columns where no terminal says how many it has."""

USED, FREE, ASIDE = "#", ".", "x"
BAR_GPUS_MAX = 16
"""Larger nodes, and domains of more nodes than this many lines hold, are one character a node."""

NODES_MAX = 128
BAR_CELLS = 30


def width_of_output() -> int:
    """Columns of the terminal, or 100 in a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else PIPE_WIDTH


def draw_nodes(verdict: Verdict, nodes: Iterable[Node], width: int) -> Iterator[str]:
    """The nearest domain, node by node, each with a cell for every GPU."""
    there = list(nodes)
    nearest = verdict.get("nearest")
    if not nearest or not there:
        return
    yield clean(f"{nearest.get('level')} '{nearest.get('domain')}', the nearest")
    gpus = max(node.get("gpus", 0) for node in there)
    if gpus <= BAR_GPUS_MAX and len(there) <= NODES_MAX:
        yield from _columns([_bar(node, gpus) for node in there], width)
        yield f"  {FREE} free GPU   {USED} in use   {ASIDE} on a node that takes no new pods"
    else:
        yield from _rows("".join(_cell(node) for node in there), width)
        yield f"  {FREE} free node   + free in part   {USED} in use   {ASIDE} takes no new pods"


def _bar(node: Node, gpus: int) -> tuple[str, str]:
    """A node's name, and its GPUs in brackets."""
    total, free = node.get("gpus", 0), node.get("gpus_free", 0)
    if node_health(node) != "healthy":
        cells = USED * (total - free) + ASIDE * free
    else:
        cells = USED * (total - free) + FREE * free
    return clean(node.get("name", "")), padded(f"[{cells}]", gpus + 2)


def _columns(bars: Sequence[tuple[str, str]], width: int) -> Iterator[str]:
    """Bars side by side, as many as the width holds."""
    label = max(cell_count(name) for name, _ in bars)
    size = 2 + label + 1 + len(bars[0][1])
    in_line = max(1, (width - 1) // size)
    for start in range(0, len(bars), in_line):
        row = bars[start : start + in_line]
        line = "".join(f"  {padded(name, label)} {_tinted(bar)}" for name, bar in row)
        yield line.rstrip()


def _tinted(bar: str) -> str:
    if ASIDE in bar:
        return coloured(bar, YELLOW)
    return coloured(bar, GREEN) if USED not in bar else bar


def _cell(node: Node) -> str:
    if node_health(node) != "healthy":
        return ASIDE
    free, total = node.get("gpus_free", 0), node.get("gpus", 0)
    if free < total:
        return "+" if free else USED
    return FREE


def _rows(cells: str, width: int) -> Iterator[str]:
    size = max(10, min(64, width - 4))
    for start in range(0, len(cells), size):
        yield f"  {cells[start : start + size]}"


def draw_counts(verdict: Verdict, width: int) -> Iterator[str]:
    """Nodes by why they were set aside, as bars."""
    aside = verdict.get("set_aside") or {}
    if not aside:
        return
    yield "Nodes set aside"
    most = max(aside.values())
    names = {reason: clean(reason.replace("_", " ")) for reason in aside}
    label = max(map(cell_count, names.values()))
    digits = len(str(most))
    cells = max(4, min(BAR_CELLS, width - label - digits - 6))
    for reason, number in aside.items():
        bar = USED * max(1, round(cells * number / most))
        yield f"  {number:>{digits}} {padded(names[reason], label)}  {coloured(bar, DIM)}"


def draw_holders(holders: Sequence[Holder]) -> Iterator[str]:
    """Who holds what is missing, and for how long."""
    if holders:
        yield "Held by"
        for holder in holders:
            yield clean(f"  {holder_text(holder)}")


def draw_changes(changes: Sequence[Change], job: str, width: int) -> Iterator[str]:
    """What would help, with what to type for it."""
    if not changes:
        return
    what = "this was tried" if len(changes) == 1 else "each was tried"
    yield f"Would help ({what} on a copy of the cluster)"
    for number, change in enumerate(changes, 1):
        head = f"  {number}. "
        room = max(30, width - len(head) - 1)
        for at, line in enumerate(wrap(clean(change_text(change)), room) or [""]):
            yield (head if at == 0 else " " * len(head)) + line
        for command in commands_of(change, job):
            yield f"{' ' * len(head)}  {coloured(clean(command), GREEN)}"


def draw_line(verdict: Verdict) -> Iterator[str]:
    """That others are before it."""
    ahead = verdict.get("ahead", 0)
    if ahead and verdict.get("changes"):
        are = "is" if ahead == 1 else "are"
        first = f"{count(ahead, 'job')} {are} before it in line"
        yield f"{first}; room that is made may be theirs first."
