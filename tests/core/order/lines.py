"""Queues, gangs and worlds for the tests of the order."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from scheduler.cluster.world import World
from scheduler.model.ids import JobId, NodeId, PodId
from scheduler.model.lifecycle import JobState, PodState
from scheduler.model.plan import JobRecord, PodRecord
from scheduler.model.queue import QueueRecord, Use
from scheduler.order.shares import Shares, shares_of
from tests.builders import make_cluster
from tests.core.gangs import role, role_gang


def queue(name: str, parent: str | None = None, **fields: object) -> QueueRecord:
    return replace(QueueRecord(name, parent), **fields)  # type: ignore[arg-type]  # by name


def world_with(*queues: QueueRecord, racks: int = 2) -> World:
    """Nodes of 8 GPUs, 4 in a rack, and these queues."""
    world = World(make_cluster(racks=racks, nodes_per_rack=4))
    world.set_queues(queues)
    return world


def job(
    name: str,
    queue: str = "default",
    *,
    gpus: int = 8,
    priority: int = 0,
    age: int = 1,
    state: JobState = JobState.PENDING,
    duration_s: float | None = None,
    submitted_s: float = 0.0,
) -> JobRecord:
    """A job of one member."""
    spec = replace(
        role_gang(role(gpus=gpus)),
        name=name,
        queue=queue,
        priority=priority,
        duration_s=duration_s,
    )
    return JobRecord(JobId(name), spec, state, age, submitted_s=submitted_s)


def run(world: World, record: JobRecord, node: str, mask: int = 0xFF) -> None:
    """A pod of a job on a node; of a job the world does not know yet, it is running."""
    if record.uid not in world.jobs:
        world.put_job(replace(record, state=JobState.RUNNING))
    uid = PodId(f"{record.uid}-{node}-{mask}")
    world.put_pod(PodRecord(uid, record.uid, uid, "m", 0, NodeId(node), mask, 0, PodState.RUNNING))


def gpus(count: int, model: str = "H100-80GB") -> Use:
    return Use({model: count} if count else {})


def names(jobs: Iterable[JobRecord]) -> list[str]:
    return [found.spec.name for found in jobs]


def shares(*queues: QueueRecord) -> Shares:
    """Of a cluster of 64 GPUs where nothing runs."""
    return shares_of(world_with(*queues))


def charged(found: Shares, *used: tuple[str, int]) -> Shares:
    """The same after jobs of these queues took so many GPUs."""
    for name, count in used:
        found.add(job("used", name), gpus(count))
    return found


def ages(records: Sequence[JobRecord]) -> list[JobRecord]:
    """The same jobs, submitted in this order."""
    return [replace(record, age=index + 1) for index, record in enumerate(records)]
