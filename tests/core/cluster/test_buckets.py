"""Domains by their count."""

import random

from hypothesis import given
from hypothesis import strategies as st

from scheduler.cluster.buckets import Buckets


@given(
    counts=st.lists(st.integers(0, 20), max_size=30),
    groups=st.integers(1, 20),
    each=st.integers(1, 21),
)
def test_groups_have_room_where_their_sum_over_all_domains_says_so(
    counts: list[int], groups: int, each: int
) -> None:
    assert Buckets(counts).hold(groups, each) == (sum(c // each for c in counts) >= groups)


@given(st.integers(0, 2**32), st.integers(0, 3_000))
def test_domains_taken_in_at_once_are_as_if_each_had_moved(seed: int, many: int) -> None:
    """More than one chunk of them."""
    draw = random.Random(seed)
    counts = [draw.choice((0, 1, 4, 8, 300)) for _ in range(many)]
    at_once, moved = Buckets(counts), Buckets([7] * many)
    for index, count in enumerate(counts):
        moved.move(index, 7, count)
    assert (at_once.counts, at_once.masks) == (moved.counts, moved.masks)
    assert [at_once.size(count) for count in at_once.counts] == [
        counts.count(count) for count in at_once.counts
    ]
    assert list(at_once.at_least(1)) == [
        index for count in at_once.counts if count for index in at_once.members(count)
    ]
    for count in at_once.counts:
        assert list(at_once.members(count)) == [n for n, c in enumerate(counts) if c == count]
