"""Usage accounting."""

from typing import Annotated, Literal

from fastapi import Query

from api.auth.seen import namespaces_read
from api.http import examples, shapes
from api.http.answers import Json, answers
from api.http.routing import Called, Cursor, Limit, NameFilter, Served, make_router
from api.schemas.usage import UsagePage
from api.store.months import month_of
from api.store.usage import UsageRow, read_usage

router = make_router("queues")

MONTH_PATTERN = r"^[0-9]{4}-(0[1-9]|1[0-2])$"

MS_PER_HOUR = 3_600_000


@router.get(
    "/v1/usage",
    summary="GPU-hours that were used",
    responses=answers(UsagePage, examples.USAGE, 422, says="Usage of a month."),
)
def show_usage(
    service: Served,
    caller: Called,
    by: Annotated[
        Literal["queue", "namespace", "job", "gpu"],
        Query(description="What it is summed up by, beside the GPU model."),
    ] = "queue",
    month: Annotated[
        str | None,
        Query(pattern=MONTH_PATTERN, description="In UTC, as in 2026-12; this one when left out."),
    ] = None,
    queue: NameFilter = None,
    namespace: NameFilter = None,
    limit: Limit = 500,
    cursor: Cursor = None,
) -> Json:
    """From the binding of each pod until it left its GPUs; each GPU-second is counted once.

    A queue's usage is that of its own jobs, without those of queues below it. Who is bound to
    namespaces is told what these used, whatever it is summed up by.
    """
    now_s = service.clock.now_s()
    asked = month or month_of(round(now_s * 1_000))
    found = read_usage(
        service.database,
        namespaces=namespaces_read(caller, namespace),
        by=by,
        month=asked,
        now_s=now_s,
        queue=queue,
        namespace=namespace,
        limit=limit,
        cursor=cursor,
    )
    return Json(shapes.page(found, lambda row: _shape(row, by, asked)))


def _shape(row: UsageRow, by: str, month: str) -> shapes.Shape:
    of_job = by == "job"
    return {
        "month": month,
        "queue": row.owner if by == "queue" else row.queue or None,
        "namespace": row.owner if by == "namespace" else row.namespace or None,
        "job": row.job if of_job else None,
        "uid": row.owner if of_job else None,
        "gpu": row.gpu,
        "gpu_seconds": row.gpu_ms / 1_000,
        "gpu_hours": row.gpu_ms / MS_PER_HOUR,
    }
