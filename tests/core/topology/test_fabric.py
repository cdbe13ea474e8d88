"""The fabric graph: tiers, the narrowest link, and agreement of a dump with its levels."""

import random

import pytest

from scheduler.importers.fabric_inventory import inventory_of_fabric
from scheduler.importers.ibnetdiscover import read_fabric
from scheduler.importers.options import Options
from scheduler.model.node import FabricLevel, NodeType
from scheduler.topology.build import build
from scheduler.topology.fabric import Fabric, Nic, Trunk, assemble, narrowest
from scheduler.topology.fabric_groups import find_levels
from scheduler.topology.fabric_synthesis import narrowest_between, synthesise
from scheduler.topology.tree import Topology
from tests.builders import make_inventory, make_type
from tests.core.importers.ib_writer import regular_dump
from tests.core.importers.samples import sample


def leaf_spine(*, uplinks: int = 2, gbps: float = 400.0) -> Fabric:
    """Two leaves of two nodes with one NIC each, under one spine."""
    nics = [Nic(f"n{i}", "nic0", f"leaf{i // 2}", gbps, rail=0) for i in range(4)]
    trunks = [Trunk(f"leaf{i}", "spine", (gbps,) * uplinks) for i in range(2)]
    return assemble(nics, trunks)


def make_tray(rails: int) -> NodeType:
    return NodeType(
        "tray", "GPU", rails, rails=rails, rail_of_gpu=tuple(range(rails)), nic_gbps=400.0
    )


def test_switches_stand_in_tiers_above_their_nodes() -> None:
    fabric = leaf_spine()
    assert fabric.tier == {"leaf0": 1, "leaf1": 1, "spine": 2}
    assert fabric.above("leaf0") == ["spine"]
    assert fabric.nodes_of("leaf1") == ["n2", "n3"]


def test_switch_that_no_node_reaches_has_no_tier() -> None:
    fabric = assemble([Nic("n", "a", "leaf", 1.0)], [], switches=["lost"])
    assert fabric.tier == {"leaf": 1, "lost": 0}


def test_one_host_on_a_spine_makes_no_leaf_of_it() -> None:
    nics = [Nic(f"n{i}", "a", f"leaf{i // 8}", 1.0) for i in range(16)]
    trunks = [Trunk(f"leaf{i}", "spine", (1.0,)) for i in range(2)]
    fabric = assemble([*nics, Nic("ufm", "a", "spine", 1.0)], trunks)
    assert fabric.tier["spine"] == 2


def test_cables_of_one_trunk_are_added_up() -> None:
    fabric = assemble([], [Trunk("a", "b", (1.0,)), Trunk("b", "a", (2.0, 3.0))])
    assert sorted(fabric.trunk("a", "b")) == [1.0, 2.0, 3.0]
    assert fabric.trunk("a", "c") == ()


def test_nodes_of_one_leaf_talk_at_the_speed_of_the_slower_nic() -> None:
    nics = [Nic("a", "x", "leaf", 400.0, 0), Nic("b", "y", "leaf", 200.0, 0)]
    found = narrowest(assemble(nics, []), *nics)
    assert found is not None
    assert (found.gbps, found.tier, found.at) == (200.0, 1, "b/y")


def test_uplinks_that_carry_all_leave_the_nic_the_narrowest() -> None:
    fabric = leaf_spine(uplinks=2)
    found = narrowest(fabric, fabric.nics["n0"][0], fabric.nics["n2"][0])
    assert found is not None
    assert (found.gbps, found.tier) == (400.0, 2)


def test_oversubscribed_leaf_is_the_narrowest() -> None:
    """Two NICs below one uplink of the same speed: each gets half of it."""
    fabric = leaf_spine(uplinks=1)
    found = narrowest(fabric, fabric.nics["n0"][0], fabric.nics["n2"][0])
    assert found is not None
    assert (found.gbps, found.tier, found.at) == (200.0, 2, "leaf0")


def test_there_is_no_narrowest_link_without_a_way() -> None:
    nics = [Nic("a", "x", "l1", 1.0, 0), Nic("b", "x", "l2", 1.0, 0)]
    assert narrowest(assemble(nics, []), *nics) is None


# --- rail groups ------------------------------------------------------------------------------


