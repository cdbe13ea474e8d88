"""Nodes that are kept in each domain for gangs in recovery: claims of the domain, of no gang.

A node is taken into the pool when it is wholly free, and stays in it until a lost member gets it,
it is set aside, or the policy wants fewer. Kept for a leaf it counts for the block around it too.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice

from scheduler.cluster.nodes import NodeTable
from scheduler.model.claim import Claim, ClaimWhy
from scheduler.model.ids import ClaimId, NodeId
from scheduler.model.resources import full_mask
from scheduler.recover.spares import is_wholly_free

POOL = "spare_pool"
"""Why such a node takes no other pods, in verdicts."""


def pool_changes(
    table: NodeTable,
    wanted: Mapping[str, int],
    known: Iterable[Claim],
    barred: Collection[str] = (),
) -> tuple[list[Claim], list[Claim]]:
    """What the pools get, and what they let go of.

    Args:
        wanted: Level -> nodes in each of its domains; levels that the map lacks count for nothing.
        known: Claims of the pools.
        barred: Names of nodes that are for people, now or soon.
    """
    topology = table.topology
    claims = sorted(known, key=lambda c: c.uid)
    kept = {topology.node_index[c.node]: c for c in claims if _is_good(table, c, barred)}
    gone = [claim for claim in claims if claim not in kept.values()]
    new: list[Claim] = []
    depth_of = {node: topology.level_index[_level(claim)] for node, claim in kept.items()}
    depths = {topology.level_index[name] for name in wanted if name in topology.level_index}
    # Innermost first: what is kept there is kept for the domains around it.
    for depth in sorted(depths.union(depth_of.values()), reverse=True):
        level = topology.levels[depth]
        count = wanted.get(level.name, 0)
        inside: dict[int, list[int]] = {}
        for node in (node for node in kept if depth_of[node] >= depth):
            inside.setdefault(topology.place[depth][node], []).append(node)
        for domain in range(len(level.names)):
            here = inside.get(domain, [])
            own = sorted(node for node in here if depth_of[node] == depth)
            gone += [kept.pop(node) for node in own[: max(0, len(here) - count)]]
            short = 0 if level.is_blank(domain) else count - len(here)
            free = _free(table, level.node_lo[domain], level.node_hi[domain], barred)
            for node in islice(free, max(0, short)):
                kept[node], depth_of[node] = _claim(table, depth, domain, node), depth
                new.append(kept[node])
    return new, gone


def _is_good(table: NodeTable, claim: Claim, barred: Collection[str]) -> bool:
    """Whether a node that is in a pool can stay in it."""
    topology = table.topology
    node = topology.node_index.get(claim.node)
    depth = topology.level_index.get(_level(claim))
    if node is None or depth is None or claim.node in barred:
        return False
    is_there = claim.window == _owner(table, depth, topology.place[depth][node])
    is_whole = claim.gpu_mask == full_mask(topology.types[node].gpus)
    return is_there and is_whole and table.aside[node] is None


def _level(claim: Claim) -> str:
    return claim.window.partition("/")[0]


def _owner(table: NodeTable, depth: int, domain: int) -> str:
    """What stands for a domain where windows have their names."""
    level = table.topology.levels[depth]
    return f"{level.name}/{level.names[domain]}"


def _free(table: NodeTable, lo: int, hi: int, barred: Collection[str]) -> Iterator[int]:
    # From the end: gangs are placed from the front, so that a pool seldom breaks a row.
    for node in range(hi - 1, lo - 1, -1):
        if is_wholly_free(table, node) and table.topology.nodes[node].name not in barred:
            yield node


def _claim(table: NodeTable, depth: int, domain: int, node: int) -> Claim:
    name = table.topology.nodes[node].name
    return Claim(
        uid=ClaimId(f"pool-{name}"),
        why=ClaimWhy.POOL,
        node=NodeId(name),
        gpu_mask=full_mask(table.topology.types[node].gpus),
        window=_owner(table, depth, domain),
    )


def bare_nodes(table: NodeTable, claims: Iterable[Claim]) -> list[int]:
    """Indices of the nodes of pools on which nobody has pods."""
    index = table.topology.node_index
    nodes = sorted({index[c.node] for c in claims if c.why is ClaimWhy.POOL and c.node in index})
    return [node for node in nodes if is_bare(table, node)]


def is_bare(table: NodeTable, node: int) -> bool:
    """Whether nobody has pods on a node of a pool."""
    return table.vacant.get(node, 0) == full_mask(table.topology.types[node].gpus)


@contextmanager
def pool_kept(table: NodeTable, nodes: Iterable[int]) -> Iterator[list[int]]:
    """Say for a while why these nodes take no pods."""
    barred = [node for node in nodes if table.aside[node] is None]
    for node in barred:
        table.set_aside(node, POOL)
    try:
        yield barred
    finally:
        for node in barred:
            if table.aside[node] == POOL:
                table.set_aside(node, None)


@contextmanager
def pool_open(table: NodeTable, pool: Iterable[int]) -> Iterator[None]:
    """Let somebody have the nodes of the pool for a while; those that stay bare are kept again."""
    nodes = [node for node in pool if table.aside[node] == POOL]
    for node in nodes:
        table.set_aside(node, None)
    try:
        yield
    finally:
        for node in nodes:
            table.set_aside(node, POOL)
