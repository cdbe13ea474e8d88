"""Tables as kubectl draws them: left-aligned columns, three spaces apart, nothing else."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

from client.cli.text import cell_count, coloured, out, padded, shown

T = TypeVar("T")

GAP = "   "
BLOCK_ROWS = 500
"""Rows read before the first is written: enough to know how wide the columns are."""


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """One column.

    Attributes:
        value: What the column shows of an item; None and empty values show as `-`.
        wide: Only with `-o wide`.
        colour: Colour of the shown text; "" for none.
    """

    title: str
    value: Callable[[T], object]
    wide: bool = False
    colour: Callable[[str], str] | None = None


def blocks(items: Iterable[T], size: int = BLOCK_ROWS) -> Iterator[list[T]]:
    """The items in lists of `size`; the last may be shorter."""
    rest = iter(items)
    while block := list(islice(rest, size)):
        yield block


class Table(Generic[T]):
    """Writes rows in blocks; a later, wider block widens its columns and never narrows them."""

    def __init__(
        self, columns: Sequence[Column[T]], *, headed: bool = True, indent: str = ""
    ) -> None:
        self._columns = tuple(columns)
        self._indent = indent
        self._heading = headed
        self._widths = [len(column.title) if headed else 0 for column in columns]

    def write(self, items: Iterable[T]) -> None:
        """Write rows for the items, with the headings before the first ever written."""
        for block in blocks(items):
            rows = [[shown(column.value(item)) for column in self._columns] for item in block]
            for index, texts in enumerate(zip(*rows, strict=True)):
                self._widths[index] = max(self._widths[index], *map(cell_count, texts))
            if self._heading:
                self._line([column.title for column in self._columns], is_heading=True)
                self._heading = False
            for row in rows:
                self._line(row)

    def _line(self, texts: Sequence[str], *, is_heading: bool = False) -> None:
        last = len(texts) - 1
        cells = []
        for index, text in enumerate(texts):
            cell = text if index == last else padded(text, self._widths[index])
            colour = self._columns[index].colour
            if colour is not None and not is_heading:
                cell = coloured(text, colour(text)) + cell[len(text) :]
            cells.append(cell)
        out((self._indent + GAP.join(cells)).rstrip())


def write_pairs(pairs: Iterable[tuple[str, object]], *, indent: str = "") -> None:
    """Write `Name:  value` lines, values aligned; a list becomes one line for each entry."""
    listed = [(name, value) for name, value in pairs]
    width = max((len(name) + 1 for name, _ in listed), default=0)
    for name, value in listed:
        head = padded(f"{name}:", width)
        lines = value if isinstance(value, list) and value else [value]
        for line in lines:
            out(f"{indent}{head}  {shown(line)}")
            head = " " * width
