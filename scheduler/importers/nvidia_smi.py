"""The table of `nvidia-smi topo -m` -> the inside of a node type."""

import re
from collections.abc import Sequence

from scheduler.importers.node_inside import Inside, inventory_of_inside
from scheduler.importers.options import DEFAULTS, Options
from scheduler.importers.refusals import Refusals, refuse
from scheduler.importers.yaml_text import decode
from scheduler.model.node import Inventory

DISTANCES = {"PIX": 1, "PXB": 2, "PHB": 3, "NODE": 4, "SYS": 5}
"""Ways between two parts of a node, nearest first."""

SELF = "X"

COLUMNS_MAX = 512
"""GPUs and NICs of one node."""

_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
_ESCAPES_RAW = re.compile(rb"\x1b\[[0-9;]*m")
_GPU = re.compile(r"GPU\d{1,3}")
_LINKS = re.compile(r"NV(\d{1,3})")

Table = dict[str, list[str]]
"""Row -> its cells, in the order of the columns."""


def parse(text: str | bytes, options: Options = DEFAULTS) -> Inventory:
    """The inventory of the node type that a table shows; `options.node_type` tells the rest of it.

    Raises:
        InventoryError: If there is no table, a row has too few cells, or a cell is none.
    """
    options.check()
    plain = _ESCAPES_RAW.sub(b"", text) if isinstance(text, bytes) else _ESCAPES.sub("", text)
    lines = decode(plain).splitlines()
    refusals = Refusals()
    columns, start = _header(lines)
    table = _rows(lines, columns, start, refusals)
    gpus = [name for name in columns if _GPU.fullmatch(name)]
    for gpu in gpus:
        if gpu not in table:
            refusals.add(gpu, "has a column and no row", line=start)
    refusals.raise_if_any()
    nics = [index for index, name in enumerate(columns) if name not in gpus]
    gpu_columns = [index for index, name in enumerate(columns) if name in gpus]
    links = [[_link_count(table[gpu][i]) for i in gpu_columns] for gpu in gpus]
    inside = Inside(
        distances=[[DISTANCES.get(table[gpu][i], 0) for i in nics] for gpu in gpus],
        links=[max(row) if _is_switched(row) else sum(row) for row in links],
        is_full=all(count for i, row in enumerate(links) for j, count in enumerate(row) if i != j),
    )
    return inventory_of_inside(inside, options, "nvidia-smi topo -m")


def _header(lines: Sequence[str]) -> tuple[list[str], int]:
    """The columns that are parts of the node, and the number of the line."""
    for number, line in enumerate(lines, 1):
        words = line.split()
        if words and _GPU.fullmatch(words[0]) and (len(words) < 2 or words[1] != SELF):
            columns = words[: words.index("CPU")] if "CPU" in words else words
            if len(set(columns)) < len(columns) or len(columns) > COLUMNS_MAX:
                raise refuse("", "a column comes twice, or there are too many", line=number)
            return columns, number
    raise refuse("", "no line of columns, GPU0 and on: this is no table of `nvidia-smi topo -m`")


def _rows(lines: Sequence[str], columns: Sequence[str], start: int, refusals: Refusals) -> Table:
    table: Table = {}
    for number, line in enumerate(lines[start:], start + 1):
        words = line.split()
        if not words or words[0] not in columns:
            if words and words[0].startswith("Legend"):
                break
            continue
        cells = words[1 : len(columns) + 1]
        wrong = next((cell for cell in cells if not _is_cell(cell)), None)
        if len(cells) < len(columns):
            message = f"has {len(cells)} cells; there are {len(columns)} columns"
            refusals.add(words[0], message, line=number)
        elif wrong is not None:
            allowed = f"{SELF}, NV#, {', '.join(DISTANCES)}"
            refusals.add(words[0], f"'{wrong[:20]}' is none of {allowed}", line=number)
        elif words[0] in table:
            refusals.add(words[0], "has two rows", line=number)
        else:
            table[words[0]] = cells
    return table


def _is_cell(text: str) -> bool:
    return text == SELF or text in DISTANCES or _LINKS.fullmatch(text) is not None


def _link_count(cell: str) -> int:
    found = _LINKS.fullmatch(cell)
    return int(found[1]) if found else 0


def _is_switched(row: Sequence[int]) -> bool:
    """Whether all its links lead to a switch: then it has as many to every other GPU."""
    return len({count for count in row if count}) == 1 and sum(map(bool, row)) == len(row) - 1
