"""Namespaces that jobs are in; there is no table of them."""

import sqlalchemy as sa
from sqlalchemy import Connection

from api.store.tables import jobs


def job_namespaces(connection: Connection) -> list[str]:
    """Every namespace that has a job's record, each found by one step in an index."""
    first = sa.select(sa.func.min(jobs.c.namespace).label("name"))
    found = first.cte("found", recursive=True)
    following = (
        sa.select(sa.func.min(jobs.c.namespace)).where(jobs.c.namespace > found.c.name)
    ).scalar_subquery()
    found = found.union_all(sa.select(following).where(found.c.name.is_not(None)))
    query = sa.select(found.c.name).where(found.c.name.is_not(None))
    return sorted(connection.execute(query).scalars())


def has_jobs(connection: Connection, namespace: str) -> bool:
    """Whether any job's record is in a namespace."""
    query = sa.select(jobs.c.uid).where(jobs.c.namespace == namespace).limit(1)
    return connection.execute(query).first() is not None
