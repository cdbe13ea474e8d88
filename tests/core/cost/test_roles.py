"""Members of roles are priced as the ring that they form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.cost.roles import Spot, predict_roles
from scheduler.cost.step import predict
from scheduler.model.job import JobSpec, ParallelSizes
from scheduler.topology.tree import Topology
from tests.builders import make_tree

TREE = make_tree({"block": 2, "leaf": 2, "node": 4})


def ring_s(spots: list[Spot], topology: Topology = TREE) -> float:
    return predict_roles({"worker": spots}, topology).inter_node_s


def test_a_ring_of_whole_nodes_costs_what_replicas_on_them_would() -> None:
    spots = [(node, 0xFF) for node in range(6)]
    found = predict_roles({"worker": spots}, TREE)
    spec = JobSpec(name="j", parallelism=ParallelSizes(tp=8, dp=6), gpus_per_pod=8)
    alike = predict(spec, TREE, TREE.types[0], 8, list(range(6)))
    assert found.axes.keys() == {"worker"}
    assert found.axes["worker"].seconds == pytest.approx(alike.axes["dp"].seconds)
    assert found.inter_node_s == pytest.approx(alike.inter_node_s)
    assert found.assumed


def test_members_on_one_node_have_nothing_between_nodes() -> None:
    found = predict_roles({"worker": [(0, 0x0F), (0, 0xF0)]}, TREE)
    assert found.inter_node_s == 0.0
    assert found.axes["worker"].bottleneck == "scale_up"


def test_roles_without_gpus_or_of_one_member_have_no_price() -> None:
    found = predict_roles({"cpu": [(0, 0), (1, 0)], "one": [(2, 0xFF)], "none": []}, TREE)
    assert found.axes == {}
    assert (found.inter_node_s, found.assumed) == (0.0, False)


def test_roles_add_up() -> None:
    one, two = [(0, 0xFF), (1, 0xFF)], [(2, 0x0F), (3, 0x0F), (4, 0x0F)]
    both = predict_roles({"one": one, "two": two}, TREE)
    assert both.inter_node_s == pytest.approx(ring_s(one) + ring_s(two))


def test_a_dead_rail_slows_the_ring() -> None:
    spots = [(0, 0xFF), (1, 0xFF)]
    healthy = predict_roles({"worker": spots}, TREE).inter_node_s
    assert predict_roles({"worker": spots}, TREE, {1: 1}).inter_node_s > healthy


@given(st.permutations(range(16)), st.integers(2, 8))
def test_no_ring_is_faster_than_one_in_a_single_leaf(order: list[int], members: int) -> None:
    leaf = [(node % 4, 0b11 << 2 * (node // 4)) for node in range(members)]
    anywhere = [(node, 0b11) for node in order[:members]]
    spread = ring_s([(node, 0xFF) for node in order[:members]])
    assert spread >= ring_s([(node, 0xFF) for node in range(members)]) or members > 4
    assert ring_s(anywhere) >= 0.0
    assert ring_s(leaf) >= 0.0
