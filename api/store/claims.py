"""Claims: how they are written down, read back, and listed."""

from collections.abc import Collection
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection

from api.store.bulk import among, upsert_rows, within
from api.store.engine import Database, read_revision
from api.store.jsontext import dump_json
from api.store.paging import clamp, encode_cursor, page_of, str_cursor
from api.store.pods import read_resources
from api.store.rows import AnyRow
from api.store.tables import claims, jobs
from api.store.views import Page
from scheduler.model.claim import Claim, ClaimWhy
from scheduler.model.ids import ClaimId, JobId, NodeId

NOT_GONE = sa.not_(claims.c.gone)


@dataclass(frozen=True, slots=True)
class ClaimView:
    """A claim as it stands.

    Attributes:
        namespace, job: Of the gang that it is for; "" for a maintenance window.
        window: Name of the maintenance window; "" for a gang's.
    """

    claim: Claim
    namespace: str
    job: str
    window: str
    revision: int


def list_claims(
    db: Database,
    *,
    namespace: str | None = None,
    job: str | None = None,
    node: str | None = None,
    limit: int = 500,
    cursor: str | None = None,
    namespaces: Collection[str] | None = None,
) -> Page[ClaimView]:
    """Claims by uid.

    Args:
        namespaces: Those whose gangs' claims are shown, and those for people; None = all.

    Raises:
        BadCursor: If the cursor was not given by such a list.
    """
    size = clamp(limit)
    wanted: list[ColumnElement[bool]] = [NOT_GONE]
    for column, value in ((jobs.c.namespace, namespace), (jobs.c.name, job), (claims.c.node, node)):
        if value is not None:
            wanted.append(column == value)
    if cursor is not None:
        wanted.append(claims.c.uid > str_cursor(cursor))
    columns = (*claims.c, jobs.c.namespace.label("job_namespace"), jobs.c.name.label("job_name"))
    query = (
        sa.select(*columns)
        .outerjoin(jobs, jobs.c.uid == claims.c.job_uid)
        .where(*wanted)
        .order_by(claims.c.uid)
        .limit(size + 1)
    )
    with db.read() as connection:
        revision = read_revision(connection)
        if namespaces is not None:
            of_people = claims.c.job_uid.is_(None)
            theirs = within(connection, jobs.c.namespace, namespaces)
            query = query.where(sa.or_(of_people, *theirs))
        rows = connection.execute(query).all()
    return page_of(
        rows,
        size,
        revision=revision,
        view=_claim_view,
        cursor_of=lambda row: encode_cursor(row._mapping["uid"]),
    )


def read_claims(connection: Connection, *where: ColumnElement[bool]) -> list[Claim]:
    """Claims that are not gone, by uid."""
    query = sa.select(claims).where(NOT_GONE, *where).order_by(claims.c.uid)
    return [claim_of(row) for row in connection.execute(query)]


def claim_of(row: AnyRow) -> Claim:
    """A row of the table as a value."""
    r = row._mapping
    return Claim(
        uid=ClaimId(r["uid"]),
        why=ClaimWhy(r["why"]),
        node=NodeId(r["node"]),
        gpu_mask=r["gpu_mask"],
        job=None if r["job_uid"] is None else JobId(r["job_uid"]),
        window=r["window_name"],
        starts_s=r["starts_at"],
        until_s=r["until_at"],
        role=r["role"],
        index=r["pod_index"],
        first_rank=r["first_rank"],
        resources=read_resources(r["cpu_milli"], r["memory_mib"], r["other"]),
    )


def claim_row(claim: Claim, revision: int) -> dict[str, object]:
    """A claim as a row of the table."""
    kept = claim.resources
    return {
        "uid": claim.uid,
        "why": claim.why,
        "node": claim.node,
        "gpu_mask": claim.gpu_mask,
        "job_uid": claim.job,
        "window_name": claim.window,
        "starts_at": claim.starts_s,
        "until_at": claim.until_s,
        "role": claim.role,
        "pod_index": claim.index,
        "first_rank": claim.first_rank,
        "cpu_milli": kept.cpu_milli,
        "memory_mib": kept.memory_mib,
        "other": dump_json(dict(kept.other)) if kept.other else None,
        "gone": False,
        "revision": revision,
    }


def put_claims(connection: Connection, rows: list[dict[str, object]], known: list[str]) -> None:
    """Write claims; those of `known` are there already and may change places among themselves."""
    if not rows:
        return
    if known:
        # The schema looks at each row by itself: what changes makes way before anything arrives.
        changing = among(connection, claims.c.uid, known)
        connection.execute(sa.update(claims).where(changing).values(gone=True))
    upsert_rows(connection, claims, rows)


def _claim_view(row: AnyRow) -> ClaimView:
    r = row._mapping
    return ClaimView(
        claim=claim_of(row),
        namespace=r["job_namespace"] or "",
        job=r["job_name"] or "",
        window=r["window_name"],
        revision=r["revision"],
    )
