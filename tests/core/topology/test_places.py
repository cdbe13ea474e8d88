"""Domains that lie in two parents, and places that some nodes leave open."""

from scheduler.model.node import Inventory, NodeRecord
from scheduler.topology.build import Built, build
from tests.builders import make_node, make_type
from tests.core.topology.regular import check_regular

LEVELS = ("block", "leaf", "rack", "node")


def built(*nodes: NodeRecord, levels: tuple[str, ...] = LEVELS) -> Built:
    node_type = make_type()
    result = build(Inventory("test", levels, "node", {node_type.name: node_type}, nodes))
    check_regular(result.topology)
    return result


def places(result: Built) -> dict[str, dict[str, str | None]]:
    topology = result.topology
    return {node.name: topology.domains_of(i) for i, node in enumerate(topology.nodes)}


def place(result: Built, node: str) -> tuple[str | None, ...]:
    return tuple(places(result)[node].values())


def test_one_contradictory_rack_does_not_lose_the_rest_of_the_map() -> None:
    """Rack r2 is in two NVLink domains: it is left out, the domains stay whole."""
    result = built(
        *(make_node(f"a{i}", rack="r1", domain="A") for i in range(2)),
        *(make_node(f"b{i}", rack="r2", domain="B") for i in range(2)),
        *(make_node(f"b{i}", rack="r2", domain="C") for i in range(2, 4)),
        levels=("domain", "rack", "node"),
    )
    assert places(result) == {
        "a0": {"domain": "A", "rack": "r1"},
        "a1": {"domain": "A", "rack": "r1"},
        "b0": {"domain": "B", "rack": None},
        "b1": {"domain": "B", "rack": None},
        "b2": {"domain": "C", "rack": None},
        "b3": {"domain": "C", "rack": None},
    }
    (warning,) = result.warnings
    assert warning.startswith(
        "rack 'r2' is in domain 'B' (nodes 'b0', 'b1') and 'C' (nodes 'b2', 'b3')"
    )


def test_contradiction_is_gone_once_the_map_is_corrected() -> None:
    result = built(
        *(make_node(f"b{i}", rack="r2", domain="B") for i in range(4)),
        levels=("domain", "rack", "node"),
    )
    assert result.warnings == ()
    assert result.topology.levels[1].names == ("r2",)


def test_contradiction_names_the_innermost_level_that_disagrees() -> None:
    result = built(
        make_node("n1", block="b1", leaf="l1", rack="r1"),
        make_node("n2", block="b2", leaf="l2", rack="r1"),
    )
    (warning,) = result.warnings
    assert "rack 'r1' is in leaf 'l1' (node 'n1') and 'l2' (node 'n2')" in warning
    assert place(result, "n2") == ("b2", "l2", None)


def test_contradiction_shows_three_parents_at_most() -> None:
    result = built(*(make_node(f"n{i}", leaf=f"l{i}", rack="r1") for i in range(6)))
    assert "'l2' (node 'n2') and 3 more; a rack lies in one leaf" in result.warnings[0]


def test_leaf_in_two_blocks_takes_only_the_racks_that_are_torn_with_it() -> None:
    result = built(
        make_node("n1", block="b1", leaf="l1", rack="r1"),
        make_node("n2", block="b2", leaf="l1", rack="r2"),
        make_node("n3", block="b2", leaf="l1", rack="r3"),
        make_node("n4", block="b1", leaf="l1", rack="r3"),
    )
    assert place(result, "n1") == ("b1", None, "r1")
    assert place(result, "n2") == ("b2", None, "r2")
    assert place(result, "n3") == ("b2", None, None)
    assert [warning.split(" is in ")[0] for warning in result.warnings] == [
        "leaf 'l1'",
        "rack 'r3'",
    ]


def test_left_out_parent_still_counts_as_another_one() -> None:
    """Leaf l1 is torn between blocks; rack r1, in l1 and l2, must not end up in l2 for that."""
    result = built(
        make_node("n1", block="b1", leaf="l1", rack="r1"),
        make_node("n2", block="b1", leaf="l2", rack="r1"),
        make_node("n3", block="b2", leaf="l1", rack="r3"),
    )
    assert place(result, "n1") == ("b1", None, None)
    assert place(result, "n2") == ("b1", "l2", None)


def test_open_outer_place_is_taken_from_the_rest_of_the_domain() -> None:
    result = built(
        make_node("n1", block="b1", leaf="l1", rack="r1"),
        make_node("n2", block="b1", leaf=None, rack="r1"),
        make_node("n3", rack="r1"),
    )
    assert place(result, "n2") == place(result, "n3") == ("b1", "l1", "r1")
    assert result.warnings == (
        "node 'n3' named no block; taken as 'b1', where the rest of rack 'r1' is",
        "nodes 'n2', 'n3' named no leaf; taken as 'l1', where the rest of rack 'r1' is",
    )


def test_open_place_is_not_filled_from_a_domain_that_was_left_out() -> None:
    result = built(
        make_node("n1", block="b1", leaf="l1", rack="r1"),
        make_node("n2", block="b1", leaf="l2", rack="r1"),
        make_node("n3", block="b1", leaf=None, rack="r1"),
    )
    assert place(result, "n3") == ("b1", None, None)
    assert len(result.warnings) == 1


def test_open_place_is_not_filled_with_a_domain_that_was_left_out() -> None:
    result = built(
        make_node("n1", block="b1", leaf="l1", rack="r1"),
        make_node("n2", block="b2", leaf="l1", rack="r2"),
        make_node("n3", block="b1", leaf=None, rack="r1"),
    )
    assert place(result, "n3") == ("b1", None, "r1")
    assert len(result.warnings) == 1


def test_filled_place_reaches_domains_further_in() -> None:
    """Rack r1 tells that leaf l1 is in block b1, so node n3 of l1 is in b1 too."""
    result = built(
        make_node("n1", block="b1", leaf=None, rack="r1"),
        make_node("n2", block=None, leaf="l1", rack="r1"),
        make_node("n3", block=None, leaf="l1", rack="r2"),
    )
    assert {place(result, name)[:2] for name in ("n1", "n2", "n3")} == {("b1", "l1")}


def test_fill_that_shows_a_contradiction_is_taken_back() -> None:
    """Racks r1 and r2 put leaf l1 into blocks b1 and b2; no node of r3 may follow either."""
    result = built(
        make_node("n1", block="b1", leaf=None, rack="r1"),
        make_node("n2", block=None, leaf="l1", rack="r1"),
        make_node("n3", block="b2", leaf=None, rack="r2"),
        make_node("n4", block=None, leaf="l1", rack="r2"),
        make_node("n5", block=None, leaf="l1", rack="r3"),
    )
    assert place(result, "n2") == ("b1", None, "r1")
    assert place(result, "n4") == ("b2", None, "r2")
    assert place(result, "n5") == (None, None, "r3")
    assert result.warnings[0].startswith("leaf 'l1' is in block 'b1' (nodes 'n1', 'n2') and 'b2'")


def test_record_alone_follows_its_siblings_whatever_order_they_come_in() -> None:
    nodes = (
        make_node("n1", block="b1", leaf="l1", rack="r1"),
        make_node("n2", block="b2", leaf="l1", rack="r2"),
        make_node("n3", block=None, leaf=None, rack="r2"),
    )
    forwards, backwards = built(*nodes), built(*reversed(nodes))
    assert forwards == backwards
