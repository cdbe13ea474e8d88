import time
from dataclasses import replace

import pytest

from scheduler.errors import InventoryError
from scheduler.model.node import FabricLevel, Inventory, NodeRecord, RackRecord
from scheduler.topology.build import WARNINGS_MAX, build
from tests.builders import (
    make_cluster,
    make_inventory,
    make_node,
    make_topology,
    make_tree,
    make_type,
)
from tests.core.topology.regular import check_regular

LEVELS = ("block", "leaf", "rack", "node")


def inventory_of(*nodes: NodeRecord, levels: tuple[str, ...] = LEVELS) -> Inventory:
    node_type = make_type()
    return Inventory("test", levels, "node", {node_type.name: node_type}, nodes)


def names(inventory: Inventory, level: str) -> tuple[str, ...]:
    topology = build(inventory).topology
    return topology.levels[topology.level_index[level]].names


def test_build_makes_a_range_of_nodes_for_every_domain() -> None:
    topology = make_cluster(racks=2, nodes_per_rack=3, leaves=2)
    check_regular(topology)
    block, leaf, rack, node = topology.levels
    assert block.names == ("b1",)
    assert (leaf.node_lo, leaf.node_hi) == ((0, 6), (6, 12))
    assert (rack.child_lo, rack.child_hi) == ((0, 3, 6, 9), (3, 6, 9, 12))
    assert rack.parent == (0, 0, 1, 1)
    assert node.names[:2] == ("n001", "n002")


def test_build_orders_domains_and_nodes_by_the_numbers_in_their_names() -> None:
    inventory = inventory_of(
        make_node("n10", block="b1", leaf="l10", rack="r1"),
        make_node("n9", block="b1", leaf="l10", rack="r1"),
        make_node("n11", block="b1", leaf="l2", rack="r2"),
    )
    assert names(inventory, "leaf") == ("l2", "l10")
    assert names(inventory, "node") == ("n11", "n9", "n10")


def test_build_sorts_a_domain_within_its_parent_first() -> None:
    inventory = inventory_of(
        make_node("n1", block="b2", leaf="l1", rack="r1"),
        make_node("n2", block="b1", leaf="l2", rack="r2"),
    )
    assert names(inventory, "leaf") == ("l2", "l1")


def test_build_lets_levels_have_domains_of_the_same_name() -> None:
    inventory = inventory_of(make_node("x", block="x", leaf="x", rack="x"))
    check_regular(build(inventory).topology)
    assert names(inventory, "leaf") == ("x",)


def test_node_without_a_rack_gets_a_blank_one_of_its_own_behind_the_named() -> None:
    inventory = inventory_of(
        make_node("n1", block="b1", leaf="l1", rack=None),
        make_node("n2", block="b1", leaf="l1", rack="r1"),
        make_node("n3", block="b1", leaf="l1"),
    )
    built = build(inventory)
    check_regular(built.topology)
    rack = built.topology.levels[2]
    assert rack.names == ("r1", "", "")
    assert built.topology.domains_of(1) == {"block": "b1", "leaf": "l1", "rack": None}
    assert built.warnings == ()


def test_domain_without_a_parent_gets_a_blank_one_for_all_its_nodes() -> None:
    inventory = inventory_of(
        *(make_node(f"n{i}", block="b1", leaf=None, rack=f"r{i // 2}") for i in range(4))
    )
    topology = build(inventory).topology
    check_regular(topology)
    leaf = topology.levels[1]
    assert leaf.names == ("", "")
    assert (leaf.node_lo, leaf.node_hi) == ((0, 2), (2, 4))


def test_node_without_any_place_has_a_branch_of_its_own() -> None:
    inventory = inventory_of(make_node("n1"), make_node("n2"), make_node("n3", block="b1"))
    topology = build(inventory).topology
    check_regular(topology)
    assert topology.levels[0].names == ("b1", "", "")
    assert topology.blanks == (True, True, True, False)


def test_build_takes_an_inventory_without_nodes() -> None:
    topology = build(inventory_of()).topology
    check_regular(topology)
    assert topology.node_count == 0
    assert topology.place == ((), (), (), ())


def test_build_takes_an_inventory_of_nodes_alone() -> None:
    topology = build(inventory_of(make_node("n2"), make_node("n1"), levels=("node",))).topology
    check_regular(topology)
    assert topology.levels[0].parent == (0, 0)


