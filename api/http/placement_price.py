"""What a placed job's talk costs here, and how much better the empty cluster would have it."""

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from api.http.placement_laid import Laid
from scheduler.cluster.nodes import NodeTable
from scheduler.cluster.trial import Trial
from scheduler.cluster.world import wish_of
from scheduler.cost.roles import predict_roles
from scheduler.cost.step import Prediction, predict
from scheduler.model.job import JobSpec
from scheduler.model.placement import NoFit
from scheduler.place.search import place
from scheduler.topology.tree import Topology

KEPT = 10_000
"""Different wishes whose best place is remembered."""


def predicted(of: Laid) -> Prediction | None:
    """The price of a place; None while a pod or its node is missing, or where nothing is priced."""
    spec, topology = priced_spec(of), of.topology
    if any(pod.node not in topology.node_index for pod in of.pods):
        return None
    if of.spec.roles:
        numbered = sorted(of.pods, key=lambda pod: (pod.role, pod.index))
        members = [(p.role, p.node, p.gpu_mask) for p in numbered]
        found = _predict_roles(members, topology, of.dead_rails)
        return found if found.axes else None
    if spec is None:
        return None
    ordered = sorted(of.pods, key=lambda pod: pod.first_rank)
    nodes = [topology.node_index[pod.node] for pod in ordered]
    masks = [pod.gpu_mask for pod in ordered]
    return _predict(spec, topology, masks, nodes, of.dead_rails)


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


def _predict(
    spec: JobSpec,
    topology: Topology,
    masks: list[int],
    nodes: list[int],
    dead_rails: Mapping[int, int],
) -> Prediction:
    gpus, kind = masks[0].bit_count(), topology.types[nodes[0]]
    return predict(spec, topology, kind, gpus, nodes, masks, dead_rails)


def _predict_roles(
    pods: Iterable[tuple[str, str, int]], topology: Topology, dead_rails: Mapping[int, int]
) -> Prediction:
    """Of (role, node, GPU mask) of members, by their number in each role."""
    members: dict[str, list[tuple[int, int]]] = {}
    for role, node, mask in pods:
        members.setdefault(role, []).append((topology.node_index[node], mask))
    return predict_roles(members, topology, dead_rails)


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

        1.0 where nothing leaves a node; None where that is not known: for roles without GPUs over
        several nodes, while members are missing, and where the present map has no place.
        """
        spec = priced_spec(of)
        if of.spec.roles and len(of.pods) == sum(role.replicas for role in of.spec.roles):
            spec = of.spec
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
    topology = empty.table.topology
    if spec.roles:
        names = topology.nodes
        members = [(pod.role, names[pod.node_index].name, pod.gpu_mask) for pod in found.pods]
        if len(members) < sum(role.replicas for role in spec.roles):
            return None
        return _predict_roles(members, topology, topology.dead_rails).inter_node_s
    pods = sorted(found.pods, key=lambda pod: pod.first_rank)
    masks, nodes = [pod.gpu_mask for pod in pods], [pod.node_index for pod in pods]
    return _predict(spec, topology, masks, nodes, topology.dead_rails).inter_node_s
