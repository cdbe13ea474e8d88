"""From a change of a job to the job in the store."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Annotated

from fastapi import Header, Request

from api.admission.change import changed_job
from api.auth import Caller
from api.http.body import json_body
from api.http.service import Service
from api.schemas.job import JobBody, RoleBody
from api.schemas.job_change import JobPatch, RolePatch
from api.schemas.reading import InvalidFields
from api.store.errors import Conflict
from api.store.job_changes import NO_PLACE, JobChange, Moved, change_job
from api.store.jobs import get_job
from api.store.views import JobView
from scheduler.errors import InvariantError, Problem

TRIES = 8
"""A change is made anew when another came between its look and its write."""

IfMatch = Annotated[
    str | None,
    Header(
        alias="If-Match",
        pattern=r'^(\*|"[0-9]{1,18}")$',
        description='`"<revision>"`, as in the job\'s `ETag`: 409 when the job has moved on.',
    ),
]


def change_one(
    service: Service,
    caller: Caller,
    namespace: str,
    name: str,
    patch: JobPatch,
    match: str | None,
) -> JobView:
    """Change a job that has not ended.

    Raises:
        NotFound: If there is no such job.
        JobError, NeverFits: If the change makes no sense.
        Conflict, StateError: If the job has moved on, or its state does not allow the change.
    """
    revision = _revision(patch, match)
    for tries_left in reversed(range(TRIES)):
        job = get_job(service.database, namespace, name)
        read = changed_job(job.spec, job.body, patch, placed=job.state not in NO_PLACE)
        service.door.readmit(job.spec, read.spec, caller.namespaces)
        change = JobChange(read.spec, read.body, job.spec_revision, revision)
        try:
            return change_job(
                service.database, namespace, name, change, now_s=service.clock.now_s()
            )
        except Moved as error:
            if not tries_left:
                raise Conflict("", str(error)) from None
    raise InvariantError("the last try returns or raises")


def _revision(patch: JobPatch, match: str | None) -> int | None:
    asked = None if match in (None, "*") else int(str(match).strip('"'))
    if asked is not None and patch.revision not in (None, asked):
        raise InvalidFields(
            Problem("revision", f"found {patch.revision}, but If-Match says {asked}; give one")
        )
    return patch.revision if asked is None else asked


def patch_body() -> Callable[[Request], Awaitable[JobPatch]]:
    """A dependency that reads a change, and says of fields that never change that they do not."""
    read = json_body(JobPatch)

    async def read_patch(request: Request) -> JobPatch:
        try:
            return await read(request)
        except InvalidFields as error:
            raise InvalidFields([_told(problem) for problem in error.problems]) from None

    return read_patch


def _told(problem: Problem) -> Problem:
    """An unknown field that a job has all the same is one that cannot be changed."""
    if not problem.message.startswith("unknown field"):
        return problem
    head, _, tail = problem.path.partition(".")
    if head in JobBody.model_fields:
        return Problem(problem.path, _fixed(JobPatch.model_fields, "a job"))
    if head.startswith("roles[") and tail in RoleBody.model_fields:
        return Problem(problem.path, _fixed(RolePatch.model_fields, "a role"))
    return problem


def _fixed(allowed: Iterable[str], what: str) -> str:
    names = [name for name in allowed if name not in ("name", "revision")]
    return f"cannot be changed once a job is submitted; of {what} these can: {', '.join(names)}"
