"""The audit log: one row for each write that somebody was let do, or was refused."""

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from api.store.bulk import insert_rows
from api.store.engine import Database
from api.store.paging import clamp, encode_cursor, int_cursor, page_of
from api.store.rows import AnyRow
from api.store.tables_security import audit_log
from api.store.transaction import read_revision
from api.store.views import Page

PRUNED_AT_ONCE = 10_000
"""Rows of one transaction that deletes; nothing else is written meanwhile."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What one request did.

    Attributes:
        at: When it was answered, in seconds.
        path: With its query.
        status: That it was answered with.
        address: Where it came from.
    """

    at: float
    actor: str
    role: str
    method: str
    path: str
    status: int
    request_id: str
    address: str
    id: int = 0


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which entries; None = all.

    Attributes:
        path: What the path begins with.
        since: In seconds.
        refused: Those with an error, or those without.
    """

    actor: str | None = None
    path: str | None = None
    method: str | None = None
    since: float | None = None
    refused: bool | None = None


def add_entries(db: Database, entries: Sequence[Entry]) -> None:
    """Write entries, in one transaction."""
    with db.write_quietly() as connection:
        insert_rows(connection, audit_log, [_row(entry) for entry in entries])


def list_entries(
    db: Database, wanted: Wanted, limit: int, cursor: str | None = None
) -> Page[Entry]:
    """Entries, the newest first."""
    limit = clamp(limit)
    c = audit_log.c
    query = sa.select(audit_log).order_by(c.id.desc()).limit(limit + 1)
    if cursor is not None:
        query = query.where(c.id < int_cursor(cursor))
    for column, value in ((c.actor, wanted.actor), (c.method, wanted.method)):
        if value is not None:
            query = query.where(column == value)
    if wanted.path is not None:
        query = query.where(c.path.startswith(wanted.path, autoescape=True))
    if wanted.since is not None:
        query = query.where(c.at >= wanted.since)
    if wanted.refused is not None:
        query = query.where(c.status >= 400 if wanted.refused else c.status < 400)
    with db.read() as connection:
        return page_of(
            connection.execute(query).all(),
            limit,
            revision=read_revision(connection),
            view=_entry,
            cursor_of=lambda row: encode_cursor(row.id),
        )


def prune_entries(db: Database, before_s: float) -> int:
    """Delete what is older, a part at a time; how many were deleted."""
    oldest = sa.select(audit_log.c.id).where(audit_log.c.at < before_s).order_by(audit_log.c.at)
    part = oldest.limit(PRUNED_AT_ONCE)
    with db.write_quietly() as connection:
        done = connection.execute(sa.delete(audit_log).where(audit_log.c.id.in_(part)))
        return int(done.rowcount)


def _row(entry: Entry) -> dict[str, object]:
    return {name: getattr(entry, name) for name in Entry.__slots__ if name != "id"}


def _entry(row: AnyRow) -> Entry:
    return Entry(**row._mapping)
