"""Groups over several axes, as gradients are reduced over dp and cp together."""

from itertools import permutations

import numpy as np
import pytest

from scheduler.model.job import AXES, ParallelSizes
from scheduler.parallel.groups import coordinates, groups_of, groups_over


@pytest.mark.parametrize("order", list(permutations(AXES))[::7])
@pytest.mark.parametrize("axes", [("dp",), ("cp", "dp"), ("dp", "cp"), ("tp", "pp")])
def test_groups_hold_the_ranks_that_differ_in_these_axes_alone(
    order: tuple[str, ...], axes: tuple[str, ...]
) -> None:
    sizes = ParallelSizes(tp=2, cp=2, dp=3, pp=2, order=order)
    found = groups_over(sizes, axes)
    assert np.array_equal(np.sort(found.ravel()), np.arange(24))
    for group in found.tolist():
        assert group == sorted(group)
        kept = {
            tuple((a, i) for a, i in coordinates(sizes, r).items() if a not in axes) for r in group
        }
        assert len(kept) == 1


def test_groups_of_experts_come_from_their_own_grid() -> None:
    """World 16: tp 4, dp 4; ep 8 leaves edp 2 with etp 1."""
    sizes = ParallelSizes(tp=4, dp=4, ep=8)
    assert groups_over(sizes, ("ep",), expert=True).tolist() == [
        list(range(8)),
        list(range(8, 16)),
    ]
    assert groups_over(sizes, ("dp",), expert=True)[0].tolist() == [0, 8]
    assert groups_of(sizes)["ep"] is groups_over(sizes, ("ep",), expert=True)
