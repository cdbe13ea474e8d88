"""Jobs and pods of every queue in numbers, as other faces than `/v1` show them."""

from dataclasses import dataclass, field

import sqlalchemy as sa
from sqlalchemy import Connection

from api.store.tables import jobs, pods, queues
from scheduler.model.lifecycle import LIVE_POD, JobState


@dataclass(slots=True)
class QueueCount:
    """What is in one queue itself, not in those below it.

    Attributes:
        jobs: Records by state, those that have ended too.
        live: Jobs that have not ended, or whose pods still run.
        pods, gpus, cpu_milli, memory_mib: Of live pods.
        revision: Of the last change of any of its jobs.
    """

    jobs: dict[JobState, int] = field(default_factory=dict)
    live: int = 0
    pods: int = 0
    gpus: int = 0
    cpu_milli: int = 0
    memory_mib: int = 0
    revision: int = 0


def count_queues(connection: Connection) -> dict[str, QueueCount]:
    """Counts by queue; a queue without any job is left out."""
    found: dict[str, QueueCount] = {}
    newest = sa.func.max(jobs.c.revision)
    live = sa.func.sum(sa.case((jobs.c.holds_name, 1), else_=0))
    by_state = sa.select(jobs.c.queue, jobs.c.state, sa.func.count(), live, newest)
    for queue, state, count, unended, revision in connection.execute(
        by_state.group_by(jobs.c.queue, jobs.c.state)
    ):
        one = found.setdefault(queue, QueueCount())
        one.jobs[JobState(state)] = int(count)
        one.live += int(unended)
        one.revision = max(one.revision, int(revision))
    held = sa.select(
        jobs.c.queue,
        sa.func.count(),
        sa.func.sum(pods.c.gpus),
        sa.func.sum(pods.c.cpu_milli),
        sa.func.sum(pods.c.memory_mib),
    ).join(jobs, jobs.c.uid == pods.c.job_uid)
    held = held.where(pods.c.state.in_(sorted(LIVE_POD))).group_by(jobs.c.queue)
    for queue, count, gpus, cpu_milli, memory_mib in connection.execute(held):
        one = found.setdefault(queue, QueueCount())
        one.pods, one.gpus = int(count), int(gpus)
        one.cpu_milli, one.memory_mib = int(cpu_milli), int(memory_mib)
    return found


def queue_revisions(connection: Connection) -> dict[str, int]:
    """The revision of the last change of every queue itself, by name."""
    rows = connection.execute(sa.select(queues.c.name, queues.c.revision))
    return {name: int(revision) for name, revision in rows}
