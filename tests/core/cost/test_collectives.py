"""Seconds of collectives against sums done by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.cost.collectives import (
    Ways,
    all_reduce_s,
    all_to_all_s,
    halves_s,
    hierarchical_s,
    ring_s,
    send_recv_s,
    tree_s,
)


def ways(
    pods: int = 2,
    local: float = 1.0,
    *,
    inside: float = 0.0,
    between: float = 0.0,
    hop_s: float = 0.0,
    inside_hop_s: float = 0.0,
) -> Ways:
    return Ways(pods, local, inside, between, inside_hop_s, hop_s)


def test_ring_is_bound_by_the_slowest_link() -> None:
    """Two ranks all-reduce 1 kB: each sends 1,000 bytes over the 250 B/s hop, in two steps."""
    assert ring_s(1_000, 2, ways(between=1 / 250, inside=1e-9)) == 4.0


def test_ring_waits_for_every_step() -> None:
    assert ring_s(0, 6, ways(between=1.0, hop_s=0.5)) == 3.0


def test_hierarchy_sends_between_pods_what_is_left_after_the_stage_inside() -> None:
    """4 pods x 2 ranks all-reduce 800 bytes: a ring sends 2 x 7/8 x 800 = 1,400 per rank.

    Inside 1/2 of 1,600 = 800 bytes at 100 B/s; between 3/4 of 1,600 = 1,200 at 10 B/s.
    """
    stages = ways(4, 2, inside=0.01, between=0.1)
    assert hierarchical_s(1_400, 2, stages) == pytest.approx(8.0 + 120.0)


def test_hierarchy_takes_a_hop_for_each_pod_and_not_for_each_rank() -> None:
    """Two turns of 1 hop inside and 3 between."""
    stages = ways(4, 2, inside=1.0, between=1.0, hop_s=0.1, inside_hop_s=0.01)
    assert hierarchical_s(0, 2, stages) == pytest.approx(2 * (0.01 + 0.3))


def test_tree_takes_as_many_hops_as_it_is_deep() -> None:
    """16 pods: 4 hops up and as many down; the whole 2 x 1,600 bytes at 100 B/s.

    A ring of 16 sends 2 x 15/16 x 1,600 = 3,000.
    """
    assert tree_s(3_000, 2, ways(16, between=0.01, hop_s=0.5)) == pytest.approx(32.0 + 4.0)


def test_all_reduce_takes_the_fastest() -> None:
    small, large = ways(64, between=1e-9, hop_s=1e-5), ways(64, between=1e-3)
    assert all_reduce_s(1.0, 2, small) == tree_s(1.0, 2, small)
    assert all_reduce_s(1e6, 2, large) == ring_s(1e6, 126, large)
    wide = ways(8, 8, inside=1e-12, between=1e-9, hop_s=1e-5)
    assert halves_s(1e6, 2, wide) == hierarchical_s(1e6, 2, wide)


def test_messages_to_one_neighbour_add_up() -> None:
    assert send_recv_s(100, 3, ways(between=0.01, hop_s=0.5)) == 2.5


def test_all_to_all_pays_for_every_peer_once_a_call() -> None:
    """8 ranks have 7 peers: the first pays the hop, 6 more 0.1 s each; in 2 calls."""
    assert all_to_all_s(10, 2, 0.1, ways(8, between=0.1, hop_s=0.5)) == pytest.approx(1 + 2 * 1.1)


@given(
    pods=st.integers(1, 64),
    local=st.integers(1, 8),
    inside=st.floats(1e-12, 1e-9),
    between=st.floats(1e-12, 1e-9),
    sent=st.floats(0, 1e12),
    slower=st.floats(1.0, 10.0),
)
def test_nothing_is_cheaper_over_slower_links(
    pods: int, local: int, inside: float, between: float, sent: float, slower: float
) -> None:
    if pods * local < 2:
        return
    fast = Ways(pods, local, inside, between, 1e-6, 1e-5)
    slow = Ways(pods, local, inside, between * slower, 1e-6, 1e-5)
    for priced in (hierarchical_s, tree_s, halves_s, all_reduce_s, ring_s, send_recv_s):
        assert priced(sent, 2, fast) <= priced(sent, 2, slow)
