"""The scale-out network as a graph of nodes, switches and the cables between them.

It is made of a dump of the real thing or of a topology's levels, and serves import and explanation;
placement never walks it. Switches stand in tiers: tier 1 holds those that nodes are plugged into,
each further tier is one hop further up.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from statistics import median

import networkx as nx

from scheduler.errors import invariant
from scheduler.topology.natural import natural_key

UNKNOWN_RAIL = -1
"""Rail of a NIC before rail groups are found."""

STRAY_SHARE = 0.2
"""A switch with at most this share of the nodes of the switches beside it is no leaf: what is
plugged into it (a fabric manager, say) is plugged into a spine."""


class Part(StrEnum):
    """What a vertex of the graph stands for; nodes and switches may have the same name."""

    NODE = "node"
    SWITCH = "switch"


Vertex = tuple[Part, str]

NaturalKey = tuple[tuple[str | int, ...], str]


@dataclass(frozen=True, slots=True)
class Nic:
    """One port of a node and the switch at the other end of its cable.

    Attributes:
        name: As the node names it, e.g. `mlx5_3`; unique among the NICs of a node.
        gbps: Bandwidth of the cable in Gbit/s, one way; above 0.
        rail: Which of the node's rails it is; `UNKNOWN_RAIL` until rail groups are found.
    """

    node: str
    name: str
    switch: str
    gbps: float
    rail: int = UNKNOWN_RAIL


@dataclass(frozen=True, slots=True)
class Trunk:
    """All cables between two switches.

    Attributes:
        gbps: Bandwidth of each cable in Gbit/s, one way; every entry above 0.
    """

    a: str
    b: str
    gbps: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Narrowest:
    """The narrowest link between two NICs.

    Attributes:
        gbps: What one NIC gets of it in Gbit/s when all nodes talk across it.
        tier: Tier of the switches where the way turns back down; 0 inside one scale-up domain.
        at: The NIC (`node/name`) or switch that is the narrowest.
    """

    gbps: float
    tier: int
    at: str


@dataclass(frozen=True, slots=True, eq=False)
class Fabric:
    """A network; made by `assemble`, never changed.

    Attributes:
        graph: Vertices are `(Part, name)`; an edge has the attribute `gbps`, one entry per cable.
        nics: NICs of each node, by node name, in the order of rails, then names.
        tier: Tier of each switch, by name; 0 for one that no node can be reached from.
    """

    graph: "nx.Graph[Vertex]"
    nics: Mapping[str, tuple[Nic, ...]]
    tier: Mapping[str, int]

    @property
    def switches(self) -> list[str]:
        """All switches in the natural order of their names."""
        return sorted(self.tier, key=natural_key)

    @property
    def tier_count(self) -> int:
        return max(self.tier.values(), default=0)

    def neighbours(self, switch: str) -> list[str]:
        """The switches that one is cabled to, in natural order."""
        near = self.graph[Part.SWITCH, switch]
        return sorted((name for part, name in near if part == Part.SWITCH), key=natural_key)

    def above(self, switch: str) -> list[str]:
        """The switches one tier up that a switch is cabled to, in natural order."""
        wanted = self.tier[switch] + 1
        return [name for name in self.neighbours(switch) if self.tier[name] == wanted]

    def nodes_of(self, switch: str) -> list[str]:
        """The nodes plugged into a switch, in natural order."""
        near = self.graph[Part.SWITCH, switch]
        return sorted((name for part, name in near if part == Part.NODE), key=natural_key)

    def trunk(self, a: str, b: str) -> tuple[float, ...]:
        """Bandwidths of the cables between two switches; empty if there are none."""
        edge = self.graph.get_edge_data((Part.SWITCH, a), (Part.SWITCH, b))
        return tuple(edge["gbps"]) if edge else ()

    def trunks(self) -> Iterator[Trunk]:
        for (part_a, a), (part_b, b), edge in self.graph.edges(data=True):
            if part_a == part_b == Part.SWITCH:
                yield Trunk(a, b, tuple(edge["gbps"]))

    def up_share(self, switch: str) -> float:
        """What a switch can send up of all that comes from below, 0 to 1; 0 without a way up."""
        here = self.tier[switch]
        up = down = 0.0
        for (part, name), edge in self.graph[Part.SWITCH, switch].items():
            if part == Part.NODE or self.tier[name] < here:
                down += sum(edge["gbps"])
            elif self.tier[name] > here:
                up += sum(edge["gbps"])
        if not up:
            return 0.0
        return min(1.0, round(up / down, 6)) if down else 1.0

    def nic_on(self, node: str, rail: int) -> Nic | None:
        """The node's NIC of a rail; the first by name if several are on it."""
        return next((nic for nic in self.nics.get(node, ()) if nic.rail == rail), None)


