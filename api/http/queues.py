"""Queues: a tree of tenants' lines."""

from typing import Annotated

from fastapi import Depends

from api.http import example_bodies, examples, shapes
from api.http.answers import Json, answers, takes
from api.http.body import json_body
from api.http.routing import Cursor, Limit, NamePath, make_router
from api.http.service import Served
from api.schemas.queue import Queue, QueueBody, QueuePage, QueuePatch
from api.store import queues
from api.store.views import QueueSpec

router = make_router("queues")


@router.get(
    "/v1/queues",
    summary="List queues",
    responses=answers(QueuePage, examples.QUEUES, 422, says="Queues by name."),
)
def list_all_queues(service: Served, limit: Limit = 500, cursor: Cursor = None) -> Json:
    """Queues with what their jobs hold; `default` is always among them."""
    found = queues.list_queues(service.database, limit=limit, cursor=cursor)
    return Json(shapes.page(found, shapes.queue))


@router.post(
    "/v1/queues",
    status_code=201,
    summary="Make a queue",
    responses=answers(
        Queue, examples.QUEUE, 400, 404, 409, 413, 415, 422, status=201, says="The queue, new."
    ),
    openapi_extra=takes(QueueBody, example_bodies.QUEUE_BODIES),
)
def create_queue(
    service: Served, body: Annotated[QueueBody, Depends(json_body(QueueBody))]
) -> Json:
    """409 when the name is in use."""
    spec = QueueSpec(
        name=body.name,
        parent=body.parent,
        quota_gpus=body.quota_gpus,
        limit_gpus=body.limit_gpus,
        weight=body.weight,
        max_priority=body.max_priority,
        namespaces=tuple(body.namespaces),
    )
    made = queues.create_queue(service.database, spec, now_s=service.clock.now_s())
    return Json(shapes.queue(made), 201)


@router.get(
    "/v1/queues/{name}",
    summary="Read a queue",
    responses=answers(Queue, examples.QUEUE, 404, says="The queue."),
)
def read_queue(service: Served, name: NamePath) -> Json:
    """One queue with what its jobs hold."""
    return Json(shapes.queue(queues.get_queue(service.database, name)))


@router.patch(
    "/v1/queues/{name}",
    summary="Change a queue",
    responses=answers(
        Queue, examples.QUEUE, 400, 404, 409, 413, 415, 422, says="The queue as it is now."
    ),
    openapi_extra=takes(QueuePatch, example_bodies.QUEUE_PATCHES),
)
def change_queue(
    service: Served,
    name: NamePath,
    body: Annotated[QueuePatch, Depends(json_body(QueuePatch))],
) -> Json:
    """Change the fields that are given; null takes a limit, or the parent, away."""
    changes: dict[str, object] = {
        field: tuple(value) if isinstance(value := getattr(body, field), list) else value
        for field in body.model_fields_set
    }
    changed = queues.patch_queue(service.database, name, changes, now_s=service.clock.now_s())
    return Json(shapes.queue(changed))


@router.delete(
    "/v1/queues/{name}",
    summary="Delete a queue",
    responses=answers(Queue, examples.QUEUE, 404, 409, says="The queue as it was."),
)
def delete_queue(service: Served, name: NamePath) -> Json:
    """409 while it has jobs that have not ended, or queues below it."""
    was = queues.get_queue(service.database, name)
    queues.delete_queue(service.database, name, now_s=service.clock.now_s())
    return Json(shapes.queue(was))
