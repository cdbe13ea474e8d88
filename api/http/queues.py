"""Queues: a tree of tenants' lines."""

import re
from functools import partial
from typing import Annotated

from fastapi import Depends

from api.http import example_bodies, examples, shapes
from api.http.answers import Json, answers, takes
from api.http.body import json_body
from api.http.routing import Called, Cursor, Limit, NamePath, Served, make_router
from api.schemas.common import NAME_PATTERN, PATTERN_WORDS
from api.schemas.queue import Queue, QueueBody, QueuePage, QueuePatch, QueuePut
from api.store import queues
from api.store.queue_views import get_queue, list_queues
from scheduler.errors import Problem, QueueError
from scheduler.model.queue import QueueRecord

router = make_router("queues")


@router.get(
    "/v1/queues",
    summary="List queues",
    responses=answers(QueuePage, examples.QUEUES, 422, says="Queues by name."),
)
def list_all_queues(
    service: Served, caller: Called, limit: Limit = 500, cursor: Cursor = None
) -> Json:
    """Queues with what their jobs hold; `default` is always among them.

    Who is bound to namespaces sees those that take jobs of them; numbers count everybody's jobs.
    """
    names = caller.namespaces
    found = list_queues(service.database, limit=limit, cursor=cursor, names=names)
    return Json(shapes.page(found, partial(shapes.queue, names=names)))


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
    """409 when the name is in use, or the parent has jobs of its own."""
    made = queues.create_queue(
        service.database, _record(body.name, body), now_s=service.clock.now_s()
    )
    return Json(shapes.queue(made), 201)


@router.get(
    "/v1/queues/{name}",
    summary="Read a queue",
    responses=answers(Queue, examples.QUEUE, 404, says="The queue."),
)
def read_queue(service: Served, caller: Called, name: NamePath) -> Json:
    """One queue with what its jobs hold; 404 for one that takes none of the caller's jobs."""
    names = caller.namespaces
    return Json(shapes.queue(get_queue(service.database, name, names), names))


@router.put(
    "/v1/queues/{name}",
    summary="Make or replace a queue",
    responses=answers(
        Queue,
        examples.QUEUE,
        400,
        409,
        413,
        415,
        422,
        says="The queue as it is now.",
        also=answers(Queue, examples.QUEUE, status=201, says="The queue, new."),
    ),
    openapi_extra=takes(QueuePut, example_bodies.QUEUE_PUTS),
)
def put_queue(
    service: Served, name: NamePath, body: Annotated[QueuePut, Depends(json_body(QueuePut))]
) -> Json:
    """The same again changes nothing. 201 when the queue is new."""
    _check_name(name, body.name)
    if re.fullmatch(NAME_PATTERN, name) is None:
        raise QueueError(Problem("name", f"found '{name}'; {PATTERN_WORDS[NAME_PATTERN]}"))
    queue, is_new = queues.put_queue(
        service.database, _record(name, body), now_s=service.clock.now_s()
    )
    return Json(shapes.queue(queue), 201 if is_new else 200)


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
    _check_name(name, body.name)
    changes: dict[str, object] = {
        field: _plain(getattr(body, field)) for field in body.model_fields_set - {"name"}
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
    was = get_queue(service.database, name)
    queues.delete_queue(service.database, name, now_s=service.clock.now_s())
    return Json(shapes.queue(was))


def _record(name: str, body: QueueBody | QueuePut) -> QueueRecord:
    fields = {field: _plain(value) for field, value in body if field != "name"}
    return QueueRecord(name=name, **fields)  # type: ignore[arg-type]  # kinds are the schema's


def _plain(value: object) -> object:
    """A list of names as the tuple that records have: sorted, each once."""
    return tuple(sorted({str(name) for name in value})) if isinstance(value, list) else value


def _check_name(name: str, given: str | None) -> None:
    if given is not None and given != name:
        raise QueueError(
            Problem("name", f"found '{given}'; queue '{name}' cannot be renamed: make another")
        )