def test_leaves_that_share_their_nodes_are_one_rail_group() -> None:
    nics = [
        Nic(f"n{g}{i}", f"nic{r}", f"g{g}r{r}", 1.0)
        for g in range(2)
        for i in range(3)
        for r in range(4)
    ]
    found = find_levels(assemble(nics, []))
    assert [group.nodes for group in found.groups.values()] == [
        ("n00", "n01", "n02"),
        ("n10", "n11", "n12"),
    ]
    assert [nic.rail for nic in found.fabric.nics["n01"]] == [0, 1, 2, 3]


def test_nics_on_one_switch_are_its_slots() -> None:
    """Two switches with four NICs of each node: eight rails."""
    nics = [Nic(f"n{i}", f"nic{r}", f"leaf{r // 4}", 1.0) for i in range(3) for r in range(8)]
    (group,) = find_levels(assemble(nics, [])).groups.values()
    assert group.rails == tuple(range(8))
    assert group.rail_of["leaf1", 2] == 6


def test_storage_switch_that_all_groups_reach_joins_them_not() -> None:
    nics = [
        Nic(f"n{g}{i}", f"nic{r}", f"g{g}r{r}", 1.0)
        for g in range(4)
        for i in range(3)
        for r in range(2)
    ]
    nics += [Nic(f"n{g}{i}", "store", "storage", 1.0) for g in range(4) for i in range(3)]
    found = find_levels(assemble(nics, []))
    assert sum(bool(group.nodes) for group in found.groups.values()) == 4


def test_groups_under_different_spines_are_in_different_blocks() -> None:
    nics = [Nic(f"n{i}", "a", f"leaf{i}", 1.0) for i in range(4)]
    trunks = [Trunk(f"leaf{i}", f"spine{i // 2}", (1.0,)) for i in range(4)]
    found = find_levels(assemble(nics, trunks))
    assert found.places[1] == {"n0": "spine0", "n1": "spine0", "n2": "spine1", "n3": "spine1"}


def test_fabric_without_nodes_has_no_levels() -> None:
    found = find_levels(assemble([], [Trunk("a", "b", (1.0,))]))
    assert (dict(found.groups), found.places) == ({}, ({},))


# --- synthesis --------------------------------------------------------------------------------


def test_fabric_is_made_of_the_levels_that_are_wider_than_a_node() -> None:
    topology = build(make_inventory({"block": 2, "leaf": 2, "node": 3})).topology
    fabric = synthesise(topology, ("block", "leaf"))
    assert len([s for s in fabric.switches if fabric.tier[s] == 1]) == 4 * 8
    assert len([s for s in fabric.switches if fabric.tier[s] == 2]) == 2
    assert len(fabric.nics) == 12


def test_synthesised_fabric_has_the_stated_oversubscription() -> None:
    inventory = make_inventory({"block": 1, "leaf": 2, "node": 3})
    topology = build(inventory).topology
    object.__setattr__(topology, "fabric", {"leaf": FabricLevel(400), "block": FabricLevel(400, 4)})
    fabric = synthesise(topology)
    found = narrowest_between(fabric, topology, (0, 0), (3, 0))
    assert found is not None
    assert (found.gbps, found.tier) == (100.0, 2)


def test_gpus_of_one_node_talk_over_its_own_links() -> None:
    topology = build(make_inventory({"leaf": 2, "node": 3})).topology
    found = narrowest_between(synthesise(topology), topology, (0, 0), (0, 5))
    assert found is not None
    assert (found.gbps, found.tier) == (3600.0, 0)


def test_gpus_of_one_scale_up_domain_talk_over_its_links() -> None:
    tray = make_type("tray", gpus=4, scale_up="rack")
    inventory = make_inventory({"rack": 2, "node": 3}, node_type=tray, scale_up="rack")
    topology = build(inventory).topology
    fabric = synthesise(topology)
    inside = narrowest_between(fabric, topology, (0, 0), (2, 3))
    outside = narrowest_between(fabric, topology, (0, 0), (3, 0))
    assert inside is not None
    assert (inside.gbps, inside.tier, inside.at) == (3600.0, 0, "r01")
    assert outside is None


