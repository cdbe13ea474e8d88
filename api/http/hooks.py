"""What hooks were told, and what jobs have saved."""

from typing import Annotated

from fastapi import Depends, Query

from api.auth import Caller, Right, check, visible
from api.auth.seen import namespaces_read
from api.hooks.allow import HookRefused, parse
from api.http import example_bodies, shapes
from api.http import hook_examples as told
from api.http.answers import Json, answers, takes
from api.http.body import optional_json_body
from api.http.routing import Called, Cursor, Limit, NameFilter, NamePath, Served, make_router
from api.http.service import Service
from api.schemas.checkpoint import CheckpointPage
from api.schemas.hook import Delivery, DeliveryPage, DeliveryStateName
from api.schemas.node import Nothing
from api.store import outbox
from api.store.checkpoints import KnownCheckpoint, list_checkpoints
from api.store.errors import NotFound

router = make_router("hooks")

NoBody = Annotated[Nothing, Depends(optional_json_body(Nothing))]
Kind = Annotated[str | None, Query(pattern=r"^[a-z]{1,20}\.[a-z]{1,20}$")]


@router.get(
    "/v1/namespaces/{namespace}/jobs/{name}/checkpoints",
    summary="List checkpoints of a job",
    responses=answers(CheckpointPage, told.CHECKPOINTS, 404, says="The newest first."),
)
def read_checkpoints(service: Served, namespace: NamePath, name: NamePath) -> Json:
    """The last hundred that it told of, and whether a copy of each is left."""
    return Json(shapes.page(list_checkpoints(service.database, namespace, name), _checkpoint))


@router.get(
    "/v1/hooks/deliveries",
    summary="List messages to hooks",
    responses=answers(DeliveryPage, told.DELIVERIES, 422, says="The newest first."),
)
def list_hook_deliveries(
    service: Served,
    caller: Called,
    namespace: NameFilter = None,
    job: NameFilter = None,
    state: DeliveryStateName | None = None,
    kind: Kind = None,
    limit: Limit = 500,
    cursor: Cursor = None,
) -> Json:
    """What is to be sent, was sent, or was given up; the last are kept for a week."""
    found = outbox.list_deliveries(
        service.database,
        namespaces=namespaces_read(caller, namespace),
        namespace=namespace,
        job=job,
        state=None if state is None else outbox.DeliveryState(state),
        kind=kind,
        limit=limit,
        cursor=cursor,
    )
    return Json(shapes.page(found, _delivery))


@router.get(
    "/v1/hooks/deliveries/{id}",
    summary="Read a message to a hook",
    responses=answers(Delivery, told.DELIVERY, 404, says="The message."),
)
def read_hook_delivery(service: Served, caller: Called, id: NamePath) -> Json:
    """One message, as far as it has come."""
    return Json(_delivery(_theirs(service, caller, id)))


@router.post(
    "/v1/hooks/deliveries/{id}/retry",
    summary="Send a message to a hook again",
    responses=answers(
        Delivery, told.RETRIED, 400, 404, 409, 413, 415, 422, says="The message, to be sent now."
    ),
    openapi_extra=takes(Nothing, example_bodies.NOTHING_BODIES, required=False),
)
def retry_hook_delivery(service: Served, caller: Called, id: NamePath, body: NoBody) -> Json:
    """One that was given up has all its attempts before it; one that waits is sent now.

    409 when it was delivered or withdrawn, or is a request to save whose time is over.
    """
    check(caller, Right.SUBMIT, namespace=_theirs(service, caller, id).namespace)
    now_s = service.clock.now_s()
    found = outbox.retry_delivery(service.database, id, now_s=now_s)
    if service.runner is not None:
        service.runner.wake()
    return Json(_delivery(found))


def _theirs(service: Service, caller: Caller, id_: str) -> outbox.Delivery:
    """A message about a job that the caller may see; others' are as if they were not there."""
    found = outbox.get_delivery(service.database, id_)
    if not visible(caller, found):
        raise NotFound("delivery", id_)
    return found


def _delivery(found: outbox.Delivery) -> shapes.Shape:
    """As `schemas.hook.Delivery` describes it."""
    is_open = found.state is outbox.DeliveryState.PENDING
    return {
        "id": found.id,
        "kind": found.kind,
        "namespace": found.namespace,
        "job": found.name,
        "uid": found.job_uid,
        "url": _shown(found.url),
        "state": found.state,
        "attempts": found.attempts,
        "created_at": shapes.rfc3339(found.at),
        "due_at": shapes.rfc3339(found.due_at) if is_open else None,
        "asked_at": shapes.time_or_none(found.asked_at),
        "done_at": shapes.time_or_none(found.done_at),
        "request_id": found.request_id,
        "status": found.status,
        "error": found.error,
    }


def _shown(url: str) -> str:
    """Without what may be a secret."""
    try:
        return parse(url).shown
    except HookRefused:
        return ""


def _checkpoint(known: KnownCheckpoint) -> shapes.Shape:
    """As `schemas.checkpoint.Checkpoint` describes it."""
    found = known.checkpoint
    return {
        "step": found.step,
        "uri": found.uri,
        "tier": found.tier or None,
        "nodes": list(found.nodes),
        "lost_nodes": list(known.lost),
        "exists": known.exists,
        "request_id": found.request_id or None,
        "at": shapes.rfc3339(found.at),
        "revision": known.revision,
    }
