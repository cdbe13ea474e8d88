"""From request bodies to jobs in the store."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Annotated

from fastapi import Header

from api.http import shapes
from api.http.service import Service
from api.http.shapes import Shape
from api.problems import document_of
from api.schemas.job import JobBody
from api.schemas.job_spec import ReadJob
from api.store import jobs
from api.store.errors import StoreError
from api.store.views import IdempotencyKey, JobView, Submission
from scheduler.errors import SchedulerError

CALLER = ""
"""Who calls, while there are no tokens."""

IdempotencyHeader = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        pattern=r"^[\x21-\x7e]+$",
        description="Requests with equal keys in one namespace are one job, for 24 hours.",
    ),
]


def submit_one(service: Service, body: JobBody, key: str | None) -> tuple[JobView, bool]:
    """Admit a job and write it down; whether this call made it.

    Raises:
        JobError, NeverFits: As the door says.
        Conflict: If its name is in use, or its key for another body.
    """
    read = service.door.admit(body)
    return jobs.submit_job(
        service.database,
        read.spec,
        read.body,
        now_s=service.clock.now_s(),
        idempotency=None if key is None else _key(read, key),
    )


def submit_many(service: Service, bodies: Sequence[JobBody]) -> list[Shape]:
    """What became of each, in order."""
    admitted = [_admitted(service, body) for body in bodies]
    submissions = [s for s in admitted if isinstance(s, Submission)]
    written = iter(
        jobs.submit_jobs(service.database, submissions, now_s=service.clock.now_s())
        if submissions
        else ()
    )
    return [_outcome(next(written) if isinstance(a, Submission) else a) for a in admitted]


def _admitted(service: Service, body: JobBody) -> Submission | SchedulerError:
    try:
        read = service.door.admit(body)
    except SchedulerError as error:
        return error
    return Submission(read.spec, read.body)


def _outcome(result: tuple[JobView, bool] | StoreError | SchedulerError) -> Shape:
    if isinstance(result, tuple):
        return {"status": 201, "job": shapes.job(result[0]), "problem": None}
    problem = document_of(result)
    return {"status": problem["status"], "job": None, "problem": problem}


def _key(read: ReadJob, key: str) -> IdempotencyKey:
    return IdempotencyKey(CALLER, read.spec.namespace, key, body_hash(read.body))


def body_hash(body: Mapping[str, object]) -> str:
    """Equal for bodies that mean the same, in whatever order their keys were written."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
