"""What all schemas share: strictness, types of names and numbers, words for their limits."""

from typing import Annotated, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

SIZE_MAX = 1_000_000
"""No size, count or world is larger: above any cluster, far below where sums could overflow."""

SECONDS_MAX = 1e9
"""About 31 years; keeps sums of times exact in a double."""

NAME_PATTERN = r"^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
NODE_NAME_PATTERN = r"^[A-Za-z0-9]([-A-Za-z0-9_.:]{0,251}[A-Za-z0-9])?$"
LEVEL_PATTERN = r"^[A-Za-z_][-A-Za-z0-9_.]{0,62}$"
ENV_PATTERN = r"^[A-Za-z_][A-Za-z0-9_.-]{0,254}$"
ORDER_PATTERN = r"^[a-z]{2}(-[a-z]{2}){0,4}$"
TIME_PATTERN = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}(\.[0-9]{1,6})?(Z|[+-][0-9]{2}:[0-9]{2})$"
LINE_PATTERN = r"^[^\x00-\x1f\x7f]*$"
# PostgreSQL stores no NUL in a text.
TEXT_PATTERN = r"^[^\x00]*$"

PATTERN_WORDS = {
    NAME_PATTERN: "a name has 1 to 63 letters, digits, '-', '_' and '.', and begins and ends "
    "with a letter or digit",
    NODE_NAME_PATTERN: "a node's name has 1 to 253 letters, digits, '-', '_', '.' and ':', and "
    "begins and ends with a letter or digit",
    LEVEL_PATTERN: "a level's name has 1 to 63 letters, digits, '-', '_' and '.', and begins with "
    "a letter",
    ENV_PATTERN: "a variable's name has 1 to 255 letters, digits, '_', '.' and '-', and does not "
    "begin with a digit",
    ORDER_PATTERN: "an order is up to five axes joined by '-', as in tp-cp-ep-dp-pp",
    TIME_PATTERN: "a time is written as in 2026-12-01T10:00:00Z or 2026-12-01T11:00:00+01:00",
    LINE_PATTERN: "control characters are not allowed",
    TEXT_PATTERN: "the character NUL is not allowed",
}
"""What a pattern asks for, in words."""


class Strict(BaseModel):
    """Base of every request and answer: no unknown field, no conversion, no NaN, no infinity."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
NodeName = Annotated[str, StringConstraints(pattern=NODE_NAME_PATTERN)]
LevelName = Annotated[str, StringConstraints(pattern=LEVEL_PATTERN)]
EnvName = Annotated[str, StringConstraints(pattern=ENV_PATTERN)]
Line = Annotated[str, StringConstraints(pattern=LINE_PATTERN, max_length=253)]
"""A short text of one line: a label, a model of GPU."""

Sentence = Annotated[str, StringConstraints(pattern=LINE_PATTERN, max_length=1_000)]
"""A reason or message that a person wrote."""

Text = Annotated[str, StringConstraints(pattern=TEXT_PATTERN, max_length=32_768)]
Uri = Annotated[str, StringConstraints(pattern=LINE_PATTERN, max_length=2_048)]

Size = Annotated[int, Field(ge=1, le=SIZE_MAX)]
Count = Annotated[int, Field(ge=0, le=SIZE_MAX)]
Seconds = Annotated[float, Field(ge=0, le=SECONDS_MAX)]
SomeSeconds = Annotated[float, Field(gt=0, le=SECONDS_MAX)]
Priority = Annotated[int, Field(ge=-1_000_000_000, le=1_000_000_000)]
Labels = Annotated[dict[Line, Line], Field(max_length=256)]
ModeName = Literal["required", "preferred"]

Time = str
"""RFC 3339 in UTC with milliseconds: `2026-01-01T12:00:00.000Z`."""

GivenTime = Annotated[str, StringConstraints(pattern=TIME_PATTERN)]
"""RFC 3339 with its zone, as a caller may write it; `reading.seconds_of` reads it."""

ItemT = TypeVar("ItemT")


class Page(Strict, Generic[ItemT]):
    """One page of a list.

    Attributes:
        revision: Of the whole store when the page was read; a watch may begin there.
        next: The `cursor` of the next page; null on the last.
    """

    items: list[ItemT]
    revision: int
    next: str | None = None