def test_build_keeps_racks_fabric_and_scale_up() -> None:
    inventory = replace(
        make_inventory({"rack": 2, "node": 2}, scale_up="rack"),
        racks=(RackRecord("r02", 45_000, "cdu-1"), RackRecord("r01")),
        fabric={"rack": FabricLevel(400.0)},
    )
    built = build(inventory)
    assert list(built.topology.racks) == ["r01", "r02"]
    assert built.topology.fabric == {"rack": FabricLevel(400.0)}
    assert built.topology.scale_up_level(make_type()) == "rack"
    assert built.topology.scale_up_level(make_type(scale_up="node")) == "node"
    assert built.warnings == ()


def test_build_warns_of_racks_without_nodes() -> None:
    inventory = replace(
        make_inventory({"rack": 1, "node": 2}),
        racks=tuple(RackRecord(f"r{i}") for i in (1, 10, 9, 8, 7)),
    )
    built = build(inventory)
    assert built.warnings == ("racks 'r1', 'r7', 'r8' and 2 more without nodes",)
    assert len(built.topology.racks) == 5


def test_build_leaves_unknown_nodes_out_of_sets_with_a_warning() -> None:
    inventory = replace(
        make_inventory({"rack": 1, "node": 2}),
        sets={"ups": {"a": ("n002", "n001"), "b": ("n001", "gone")}},
    )
    built = build(inventory)
    assert built.topology.sets == {"ups": {"a": ("n001", "n002"), "b": ("n001",)}}
    assert built.warnings == ("set ups 'b': node 'gone' not in the inventory; left out",)


def test_build_hands_on_the_warnings_of_the_inventory_first() -> None:
    inventory = replace(
        make_inventory({"rack": 1, "node": 1}), warnings=("seen",), racks=(RackRecord("r9"),)
    )
    assert build(inventory).warnings == ("seen", "rack 'r9' without nodes")


def test_build_says_how_many_warnings_it_does_not_show() -> None:
    many = tuple(f"warning {i}" for i in range(WARNINGS_MAX + 5))
    warnings = build(replace(inventory_of(), warnings=many)).warnings
    assert warnings == (*many[:WARNINGS_MAX], "and 5 warnings more")


def test_build_refuses_a_node_that_comes_twice() -> None:
    with pytest.raises(InventoryError, match="node 'n1' comes twice"):
        build(inventory_of(make_node("n1"), make_node("n1")))


def test_build_refuses_a_type_that_is_not_described() -> None:
    with pytest.raises(InventoryError, match="node 'n1' is of type 'abacus', which is not among"):
        build(inventory_of(make_node("n1", "abacus"), make_node("n2", "abacus")))


def test_build_refuses_a_type_whose_scale_up_level_is_missing_and_tells_how_to_name_it() -> None:
    node_type = make_type("tray", scale_up="cabinet")
    with pytest.raises(InventoryError) as caught:
        make_topology([make_node("n1", node_type)], node_type)
    (problem,) = caught.value.problems
    assert problem.path == "node_types.tray.scale_up"
    assert "'cabinet', which is not among the levels block, leaf, rack, node" in problem.message
    assert "node_types: {tray: {scale_up:" in problem.message


@pytest.mark.parametrize("levels", [(), ("rack",), ("node", "rack")])
def test_build_refuses_levels_that_do_not_end_in_the_nodes(levels: tuple[str, ...]) -> None:
    with pytest.raises(InventoryError, match="the last level is 'node'"):
        build(Inventory("test", levels, "node", {}, ()))


def test_build_refuses_levels_that_come_twice_or_are_unknown_elsewhere() -> None:
    inventory = Inventory(
        "test", ("rack", "rack", "node"), "row", {}, (), fabric={"spine": FabricLevel(1.0)}
    )
    with pytest.raises(InventoryError) as caught:
        build(inventory)
    assert [problem.path for problem in caught.value.problems] == [
        "levels",
        "scale_up",
        "fabric.levels",
    ]


def test_make_cluster_leaves_out_levels_that_are_not_asked_for() -> None:
    topology = make_cluster(racks=3, nodes_per_rack=2, levels=("rack", "node"), gpus=4)
    check_regular(topology)
    assert topology.level_names == ("rack", "node")
    assert topology.types[0].gpus == 4


def test_make_tree_names_domains_after_their_level() -> None:
    topology = make_tree({"supernode": 2, "cabinet": 3, "node": 2}, scale_up="supernode")
    check_regular(topology)
    assert topology.levels[0].names == ("s1", "s2")
    assert topology.levels[1].names[-1] == "c6"
    assert topology.scale_up == "supernode"


@pytest.mark.slow
def test_hundred_thousand_nodes_are_built_in_seconds() -> None:
    inventory = make_inventory({"block": 10, "leaf": 10, "rack": 125, "node": 8})
    start = time.perf_counter()
    topology = build(inventory).topology
    assert time.perf_counter() - start < 10
    check_regular(topology)
