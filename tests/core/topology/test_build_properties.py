from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model.node import Inventory, NodeRecord
from scheduler.topology.build import build
from tests.builders import make_type
from tests.core.topology.regular import check_regular

LEVELS = ("zone", "row", "shelf", "node")
OUTER = LEVELS[:-1]


@st.composite
def inventories(draw: st.DrawFn) -> Inventory:
    """A proper tree with some places torn out and some replaced by another domain's name."""
    node_type = make_type()
    count = draw(st.integers(0, 24))
    size = draw(st.integers(1, 4))
    nodes = []
    for index in range(count):
        places: dict[str, str | None] = {
            "shelf": f"s{index // size}",
            "row": f"r{index // (2 * size)}",
            "zone": f"z{index // (4 * size)}",
        }
        for level in OUTER:
            mistake = draw(st.sampled_from(("right",) * 8 + ("open", "absent", "wrong")))
            if mistake == "open":
                places[level] = None
            elif mistake == "absent":
                del places[level]
            elif mistake == "wrong":
                places[level] = f"{level[0]}{draw(st.integers(0, 6))}"
        nodes.append(NodeRecord(f"n{index}", node_type.name, places))
    return Inventory("test", LEVELS, "node", {node_type.name: node_type}, tuple(nodes))


def torn(inventory: Inventory) -> set[tuple[str, str]]:
    """Domains whose own nodes name two domains of one outer level."""
    parents: dict[tuple[str, str, str], set[str]] = {}
    for node in inventory.nodes:
        for depth, level in enumerate(OUTER):
            for outer in OUTER[:depth]:
                name, parent = node.places.get(level), node.places.get(outer)
                if name is not None and parent is not None:
                    parents.setdefault((level, name, outer), set()).add(parent)
    return {(level, name) for (level, name, _), found in parents.items() if len(found) > 1}


@settings(deadline=None)
@given(inventories())
def test_build_is_regular_whatever_the_records_say(inventory: Inventory) -> None:
    check_regular(build(inventory).topology)


@settings(deadline=None)
@given(inventories(), st.integers())
def test_build_does_not_depend_on_the_order_of_the_records(inventory: Inventory, seed: int) -> None:
    nodes = list(inventory.nodes)
    Random(seed).shuffle(nodes)
    assert build(replace(inventory, nodes=tuple(nodes))) == build(inventory)


@settings(deadline=None)
@given(inventories())
def test_node_keeps_every_place_that_nothing_contradicts(inventory: Inventory) -> None:
    """A place is lost only by a domain that a warning names as left out."""
    built = build(inventory)
    topology = built.topology
    for index, node in enumerate(topology.nodes):
        placed = topology.domains_of(index)
        for level in OUTER:
            declared = node.places.get(level)
            if declared is not None and placed[level] != declared:
                assert placed[level] is None
                assert any(w.startswith(f"{level} '{declared}' is in ") for w in built.warnings)


@settings(deadline=None)
@given(inventories())
def test_domain_whose_nodes_name_two_parents_is_in_no_place(inventory: Inventory) -> None:
    topology = build(inventory).topology
    for level, name in torn(inventory):
        assert name not in topology.levels[topology.level_index[level]].names


@settings(deadline=None)
@given(inventories())
def test_proper_part_of_a_map_is_built_as_declared(inventory: Inventory) -> None:
    """Without mistakes there is nothing to warn of and every place is as written."""
    topology = build(inventory).topology
    proper = replace(
        inventory,
        nodes=tuple(
            replace(node, places=topology.domains_of(index))
            for index, node in enumerate(topology.nodes)
        ),
    )
    again = build(proper)
    assert again.warnings == ()
    assert again.topology.levels == topology.levels
    assert again.topology.place == topology.place
