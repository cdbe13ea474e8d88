"""Pods as a grid of axes, and orders of them in tiles."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.job import ParallelSizes
from scheduler.parallel.groups import groups_of
from scheduler.parallel.units import pod_grid

SIZES = (
    ParallelSizes(tp=8, pp=4, dp=6),
    ParallelSizes(tp=2, pp=4, dp=16, ep=8, etp=1),
    ParallelSizes(tp=4, cp=4, pp=2, dp=4),
    ParallelSizes(pp=4, dp=32, ep=32, etp=1),
    ParallelSizes(tp=8, pp=3, dp=4, order=("tp", "pp", "dp", "ep", "cp")),
)


@pytest.mark.parametrize("sizes", SIZES)
def test_axes_multiply_to_all_pods(sizes: ParallelSizes) -> None:
    grid = pod_grid(sizes, 8)
    assert np.prod(list(grid.axes().values())) == grid.pods


def test_pods_that_cut_axes_unevenly_are_no_grid() -> None:
    assert pod_grid(ParallelSizes(tp=6, dp=4), 8).axes() == {}


def test_the_first_digit_changes_fastest() -> None:
    order = pod_grid(ParallelSizes(tp=8, pp=2, dp=4), 8).tile_order(
        (("dp", 2), ("pp", 2), ("dp", 2))
    )
    # Pods are numbered dp first: tiles of two replicas and both stages.
    assert list(order) == [0, 1, 4, 5, 2, 3, 6, 7]


@given(st.sampled_from(SIZES), st.data())
def test_an_order_in_tiles_has_every_pod_once_and_tiles_side_by_side(
    sizes: ParallelSizes, data: st.DataObject
) -> None:
    grid = pod_grid(sizes, 8)
    axes = grid.axes()
    sides = {a: data.draw(st.sampled_from([s for s in range(1, n + 1) if n % s == 0]), a)
             for a, n in axes.items()}  # fmt: skip
    outside = data.draw(st.permutations([(a, n // sides[a]) for a, n in axes.items()]))
    order = list(grid.tile_order((*sides.items(), *outside)))
    assert sorted(order) == list(range(grid.pods))
    size = int(np.prod(list(sides.values())))
    for axis, side in sides.items():
        groups = {int(label) for label in grid.unit_labels(frozenset({axis}))[order[:size]]}
        assert len(groups) == size // side


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("group", ["ep", "dp", "pp", "cp"])
def test_a_run_is_what_the_groups_of_a_kind_are(sizes: ParallelSizes, group: str) -> None:
    grid = pod_grid(sizes, 8)
    run = grid.run_of(group)
    if run is None:
        return
    axis, pods = run
    assert pods == grid.unit(frozenset({group}))
    order = np.array(grid.tile_order((run, *((a, n // pods if a == axis else n)
                                              for a, n in grid.axes().items()))))  # fmt: skip
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    for members in groups_of(sizes)[group] // 8:
        assert len(set((place[members] // pods).tolist())) == 1


def test_experts_over_two_nodes_are_runs_along_dp() -> None:
    assert pod_grid(ParallelSizes(tp=2, pp=4, dp=16, ep=16, etp=1), 8).run_of("ep") == ("dp", 2)
