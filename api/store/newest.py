"""The newest revision of a table, found at the end of its index however little is known of it."""

import sqlalchemy as sa
from sqlalchemy import Column, ColumnElement

from api.store.tables import facts


def newest(column: Column[int]) -> ColumnElement[int]:
    """The greatest value of an indexed column; 0 in an empty table."""
    return sa.func.coalesce(sa.select(sa.func.max(column)).scalar_subquery(), 0)


def newest_open_fact() -> ColumnElement[int]:
    """Id of the newest fact that no plan has taken account of; 0 if there is none."""
    found = sa.select(sa.func.max(facts.c.id)).where(facts.c.applied_at.is_(None))
    return sa.func.coalesce(found.scalar_subquery(), 0)
