"""A job and where its pods are, committed or proposed."""

from collections.abc import Sequence
from dataclasses import dataclass

from api.store.views import JobView, PodView
from scheduler.model.job import JobSpec
from scheduler.topology.tree import Topology


@dataclass(frozen=True, slots=True)
class Laid:
    """A job and where its pods are; proposed by a dry run or committed.

    Attributes:
        pods: In rank order.
        topology: The map that their nodes are on.
        gap: Of a bounded search, as the core's `Placement` has it.
    """

    spec: JobSpec
    attempt: int
    revision: int
    search: str
    node_type: str
    gpus_per_pod: int
    pods: tuple[PodView, ...]
    topology: Topology
    gap: float | None = None


def laid(job: JobView, pods: Sequence[PodView], topology: Topology) -> Laid:
    """A job as the store has it."""
    return Laid(
        spec=job.spec,
        attempt=job.attempt,
        revision=job.revision,
        search=job.search,
        node_type=job.node_type,
        gpus_per_pod=job.gpus_per_pod,
        pods=tuple(pods),
        topology=topology,
    )