def test_gpus_that_share_a_nic_have_an_equal_part_of_it() -> None:
    four = make_type("p4", gpus=8, rails=4)
    object.__setattr__(four, "rail_of_gpu", (0, 0, 1, 1, 2, 2, 3, 3))
    topology = build(make_inventory({"leaf": 1, "node": 2}, node_type=four)).topology
    found = narrowest_between(synthesise(topology), topology, (0, 1), (1, 0))
    assert found is not None
    assert found.gbps == 200.0


def test_node_without_a_place_is_joined_further_out() -> None:
    inventory = make_inventory({"block": 1, "leaf": 2, "node": 2})
    lost = inventory.nodes[0]
    object.__setattr__(lost, "places", {**lost.places, "leaf": None})
    topology = build(inventory).topology
    fabric = synthesise(topology, ("block", "leaf"))
    a, b = topology.node_index["n001"], topology.node_index["n002"]
    found = narrowest_between(fabric, topology, (a, 0), (b, 0))
    assert found is not None
    assert found.tier == 2


# --- a dump and the fabric made of its levels -------------------------------------------------


def partition(fabric: Fabric, level: int) -> set[frozenset[str]]:
    places = find_levels(fabric).places
    groups: dict[str, set[str]] = {}
    for node, domain in places[level].items():
        groups.setdefault(domain, set()).add(node)
    return {frozenset(nodes) for nodes in groups.values()}


def both(text: str, rails: int) -> tuple[Fabric, Fabric, Topology]:
    """The fabric of a dump with its rails, the one made of its levels, and the topology between."""
    options = Options(node_type=make_tray(rails))
    read = read_fabric(text)
    topology = build(inventory_of_fabric(read.fabric, options)).topology
    return find_levels(read.fabric).fabric, synthesise(topology), topology


@pytest.mark.parametrize(
    ("shape", "rails"),
    [
        ({"blocks": 2, "leaf_groups": 2, "nodes": 4, "rails": 4, "uplinks": 2}, 4),
        ({"blocks": 2, "leaf_groups": 3, "nodes": 6, "rails": 8, "uplinks": 1}, 8),
        ({"blocks": 3, "leaf_groups": 2, "nodes": 8, "rails": 1, "uplinks": 2}, 1),
        ({"blocks": 1, "leaf_groups": 4, "nodes": 4, "rails": 2, "uplinks": 1, "cores": 0}, 2),
    ],
)
def test_dump_and_synthesised_fabric_of_one_cluster_agree(
    shape: dict[str, int], rails: int
) -> None:
    """On levels, on rails, and on the narrowest link of 1,000 random pairs of GPUs."""
    dumped, made, topology = both(regular_dump(**shape).text(), rails)
    for level in range(len(topology.levels) - 1):
        assert partition(dumped, level) == partition(made, level)
    for node in dumped.nics:
        assert [n.rail for n in dumped.nics[node]] == [n.rail for n in made.nics[node]]
    draw = random.Random(7)
    for _ in range(1_000):
        a, b = ((draw.randrange(topology.node_count), draw.randrange(rails)) for _ in range(2))
        of_dump = narrowest_between(dumped, topology, a, b)
        of_levels = narrowest_between(made, topology, a, b)
        assert of_dump is not None
        assert of_levels is not None
        assert of_dump.tier == of_levels.tier
        assert of_dump.gbps == pytest.approx(of_levels.gbps)


def test_real_dump_and_its_synthesised_fabric_agree_where_no_cable_is_missing() -> None:
    """On 1,000 pairs: the same tier; less bandwidth only where the dump lacks uplinks."""
    dumped, made, topology = both(sample("topograph/ibnetdiscover-fabric.out"), 4)
    assert partition(dumped, 0) == partition(made, 0)
    draw = random.Random(7)
    nodes = [i for i, found in enumerate(topology.types) if found.gpus]
    compared = 0
    for _ in range(1_000):
        a, b = ((draw.choice(nodes), draw.randrange(4)) for _ in range(2))
        of_dump = narrowest_between(dumped, topology, a, b)
        of_levels = narrowest_between(made, topology, a, b)
        assert of_levels is not None
        if of_dump is not None:  # Some nodes lack a rail, and so a NIC next to that GPU.
            compared += 1
            assert of_dump.tier == of_levels.tier
            assert of_dump.gbps <= of_levels.gbps * 1.001
            if of_dump.at not in dumped.tier:
                assert of_dump.gbps == pytest.approx(of_levels.gbps)
    assert compared > 900
