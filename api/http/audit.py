"""The audit log, for admins."""

from typing import Annotated, Literal

from fastapi import Query
from starlette.concurrency import run_in_threadpool

from api.auth import Right, check
from api.http import security_examples as examples
from api.http.answers import Json, answers
from api.http.routing import Called, Cursor, Limit, Served, make_router
from api.http.shapes import rfc3339
from api.schemas.common import LINE_PATTERN, TIME_PATTERN
from api.schemas.reading import seconds_of
from api.schemas.security import AuditPage
from api.store.audit_log import Entry, Wanted, list_entries

router = make_router("service")

Since = Annotated[
    str | None, Query(pattern=TIME_PATTERN, description="Only what was answered then or later.")
]
Actor = Annotated[
    str | None, Query(max_length=300, pattern=LINE_PATTERN, description="Name of the caller.")
]
Path = Annotated[
    str | None, Query(max_length=500, pattern=LINE_PATTERN, description="What paths begin with.")
]


@router.get(
    "/v1/audit",
    summary="Read the audit log",
    responses=answers(AuditPage, examples.AUDIT, 422, says="Entries, the newest first."),
)
async def read_audit_log(
    service: Served,
    caller: Called,
    actor: Actor = None,
    since: Since = None,
    path: Path = None,
    method: Literal["POST", "PUT", "PATCH", "DELETE"] | None = None,
    outcome: Annotated[
        Literal["done", "refused"] | None, Query(description="`refused`: answered 400 or above.")
    ] = None,
    limit: Limit = 500,
    cursor: Cursor = None,
) -> Json:
    """Every write that a known caller was let do or was refused, but what agents report.

    Requests of nobody known, and of those who ask too often, are counted in the metrics alone.
    Entries are there within a second or so of the answer, and for `audit_history_s`.
    """
    check(caller, Right.ADMIN)
    wanted = Wanted(
        actor,
        path,
        method,
        None if since is None else seconds_of("since", since),
        None if outcome is None else outcome == "refused",
    )
    page = await run_in_threadpool(list_entries, service.database, wanted, limit, cursor)
    items = [_shape(entry) for entry in page.items]
    return Json({"items": items, "revision": page.revision, "next": page.next})


def _shape(entry: Entry) -> dict[str, object]:
    return {
        "id": entry.id,
        "at": rfc3339(entry.at),
        "actor": entry.actor,
        "role": entry.role,
        "method": entry.method,
        "path": entry.path,
        "status": entry.status,
        "request_id": entry.request_id,
        "address": entry.address,
    }
