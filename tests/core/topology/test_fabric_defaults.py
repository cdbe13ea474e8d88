"""What is assumed of the network when an inventory does not say."""

from dataclasses import replace

from scheduler.model.node import FabricLevel
from scheduler.topology.fabric_defaults import fabric_of
from tests.builders import make_inventory


def test_links_from_the_first_switch_outwards_are_taken_to_be_non_blocking() -> None:
    inventory = make_inventory({"block": 1, "leaf": 2, "rack": 2, "node": 2})
    assert fabric_of(inventory) == {"leaf": FabricLevel(400.0), "block": FabricLevel(400.0)}


def test_nothing_is_assumed_where_no_first_switch_is_named() -> None:
    assert fabric_of(make_inventory({"block": 1, "rack": 2, "node": 2})) == {}


def test_a_stated_fabric_stands() -> None:
    inventory = make_inventory({"leaf": 2, "node": 2})
    stated = {"leaf": FabricLevel(100.0, 2.0)}
    assert fabric_of(replace(inventory, fabric=stated)) == stated
