"""Many jobs in one request: each by itself right or wrong, all in one transaction."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool

from api.auth import Caller, Forbidden, Right, check
from api.http import example_bodies, examples, shapes
from api.http.answers import Json, answers, takes
from api.http.body import JSON, media_type
from api.http.routing import Called, IdempotencyHeader, Served, make_router
from api.http.service import Service
from api.http.shapes import Shape
from api.http.submitting import body_hash, idempotency_key, known_job
from api.problems import SHOWN_MAX, kind_of, problems_of
from api.schemas.batch import BatchResult, JobBatch, LooseBatch
from api.schemas.job import JobBody
from api.schemas.job_spec import ReadJob
from api.schemas.reading import INLINE_BYTES, InvalidFields, read_json, write_json
from api.store.batch import BatchDone, Submitted, run_batch
from api.store.ending import End, Ended
from api.store.errors import StoreError
from api.store.ground import Moved
from api.store.views import IdempotencyKey, JobView, Submission
from scheduler.errors import JobError, Problem, SchedulerError

router = make_router("jobs")

Read = tuple[Sequence[JobBody | InvalidFields], Sequence[str]]
"""Jobs to submit, or what is wrong with each; then names of jobs to end."""


async def batch_body(request: Request) -> Read:
    """A dependency that reads a batch."""
    media_type(request, (JSON,))
    body = await request.body()
    if len(body) <= INLINE_BYTES:
        return _read(body)
    return await run_in_threadpool(_read, body)


@router.post(
    "/v1/jobs:batch",
    summary="Submit and end many jobs",
    responses=answers(
        BatchResult, examples.BATCH, 400, 413, 415, 422, says="What became of each, in order."
    ),
    openapi_extra=takes(JobBatch, example_bodies.BATCH_BODIES),
)
def submit_batch(
    service: Served,
    caller: Called,
    body: Annotated[Read, Depends(batch_body)],
    key: IdempotencyHeader = None,
) -> Json:
    """End jobs, then write jobs down, in one transaction; who is refused keeps no other out.

    The answer is 200 however many were refused; each entry has a status of its own. Under an
    `Idempotency-Key` every entry has a key of its own, made of that and its place in the batch.
    """
    bodies, paths = body
    admitted = _admit(service, caller, bodies, key)
    ends = [_end(caller, path, key, index) for index, path in enumerate(paths)]
    try:
        done = _run(service, admitted, ends)
    except Moved:
        # Another process changed the map, a queue or the policy a moment ago.
        service.door.look_again()
        admitted = [_on_any_ground(a) for a in _admit(service, caller, bodies, key)]
        done = _run(service, admitted, ends)
    written = iter(done.submitted)
    items = [_submitted(next(written) if isinstance(a, Submission) else a) for a in admitted]
    ended = iter(done.ended)
    deleted = [_ended(next(ended)) if isinstance(e, End) else _refused(e) for e in ends]
    return Json({"items": items, "deleted": deleted})


def _run(
    service: Service, admitted: Sequence["Admitted"], ends: Sequence[End | Forbidden]
) -> BatchDone:
    return run_batch(
        service.database,
        ends=[end for end in ends if isinstance(end, End)],
        submissions=[a for a in admitted if isinstance(a, Submission)],
        now_s=service.clock.now_s(),
    )


def _on_any_ground(admitted: "Admitted") -> "Admitted":
    return replace(admitted, ground=None) if isinstance(admitted, Submission) else admitted


def _read(body: bytes) -> Read:
    try:
        batch = read_json(JobBatch, body)
    except InvalidFields:
        loose = read_json(LooseBatch, body)
        found = [_job_or_problems(value) for value in loose.jobs]
        return _some(found, loose.delete)
    return _some(batch.jobs, batch.delete)


def _some(jobs: Sequence[JobBody | InvalidFields], ends: Sequence[str]) -> Read:
    if not (jobs or ends):
        raise InvalidFields(Problem("jobs", "an empty batch; give jobs, delete, or both"))
    return jobs, ends


def _job_or_problems(value: object) -> JobBody | InvalidFields:
    try:
        return read_json(JobBody, write_json(value))
    except InvalidFields as error:
        return error


Admitted = Submission | JobView | SchedulerError | StoreError
"""A job to write; or the one of its key, though it would be refused by now; or why not."""


def _admit(
    service: Service, caller: Caller, bodies: Sequence[JobBody | InvalidFields], key: str | None
) -> list[Admitted]:
    checked = [_theirs(caller, body) for body in bodies]
    some = [body for body in checked if isinstance(body, JobBody)]
    read = iter(service.door.admit_all(some, caller.namespaces))
    return [
        _admitted(service, caller, body, next(read), None if key is None else f"{key} {index}")
        if isinstance(body, JobBody)
        else body
        for index, body in enumerate(checked)
    ]


def _theirs(caller: Caller, body: JobBody | InvalidFields) -> JobBody | InvalidFields | Forbidden:
    """The body, or that its namespace is not its sender's."""
    if isinstance(body, InvalidFields):
        return body
    try:
        check(caller, Right.SUBMIT, namespace=body.namespace)
    except Forbidden as error:
        return error
    return body


def _admitted(
    service: Service, caller: Caller, body: JobBody, read: ReadJob | JobError, key: str | None
) -> Admitted:
    if isinstance(read, ReadJob):
        known = None if key is None else idempotency_key(caller, read, key)
        return Submission(read.spec, read.body, known, read.ground)
    try:
        return known_job(service, caller, body, key) or read
    except StoreError as error:
        return error


def _end(caller: Caller, path: str, key: str | None, index: int) -> End | Forbidden:
    namespace, _, name = path.partition("/")
    try:
        check(caller, Right.SUBMIT, namespace=namespace)
    except Forbidden as error:
        return error
    if key is None:
        return End(namespace, name)
    told = body_hash({"delete": path})
    known = IdempotencyKey(caller.name, namespace, f"{key} delete {index}", told)
    return End(namespace, name, known)


def _submitted(result: Submitted | JobView | SchedulerError | StoreError) -> Shape:
    if isinstance(result, JobView):
        return {"status": 200, "job": shapes.job(result)}
    if isinstance(result, tuple):
        job, created = result
        return {"status": 201 if created else 200, "job": shapes.job(job)}
    return _refused(result)


def _ended(result: Ended) -> Shape:
    if isinstance(result, Exception):
        return _refused(result)
    return {"status": 200} | ({} if result is None else {"job": shapes.job(result)})


def _refused(error: Exception) -> Shape:
    problems = [{"path": p.path, "message": p.message} for p in problems_of(error)]
    return {"status": kind_of(error).status, "errors": problems[:SHOWN_MAX]}
