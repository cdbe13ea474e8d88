"""Free nodes that are kept in each domain for gangs in recovery: barred from all other placements.

Which nodes they are follows from what is free now, so nothing has to be remembered or mended.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from scheduler.cluster.nodes import NodeTable
from scheduler.recover.spares import is_wholly_free

POOL = "spare_pool"
"""Why such a node takes no other pods."""


def pool_nodes(table: NodeTable, wanted: Mapping[str, int]) -> list[int]:
    """Indices of the nodes that are kept: the last ones of each domain that are wholly free.

    Args:
        wanted: Level -> nodes in each of its domains; levels that the map lacks count for nothing.
    """
    topology = table.topology
    found: set[int] = set()
    for name, count in sorted(wanted.items()):
        depth = topology.level_index.get(name)
        if depth is None or not count:
            continue
        level = topology.levels[depth]
        for domain in range(len(level.names)):
            if level.is_blank(domain):
                continue
            left = count
            for node in range(level.node_hi[domain] - 1, level.node_lo[domain] - 1, -1):
                if left and is_wholly_free(table, node):
                    found.add(node)
                    left -= 1
    return sorted(found)


@contextmanager
def pool_kept(table: NodeTable, wanted: Mapping[str, int]) -> Iterator[list[int]]:
    """Bar the nodes of the pool for a while."""
    nodes = pool_nodes(table, wanted) if wanted else []
    for node in nodes:
        table.set_aside(node, POOL)
    try:
        yield nodes
    finally:
        for node in nodes:
            table.set_aside(node, None)


@contextmanager
def pool_open(table: NodeTable, pool: Iterable[int]) -> Iterator[None]:
    """Let recovery have the nodes of the pool for a while."""
    nodes = [node for node in pool if table.aside[node] == POOL]
    for node in nodes:
        table.set_aside(node, None)
    try:
        yield
    finally:
        for node in nodes:
            table.set_aside(node, POOL)
