"""The inventory: import a cluster's description."""

from typing import Annotated

from fastapi import Depends, Query, Request

from api.http import example_bodies, examples
from api.http.answers import Json, answers, takes_text
from api.http.body import JSON, YAML_TYPES, media_type
from api.http.routing import make_router
from api.http.service import Served
from api.ingest.topology import read_inventory
from api.schemas.common import LINE_PATTERN
from api.schemas.inventory import Imported
from api.store.nodes import import_inventory

router = make_router("cluster")

_TYPES = (*YAML_TYPES, JSON, "text/plain")


async def _text(request: Request) -> bytes:
    media_type(request, _TYPES)
    return await request.body()


@router.post(
    "/v1/inventory",
    summary="Import a cluster's description",
    responses=answers(Imported, examples.IMPORTED, 400, 413, 415, 422, says="What it changed."),
    openapi_extra=takes_text(_TYPES, example_bodies.INVENTORY),
)
def post_inventory(
    service: Served,
    text: Annotated[bytes, Depends(_text)],
    *,
    format: Annotated[
        str, Query(max_length=40, pattern=LINE_PATTERN, description="Format of the body.")
    ] = "podyard",
    dry_run: Annotated[bool, Query(description="Change nothing; say what would change.")] = False,
    prune: Annotated[bool, Query(description="Remove the nodes that it does not name.")] = False,
) -> Json:
    """Create and update nodes; nothing is written when any record is wrong.

    A node that holds live pods is never removed. The same import again changes nothing.
    """
    result = import_inventory(
        service.database,
        read_inventory(text, format),
        prune=prune,
        dry_run=dry_run,
        now_s=service.clock.now_s(),
    )
    return Json(
        {
            "created": result.created,
            "updated": result.updated,
            "unchanged": result.unchanged,
            "removed": result.removed,
            "kept": result.kept,
            "warnings": list(result.warnings),
            "revision": result.revision,
        }
    )
