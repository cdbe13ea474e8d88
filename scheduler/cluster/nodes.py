"""What is free on every node, kept by node index; edits are logged so that counts can follow.

GPUs are held by pods or kept by claims. A claim may keep GPUs that a pod still holds: when the pod
leaves they are not free but *vacant*, and only whoever the claim is for may have them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from scheduler.errors import invariant
from scheduler.model.resources import Resources, full_mask
from scheduler.topology.tree import Topology

LOG_LIMIT = 200_000
"""Entries after which the log of edits is cut; a count that is further behind starts anew."""


@dataclass(frozen=True, slots=True)
class Held:
    """What one pod holds of one node; `exclusive` = no other job may have pods there."""

    node_index: int
    gpu_mask: int
    resources: Resources
    exclusive: bool = False


class NodeTable:
    """Free GPUs, CPUs, memory and other resources of every node.

    Attributes:
        free: Mask of GPUs no pod holds and no claim keeps, by node index, whether or not the node
            may be used.
        claimed: Mask of GPUs that claims keep, of nodes that have claims.
        vacant: Of those, the GPUs that no pod holds.
        exclusive: Nodes that one job has to itself.
        own: Nodes of the job that is being placed, which it may share with itself.
        aside: Why the node takes no new pods, or None.
        dead_rails: Node index -> mask of its dead rails, of nodes that have any: those of the map
            and those learnt since.
        rails_changed: How often that changed.
        lemons: Nodes that have far more faults than their like; large gangs keep off them.
        log: Node indices in the order they were edited; `log_start` is the number of the first
            entry.
    """

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.free = [full_mask(t.gpus) for t in topology.types]
        self.claimed: dict[int, int] = {}
        self.vacant: dict[int, int] = {}
        self.cpu_milli = [t.capacity.cpu_milli for t in topology.types]
        self.memory_mib = [t.capacity.memory_mib for t in topology.types]
        self.other = [dict(t.capacity.other) for t in topology.types]
        self.aside: list[str | None] = [None] * topology.node_count
        self.pod_count = [0] * topology.node_count
        self.exclusive: set[int] = set()
        self.own: set[int] = set()
        self.dead_rails: dict[int, int] = dict(topology.dead_rails)
        self.rails_changed = 0
        self.lemons: set[int] = set()
        self.log: list[int] = []
        self.log_start = 0

    @property
    def version(self) -> int:
        """Grows with every edit, also with those that undo one."""
        return self.log_start + len(self.log)

    def hold(self, held: Held) -> None:
        """Take what a pod holds; it must be free, or kept by a claim and held by nobody."""
        node, mask = held.node_index, held.gpu_mask
        if node in self.claimed:
            kept = mask & self.vacant[node]
            self.vacant[node] ^= kept
            mask ^= kept
        invariant(self.free[node] & mask == mask, f"GPUs {mask:b} of node {node} are not all free")
        self.free[node] ^= mask
        if held.exclusive:
            self.exclusive.add(node)
        self._count(node, held.resources, -1)

    def release(self, held: Held) -> None:
        """Give back what a pod held: to the claim that keeps it, else to all."""
        node, mask = held.node_index, held.gpu_mask
        if node in self.claimed:
            kept = mask & self.claimed[node]
            invariant(self.vacant[node] & kept == 0, f"GPUs {kept:b} of node {node} are vacant")
            self.vacant[node] |= kept
            mask ^= kept
        invariant(self.free[node] & mask == 0, f"GPUs {mask:b} of node {node} are free already")
        self.free[node] |= mask
        self._count(node, held.resources, 1)

    def claim(self, held: Held) -> None:
        """Keep GPUs, CPUs and memory from everybody; pods may still hold them, no claim may."""
        node, mask = held.node_index, held.gpu_mask
        before = self.claimed.get(node, 0)
        invariant(before & mask == 0, f"GPUs {mask:b} of node {node} are claimed already")
        if mask:
            self.claimed[node] = before | mask
            self.vacant[node] = self.vacant.get(node, 0) | self.free[node] & mask
            self.free[node] &= ~mask
        if held.exclusive:
            self.exclusive.add(node)
        self._count(node, held.resources, -1, pods=0)

    def unclaim(self, held: Held) -> None:
        """Let go of what `claim` keeps."""
        node, mask = held.node_index, held.gpu_mask
        before = self.claimed.get(node, 0)
        invariant(before & mask == mask, f"GPUs {mask:b} of node {node} are not claimed")
        if mask:
            vacant = self.vacant[node] & mask
            if before == mask:
                del self.claimed[node], self.vacant[node]
            else:
                self.claimed[node] = before ^ mask
                self.vacant[node] ^= vacant
            self.free[node] |= vacant
        self._count(node, held.resources, 1, pods=0)

    def is_vacant(self, held: Held) -> bool:
        """Whether every GPU of a claim is held by nobody any more."""
        mask = held.gpu_mask
        return not mask or self.vacant.get(held.node_index, 0) & mask == mask

    def set_aside(self, node: int, reason: str | None) -> None:
        if self.aside[node] != reason:
            self.aside[node] = reason
            self._touch(node)

    def set_lemon(self, node: int, *, is_one: bool) -> None:
        if is_one != (node in self.lemons):
            (self.lemons.add if is_one else self.lemons.discard)(node)
            self._touch(node)

    def set_dead_rails(self, rails: Mapping[int, int]) -> None:
        """Say which rails of some nodes are dead beside those that the map tells of.

        Args:
            rails: Node index -> mask; 0 = none but those of the map.
        """
        for node, mask in rails.items():
            now = mask | self.topology.dead_rails.get(node, 0)
            if now == self.dead_rails.get(node, 0):
                continue
            if now:
                self.dead_rails[node] = now
            else:
                del self.dead_rails[node]
            self.rails_changed += 1
            self._touch(node)

    def changed_since(self, version: int) -> Iterable[int] | None:
        """Nodes edited since a version, each at least once; None when the log no longer says."""
        if version < self.log_start:
            return None
        return self.log[version - self.log_start :]

    def set_own(self, nodes: Iterable[int]) -> None:
        """Say on which nodes the job that is being placed has pods."""
        before, self.own = self.own, set(nodes)
        for node in sorted(before ^ self.own):
            self._touch(node)

    def keeps_out(self, node: int, *, exclusive: bool) -> bool:
        """Whether the pods there, or the new ones, are of a job that shares with no other."""
        if not (exclusive or node in self.exclusive) or node in self.own:
            return False
        return self.pod_count[node] > 0 or node in self.claimed

    def _count(self, node: int, resources: Resources, sign: int, *, pods: int = 1) -> None:
        self.pod_count[node] -= sign * pods
        if not self.pod_count[node] and node not in self.claimed:
            self.exclusive.discard(node)
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
