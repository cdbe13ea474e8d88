"""Many jobs in one request: each by itself right or wrong, all in one transaction."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import Depends, Request
from fastapi.concurrency import run_in_threadpool

from api.http import example_bodies, examples, shapes
from api.http.answers import Json, answers, takes
from api.http.body import INLINE_BYTES, JSON, media_type
from api.http.routing import make_router
from api.http.service import Served, Service
from api.http.shapes import Shape
from api.http.submitting import CALLER, IdempotencyHeader, body_hash, idempotency_key, known_job
from api.problems import SHOWN_MAX, kind_of, problems_of
from api.schemas.batch import BatchResult, JobBatch, LooseBatch
from api.schemas.job import JobBody
from api.schemas.job_spec import ReadJob
from api.schemas.reading import InvalidFields, read_json, write_json
from api.store.batch import Submitted, run_batch
from api.store.ending import End, Ended
from api.store.errors import StoreError
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
    service: Served, body: Annotated[Read, Depends(batch_body)], key: IdempotencyHeader = None
) -> Json:
    """End jobs, then write jobs down, in one transaction; who is refused keeps no other out.

    The answer is 200 however many were refused; each entry has a status of its own. Under an
    `Idempotency-Key` every entry has a key of its own, made of that and its place in the batch.
    """
    bodies, paths = body
    admitted = _admit(service, bodies, key)
    ends = [_end(path, key, index) for index, path in enumerate(paths)]
    done = run_batch(
        service.database,
        ends=ends,
        submissions=[a for a in admitted if isinstance(a, Submission)],
        now_s=service.clock.now_s(),
    )
    written = iter(done.submitted)
    items = [_submitted(next(written) if isinstance(a, Submission) else a) for a in admitted]
    return Json({"items": items, "deleted": [_ended(e) for e in done.ended]})


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
    service: Service, bodies: Sequence[JobBody | InvalidFields], key: str | None
) -> list[Admitted]:
    read = iter(service.door.admit_all([b for b in bodies if isinstance(b, JobBody)]))
    return [
        body
        if isinstance(body, InvalidFields)
        else _admitted(service, body, next(read), None if key is None else f"{key} {index}")
        for index, body in enumerate(bodies)
    ]


def _admitted(
    service: Service, body: JobBody, read: ReadJob | JobError, key: str | None
) -> Admitted:
    if isinstance(read, ReadJob):
        return Submission(read.spec, read.body, None if key is None else idempotency_key(read, key))
    try:
        return known_job(service, body, key) or read
    except StoreError as error:
        return error


def _end(path: str, key: str | None, index: int) -> End:
    namespace, _, name = path.partition("/")
    if key is None:
        return End(namespace, name)
    told = body_hash({"delete": path})
    return End(namespace, name, IdempotencyKey(CALLER, namespace, f"{key} delete {index}", told))


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
