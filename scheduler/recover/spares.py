"""How many nodes to keep spare, and which.

The need: nodes fail independently, each `faults_per_node_day` times a day, and are away for
`repair_s` on average. Then the number that is away at a time is Poisson-distributed with mean
`nodes x faults_per_node_day x repair_s / 86,400`, whatever the distribution of repair times (the
M/G/infinity queue; Palm's theorem). With as many spares as its 99th percentile a fault finds none
free in at most one case in a hundred.
"""

from collections.abc import Iterable, Iterator, Mapping
from math import exp, sqrt
from statistics import NormalDist

from scheduler.cluster.nodes import NodeTable
from scheduler.model.resources import full_mask
from scheduler.topology.tree import Topology

DAY_S = 86_400.0

P99 = 0.99


def mean_away(nodes: int, faults_per_node_day: float, repair_s: float) -> float:
    """Nodes that are away at a time on average."""
    return nodes * faults_per_node_day * repair_s / DAY_S


def spares_needed(
    nodes: int, faults_per_node_day: float, repair_s: float, share: float = P99
) -> int:
    """Spares with which a fault finds one free in this share of all cases.

    Args:
        nodes: Nodes in use, at least 0.
        faults_per_node_day: At least 0.
        repair_s: Mean time until a node is back, in seconds; at least 0.
        share: Above 0, below 1.
    """
    return poisson_quantile(mean_away(nodes, faults_per_node_day, repair_s), share)


def poisson_quantile(mean: float, share: float) -> int:
    """The smallest k with P(X <= k) >= share, for X Poisson-distributed; at most 2 x mean + 100."""
    if mean <= 0.0:
        return 0
    if mean > 500.0:
        # exp(-mean) would vanish; the normal approximation is right to one part in a thousand here.
        return round(mean + NormalDist().inv_cdf(share) * sqrt(mean) + 0.5)
    term = total = exp(-mean)
    count = 0
    while total < share and count < 2 * mean + 100:
        count += 1
        term *= mean / count
        total += term
    return count


def rate_of(faults: int, nodes: int, span_s: float) -> float:
    """Faults of one node a day, as observed: `faults` of so many nodes within `span_s` seconds."""
    return 0.0 if not nodes or span_s <= 0.0 else faults * DAY_S / (nodes * span_s)


# -- which nodes ----------------------------------------------------------------------------------


def free_node_near(
    table: NodeTable, home: Iterable[int], node_type: str, barred: Mapping[int, object]
) -> int | None:
    """A wholly free node as near as can be to a gang: in its rack, else its leaf, else its block.

    Among equally near ones in the domain that holds most of the gang; then by index.

    Args:
        home: Indices of the gang's nodes, one for each pod.
        node_type: Only nodes of this type.
        barred: Nodes that are not to be taken.
    """
    topology, nodes = table.topology, list(home)
    for level in range(len(topology.levels) - 2, -1, -1):
        counts: dict[int, int] = {}
        for node in nodes:
            domain = topology.place[level][node]
            counts[domain] = counts.get(domain, 0) + 1
        row = topology.levels[level]
        for domain in sorted(counts, key=lambda d: (-counts[d], d)):
            found = next(
                _free(table, row.node_lo[domain], row.node_hi[domain], node_type, barred), None
            )
            if found is not None:
                return found
    return None


def _free(
    table: NodeTable, lo: int, hi: int, node_type: str, barred: Mapping[int, object]
) -> Iterator[int]:
    topology: Topology = table.topology
    # From the end: gangs are placed from the front, so that a spare seldom breaks a row.
    for node in range(hi - 1, lo - 1, -1):
        kind = topology.types[node]
        if kind.name == node_type and node not in barred and is_wholly_free(table, node):
            yield node


def is_wholly_free(table: NodeTable, node: int) -> bool:
    """Whether nobody holds or keeps any GPU of a node, and it takes pods."""
    whole = full_mask(table.topology.types[node].gpus)
    return bool(whole) and table.free[node] == whole and table.aside[node] is None
