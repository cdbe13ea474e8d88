"""When time alone makes a gang leave, or pushes on one that does."""

from scheduler.model.lifecycle import JobState
from scheduler.model.plan import JobRecord

LIMITED = frozenset({JobState.BOUND, JobState.RUNNING, JobState.RECOVERING})
"""States in which a job uses up its time limit."""


def time_is_up_s(job: JobRecord) -> float | None:
    """Unix seconds at which a live job reaches its time limit; None if it never does."""
    began, limit = job.since_s, job.spec.time_limit_s
    if job.state not in LIMITED or began is None or limit is None:
        return None
    return began + limit


def over_limit(job: JobRecord, now_s: float) -> bool:
    """Whether a live job has reached its time limit."""
    end = time_is_up_s(job)
    return end is not None and end <= now_s
