"""From request bodies to jobs in the store."""

import hashlib
import json
from collections.abc import Mapping

from api.auth import Caller
from api.http.service import Service
from api.http.waiting import WaitFor
from api.schemas.job import JobBody
from api.schemas.job_spec import ReadJob, read_job
from api.store import jobs
from api.store.ground import Moved
from api.store.views import IdempotencyKey, JobView
from scheduler.errors import InvariantError, JobError, SchedulerError

KEY_PATTERN, KEY_MAX = r"^[\x21-\x7e]+$", 255
"""Of `Idempotency-Key`."""


def submit_one(
    service: Service, caller: Caller, body: JobBody, key: str | None, wait: WaitFor | None
) -> tuple[JobView, bool]:
    """Admit a job and write it down; whether this call made it.

    Args:
        wait: What its submitter waits for afterwards.

    Raises:
        JobError, NeverFits: As the door says.
        Conflict: If its name is in use, or its key for another body.
    """
    for has_more in (True, False):
        try:
            read = service.door.admit(body, caller.namespaces)
        except SchedulerError:
            known = known_job(service, caller, body, key)
            if known is None:
                raise
            return known, False
        try:
            return jobs.submit_job(
                service.database,
                read.spec,
                read.body,
                now_s=service.clock.now_s(),
                idempotency=None if key is None else idempotency_key(caller, read, key),
                ground=read.ground if has_more else None,
                is_awaited=wait is not None,
            )
        except Moved:
            # Another process changed the map, a queue or the policy a moment ago.
            service.door.look_again()
    raise InvariantError("a submission that names no ground is not told that it moved")


def known_job(service: Service, caller: Caller, body: JobBody, key: str | None) -> JobView | None:
    """The job that an earlier request under this key made.

    A request that is sent again must find it also when the door would refuse it by now.

    Raises:
        Conflict: If that request had another body, or its job was deleted.
    """
    if key is None:
        return None
    try:
        read = read_job(body)
    except JobError:
        return None  # such a request was never let in
    return jobs.job_of_key(
        service.database, idempotency_key(caller, read, key), now_s=service.clock.now_s()
    )


def idempotency_key(caller: Caller, read: ReadJob, key: str) -> IdempotencyKey:
    """A caller's key, in the namespace of its job."""
    return IdempotencyKey(caller.name, read.spec.namespace, key, body_hash(read.body))


def body_hash(body: Mapping[str, object]) -> str:
    """Equal for bodies that mean the same, in whatever order their keys were written."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
