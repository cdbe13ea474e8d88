"""What people ask of a job that is there, and what it tells of itself."""

from typing import Annotated

from fastapi import Depends

from api.http import claim_examples as told
from api.http import example_bodies, examples, shapes
from api.http.answers import Json, answers, takes
from api.http.body import json_body, optional_json_body
from api.http.routing import NamePath, Served, make_router
from api.http.service import Service
from api.schemas.checkpoint import CheckpointReport
from api.schemas.job import Job
from api.schemas.node import Nothing
from api.store.checkpoints import Checkpoint, save_checkpoint
from api.store.control import control_job
from scheduler.model.plan import FactKind

router = make_router("jobs")

NoBody = Annotated[Nothing, Depends(optional_json_body(Nothing))]

_NOTHING = takes(Nothing, example_bodies.NOTHING_BODIES, required=False)
_ERRORS = (400, 404, 409, 413, 415, 422)
_SAYS = "The job as it stands; the scheduler has yet to act."


@router.post(
    "/v1/namespaces/{namespace}/jobs/{name}/hold",
    summary="Keep a job from starting",
    responses=answers(Job, told.HELD, *_ERRORS, says=_SAYS),
    openapi_extra=_NOTHING,
)
def hold_job(service: Served, namespace: NamePath, name: NamePath, body: NoBody) -> Json:
    """A place it waits for is given up. One that has started runs on, but not again."""
    return _asked(service, namespace, name, FactKind.HOLD)


@router.post(
    "/v1/namespaces/{namespace}/jobs/{name}/release",
    summary="Let a held job start",
    responses=answers(Job, told.PENDING, *_ERRORS, says=_SAYS),
    openapi_extra=_NOTHING,
)
def release_job(service: Served, namespace: NamePath, name: NamePath, body: NoBody) -> Json:
    """It has its old place in the line. Does nothing to a job that is not held."""
    return _asked(service, namespace, name, FactKind.RELEASE)


@router.post(
    "/v1/namespaces/{namespace}/jobs/{name}/suspend",
    summary="Take a job off its nodes for a time",
    responses=answers(Job, told.SUSPENDING, *_ERRORS, says=_SAYS),
    openapi_extra=_NOTHING,
)
def suspend_job(service: Served, namespace: NamePath, name: NamePath, body: NoBody) -> Json:
    """Its pods are told to stop; then it holds nothing and waits to be resumed."""
    return _asked(service, namespace, name, FactKind.SUSPEND)


@router.post(
    "/v1/namespaces/{namespace}/jobs/{name}/resume",
    summary="Let a suspended job start again",
    responses=answers(Job, told.SUSPENDED, *_ERRORS, says=_SAYS),
    openapi_extra=_NOTHING,
)
def resume_job(service: Served, namespace: NamePath, name: NamePath, body: NoBody) -> Json:
    """It waits in line with its old age. Does nothing to a job that is not suspended."""
    return _asked(service, namespace, name, FactKind.RESUME)


@router.post(
    "/v1/namespaces/{namespace}/jobs/{name}/requeue",
    summary="Send a job back in line",
    responses=answers(Job, examples.JOB, *_ERRORS, says=_SAYS),
    openapi_extra=_NOTHING,
)
def requeue_job(service: Served, namespace: NamePath, name: NamePath, body: NoBody) -> Json:
    """Its pods are told to stop; then it waits with its old age, to be placed anew."""
    return _asked(service, namespace, name, FactKind.REQUEUE)


@router.post(
    "/v1/namespaces/{namespace}/jobs/{name}/checkpoints",
    summary="Tell of a checkpoint",
    responses=answers(Job, told.SAVED, *_ERRORS, says="The job as it stands."),
    openapi_extra=takes(CheckpointReport, told.CHECKPOINT_BODIES),
)
def report_checkpoint(
    service: Served,
    namespace: NamePath,
    name: NamePath,
    body: Annotated[CheckpointReport, Depends(json_body(CheckpointReport))],
) -> Json:
    """What has run since is what the job would lose if it had to leave; steps do not go back."""
    checkpoint = Checkpoint(
        step=body.step,
        uri=body.uri,
        tier=body.tier or "",
        nodes=tuple(body.nodes),
        request_id=body.request_id or "",
    )
    now_s = service.clock.now_s()
    job = save_checkpoint(service.database, namespace, name, checkpoint, now_s=now_s)
    return Json(shapes.job(job))


def _asked(service: Service, namespace: str, name: str, kind: FactKind) -> Json:
    job = control_job(service.database, namespace, name, kind, now_s=service.clock.now_s())
    return Json(shapes.job(job), headers={"ETag": f'"{job.revision}"'})
