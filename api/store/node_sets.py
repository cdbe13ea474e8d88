"""Sets of nodes that share a fate: domains of a level, what hangs on one CDU, and named sets."""

from collections.abc import Collection, Iterator

from api.store.errors import NotFound
from scheduler.topology.tree import Topology

CDU, SCALE_UP = "cdu", "scale_up"
"""The cooling unit that the inventory names for racks; the level of scale-up domains."""


class NoSuchSet(NotFound):
    """There is no such set of nodes; the message says which there are."""

    def __init__(self, message: str) -> None:
        super().__init__("set", "")
        self.args = (message,)


def set_kinds(topology: Topology) -> list[str]:
    """What sets may be named by: levels, kinds of named sets, and what the racks tell."""
    kinds = [*topology.level_names, *sorted(topology.sets)]
    if any(rack.cdu for rack in topology.racks.values()):
        kinds.append(CDU)
    return list(dict.fromkeys([*kinds, SCALE_UP]))


def nodes_of_set(topology: Topology, kind: str, name: str) -> list[str]:
    """The nodes of a set, in the order of the fabric.

    Args:
        kind: A level, `scale_up` for the level of scale-up domains, a kind of named sets, or `cdu`.

    Raises:
        NoSuchSet: If there is no such kind or set.
    """
    kinds = set_kinds(topology)
    if kind not in kinds:
        raise NoSuchSet(f"found '{kind[:80]}'; the kinds of sets are {', '.join(kinds)}")
    found = dict.fromkeys(_members(topology, kind, name))
    if not found:
        raise NoSuchSet(f"there is no {kind} '{name[:253]}' with nodes")
    return list(found)


def _members(topology: Topology, kind: str, name: str) -> Iterator[str]:
    level = topology.scale_up if kind == SCALE_UP else kind
    if level in topology.level_index:
        yield from _of_domains(topology, topology.level_index[level], {name} - {""})
    known = topology.node_index
    yield from (n for n in topology.sets.get(kind, {}).get(name, ()) if n in known)
    if kind == CDU:
        # A rack is a domain of the innermost level that has one of its name.
        racks = {rack.name for rack in topology.racks.values() if rack.cdu == name}
        for depth in reversed(range(len(topology.levels) - 1)):
            yield from _of_domains(topology, depth, racks)
            racks -= set(topology.levels[depth].names)


def _of_domains(topology: Topology, depth: int, names: Collection[str]) -> Iterator[str]:
    level = topology.levels[depth]
    for number, domain in enumerate(level.names if names else ()):
        if domain in names:
            for node in topology.nodes[level.node_lo[number] : level.node_hi[number]]:
                yield node.name
