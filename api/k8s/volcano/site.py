"""What the rules of Volcano's objects need to know of the rest of a cluster."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from api.k8s.volcano.pod_rules import given, tree
from api.k8s.volcano.quantity import parse_quantity
from api.k8s.volcano.shape import Tree

ROOT = "root"
"""Volcano's queue above all; no job may be in it."""


def amounts_of(spec: Tree, name: str) -> dict[str, Fraction]:
    """`capability`, `deserved` or `guarantee` of a queue as numbers."""
    found = given(tree(spec, name), "resource") if name == "guarantee" else given(spec, name)
    return {resource: parse_quantity(value) for resource, value in found.items()}


@dataclass(frozen=True, slots=True)
class QueueSeen:
    """A queue as the rules look at it.

    Attributes:
        parent: "" where it names none, which means `root`.
        spec, annotations: As they were written.
        allocated_pods: Pods of it that are placed.
    """

    name: str
    parent: str = ""
    state: str = "Open"
    spec: Tree = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    allocated_pods: int = 0

    def amounts(self, name: str) -> dict[str, Fraction]:
        """`capability`, `deserved` or `guarantee` as numbers."""
        return amounts_of(self.spec, name)


@dataclass(frozen=True, slots=True)
class Site:
    """The cluster at one moment.

    Attributes:
        queues: By name; `root` and `default` among them.
        namespace_queues: Queues that namespaces name for what is in them.
        schedulers: Names of schedulers that are ours; the first is given to who names none.
    """

    queues: Mapping[str, QueueSeen] = field(default_factory=dict)
    namespace_queues: Mapping[str, str] = field(default_factory=dict)
    schedulers: Sequence[str] = ("volcano",)

    def children(self, name: str) -> list[QueueSeen]:
        """Queues below one, by name."""
        below = [q for q in self.queues.values() if (q.parent or ROOT) == name and q.name != ROOT]
        return sorted(below, key=lambda queue: queue.name)
