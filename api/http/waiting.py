"""What a request may wait for."""

from collections.abc import Callable, Mapping
from typing import Literal

from api.http.service import Service
from api.http.verdicts import NOT_PLACED
from api.store.jobs import get_job_by_uid
from api.store.views import JobView
from scheduler.model.lifecycle import FINAL, JobState

WAIT_S = 30.0
WAIT_S_MAX = 300.0

WaitFor = Literal["bound", "running", "finished"]

_NOT_RUNNING = NOT_PLACED | {JobState.BOUND}

FAR_ENOUGH: Mapping[WaitFor, Callable[[JobView], bool]] = {
    "bound": lambda job: job.state not in NOT_PLACED,
    "running": lambda job: job.state not in _NOT_RUNNING,
    "finished": lambda job: job.state in FINAL,
}
"""A job that has ended is past everything."""


async def wait_for(
    service: Service, uid: str, what: WaitFor, timeout_s: float, known: JobView | None = None
) -> JobView:
    """The job when it is so far, or as it is at the time-out.

    Args:
        known: The job as of a moment ago.
    """
    return await service.waiters.until(
        uid,
        look=lambda: get_job_by_uid(service.database, uid),
        done=FAR_ENOUGH[what],
        timeout_s=timeout_s,
        known=known,
    )
