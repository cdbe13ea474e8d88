"""A topology as the key of what is remembered about it."""

from scheduler.topology.tree import Topology


class MapKey:
    """A topology by identity; hashing its contents would cost more than any answer."""

    __slots__ = ("topology",)

    def __init__(self, topology: Topology) -> None:
        self.topology = topology

    def __hash__(self) -> int:
        return id(self.topology)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MapKey) and other.topology is self.topology
