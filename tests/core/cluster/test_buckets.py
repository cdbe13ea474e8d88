"""Domains by their count."""

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
