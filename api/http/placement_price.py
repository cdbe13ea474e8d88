"""What a placed job's talk costs here, and how much better the empty cluster would have it."""

import threading
from dataclasses import dataclass, field, replace

from api.http.placement_laid import Laid
from scheduler.cluster.nodes import NodeTable
from scheduler.cluster.trial import Trial
from scheduler.cluster.world import wish_of
from scheduler.cost.step import Prediction, predict
from scheduler.model.job import JobSpec
from scheduler.model.placement import NoFit
from scheduler.place.search import place
from scheduler.topology.tree import Topology

KEPT = 10_000
"""Different wishes whose best place is remembered."""


def predicted(of: Laid) -> Prediction | None:
    """The price of a place; None for jobs of roles, and while a pod or its node is missing."""
    spec, topology = priced_spec(of), of.topology
    if spec is None or any(pod.node not in topology.node_index for pod in of.pods):
        return None
    ordered = sorted(of.pods, key=lambda pod: pod.first_rank)
    nodes = [topology.node_index[pod.node] for pod in ordered]
    return _predict(spec, topology, [pod.gpu_mask for pod in ordered], nodes)


def priced_spec(of: Laid) -> JobSpec | None:
    """What the job asks for at the size it has; None where its pods are not whole."""
    sizes = of.spec.parallelism
    if sizes is None or not of.pods:
        return None
    counts = {pod.gpu_mask.bit_count() for pod in of.pods}
    ranks = sum(pod.gpu_mask.bit_count() for pod in of.pods)
    replica = sizes.tp * sizes.cp * sizes.pp
    if len(counts) != 1 or not ranks or ranks % replica:
        return None
    if ranks != sizes.world and ranks // replica not in of.spec.dp_sizes:
        return None
    if not of.spec.dp_sizes:
        return of.spec
    return replace(of.spec, parallelism=replace(sizes, dp=ranks // replica), dp_sizes=())


def _predict(spec: JobSpec, topology: Topology, masks: list[int], nodes: list[int]) -> Prediction:
    gpus, kind = masks[0].bit_count(), topology.types[nodes[0]]
    return predict(spec, topology, kind, gpus, nodes, masks, topology.dead_rails)


@dataclass(slots=True)
class _Empty:
    """One map with every node empty, and what was asked of it.

    Attributes:
        best_s: Seconds between nodes of the best place, by wish; None where there is none.
    """

    topology: Topology
    trial: Trial
    best_s: dict[object, float | None] = field(default_factory=dict)


class Regrets:
    """How far places are from the best ones on the empty cluster, healthy and uncordoned."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._empty: _Empty | None = None

    def regret(self, of: Laid, here: Prediction | None) -> float | None:
        """Predicted seconds between nodes here over those of the best place, at least 1.0.

        1.0 where nothing leaves a node; None where that is not known: for jobs of roles over
        several nodes, and where the present map has no place for the job.
        """
        spec = priced_spec(of)
        if spec is None or here is None:
            alone = of.pods and len({pod.node for pod in of.pods}) == 1
            return 1.0 if alone else None
        if not here.inter_node_s:
            return 1.0
        best_s = self._best_s(of.topology, spec)
        if best_s is None:
            return None
        return here.inter_node_s / best_s if 0.0 < best_s < here.inter_node_s else 1.0

    def _best_s(self, topology: Topology, spec: JobSpec) -> float | None:
        wish = wish_of(spec)
        with self._lock:
            # The store keeps one topology for each state of the map.
            if self._empty is None or self._empty.topology is not topology:
                self._empty = _Empty(topology, Trial(NodeTable(topology)))
            known = self._empty.best_s
            if wish not in known:
                if len(known) >= KEPT:
                    known.clear()
                known[wish] = best_s(self._empty.trial, spec)
            return known[wish]


def best_s(empty: Trial, spec: JobSpec) -> float | None:
    """Seconds between nodes where the gang would go on the empty cluster; None if nowhere."""
    found = place(empty, spec)
    if isinstance(found, NoFit) or not found.pods:
        return None
    pods = sorted(found.pods, key=lambda pod: pod.first_rank)
    masks, nodes = [pod.gpu_mask for pod in pods], [pod.node_index for pod in pods]
    return _predict(spec, empty.table.topology, masks, nodes).inter_node_s
