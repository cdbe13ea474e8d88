"""Small gangs are laid out as well as can be: found by the oracle, kept for good."""

import itertools
import random

import pytest

from scheduler.cluster.world import World
from scheduler.place.price import NONE_DEAD, StepPrice
from tests.builders import make_cluster, make_node, make_topology, make_tree, make_type
from tests.core.gangs import count_by, gang, nodes_of, occupy, placed, preferred, role, role_gang
from tests.core.place.test_rank_map import oversubscribed


def test_members_that_prefer_a_rack_take_the_fewest_racks_wherever_they_are() -> None:
    """Eight halves of a node: three racks of one block hold them, and two racks of two blocks."""
    nodes = []
    for rack, (leaf, block, count) in enumerate(
        [("l0", "b0", 1), ("l0", "b0", 1), ("l1", "b0", 2), ("l2", "b1", 3)]
    ):
        nodes += [
            make_node(f"n{rack}{i}", rack=f"r{rack}", leaf=leaf, block=block) for i in range(count)
        ]
    world = World(make_topology(nodes))
    spec = role_gang(role("m", 8, gpus=4, rules=(preferred("m", "rack"),)))
    found = placed(world, spec)
    assert len(count_by(world.topology, found, "rack")) == 2
    assert found.search == "exact"


def test_a_preferred_node_also_has_a_place_above() -> None:
    """The first node lies in no leaf: of two that hold all members the other is in fewer places."""
    world = World(
        make_topology(
            [make_node("n1", leaf=None), make_node("n2", leaf="l1")], levels=("leaf", "node")
        )
    )
    spec = role_gang(role("m", 3, gpus=2, rules=(preferred("m", "node"),)))
    assert set(nodes_of(world.topology, placed(world, spec))) == {"n2"}


def test_the_node_type_that_keeps_more_preferences_is_taken() -> None:
    """Members of either type; only the second has a leaf that holds all three."""
    large, small = make_type("a", gpus=4), make_type("b", gpus=4)
    nodes = [make_node(f"a{i}", "a", leaf=f"l{i}") for i in range(3)]
    nodes += [make_node(f"b{i}", "b", leaf="l9") for i in range(3)]
    world = World(make_topology(nodes, {"a": large, "b": small}, levels=("leaf", "node")))
    spec = role_gang(role("m", 3, gpus=4, rules=(preferred("m", "leaf"),)))
    assert count_by(world.topology, placed(world, spec), "leaf") == {"l9": 3}


def test_gpus_that_one_node_is_bound_to_are_taken_on_all() -> None:
    """Six GPUs a pod; one node has exactly six free, and the others can have the same ones."""
    world = World(make_cluster(racks=1, nodes_per_rack=3))
    occupy(world, "n003", 0b0000_0110)
    found = placed(world, gang(2, 3, 3, gpus_per_pod=6))
    assert {pod.gpu_mask for pod in found.pods} == {0b1111_1001}


@pytest.mark.parametrize("seed", range(6))
def test_no_order_of_any_nodes_is_faster_than_the_answer_that_says_exact(seed: int) -> None:
    """Every order of every choice of nodes is priced: four pods on up to nine nodes."""
    chance = random.Random(seed)
    world = oversubscribed(World(make_tree({"block": 2, "leaf": 2, "node": 3})))
    for node in chance.sample(range(12), 4):
        occupy(world, f"n{node + 1:03d}")
    pp, dp = chance.choice([(2, 2), (4, 1), (1, 4)])
    spec = gang(8, pp, dp, axis_weights={"pp": chance.choice([1.0, 8.0]), "dp": 4.0})
    found = placed(world, spec)
    price = StepPrice(spec, world.topology, world.topology.types[0], 8)
    free = [n for n in range(12) if world.table.free[n] == 0xFF]
    best = min(
        price.seconds(nodes, (), NONE_DEAD) for nodes in itertools.permutations(free, pp * dp)
    )
    ours = price.seconds([pod.node_index for pod in found.pods], (), NONE_DEAD)
    assert found.search == "exact"
    assert ours <= best * 1.01
