"""What is free on every node, kept by node index; edits are logged so that counts can follow."""

from collections.abc import Iterable
from dataclasses import dataclass

from scheduler.errors import invariant
from scheduler.model.resources import Resources, full_mask
from scheduler.topology.tree import Topology

LOG_LIMIT = 200_000
"""Entries after which the log of edits is cut; a count that is further behind starts anew."""


@dataclass(frozen=True, slots=True)
class Held:
    """What one pod holds of one node."""

    node_index: int
    gpu_mask: int
    resources: Resources


class NodeTable:
    """Free GPUs, CPUs, memory and other resources of every node.

    Attributes:
        free: Mask of GPUs no pod holds, by node index, whether or not the node may be used.
        aside: Why the node takes no new pods, or None.
        log: Node indices in the order they were edited; `log_start` is the number of the first
            entry.
    """

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.free = [full_mask(t.gpus) for t in topology.types]
        self.cpu_milli = [t.capacity.cpu_milli for t in topology.types]
        self.memory_mib = [t.capacity.memory_mib for t in topology.types]
        self.other = [dict(t.capacity.other) for t in topology.types]
        self.aside: list[str | None] = [None] * topology.node_count
        self.pod_count = [0] * topology.node_count
        self.log: list[int] = []
        self.log_start = 0

    @property
    def version(self) -> int:
        """Grows with every edit, also with those that undo one."""
        return self.log_start + len(self.log)

    def hold(self, held: Held) -> None:
        """Take what a pod holds; it must be free."""
        node, mask = held.node_index, held.gpu_mask
        invariant(self.free[node] & mask == mask, f"GPUs {mask:b} of node {node} are not all free")
        self.free[node] ^= mask
        self._count(node, held.resources, -1)

    def release(self, held: Held) -> None:
        """Give back what a pod held."""
        node, mask = held.node_index, held.gpu_mask
        invariant(self.free[node] & mask == 0, f"GPUs {mask:b} of node {node} are free already")
        self.free[node] |= mask
        self._count(node, held.resources, 1)

    def set_aside(self, node: int, reason: str | None) -> None:
        if self.aside[node] != reason:
            self.aside[node] = reason
            self._touch(node)

    def changed_since(self, version: int) -> Iterable[int] | None:
        """Nodes edited since a version, each at least once; None when the log no longer says."""
        if version < self.log_start:
            return None
        return self.log[version - self.log_start :]

    def _count(self, node: int, resources: Resources, sign: int) -> None:
        self.pod_count[node] -= sign
        self.cpu_milli[node] += sign * resources.cpu_milli
        self.memory_mib[node] += sign * resources.memory_mib
        for name, amount in resources.other:
            self.other[node][name] = self.other[node].get(name, 0) + sign * amount
        self._touch(node)

    def _touch(self, node: int) -> None:
        if len(self.log) >= LOG_LIMIT:
            self.log_start += len(self.log)
            self.log = []
        self.log.append(node)
