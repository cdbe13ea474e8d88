"""Cursors: where the next page of a list starts, opaque to callers."""

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from typing import TypeVar

from api.store.errors import BadCursor
from api.store.rows import AnyRow
from api.store.views import Page

Item = TypeVar("Item")

LIMIT_MAX = 10_000
"""Items of one page at most."""


def encode_cursor(*parts: str | int) -> str:
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode().rstrip("=")


def decode_cursor(cursor: str, *kinds: type[int] | type[str]) -> list[int | str]:
    """The parts of a cursor.

    Raises:
        BadCursor: If it does not have parts of these kinds.
    """
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        parts = json.loads(text)
    except (binascii.Error, ValueError, UnicodeError, RecursionError):
        raise BadCursor(cursor) from None
    if not isinstance(parts, list) or [type(p) for p in parts] != list(kinds):
        raise BadCursor(cursor)
    if any(isinstance(p, int) and abs(p) >= 1 << 63 for p in parts):
        raise BadCursor(cursor)
    return parts


def int_cursor(cursor: str) -> int:
    """The part of a cursor that is one number."""
    return int(decode_cursor(cursor, int)[0])


def str_cursor(cursor: str) -> str:
    """The part of a cursor that is one name."""
    return str(decode_cursor(cursor, str)[0])


def clamp(limit: int) -> int:
    return max(1, min(limit, LIMIT_MAX))


def page_of(
    rows: Sequence[AnyRow],
    limit: int,
    *,
    revision: int,
    view: Callable[[AnyRow], Item],
    cursor_of: Callable[[AnyRow], str],
) -> Page[Item]:
    """A page of at most `limit`, from rows of which there is one more if there is a next page."""
    shown = rows[:limit]
    following = cursor_of(shown[-1]) if len(rows) > limit else None
    return Page(tuple(view(row) for row in shown), revision, following)
