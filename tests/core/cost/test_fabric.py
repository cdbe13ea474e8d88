"""Boundaries and speeds of a fabric, stated and by default."""

from dataclasses import replace

import pytest

from scheduler.cost.constants import CONSTANTS
from scheduler.cost.fabric import counting_levels, fabric_for, gpu_nic_gbps
from scheduler.model.node import FabricLevel
from scheduler.topology.build import build
from tests.builders import make_inventory, make_type
from tests.core.cost.yards import yard


def test_links_are_those_of_the_node_and_of_each_tier_of_switches() -> None:
    """400 Gbit/s = 50 GB/s, of which 94 %; leaf uplinks 4:1; nothing is known beyond the block."""
    topology = yard(leaf_uplinks=4.0)
    fabric = fabric_for(topology, topology.kinds[0], CONSTANTS)
    assert fabric.links == ("rail", "leaf", "block")
    one = 1 / (50e9 * CONSTANTS.nic_efficiency)
    assert fabric.s_per_byte == pytest.approx((one, 4 * one, one))
    assert fabric.scale_up_s_per_byte == pytest.approx(1 / (450e9 * CONSTANTS.scale_up_efficiency))


def test_farther_hops_take_longer_and_reach_less_of_the_rate() -> None:
    topology = yard()
    fabric = fabric_for(topology, topology.kinds[0], CONSTANTS)
    assert list(fabric.hop_s) == sorted(set(fabric.hop_s))
    assert fabric.at_nic.tolist() == pytest.approx([0.0, 1.0, 1 / 0.9, 1 / 0.81])


def test_fabric_of_one_map_is_made_once() -> None:
    topology = yard()
    kind = topology.kinds[0]
    assert fabric_for(topology, kind, CONSTANTS) is fabric_for(topology, kind, CONSTANTS)


def test_slower_network_than_nics_counts() -> None:
    topology = yard(gbps=100.0)
    fabric = fabric_for(topology, topology.kinds[0], CONSTANTS)
    assert fabric.s_per_byte[0] == pytest.approx(1 / (12.5e9 * CONSTANTS.nic_efficiency))


def test_gpus_that_share_nics_have_a_part_of_one() -> None:
    half = replace(make_type(gpus=8, rails=4), nic_gbps=400.0)
    assert gpu_nic_gbps(half, CONSTANTS) == 200.0
    assert gpu_nic_gbps(replace(half, rails=8), CONSTANTS) == 400.0


def test_node_that_says_nothing_of_its_links_has_defaults() -> None:
    silent = replace(make_type(rails=0), nic_gbps=0.0, scale_up_gbps=0.0)
    assert gpu_nic_gbps(silent, CONSTANTS) == CONSTANTS.default_nic_gbps
    topology = build(make_inventory({"leaf": 2, "node": 2}, node_type=silent)).topology
    fabric = fabric_for(topology, topology.kinds[0], CONSTANTS)
    assert fabric.links == ("nic", "leaf")
    inside = 1 / (CONSTANTS.default_scale_up_gbps / 8 * 1e9 * CONSTANTS.scale_up_efficiency)
    assert fabric.scale_up_s_per_byte == pytest.approx(inside)


def test_levels_that_count_are_the_stated_ones_and_the_first_switch() -> None:
    inventory = make_inventory({"block": 2, "leaf": 2, "rack": 2, "node": 2})
    stated = build(replace(inventory, fabric={"block": FabricLevel(400.0)})).topology
    names = [stated.levels[d].name for d in counting_levels(stated, 3)]
    assert names == ["leaf", "block"]


def test_every_level_counts_where_nothing_is_known() -> None:
    topology = build(make_inventory({"row": 2, "shelf": 2, "node": 2})).topology
    names = [topology.levels[d].name for d in counting_levels(topology, 2)]
    assert names == ["shelf", "row"]
