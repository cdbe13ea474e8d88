"""What is kept of layouts is bounded by its bytes, however many layouts somebody asks about."""

from collections.abc import Iterator

import numpy as np
import pytest

from scheduler.cost.hops import rings_of
from scheduler.model.job import ParallelSizes
from scheduler.parallel import remembered
from scheduler.parallel.groups import groups_of
from scheduler.parallel.remembered import LARGE, Tables, bytes_of
from scheduler.parallel.units import pod_grid

DP = frozenset({"dp"})


@pytest.fixture
def small_room(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(LARGE, "bytes_max", 1_000_000)
    yield LARGE.bytes_max
    LARGE.bytes_max = remembered.LARGE_BYTES


def test_table_that_was_used_longest_ago_goes_first() -> None:
    tables = Tables(1_000)
    for key in "abac":
        tables.get(key, lambda: np.zeros(50))
    assert (len(tables), tables.size_bytes) == (2, 800)
    made: list[str] = []
    for key in "acb":
        tables.get(key, lambda key=key: made.append(key))  # type: ignore[misc]  # mypy cannot infer defaults
    assert made == ["b"]


def test_table_larger_than_all_room_is_kept_alone() -> None:
    tables = Tables(100)
    for key in "ab":
        tables.get(key, lambda: np.zeros(1_000))
    assert len(tables) == 1


def test_size_counts_arrays_behind_views_and_numbers_in_lists() -> None:
    whole = np.zeros(1_000)
    assert bytes_of(whole[::10]) == 8_000
    assert bytes_of({"a": whole, "b": (whole, [1] * 10)}) == 16_400


def test_layouts_of_many_ranks_are_kept_within_their_room(small_room: int) -> None:
    for pp in range(2, 30):
        sizes = ParallelSizes(tp=8, pp=pp, dp=256)
        grid = pod_grid(sizes, 8)
        grid.unit_labels(DP)
        grid.memberships("dp")
        grid.order((DP,))
        grid.axes()
        assert LARGE.size_bytes <= max(small_room, bytes_of(groups_of(sizes)))


def test_layout_is_worked_out_once_while_it_is_kept() -> None:
    for sizes in (ParallelSizes(tp=8, dp=4), ParallelSizes(tp=8, pp=4, dp=64)):
        assert groups_of(sizes) is groups_of(sizes)
        assert pod_grid(sizes, 8).unit_labels(DP) is pod_grid(sizes, 8).unit_labels(DP)
        assert rings_of(sizes, (), 8) is rings_of(sizes, (), 8)
