"""The values that texts hold, what an unquoted scalar means, and how much of it is allowed."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import NoReturn, TypeAlias

from scheduler.errors import InventoryError, Problem

Value: TypeAlias = "None | bool | int | float | str | list[Value] | dict[str, Value]"
"""What a document holds; the same object may stand in several places (a YAML alias)."""

MAX_DEPTH = 64
"""Lists and mappings inside one another; the deepest known format, a Kubernetes node, needs 8."""

MAX_VALUES = 1_200_000
"""Values of one text, those behind aliases counted each time: as many as 100,000 nodes with one
entry of eleven values each have; they take up to 5 s and a third of a gigabyte."""

_NUMBER_LENGTH_MAX = 400
"""Characters of a number; the largest finite float in plain digits has 309."""

_PLAIN: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_STARTS_NUMBER = frozenset("-+.0123456789")
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML document or JSON text.

    Attributes:
        lines: Line of each list and mapping, by `id`; empty for JSON.
    """

    value: Value
    lines: Mapping[int, int] = field(default_factory=dict)

    def line_of(self, container: Value) -> int | None:
        """The line, counted from 1, where a list or mapping of this document starts."""
        return self.lines.get(id(container))


def resolve(text: str) -> None | bool | int | float | str:
    """What an unquoted scalar means.

    As in JSON, with YAML's spellings of null, true and false: `12` is a number, but `012`, `0x1F`,
    `yes` and `2026-12-01` are text, so that names survive as they are written.

    Raises:
        ValueError: If it is a number that is not finite, or too long to be one.
    """
    if text in _PLAIN:
        return _PLAIN[text]
    if text[0] not in _STARTS_NUMBER:
        return text
    if _INTEGER.fullmatch(text):
        return int(_of_sane_length(text))
    if _FLOAT.fullmatch(text):
        number = float(_of_sane_length(text))
        if not isfinite(number):
            raise ValueError(f"the number {text} is out of range")
        return number
    if _NOT_FINITE.fullmatch(text):
        raise ValueError(f"{text} is not allowed; a number is finite")
    return text


def _of_sane_length(text: str) -> str:
    if len(text) > _NUMBER_LENGTH_MAX:
        raise ValueError(
            f"a number has {len(text)} characters; at most {_NUMBER_LENGTH_MAX} are allowed"
        )
    return text


def shown(value: Value) -> str:
    """A value for a message: short, and without looking into what may be deep."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str):
        return f"'{value}'" if len(value) <= 60 else f"'{value[:57]}...'"
    return (
        "null" if value is None else str(value).lower() if isinstance(value, bool) else f"{value}"
    )


def refuse_count(limit: int, path: str = "", line: int | None = None) -> NoReturn:
    """Refuse a text for the number of its values."""
    where = f"line {line}: " if line else ""
    raise InventoryError(Problem(path, f"{where}the text holds more than {limit} values"))
