"""Calendar months in UTC, and spans of time cut at their borders; times in milliseconds."""

from collections.abc import Iterator
from datetime import UTC, datetime


def month_of(at_ms: int) -> str:
    """The month of a time, as `2026-12`."""
    return f"{datetime.fromtimestamp(at_ms // 1_000, UTC):%Y-%m}"


def by_month(from_ms: int, to_ms: int) -> Iterator[tuple[str, int]]:
    """The months that a span touches, each with the milliseconds of the span in it."""
    at = from_ms
    while at < to_ms:
        end = min(to_ms, _next_month(at))
        yield month_of(at), end - at
        at = end


def _next_month(at_ms: int) -> int:
    day = datetime.fromtimestamp(at_ms // 1_000, UTC)
    first = datetime(day.year + day.month // 12, day.month % 12 + 1, 1, tzinfo=UTC)
    return int(first.timestamp()) * 1_000
