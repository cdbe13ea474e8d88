"""From counts to nodes and GPUs: equal, aligned GPU indices on every node where it can be."""

from collections.abc import Sequence
from itertools import compress, islice

from scheduler.cluster.view import View
from scheduler.errors import invariant
from scheduler.model.resources import full_mask
from scheduler.place.spread import Piece, aligned_masks

Spots = tuple[list[int], list[int]]
"""(node index, GPU mask) of each pod, as two lists."""


def assign(view: View, pieces: Sequence[Piece]) -> Spots:
    """A spot for each pod of each piece, in tree order."""
    gpus = view.shape.gpus
    nodes: list[int] = []
    if gpus and view.takes_whole_nodes:
        slots = view.slots
        for lo, hi, wanted in pieces:
            nodes += islice(compress(range(lo, hi), slots[lo:hi]), wanted)
        pods = sum(wanted for _, _, wanted in pieces)
        invariant(len(nodes) == pods, f"{len(nodes)} nodes for {pods} pods")
        return nodes, [full_mask(gpus)] * len(nodes)
    mask = view.shape.mask or (_common_mask(view, pieces) if gpus else 0)
    for piece in pieces:
        nodes += _fill_nodes(view, piece, mask)
    return nodes, masks_on(view, nodes, mask)


def masks_on(view: View, nodes: Sequence[int], mask: int | None = None) -> list[int]:
    """GPUs of each pod on its node; those of a common mask where they are free.

    Args:
        mask: The indices wanted on every node; None = the best for these nodes.
    """
    gpus = view.shape.gpus
    if not gpus or view.takes_whole_nodes:
        return [full_mask(gpus)] * len(nodes)
    if mask is None:
        mask = view.shape.mask or _common_mask(view, [(node, node + 1, 1) for node in nodes])
    taken: dict[int, int] = {}
    out: list[int] = []
    for node in nodes:
        free = view.free(node) & ~taken.get(node, 0)
        chosen = mask if mask & free == mask else best_mask(free, gpus)
        taken[node] = taken.get(node, 0) | chosen
        out.append(chosen)
    return out


def _fill_nodes(view: View, piece: Piece, mask: int = 0) -> list[int]:
    """The node of each pod of a piece: as few nodes as can be, those with the mask free first."""
    lo, hi, wanted = piece
    table = view.table
    nodes = [n for n in range(lo, hi) if view.slots[n]]
    out: list[int] = []
    if view.shape.single:
        nodes.sort(key=lambda n: (table.free[n] & mask != mask, table.free[n].bit_count(), n))
        out = nodes[:wanted]
    else:
        left = wanted
        while left:
            tight = min(
                (n for n in nodes if view.slots[n] >= left),
                key=lambda n: (
                    table.free[n] & mask != mask,
                    view.slots[n],
                    table.free[n].bit_count(),
                    n,
                ),
                default=None,
            )
            node = tight if tight is not None else max(nodes, key=lambda n: (view.slots[n], -n))
            share = min(left, view.slots[node])
            out += [node] * share
            nodes.remove(node)
            left -= share
    out.sort()
    invariant(len(out) == wanted, f"{len(out)} places for {wanted} pods")
    return out


def _common_mask(view: View, pieces: Sequence[Piece]) -> int:
    """The aligned GPU indices that the most pods can have, then that break fewest larger blocks.

    Ranks talk along their rail: equal indices on every node keep that traffic on one switch.
    """
    gpus = view.shape.gpus
    width = max(view.topology.types[n].gpus for lo, hi, _ in pieces for n in range(lo, hi))
    best, best_key = 0, (0, 0, 0)
    for position, mask in enumerate(aligned_masks(width, gpus)):
        supported, damage = 0, 0
        for lo, hi, wanted in pieces:
            frees = [view.free(n) for n in range(lo, hi) if view.slots[n]]
            costs = sorted(broken_block(free, mask, gpus) for free in frees if free & mask == mask)[
                :wanted
            ]
            supported += len(costs)
            damage += sum(costs)
        key = (-supported, damage, position)
        if position == 0 or key < best_key:
            best, best_key = mask, key
    return best


def best_mask(free: int, gpus: int) -> int:
    """The aligned block that breaks the smallest larger one; without any, the lowest free GPUs."""
    fitting = [m for m in aligned_masks(free.bit_length(), gpus) if m & free == m]
    if fitting:
        return min(fitting, key=lambda m: (broken_block(free, m, gpus), m))
    mask = 0
    for _ in range(gpus):
        low = free & -free
        mask |= low
        free ^= low
    return mask


def broken_block(free: int, mask: int, gpus: int) -> int:
    """Size of the largest free aligned block around a mask: what its use would break."""
    size = 1 << (gpus - 1).bit_length()
    start = (mask & -mask).bit_length() - 1
    while True:
        wider = size * 2
        block = ((1 << wider) - 1) << (start // wider * wider)
        if free & block != block:
            return size
        size = wider
