"""Communication groups against Megatron's published examples and by their properties."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.job import ParallelSizes, default_gpus_per_pod, fits_pod
from scheduler.parallel.groups import coordinates, groups_of
from scheduler.parallel.units import PART_GROUP, Members, PodGrid, segment_group
from tests.core.gangs import parts, role


def test_groups_follow_megatrons_own_example() -> None:
    """The 16-GPU example of Megatron's `initialize_model_parallel`: tp 2, pp 4, so dp 2."""
    groups = groups_of(ParallelSizes(tp=2, pp=4, dp=2))
    assert groups["tp"].tolist()[:3] == [[0, 1], [2, 3], [4, 5]]
    assert groups["dp"].tolist()[:3] == [[0, 2], [1, 3], [4, 6]]
    assert groups["pp"].tolist() == [[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15]]


def test_expert_groups_come_from_their_own_grid() -> None:
    """tp 2, dp 4, ep 4 with etp 1: 8 ranks of one stage are 2 groups of 4 neighbours."""
    groups = groups_of(ParallelSizes(tp=2, dp=4, ep=4, etp=1))
    assert groups["ep"].tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_another_order_changes_which_ranks_are_neighbours() -> None:
    sizes = ParallelSizes(tp=2, pp=2, dp=2, order=("tp", "cp", "ep", "pp", "dp"))
    assert groups_of(sizes)["pp"].tolist() == [[0, 2], [1, 3], [4, 6], [5, 7]]


SIZES = st.builds(
    ParallelSizes,
    tp=st.sampled_from([1, 2, 4, 8]),
    cp=st.integers(1, 3),
    pp=st.integers(1, 4),
    dp=st.integers(1, 6),
    order=st.permutations(["tp", "cp", "ep", "dp", "pp"]).map(tuple),
)


@given(SIZES)
def test_every_axis_covers_every_rank_once(sizes: ParallelSizes) -> None:
    for axis, groups in groups_of(sizes).items():
        assert sorted(groups.ravel().tolist()) == list(range(sizes.world)), axis


@given(SIZES, st.data())
def test_ranks_of_a_group_differ_on_its_axis_alone(
    sizes: ParallelSizes, data: st.DataObject
) -> None:
    axis = data.draw(st.sampled_from(["tp", "cp", "dp", "pp"]))
    group = data.draw(st.sampled_from(groups_of(sizes)[axis].tolist()))
    places = [coordinates(sizes, rank) for rank in group]
    for other in {"tp", "cp", "dp", "pp"} - {axis}:
        assert len({place[other] for place in places}) == 1
    assert [place[axis] for place in places] == list(range(len(group)))


@given(SIZES, st.integers(1, 8), st.sets(st.sampled_from(["tp", "cp", "dp", "pp"]), min_size=1))
def test_units_are_closed_even_and_tile_the_gang(
    sizes: ParallelSizes, node_gpus: int, axes: set[str]
) -> None:
    gpus = default_gpus_per_pod(sizes, node_gpus)
    assert fits_pod(sizes, gpus)
    grid = PodGrid(sizes, gpus)
    chain = (frozenset(axes),)
    unit = grid.unit(chain[0])
    order = list(grid.order(chain))
    assert sorted(order) == list(range(grid.pods))
    assert grid.pods % unit == 0
    unit_of = {pod: position // unit for position, pod in enumerate(order)}
    for axis in axes:
        for group in (groups_of(sizes)[axis] // gpus).tolist():
            assert len({unit_of[pod] for pod in group}) == 1


def test_the_closed_form_agrees_with_joining_groups() -> None:
    """dp 4 with two of its ranks in each pod: 2 pods a group, times pp 3."""
    grid = PodGrid(ParallelSizes(tp=4, dp=4, pp=3), 8)
    assert grid.unit(frozenset({"dp"})) == 2
    assert grid.unit(frozenset({"dp", "pp"})) == 6
    assert grid.unit(frozenset({"job"})) == 6
    assert grid.unit(frozenset()) == 1


def test_heavy_axes_run_fastest_where_nothing_is_ruled() -> None:
    """Megatron's other order: pp before dp; yet dp neighbours are placed side by side."""
    sizes = ParallelSizes(tp=8, pp=2, dp=2, order=("tp", "cp", "ep", "pp", "dp"))
    assert list(PodGrid(sizes, 8).order(())) == [0, 2, 1, 3]
    assert PodGrid(sizes, 8).soft_groups == ("dp", "pp")


def test_labels_tell_the_groups_of_pods_apart() -> None:
    grid = PodGrid(ParallelSizes(tp=8, pp=2, dp=2), 8)
    assert len(np.unique(grid.unit_labels(frozenset({"pp"})))) == 2
    assert len(np.unique(grid.unit_labels(frozenset({"job"})))) == 1


def test_memberships_name_each_pod_of_each_group_once() -> None:
    """18 ranks in pods of 6, pp before dp: each dp group has a rank in every pod."""
    sizes = ParallelSizes(tp=2, pp=3, dp=3, order=("tp", "pp", "dp", "ep", "cp"))
    grid = PodGrid(sizes, 6)
    groups, pods = grid.memberships("dp")
    assert sorted(zip(groups.tolist(), pods.tolist(), strict=True)) == [
        (group, pod) for group in sorted(set(groups.tolist())) for pod in range(3)
    ]
    uneven = PodGrid(ParallelSizes(tp=1, cp=3, dp=8), 8)
    assert len(uneven.memberships("cp")[0]) == 10


def test_segments_are_runs_of_consecutive_pods() -> None:
    grid = PodGrid(ParallelSizes(tp=4, dp=8), 4)
    assert grid.unit(frozenset({segment_group(4)})) == 4
    assert grid.unit_labels(frozenset({segment_group(4)})).tolist() == [0] * 4 + [4] * 4
    assert grid.unit(frozenset({segment_group(16)})) == 8


def test_members_come_in_parts() -> None:
    members = Members(role("m", 6, parts=parts(2, 3)), 6)
    assert members.unit(frozenset({PART_GROUP})) == 2
    assert members.unit(frozenset({"job"})) == 6
    assert members.unit_labels(frozenset({PART_GROUP})).tolist() == [0, 0, 1, 1, 2, 2]
    assert members.unit_labels(frozenset({"job"})).tolist() == [0] * 6
    assert list(members.order(())) == list(range(6))


def test_the_default_pod_is_the_largest_that_nests_with_tp() -> None:
    assert default_gpus_per_pod(ParallelSizes(tp=8, pp=8, dp=16), 8) == 8
    assert default_gpus_per_pod(ParallelSizes(tp=16), 8) == 8
    assert default_gpus_per_pod(ParallelSizes(tp=16), 4) == 4
    assert default_gpus_per_pod(ParallelSizes(tp=3, dp=2), 8) == 6
    assert default_gpus_per_pod(ParallelSizes(tp=1, dp=5), 8) == 5
    assert default_gpus_per_pod(ParallelSizes(tp=6), 4) == 3
    assert default_gpus_per_pod(ParallelSizes(tp=6), 0) == 1
