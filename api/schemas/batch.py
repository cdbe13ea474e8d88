"""Batches: many jobs submitted, and many ended, in one transaction."""

from typing import Annotated

from pydantic import Field, JsonValue, StringConstraints

from api.schemas.common import Strict
from api.schemas.job import Job, JobBody
from api.schemas.problem import FieldProblem

BATCH_MAX = 1_000
"""Jobs to submit, and as many to end; a thousand take well below a second."""

JOB_PATH_PATTERN = r"^[^/\x00-\x1f\x7f]{1,253}/[^/\x00-\x1f\x7f]{1,253}$"

JobPath = Annotated[str, StringConstraints(pattern=JOB_PATH_PATTERN)]
"""`namespace/name`."""


class JobBatch(Strict):
    """Jobs to end, then jobs to submit; one that is refused does not keep the others out.

    `delete` names jobs as `namespace/name`; each is cancelled, or its record deleted when it has
    ended, as by `DELETE`.
    """

    jobs: Annotated[list[JobBody], Field(max_length=BATCH_MAX)] = []
    delete: Annotated[list[JobPath], Field(max_length=BATCH_MAX)] = []


class LooseBatch(Strict):
    """The same with jobs of any form, so that each can be told by itself what is wrong with it."""

    jobs: Annotated[list[JsonValue], Field(max_length=BATCH_MAX)] = []
    delete: Annotated[list[JobPath], Field(max_length=BATCH_MAX)] = []


class BatchItem(Strict):
    """What became of one entry.

    `status` is that of the same request by itself: 201 (or 200 under a known key) with `job`, else
    `errors`, whose paths begin at the entry.
    """

    status: int
    job: Job | None = None
    errors: list[FieldProblem] = []


class BatchResult(Strict):
    """What became of a batch: `items` in the order of its `jobs`, `deleted` in that of `delete`."""

    items: list[BatchItem]
    deleted: list[BatchItem]
