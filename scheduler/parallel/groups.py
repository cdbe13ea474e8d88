"""Rank to communication groups, as Megatron numbers them.

Two grids share the ranks: the dense one (tp, cp, dp, pp) and the expert one (etp, ep, edp, pp),
both in the job's order, fastest axis first.

Source: Megatron-LM `parallel_state.py` (RankGenerator), https://github.com/NVIDIA/Megatron-LM.
"""

import numpy as np
from numpy.typing import NDArray

from scheduler.model.job import AXES, ParallelSizes
from scheduler.parallel.remembered import remembered

Ranks = NDArray[np.int64]


@remembered(64)
def groups_of(sizes: ParallelSizes) -> dict[str, Ranks]:
    """The groups of every axis.

    Returns:
        Axis -> array (groups, group size) of ranks; each axis covers every rank once. `ep` comes
        from the expert grid, the others from the dense one.
    """
    return {axis: groups_over(sizes, (axis,), expert=axis == "ep") for axis in AXES}


@remembered(64)
def groups_over(sizes: ParallelSizes, axes: tuple[str, ...], *, expert: bool = False) -> Ranks:
    """Groups of the ranks that differ only in these axes of one grid, each in the order of rank.

    Args:
        axes: Axes of the dense grid (tp, cp, dp, pp), or with `expert` of the expert one, where
            tp and dp stand for etp and edp.

    Returns:
        Ranks, (groups, group size); covers every rank once.
    """
    grid = sizes.expert() if expert else sizes.dense()
    slow_first = tuple(reversed(sizes.order))
    ranks = np.arange(_product(grid), dtype=np.int64).reshape([grid[a] for a in slow_first])
    inner = [axis for axis in slow_first if axis in axes]
    moved = np.moveaxis(ranks, [slow_first.index(a) for a in inner], range(-len(inner), 0))
    return np.ascontiguousarray(moved.reshape(-1, _product({a: grid[a] for a in inner})))


def _product(grid: dict[str, int]) -> int:
    out = 1
    for size in grid.values():
        out *= size
    return out


def coordinates(sizes: ParallelSizes, rank: int) -> dict[str, int]:
    """The rank's index on each dense axis."""
    out, rest = {}, rank
    dense = sizes.dense()
    for axis in sizes.order:
        rest, out[axis] = divmod(rest, dense[axis])
    return out
