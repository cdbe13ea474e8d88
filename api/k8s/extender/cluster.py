"""A foreign cluster as a request shows it, on which the placement engine can be asked."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

from api.k8s.extender.reading import AMOUNT_MAX, MalformedRequest, Tree, number_at, tree_at
from api.k8s.volcano.gang import GPU_RESOURCES, UNCOUNTED
from scheduler.cluster.nodes import Held, NodeTable
from scheduler.cluster.trial import Trial
from scheduler.errors import InventoryError, Problem
from scheduler.importers.k8s_nodes import parse
from scheduler.model.node import Inventory
from scheduler.model.resources import Resources, full_mask
from scheduler.topology.build import build
from scheduler.topology.tree import Topology

MIB = 1024**2


@dataclass(frozen=True, slots=True)
class Amount:
    """GPUs and the rest, of a pod or of a node."""

    gpus: int
    resources: Resources


def amount_of(resource: Tree) -> Amount:
    """A `Resource` of Volcano: CPU and scalars in thousandths, memory in bytes; rounded up."""
    scalars = tree_at(resource, "ScalarResources")
    gpus = sum(number_at(scalars, name) for name in GPU_RESOURCES)
    other = {
        name: ceil(number_at(scalars, name) / 1_000)
        for name in scalars
        if name not in (*GPU_RESOURCES, *UNCOUNTED, "pods")
    }
    return Amount(
        gpus=ceil(gpus / 1_000),
        resources=Resources(
            cpu_milli=ceil(number_at(resource, "MilliCPU")),
            memory_mib=ceil(number_at(resource, "Memory") / MIB),
            other=tuple(sorted((name, count) for name, count in other.items() if count > 0)),
        ),
    )


class Topologies:
    """Trees of the nodes of requests; the last one is kept, as nodes seldom change.

    Not to be used by two threads at once.

    Args:
        own: Reads the topology of the service's own inventory.
    """

    def __init__(self, own: Callable[[], Topology]) -> None:
        self._own = own
        self._last: tuple[str, Topology, Topology] | None = None

    def own(self) -> Topology:
        return self._own()

    def of(self, nodes: Sequence[object]) -> Topology:
        """The tree of nodes of core/v1: by the inventory if it knows them all, else by labels.

        Raises:
            MalformedRequest: If they make no cluster.
        """
        own, text = self._own(), json.dumps([_slim(node) for node in nodes])
        if self._last is None or self._last[0] != text or self._last[1] is not own:
            self._last = (text, own, topology_of(text if nodes else "", own))
        return self._last[2]


def topology_of(nodes: str, own: Topology) -> Topology:
    """The tree of a JSON list of nodes; "" for none. Raises MalformedRequest."""
    if not nodes:
        return build(Inventory("", ("node",), "node", {}, ())).topology
    try:
        inventory = parse(f'{{"apiVersion": "v1", "kind": "List", "items": {nodes}}}')
        known = [own.node_index.get(node.name) for node in inventory.nodes]
        if all(index is not None for index in known):
            inventory = replace(
                inventory,
                levels=own.level_names,
                scale_up=own.scale_up,
                fabric=dict(own.fabric),
                nodes=tuple(
                    replace(node, places=own.domains_of(own.node_index[node.name]))
                    for node in inventory.nodes
                ),
                node_types={
                    name: replace(kind, scale_up=None)
                    for name, kind in inventory.node_types.items()
                },
            )
        return build(inventory).topology
    except InventoryError as error:
        raise MalformedRequest(Problem("nodes", p.message) for p in error.problems) from None


def _slim(node: object) -> object:
    """What of a node makes the tree: not what changes with every sign of life."""
    if not isinstance(node, Mapping):
        raise MalformedRequest(Problem("nodes", "are objects of core/v1 Node"))
    meta, status = node.get("metadata"), node.get("status")
    found: dict[str, object] = {"apiVersion": "v1", "kind": "Node", "spec": node.get("spec") or {}}
    found["metadata"] = (
        {name: meta[name] for name in ("name", "labels", "annotations") if name in meta}
        if isinstance(meta, Mapping)
        else meta
    )
    if isinstance(status, Mapping):
        kept = {name: status[name] for name in ("capacity", "allocatable") if name in status}
        conditions = status.get("conditions")
        if isinstance(conditions, list):
            kept["conditions"] = [
                {"type": "Ready", "status": item.get("status")}
                for item in conditions
                if isinstance(item, Mapping) and item.get("type") == "Ready"
            ]
        found["status"] = kept
    return found


def trial_of(topology: Topology, idle: Mapping[str, Amount]) -> Trial:
    """The nodes with what is not idle taken; a node that is not named is wholly free."""
    table = NodeTable(topology)
    for name, left in idle.items():
        index = topology.node_index.get(name)
        if index is None:
            continue
        kind = topology.types[index]
        used = full_mask(max(0, kind.gpus - left.gpus))
        table.hold(Held(index, used, _less(kind.capacity, left.resources)))
    return Trial(table)


def _less(whole: Resources, left: Resources) -> Resources:
    """What is taken, where so much is left of the whole."""
    rest = dict(left.other)
    return Resources(
        cpu_milli=max(0, whole.cpu_milli - min(left.cpu_milli, AMOUNT_MAX)),
        memory_mib=max(0, whole.memory_mib - min(left.memory_mib, AMOUNT_MAX)),
        other=tuple((name, max(0, amount - rest.get(name, 0))) for name, amount in whole.other),
    )
