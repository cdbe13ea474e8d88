"""A job and where its pods are, committed or proposed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

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
        lost: Node -> mask of the rails that open faults have taken, of nodes with any.
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
    lost: Mapping[str, int] = field(default_factory=dict)

    @property
    def dead_rails(self) -> Mapping[int, int]:
        """Node index -> mask of its dead rails: those of its label, and those that faults took."""
        found = dict(self.topology.dead_rails)
        for node, mask in self.lost.items():
            index = self.topology.node_index.get(node)
            if index is not None:
                found[index] = found.get(index, 0) | mask
        return found


def laid(
    job: JobView,
    pods: Sequence[PodView],
    topology: Topology,
    lost: Mapping[str, int] = MappingProxyType({}),
) -> Laid:
    """A job as the store has it; `lost` as for `Laid`."""
    return Laid(
        spec=job.spec,
        attempt=job.attempt,
        revision=job.revision,
        search=job.search,
        node_type=job.node_type,
        gpus_per_pod=job.gpus_per_pod,
        pods=tuple(pods),
        topology=topology,
        gap=job.gap,
        lost=lost,
    )
