"""The line of pending gangs."""

from collections.abc import Iterable

from scheduler.model.lifecycle import JobState
from scheduler.model.plan import JobRecord


def in_order(jobs: Iterable[JobRecord]) -> list[JobRecord]:
    """Pending jobs: highest priority first, then the oldest submission, then by uid."""
    pending = (job for job in jobs if job.state is JobState.PENDING)
    return sorted(pending, key=lambda job: (-job.spec.priority, job.age, job.uid))
