"""Jobs: submit, list, read, change, cancel."""

from typing import Annotated

from fastapi import Depends, Query
from starlette.concurrency import run_in_threadpool

from api.auth import Right, check
from api.auth.seen import namespaces_read
from api.http import example_bodies, examples, shapes
from api.http.answers import Json, answers, takes
from api.http.body import YAML_TYPES, json_or_yaml_body
from api.http.changing import IfMatch, change_one, patch_body
from api.http.dry_run import dry_run_of
from api.http.routing import (
    Called,
    Cursor,
    IdempotencyHeader,
    Limit,
    NameFilter,
    NamePath,
    Served,
    Timeout,
    Wait,
    make_router,
)
from api.http.submitting import submit_one
from api.http.waiting import WAIT_S, wait_for
from api.schemas.job import Job, JobBody, JobPage, JobStateName
from api.schemas.job_change import JobPatch
from api.store.jobs import cancel_job, get_job, list_jobs
from api.store.views import JobView
from scheduler.model.lifecycle import JobState

router = make_router("jobs")


@router.post(
    "/v1/jobs",
    status_code=201,
    summary="Submit a job",
    responses=answers(
        Job,
        examples.JOB,
        400,
        409,
        429,
        413,
        415,
        422,
        status=201,
        says="The job, new.",
        also=examples.SUBMIT_ALSO,
    ),
    openapi_extra=takes(JobBody, example_bodies.JOB_BODIES, also=YAML_TYPES[:1]),
)
async def submit_job(
    service: Served,
    caller: Called,
    body: Annotated[JobBody, Depends(json_or_yaml_body(JobBody))],
    *,
    key: IdempotencyHeader = None,
    dry_run: Annotated[bool, Query(description="Write nothing; say where it would go.")] = False,
    wait: Wait = None,
    timeout_s: Timeout = WAIT_S,
) -> Json:
    """Write a job down; the answer is 200 instead of 201 when its key is known already."""
    check(caller, Right.SUBMIT, namespace=body.namespace)
    if dry_run:
        return Json(await run_in_threadpool(dry_run_of, service, caller, body))
    job, created = await run_in_threadpool(submit_one, service, caller, body, key, wait)
    if wait is not None:
        job = await wait_for(service, job.uid, wait, timeout_s, job)
    return Json(shapes.job(job), 201 if created else 200)


@router.get(
    "/v1/jobs",
    summary="List jobs",
    responses=answers(JobPage, examples.JOBS, 422, says="Jobs, oldest first."),
)
def list_all_jobs(
    service: Served,
    caller: Called,
    namespace: NameFilter = None,
    queue: NameFilter = None,
    state: JobStateName | None = None,
    limit: Limit = 500,
    cursor: Cursor = None,
) -> Json:
    """All jobs whose record has not been deleted, those that have ended too."""
    names = namespaces_read(caller, namespace)
    found = list_jobs(
        service.database,
        namespaces=names,
        queue=queue,
        state=None if state is None else JobState(state),
        limit=limit,
        cursor=cursor,
    )
    return Json(shapes.page(found, shapes.job))


@router.get(
    "/v1/namespaces/{namespace}/jobs/{name}",
    summary="Read a job",
    responses=answers(Job, examples.JOB, 404, 422, says="The newest job of that name."),
)
async def read_job(
    service: Served,
    namespace: NamePath,
    name: NamePath,
    wait: Wait = None,
    timeout_s: Timeout = WAIT_S,
) -> Json:
    """The job, at once or when it is as far as `wait` says."""
    job = await run_in_threadpool(get_job, service.database, namespace, name)
    if wait is not None:
        job = await wait_for(service, job.uid, wait, timeout_s)
    return _job(job)


@router.patch(
    "/v1/namespaces/{namespace}/jobs/{name}",
    summary="Change a job",
    responses=answers(
        Job, examples.CHANGED, 400, 404, 409, 413, 415, 422, 429, says="The job as it is now."
    ),
    openapi_extra=takes(JobPatch, example_bodies.JOB_PATCHES),
)
def patch_job(
    service: Served,
    caller: Called,
    namespace: NamePath,
    name: NamePath,
    body: Annotated[JobPatch, Depends(patch_body())],
    match: IfMatch = None,
) -> Json:
    """Change what a job asks for; members that it has too many by then stop, last ones first.

    Everything else stays as submitted. 409 when the job has ended, is not in the state for the
    change, or is not at the revision that its caller knows.
    """
    return _job(change_one(service, caller, namespace, name, body, match))


@router.delete(
    "/v1/namespaces/{namespace}/jobs/{name}",
    summary="Cancel a job",
    responses=answers(Job, examples.CANCELLED, 404, 409, says="The job as it is now."),
)
def delete_job(service: Served, namespace: NamePath, name: NamePath) -> Json:
    """Cancel a job; delete the record of one that has ended."""
    job = cancel_job(service.database, namespace, name, now_s=service.clock.now_s())
    return Json(shapes.job(job))


def _job(view: JobView) -> Json:
    """One job, with its revision for `If-Match`."""
    return Json(shapes.job(view), headers={"ETag": f'"{view.revision}"'})
