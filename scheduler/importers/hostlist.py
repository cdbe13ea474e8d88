"""Slurm's way to write many names as one: `n[001-004]`, `r[1-2]n[0-3,7]`, `a1,b[2-3]`.

How many names a text stands for is counted before any of them is made.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, product
from math import prod

from scheduler.errors import InventoryError, Problem
from scheduler.topology.natural import DIGITS, natural_key

NAMES_MAX = 200_000
"""Names of one inventory: twice the largest cluster that the project is measured on."""

NAME_LENGTH_MAX = 253
"""As a DNS name; it bounds what one short range can make of a long text around it."""

DIGITS_MAX = 18
"""Digits of a number in brackets; every such number fits a signed 64-bit integer."""

_RANGE = re.compile(rf"([0-9]{{1,{DIGITS_MAX}}})(?:-([0-9]{{1,{DIGITS_MAX}}}))?")
_UNBRACKETED = re.compile(r"[^\[\],\s]+")


class HostlistError(InventoryError):
    """A hostlist that cannot be read, or stands for too many names."""


@dataclass(frozen=True, slots=True)
class _Range:
    """Numbers from `low` to `high` inclusive, written at least `width` digits wide."""

    low: int
    high: int
    width: int

    def __iter__(self) -> Iterator[str]:
        return (f"{number:0{self.width}d}" for number in range(self.low, self.high + 1))


@dataclass(frozen=True, slots=True)
class _Pattern:
    """One name with brackets: fixed texts with a list of ranges between each two."""

    texts: tuple[str, ...]
    ranges: tuple[tuple[_Range, ...], ...]

    def count(self) -> int:
        return prod(sum(r.high - r.low + 1 for r in ranges) for ranges in self.ranges)

    def longest(self) -> int:
        widest = (max(max(r.width, len(str(r.high))) for r in ranges) for ranges in self.ranges)
        return sum(map(len, self.texts)) + sum(widest)

    def __iter__(self) -> Iterator[str]:
        for numbers in product(*(list(chain.from_iterable(ranges)) for ranges in self.ranges)):
            yield "".join(chain.from_iterable(zip(self.texts, (*numbers, ""), strict=True)))


def expand(text: str, *, limit: int = NAMES_MAX, used: int = 0) -> list[str]:
    """The names that a hostlist stands for, in the order written; a name may come twice.

    Args:
        limit: Names allowed in all.
        used: Names that other hostlists of the same input stand for; they count against `limit`.

    Raises:
        HostlistError: If the text is malformed or stands for more names than `limit`; nothing has
            been expanded then.
    """
    patterns, is_whole = _parse(text, max(0, limit - used))
    found = sum(pattern.count() for pattern in patterns)
    if found + used > limit:
        shown = f"{'' if is_whole else 'at least '}{found}" if found < 10**15 else "more than 10^15"
        before = f" beside {used} before it" if used else ""
        raise _error(
            f"{_shown(text)} stands for {shown} names{before}; at most {limit} are allowed"
        )
    for pattern in patterns:
        if pattern.longest() > NAME_LENGTH_MAX:
            raise _error(
                f"{_shown(text)} has a name of {pattern.longest()} characters; "
                f"at most {NAME_LENGTH_MAX} are allowed"
            )
    return list(chain.from_iterable(patterns))


def _parse(text: str, enough: int) -> tuple[list[_Pattern], bool]:
    """The patterns of a hostlist and whether they are all; with more than `enough` the first ones.

    Each stands for a name at least, so there is no use in reading millions before it is refused.
    """
    patterns: list[_Pattern] = []
    at = _skip_space(text, 0)
    while True:
        pattern, at = _parse_name(text, at)
        patterns.append(pattern)
        at = _skip_space(text, at)
        if at == len(text) or len(patterns) > enough:
            return patterns, at == len(text)
        if text[at] != ",":
            raise _unexpected(text, at, "a comma between names")
        at = _skip_space(text, at + 1)


def _parse_name(text: str, at: int) -> tuple[_Pattern, int]:
    texts: list[str] = []
    ranges: list[tuple[_Range, ...]] = []
    start = at
    while True:
        fixed = _UNBRACKETED.match(text, at)
        texts.append(fixed[0] if fixed else "")
        at = fixed.end() if fixed else at
        if at == len(text) or text[at] != "[":
            break
        inside, at = _parse_ranges(text, at)
        ranges.append(inside)
    if at == start:
        raise _unexpected(text, at, "a name")
    return _Pattern(tuple(texts), tuple(ranges)), at


def _parse_ranges(text: str, at: int) -> tuple[tuple[_Range, ...], int]:
    """The ranges from the bracket at `at`, and where the text goes on behind it."""
    opened = at
    ranges: list[_Range] = []
    while True:
        found = _RANGE.match(text, at + 1)
        if found is None:
            raise _unexpected(text, at + 1, "a number")
        ranges.append(_range(text, found))
        at = found.end()
        if at == len(text):
            raise _error(f"{_shown(text)}: the bracket at position {opened + 1} is not closed")
        if text[at] == "]":
            return tuple(ranges), at + 1
        if text[at] != ",":
            raise _unexpected(text, at, "',', '-' or ']'")


def _range(text: str, found: re.Match[str]) -> _Range:
    low, high = found[1], found[2] or found[1]
    # `01-100` is read as 01 ... 99, 100, like Slurm; `001-10` and `1-010` have two readings.
    if (len(high) < len(low) and int(low) <= int(high)) or (
        high[0] == "0" and len(high) > len(low)
    ):
        raise _error(
            f"{_shown(text)}: the range '{found[0]}' at position {found.start() + 1} has ends of "
            f"different width; write as many digits on both sides"
        )
    if int(high) < int(low):
        raise _error(
            f"{_shown(text)}: the range '{found[0]}' at position {found.start() + 1} ends "
            f"before it starts"
        )
    return _Range(int(low), int(high), len(low))


def _skip_space(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _unexpected(text: str, at: int, wanted: str) -> HostlistError:
    found = f"'{text[at]}'" if at < len(text) else "the end"
    return _error(f"{_shown(text)}: expected {wanted} at position {at + 1}, found {found}")


def _shown(text: str) -> str:
    return f"hostlist '{text}'" if len(text) <= 60 else f"hostlist '{text[:57]}...'"


def _error(message: str) -> HostlistError:
    return HostlistError(Problem("", message))


def compress(names: Iterable[str]) -> str:
    """A short hostlist of exactly these names, in natural order; `expand` is its inverse on sets.

    Names that differ in one number are folded, from the last number to the first.
    """
    # A name is its fixed texts and, between them, its numbers; folding makes a list of a number.
    rows = [_split(name) for name in sorted(set(names), key=natural_key)]
    for slot in range(max((len(row) for row in rows), default=0) - 2, 0, -2):
        rows = _fold(rows, slot)
    return ",".join("".join(row) for row in rows)


def _split(name: str) -> tuple[str, ...]:
    parts = tuple(DIGITS.split(name))
    # Brackets hold no longer numbers, so such a name stands alone.
    return parts if all(len(number) <= DIGITS_MAX for number in parts[1::2]) else (name,)


def _fold(rows: Sequence[tuple[str, ...]], slot: int) -> list[tuple[str, ...]]:
    """Join rows that are equal but for the number at `slot`."""
    groups: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for row in rows:
        # A row too short for this slot stands alone, as its own key.
        groups.setdefault(
            (row[:slot], row[slot + 1 :]) if slot < len(row) else (row, ()), []
        ).append(row[slot] if slot < len(row) else "")
    return [
        (*before, f"[{_ranges(numbers)}]" if len(numbers) > 1 else numbers[0], *after)
        for (before, after), numbers in groups.items()
    ]


def _ranges(numbers: Sequence[str]) -> str:
    """`8-11,020`: each range goes on as the padding of its first number has it."""
    runs: list[list[str]] = []
    run_before: dict[str, list[str]] = {}
    for number in sorted(numbers, key=lambda text: (int(text), text)):
        run = run_before.pop(number, None)
        if run is None:
            run = [number]
            runs.append(run)
        else:
            run[1:] = [number]
        run_before[f"{int(number) + 1:0{len(run[0])}d}"] = run
    return ",".join("-".join(run) for run in runs)
