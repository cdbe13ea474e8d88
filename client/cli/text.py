"""Small pieces of text: safe, aligned, short, and coloured only where someone looks."""

import os
import sys
import time
import unicodedata
from collections.abc import Sequence
from datetime import datetime

GREEN, YELLOW, RED, CYAN, BOLD, DIM = "32", "33", "31", "36", "1", "2"

_STATE_COLOURS = {
    "running": GREEN,
    "bound": GREEN,
    "healthy": "",
    "failed": RED,
    "lost": RED,
    "out": RED,
    "cancelled": DIM,
    "succeeded": DIM,
    "stopped": DIM,
}
"""Of the first word of a state; whatever is not named here is on its way, or needs a look."""


def clean(value: object) -> str:
    r"""Text that a terminal only shows: what could steer it becomes `\x1b` and the like.

    Names and messages come from whoever submitted a job. Escape sequences, line breaks,
    controls that reverse the writing and lone surrogates are made visible.
    """
    text = str(value)
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def shown(value: object) -> str:
    """A cell: `-` for what is not known or empty, whole numbers without a fraction."""
    if value is None or value in ("", [], {}):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    return clean(value)


def cell_count(text: str) -> int:
    """Columns that a text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 1 + (unicodedata.east_asian_width(char) in "WF")
        for char in text
    )


def padded(text: str, width: int) -> str:
    """A text filled up with spaces to so many columns of a terminal."""
    return text + " " * (width - cell_count(text))


def ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers, runs drawn together: `0-3,6`."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return ",".join(f"{low}-{high}" if high > low else f"{low}" for low, high in runs)


def count(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun: `1 node`, `2 nodes`."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


clock = time.time
"""What ages are counted from; tests put their own here."""


def now_s() -> float:
    """Unix seconds."""
    return clock()


def unix_s(stamp: str | None) -> float | None:
    """Unix seconds of an RFC 3339 time; None for none, or for a text that is no such time."""
    if not stamp:
        return None
    try:
        return datetime.fromisoformat(stamp).timestamp()
    except ValueError:
        return None


def age(stamp: str | None) -> str:
    """How long ago, to two units: `45s`, `3m12s`, `5h2m`, `3d4h`; `-` when not known."""
    since_s = unix_s(stamp)
    return "-" if since_s is None else duration(now_s() - since_s)


def until(stamp: str | None) -> str:
    """How long until then: `in 3m12s`; `now` for what is past, `-` when not known."""
    at_s = unix_s(stamp)
    if at_s is None:
        return "-"
    left_s = at_s - now_s()
    return f"in {duration(left_s)}" if left_s >= 1 else "now"


def duration(seconds: float) -> str:
    """A length of time as kubectl writes it: finer where it is short; never negative."""
    whole = max(0, int(seconds))
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if minutes < 2:
        return f"{whole}s"
    if minutes < 10:
        return f"{minutes}m{whole % 60}s" if whole % 60 else f"{minutes}m"
    if hours < 3:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if days < 2:
        return f"{hours}h"
    if days < 8:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    return f"{days}d"


def is_coloured() -> bool:
    """Whether the reader is a terminal that shows colours and wants them."""
    wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return wanted and sys.stdout.isatty()


def coloured(text: str, colour: str) -> str:
    """The text in a colour, on a terminal; else as it is."""
    return f"\x1b[{colour}m{text}\x1b[0m" if colour and is_coloured() else text


def state_colour(text: str) -> str:
    """The colour of a state such as `running`, `pending(room)` or `healthy,cordoned`."""
    if not text or text == "-":
        return ""
    return _STATE_COLOURS.get(text.partition("(")[0], YELLOW)


def out(line: str = "") -> None:
    """Write one line to standard output."""
    sys.stdout.write(line + "\n")


def note(line: str) -> None:
    """Write one line to standard error, for the reader and not for the next program."""
    sys.stderr.write(line + "\n")
