"""What every peer has in common: it chooses nodes for equal pods from counts of free ones."""

from collections.abc import Sequence
from typing import Protocol

from scheduler.cluster.trial import Trial
from scheduler.cluster.view import Shape, View
from scheduler.errors import JobError, Problem
from scheduler.model.job import JOB_GROUP, JobSpec, Mode, default_gpus_per_pod, fits_pod
from scheduler.model.placement import Placement, PodPlace


class Placer(Protocol):
    """Where a peer puts a gang, and in which order it numbers the ranks."""

    name: str

    def place(self, trial: Trial, spec: JobSpec) -> Placement | None:
        """A place for a parallel job now, or None; the trial is left as it was."""


class Chooser(Protocol):
    """The heart of a peer: which nodes, in the order in which pods are numbered."""

    name: str

    def choose(self, view: View, count: int, spec: JobSpec) -> Sequence[int] | None:
        """`count` different nodes that hold a pod of the view's shape each, or None."""


class NodePlacer:
    """A placer of a chooser: one pod to a node, the lowest free GPUs of each."""

    def __init__(self, chooser: Chooser) -> None:
        self.name = chooser.name
        self._chooser = chooser

    def place(self, trial: Trial, spec: JobSpec) -> Placement | None:
        """A place on the first node type, by name, that has one.

        Raises:
            JobError: For a job of roles: peers are compared on parallel jobs alone.
        """
        sizes = spec.parallelism
        if sizes is None:
            raise JobError(Problem("parallelism", "peers place parallel jobs; found roles"))
        for kind in trial.table.topology.kinds:
            if not kind.gpus or (spec.gpu is not None and spec.gpu != kind.gpu):
                continue
            gpus = spec.gpus_per_pod or default_gpus_per_pod(sizes, kind.gpus)
            if gpus > kind.gpus or not fits_pod(sizes, gpus):
                continue
            shape = Shape(
                node_type=kind.name,
                gpus=gpus,
                resources=spec.resources_per_pod,
                single=True,
                labels=tuple(sorted(spec.labels.items())),
                tolerations=spec.tolerations,
                nodes=frozenset(spec.nodes),
            )
            nodes = self._chooser.choose(trial.view(shape), sizes.world // gpus, spec)
            if nodes is not None:
                return Placement(_pods(trial, spec, nodes, gpus), kind.name, gpus)
        return None


def _pods(trial: Trial, spec: JobSpec, nodes: Sequence[int], gpus: int) -> tuple[PodPlace, ...]:
    return tuple(
        PodPlace(
            "", index, node, _lowest(trial.table.free[node], gpus), index * gpus,
            spec.resources_per_pod,
        )
        for index, node in enumerate(nodes)
    )  # fmt: skip


def _lowest(free: int, count: int) -> int:
    """The lowest bits of a mask, so many."""
    mask = 0
    for _ in range(count):
        low = free & -free
        mask |= low
        free ^= low
    return mask


def required_level(view: View, spec: JobSpec) -> int | None:
    """Position of the innermost level that the whole job must lie in; None without such a rule.

    Rules of single axes are more than any of the peers can express; they are not looked at.
    """
    levels = view.topology.level_index
    found = [
        levels[rule.within]
        for rule in spec.rules
        if rule.group == JOB_GROUP and rule.mode is Mode.REQUIRED and rule.within in levels
    ]
    return max(found, default=None)


def tightest(counts: Sequence[int], domains: Sequence[int], need: int) -> int | None:
    """The domain with the fewest free of those that have enough; the first of equals."""
    enough = [domain for domain in domains if counts[domain] >= need]
    return min(enough, key=lambda domain: (counts[domain], domain)) if enough else None


def free_nodes(view: View, level: int, domain: int) -> list[int]:
    """Nodes of a domain that hold a pod, in their order."""
    lo, hi = (
        view.topology.levels[level].node_lo[domain],
        view.topology.levels[level].node_hi[domain],
    )
    return [node for node in range(lo, hi) if view.slots[node]]
