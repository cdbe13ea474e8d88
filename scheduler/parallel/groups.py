"""Rank to communication groups, as Megatron numbers them.

Two grids share the ranks: the dense one (tp, cp, dp, pp) and the expert one (etp, ep, edp, pp),
both
in the job's order, fastest axis first.

Source: Megatron-LM `parallel_state.py` (RankGenerator), https://github.com/NVIDIA/Megatron-LM.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from scheduler.model.job import ParallelSizes

Ranks = NDArray[np.int64]


@lru_cache(maxsize=64)
def groups_of(sizes: ParallelSizes) -> dict[str, Ranks]:
    """The groups of every axis.

    Returns:
        Axis -> array (groups, group size) of ranks; each axis covers every rank once. `ep` comes
        from
        the expert grid, the others from the dense one.
    """
    dense, expert = sizes.dense(), sizes.expert()
    return {
        axis: _along(expert if axis == "ep" else dense, sizes.order, axis)
        for axis in ("tp", "cp", "ep", "dp", "pp")
    }


def _along(grid: dict[str, int], order: tuple[str, ...], axis: str) -> Ranks:
    # Row-major arrays vary the last index fastest, so the order is reversed.
    slow_first = tuple(reversed(order))
    ranks = np.arange(_product(grid), dtype=np.int64).reshape([grid[a] for a in slow_first])
    moved = np.moveaxis(ranks, slow_first.index(axis), -1)
    return np.ascontiguousarray(moved.reshape(-1, grid[axis]))


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
