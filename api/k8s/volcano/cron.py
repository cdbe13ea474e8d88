"""Schedules of cron jobs: five fields, or a word such as `@hourly`."""

import re

from api.k8s.volcano.quantity import parse_duration

_FIELDS = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of month", 1, 31, ()),
    (
        "month",
        1,
        12,
        ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
    ),
    ("day of week", 0, 6, ("sun", "mon", "tue", "wed", "thu", "fri", "sat")),
)
_WORDS = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
_ITEM = re.compile(r"(\*|\?|[0-9a-z]+)(?:-([0-9a-z]+))?(?:/([0-9]{1,4}))?\Z")
_EVERY = "@every "
LENGTH_MAX = 1_000


def cron_problem(schedule: str) -> str:
    """What is wrong with a schedule; "" where nothing is."""
    if not schedule or len(schedule) > LENGTH_MAX:
        return "is required: five fields, as in '*/5 * * * *'"
    if "TZ" in schedule:
        return "names a time zone; say so in timeZone"
    if schedule.startswith("@"):
        return _word_problem(schedule)
    fields = schedule.split()
    if len(fields) != len(_FIELDS):
        return f"found {len(fields)} fields; five are required, as in '*/5 * * * *'"
    for text, (name, least, most, names) in zip(fields, _FIELDS, strict=True):
        for item in text.split(","):
            if not _is_item(item, least, most, names):
                return f"found '{item[:40]}' for the {name}; it lies in {least} to {most}"
    return ""


def _word_problem(schedule: str) -> str:
    if schedule.startswith(_EVERY):
        try:
            return "" if parse_duration(schedule[len(_EVERY) :]) > 0 else "must be above 0"
        except ValueError as error:
            return str(error)
    if schedule in _WORDS:
        return ""
    return f"found '{schedule[:40]}'; allowed are {', '.join(_WORDS)}"


def _is_item(item: str, least: int, most: int, names: tuple[str, ...]) -> bool:
    found = _ITEM.match(item.lower())
    if found is None:
        return False
    first, last, step = found.groups()
    if step is not None and not 0 < int(step) <= most:
        return False
    if first in ("*", "?"):
        return last is None
    low = _number(first, least, names)
    high = low if last is None else _number(last, least, names)
    return low is not None and high is not None and least <= low <= high <= most


def _number(text: str, least: int, names: tuple[str, ...]) -> int | None:
    if text in names:
        return names.index(text) + least
    return int(text) if text.isdigit() and len(text) < 4 else None
