"""Dead rails: priced, avoided where an equal place exists, never used where that is required."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.cluster.world import World
from scheduler.explain.twin import twin
from scheduler.model.node import FabricLevel, NodeRecord
from scheduler.model.placement import NoFit, Placement
from scheduler.place.admit import never_fits, never_fits_in
from scheduler.place.search import place
from scheduler.topology.build import build
from scheduler.topology.dead_rails import DEAD_RAILS, gpus_on
from tests.builders import make_inventory, make_type
from tests.core.gangs import count_by, gang, nodes_of, occupy, placed, role, role_gang


def world_with(dead: dict[str, str], leaves: int = 2, nodes: int = 4) -> World:
    """Leaves of so many nodes; `dead` says which rails some of them have lost."""
    inventory = make_inventory({"block": 1, "leaf": leaves, "node": nodes})
    marked = tuple(
        replace(n, labels={DEAD_RAILS: dead[n.name]}) if n.name in dead else n
        for n in inventory.nodes
    )
    links = FabricLevel(400.0)
    fabric = {"leaf": links, "block": links}
    return World(build(replace(inventory, nodes=marked, fabric=fabric)).topology)


def test_the_label_says_which_rails_are_dead() -> None:
    topology = world_with({"n002": "3", "n003": "0_7"}).topology
    assert topology.dead_rails == {1: 0b1000, 2: 0b1000_0001}
    assert gpus_on(make_type(), 0b1000_0001) == 0b1000_0001


def test_rails_that_do_not_exist_are_warned_of_and_left_out() -> None:
    node = NodeRecord("n1", "h100-8", {"leaf": "l1"}, labels={DEAD_RAILS: "8"})
    inventory = make_inventory({"leaf": 1, "node": 1})
    built = build(replace(inventory, nodes=(node,)))
    assert built.topology.dead_rails == {}
    assert any("rails 0 to 7" in warning for warning in built.warnings)


def test_healthy_nodes_come_first_where_places_are_equal() -> None:
    world = world_with({"n001": "3", "n002": "5"})
    assert nodes_of(world.topology, placed(world, gang(8, 1, 2))) == ["n003", "n004"]
    assert count_by(world.topology, placed(world, gang(8, 1, 4)), "leaf") == {"l2": 4}


def test_a_gang_on_one_node_does_not_care() -> None:
    world = world_with({"n001": "3"})
    spec = gang(8, rails_required=True)
    occupy(world, "n002")
    assert isinstance(place(world.trial, spec), Placement)
    assert nodes_of(world.topology, placed(world, gang(8))) == ["n001"]


def test_nodes_that_lost_the_same_rail_are_better_than_nodes_that_lost_one_each() -> None:
    """Each leaf has three free nodes with a dead rail; in the second it is the same one."""
    world = world_with(
        {"n001": "0", "n002": "1", "n003": "2", "n005": "4", "n006": "4", "n007": "4"}
    )
    occupy(world, "n004")
    occupy(world, "n008")
    found = placed(world, gang(8, 1, 3))
    assert count_by(world.topology, found, "leaf") == {"l2": 3}


def test_required_rails_are_never_dead() -> None:
    world = world_with({"n001": "3", "n005": "1"}, nodes=3)
    spec = gang(8, 1, 4, rails_required=True)
    assert set(nodes_of(world.topology, placed(world, spec))) == {"n002", "n003", "n004", "n006"}
    verdict = place(world.trial, gang(8, 1, 6, rails_required=True))
    assert isinstance(verdict, NoFit)
    assert verdict.set_aside == {"dead_rails": 2}
    assert "whose rail works" in verdict.message
    assert never_fits(gang(8, 1, 6, rails_required=True), world.topology) is not None
    assert len(placed(world, gang(8, 1, 6)).pods) == 6


def test_half_a_node_with_a_dead_rail_has_the_other_half() -> None:
    world = world_with({"n001": "1"}, leaves=1, nodes=2)
    found = placed(world, gang(4, 1, 2, gpus_per_pod=4, rails_required=True))
    assert [pod.gpu_mask for pod in found.pods] == [0xF0, 0xF0]


@pytest.mark.parametrize("members", [2, 8])
def test_members_of_a_role_keep_off_dead_rails_unless_one_node_holds_them(members: int) -> None:
    world = world_with({"n001": "0"}, leaves=1, nodes=3)
    for name in ("n002", "n003"):
        occupy(world, name, 0x01)
    spec = role_gang(role("m", members, gpus=2), rails_required=True)
    names = set(nodes_of(world.topology, placed(world, spec)))
    assert len(names) == 1 if members == 2 else "n001" in names
    if members == 8:
        used = [p.gpu_mask for p in placed(world, spec).pods if p.node_index == 0]
        assert not any(mask & 1 for mask in used)


def test_pods_of_half_nodes_all_have_the_same_gpus_where_that_costs_no_leaf() -> None:
    """Upper halves are free on four nodes, lower halves on two: only the upper ones hold all."""
    world = world_with({}, leaves=1, nodes=6)
    for name in ("n001", "n002"):
        occupy(world, name, 0xF0)
    for name in ("n003", "n004", "n005", "n006"):
        occupy(world, name, 0x0F)
    found = placed(world, gang(4, 1, 4, gpus_per_pod=4))
    assert {pod.gpu_mask for pod in found.pods} == {0xF0}


def test_a_rail_that_dies_is_avoided_from_the_next_decision_on_and_used_when_it_is_back() -> None:
    world = world_with({})
    assert nodes_of(world.topology, placed(world, gang(8, 1, 2))) == ["n001", "n002"]
    world.set_dead_rails({"n001": 1 << 3, "n002": 1 << 3})
    assert nodes_of(world.topology, placed(world, gang(8, 1, 2))) == ["n003", "n004"]
    world.set_dead_rails({"n001": 0, "n002": 0})
    assert world.dead_rails == {}
    assert nodes_of(world.topology, placed(world, gang(8, 1, 2))) == ["n001", "n002"]


def test_a_rail_that_dies_is_priced_and_refused_where_rails_are_required() -> None:
    world = world_with({}, leaves=1, nodes=3)
    required, spec = gang(8, 1, 3, rails_required=True), gang(8, 1, 3)
    before = placed(world, spec)
    assert len(placed(world, required).pods) == 3
    world.set_dead_rails({"n002": 1})
    verdict = place(world.trial, required)
    assert isinstance(verdict, NoFit)
    assert verdict.set_aside == {"dead_rails": 1}
    after = placed(world, spec)
    assert after.predicted_s is not None
    assert before.predicted_s is None or after.predicted_s > before.predicted_s
    assert never_fits_in(world.emptied(), required) is None


def test_rails_of_the_label_stay_dead_whatever_else_is_learnt() -> None:
    world = world_with({"n001": "0"})
    world.set_dead_rails({"n001": 1 << 5})
    assert world.table.dead_rails == {0: 0b10_0001}
    world.set_dead_rails({"n001": 0})
    assert world.table.dead_rails == {0: 1}


def test_dead_rails_stay_with_their_nodes_when_the_map_changes() -> None:
    world = world_with({})
    world.set_dead_rails({"n003": 2, "n999": 1, "n001": 1 << 60})
    wider = world_with({}, leaves=3).topology
    world.set_topology(wider)
    assert world.table.dead_rails == {wider.node_index["n003"]: 2}
    assert twin(world).table.dead_rails == world.table.dead_rails


@given(
    steps=st.lists(
        st.dictionaries(st.sampled_from(["n001", "n002", "n005", "n006"]), st.integers(0, 255)),
        max_size=4,
    ),
    required=st.booleans(),
    half=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_rails_learnt_one_by_one_give_what_labels_would(
    steps: list[dict[str, int]], required: bool, half: bool
) -> None:
    spec = gang(4 if half else 8, 1, 3, gpus_per_pod=4 if half else 8, rails_required=required)
    world, dead = world_with({}), dict[str, int]()
    for step in steps:
        place(world.trial, spec)
        world.set_dead_rails(step)
        dead |= step
    labels = {
        name: "_".join(str(rail) for rail in range(8) if mask >> rail & 1)
        for name, mask in dead.items()
        if mask
    }
    assert place(world.trial, spec) == place(world_with(labels).trial, spec)
