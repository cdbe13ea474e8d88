"""Slurm's configuration syntax: lines of `Key=Value` words, keys in any case, `#` comments."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from scheduler.importers.refusals import Refusals, refuse

LINE_LENGTH_MAX = 1_000_000
"""Characters of one line with its continuations; a plain list of 30,000 hosts has as many."""

LINES_MAX = 600_000
"""Lines that hold anything: three for every node of the largest inventory."""

_WORD = re.compile(r"""\s*([^\s="]+)\s*=\s*("[^"]*"|[^\s"]*)""")
_COMMENT = re.compile(r"(?<!\\)#.*")


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a file.

    Attributes:
        line: Where it starts, counted from 1.
        kind: Its first key in lower case, e.g. `switchname`.
        values: By key in lower case, unquoted.
        keys: Keys as written, by key in lower case.
    """

    line: int
    kind: str
    values: Mapping[str, str]
    keys: Mapping[str, str]

    @property
    def name(self) -> str:
        """The value of the first key."""
        return self.values[self.kind]

    def get(self, key: str) -> str:
        """The value of a key in lower case; "" where it is absent."""
        return self.values.get(key, "")


def entries(text: str, refusals: Refusals) -> Iterator[Entry]:
    """The lines of a file that hold anything; one that is no list of words is a problem."""
    for count, (number, line) in enumerate(_logical_lines(text)):
        if count == LINES_MAX:
            raise refuse("", f"more than {LINES_MAX} lines", line=number)
        if len(line) > LINE_LENGTH_MAX:
            refusals.add(
                "",
                f"has {len(line)} characters; at most {LINE_LENGTH_MAX} are allowed",
                line=number,
            )
        elif _is_include(line):
            refusals.add("Include", "a file cannot include another; send both as one", line=number)
        else:
            entry = _entry(number, line, refusals)
            if entry is not None:
                yield entry


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments, those that end in a backslash joined with the next."""
    held: list[str] = []
    start = 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = _COMMENT.sub("", raw) if "#" in raw else raw
        start = start or number
        if line.endswith("\\"):
            held.append(line[:-1])
            continue
        joined = "".join((*held, line)).strip()
        if joined:
            yield start, joined
        held, start = [], 0
    if held and "".join(held).strip():
        yield start, "".join(held).strip()


def _is_include(line: str) -> bool:
    return line[:8].lower() == "include " and "=" not in line


def _entry(number: int, line: str, refusals: Refusals) -> Entry | None:
    values: dict[str, str] = {}
    keys: dict[str, str] = {}
    at = 0
    # Word by word: a search would look at every rest of a long line that holds no word.
    while word := _WORD.match(line, at):
        key = word[1].lower()
        if key in values:
            refusals.add(word[1], "is given twice in one line", line=number)
        values[key] = word[2].strip('"')
        keys[key] = word[1]
        at = word.end()
    if line[at:].strip():
        shown = line[at:].strip()
        found = shown if len(shown) <= 60 else shown[:57] + "..."
        refusals.add("", f"expected words like Key=Value, found '{found}'", line=number)
        return None
    return Entry(number, next(iter(values)), values, keys)