def assemble(
    nics: Iterable[Nic],
    trunks: Iterable[Trunk],
    switches: Iterable[str] = (),
    nodes: Iterable[str] = (),
    tier: Mapping[str, int] | None = None,
) -> Fabric:
    """The graph of these cables.

    Args:
        switches, nodes: Those without a cable; others may be named again.
        tier: Tiers of the switches, where they are known; otherwise found in the graph.
    """
    graph: nx.Graph[Vertex] = nx.Graph()
    graph.add_nodes_from((Part.SWITCH, name) for name in switches)
    of_node: dict[str, list[Nic]] = {name: [] for name in nodes}
    graph.add_nodes_from((Part.NODE, name) for name in of_node)
    for nic in nics:
        invariant(nic.gbps > 0, f"NIC '{nic.name}' of node '{nic.node}' has no bandwidth")
        of_node.setdefault(nic.node, []).append(nic)
        _add_cables(graph, (Part.NODE, nic.node), (Part.SWITCH, nic.switch), (nic.gbps,))
    for trunk in trunks:
        _add_cables(graph, (Part.SWITCH, trunk.a), (Part.SWITCH, trunk.b), trunk.gbps)
    ordered = {node: tuple(sorted(found, key=_nic_order)) for node, found in of_node.items()}
    tiers = _tiers(graph)
    if tier is not None:
        tiers = {name: tier.get(name, found) for name, found in tiers.items()}
    return Fabric(graph, ordered, tiers)


def with_rails(fabric: Fabric, rail_of: Mapping[tuple[str, str], int]) -> Fabric:
    """The same fabric with the rail of every NIC, given by node and NIC name."""
    nics = {
        node: tuple(
            sorted(
                (
                    Nic(
                        node,
                        nic.name,
                        nic.switch,
                        nic.gbps,
                        rail_of.get((node, nic.name), UNKNOWN_RAIL),
                    )
                    for nic in found
                ),
                key=_nic_order,
            )
        )
        for node, found in fabric.nics.items()
    }
    return replace(fabric, nics=nics)


def _nic_order(nic: Nic) -> tuple[int, NaturalKey]:
    return nic.rail, nic_name_key(nic.name)


@lru_cache(maxsize=4_096)
def nic_name_key(name: str) -> NaturalKey:
    """The natural order of NIC names, of which a fabric has few and each very often."""
    return natural_key(name)


def _add_cables(graph: "nx.Graph[Vertex]", a: Vertex, b: Vertex, gbps: Sequence[float]) -> None:
    before = graph.get_edge_data(a, b)
    if before:
        before["gbps"].extend(gbps)
    else:
        graph.add_edge(a, b, gbps=list(gbps))


def _tiers(graph: "nx.Graph[Vertex]") -> dict[str, int]:
    """Hops of each switch from the nearest leaf switch, counted from 1; 0 if it reaches none."""
    switches = [vertex for vertex in graph if vertex[0] == Part.SWITCH]
    node_counts = {
        vertex: sum(1 for part, _ in graph[vertex] if part == Part.NODE) for vertex in switches
    }
    tier = dict.fromkeys(switches, 0)
    frontier = [vertex for vertex in switches if _is_leaf(graph, node_counts, vertex)]
    hops = 1
    while frontier:
        for vertex in frontier:
            tier[vertex] = hops
        reached = (near for vertex in frontier for near in graph[vertex])
        frontier = list(dict.fromkeys(v for v in reached if v[0] == Part.SWITCH and not tier[v]))
        hops += 1
    return {name: hops for (_, name), hops in tier.items()}


def _is_leaf(graph: "nx.Graph[Vertex]", node_counts: Mapping[Vertex, int], switch: Vertex) -> bool:
    """Whether nodes are plugged into it, and not just a stray one into a spine."""
    if not node_counts[switch]:
        return False
    beside = [node_counts[v] for v in graph[switch] if node_counts.get(v, 0)]
    return len(beside) < 2 or node_counts[switch] > STRAY_SHARE * median(beside)


def narrowest(fabric: Fabric, a: Nic, b: Nic) -> Narrowest | None:
    """The narrowest link on the best way between two NICs; None where there is no way.

    The way climbs from both leaves to the first tier where they meet, and through each switch gets
    its share of that switch's cables upwards.
    """
    slower = min((a, b), key=lambda nic: (nic.gbps, nic.node, nic.name))
    start = Narrowest(slower.gbps, 1, f"{slower.node}/{slower.name}")
    sides = [{a.switch: start}, {b.switch: start}]
    if not fabric.tier.get(a.switch) or not fabric.tier.get(b.switch):
        return None
    for tier in range(1, fabric.tier_count + 1):
        meeting = sides[0].keys() & sides[1].keys()
        if meeting:
            return max(
                (min(sides[0][s], sides[1][s], key=_width) for s in sorted(meeting)), key=_width
            )
        sides = [_climb(fabric, reached, tier + 1) for reached in sides]
    return None


def _climb(fabric: Fabric, reached: Mapping[str, Narrowest], tier: int) -> dict[str, Narrowest]:
    """The widest way to each switch of the next tier."""
    best: dict[str, Narrowest] = {}
    for switch, way in sorted(reached.items()):
        share = fabric.up_share(switch)
        narrowed = (
            Narrowest(way.gbps * share, tier, switch) if share < 1.0 else replace(way, tier=tier)
        )
        for above in fabric.above(switch):
            best[above] = max(best.get(above, narrowed), narrowed, key=_width)
    return best


def _width(way: Narrowest) -> float:
    return way.gbps
