"""Maintenance windows as claims: nothing starts there that would not have ended in time."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from scheduler.model.claim import Claim, ClaimWhy, Window
from scheduler.model.ids import ClaimId, NodeId
from scheduler.model.resources import full_mask
from scheduler.topology.tree import Topology


def window_claims(
    topology: Topology,
    windows: Iterable[Window],
    others: Mapping[NodeId, int],
    now_s: float,
) -> Iterator[Claim]:
    """What windows that are not over keep: all of their nodes but for GPUs of other claims.

    A gang that has its place already is not to lose it to people, so its claims come first; when
    they become pods the window takes those GPUs too. Of two windows over one node, the one that
    begins first has it until it ends.

    Args:
        others: Node -> GPUs that claims of gangs keep there.
    """
    taken = dict(others)
    for window in sorted(windows, key=lambda w: (w.starts_s, w.name)):
        if window.ends_s <= now_s:
            continue
        for node in window.nodes:
            index = topology.node_index.get(node)
            if index is None:
                continue
            kind = topology.types[index]
            mask = full_mask(kind.gpus) & ~taken.get(node, 0)
            if kind.gpus and not mask:
                continue
            taken[node] = taken.get(node, 0) | mask
            yield Claim(
                uid=ClaimId(f"window-{window.name}-{node}"),
                why=ClaimWhy.MAINTENANCE,
                node=node,
                gpu_mask=mask,
                window=window.name,
                starts_s=window.starts_s,
                until_s=window.ends_s,
                resources=replace(kind.capacity, other=()),
            )
