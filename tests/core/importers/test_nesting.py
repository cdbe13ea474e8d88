"""Where domains of a second kind fit into known levels."""

from scheduler.importers.nesting import Nested, nest, nesting_warnings, with_level

BLOCKS: list[str | None] = [*("b1",) * 4, *("b2",) * 4]
LEAVES: list[str | None] = ["l1", "l1", "l2", "l2", "l3", "l3", "l4", "l4"]


def test_kind_between_two_levels_is_put_there() -> None:
    kind = ["d1"] * 4 + ["d2"] * 4
    assert nest([["core"] * 8, LEAVES], kind).position == 1


def test_kind_inside_the_innermost_level_is_put_last() -> None:
    kind = [f"d{i}" for i in range(8)]
    assert nest([BLOCKS, LEAVES], kind) == Nested(2)


def test_kind_around_all_levels_is_put_first() -> None:
    assert nest([BLOCKS, LEAVES], ["d"] * 8) == Nested(0)


def test_kind_equal_to_a_level_is_put_inside_it() -> None:
    assert nest([BLOCKS, LEAVES], BLOCKS).position == 1
    assert nest([BLOCKS, LEAVES], LEAVES).position == 2


def test_domain_that_does_not_nest_is_left_out_alone() -> None:
    """d1 and d2 share leaf l2; d3 has leaves of its own."""
    kind = ["d1", "d1", "d1", "d2", "d3", "d3", "d3", "d3"]
    found = nest([LEAVES], kind)
    assert (found.position, found.left_out) == (0, ("d1", "d2"))


def test_kind_of_which_nothing_nests_makes_no_level() -> None:
    kind = ["d1", "d2"] * 4
    assert nest([BLOCKS, LEAVES], kind) == Nested(None, ("d1", "d2"))


def test_node_without_a_domain_loses_the_inner_place_that_others_have_around_theirs() -> None:
    """Else the leaf would take the node into the domain, where nothing says it is."""
    kind = ["d1", None, "d1", "d1", "d2", "d2", "d2", "d2"]
    found = nest([BLOCKS, LEAVES], kind)
    assert (found.position, found.cleared) == (1, (1,))
    columns = with_level({"block": list(BLOCKS), "leaf": list(LEAVES)}, "nvl", list(kind), found)
    assert list(columns) == ["block", "nvl", "leaf"]
    assert columns["leaf"][:3] == [None if i == 1 else leaf for i, leaf in enumerate(LEAVES[:3])]
    assert columns["block"] == BLOCKS


def test_levels_stay_where_nothing_nests() -> None:
    columns = {"leaf": list(LEAVES)}
    assert with_level(columns, "nvl", ["d1", "d2"] * 4, Nested(None, ("d1", "d2"))) == columns


def test_nodes_without_a_place_do_not_tear_a_domain() -> None:
    leaves = ["l1", None, "l1", None]
    assert nest([leaves], ["d1"] * 4).left_out == ()


def test_warnings_name_what_was_left_out() -> None:
    nodes = ["n1", "n2"]
    left_out = nesting_warnings("domain", Nested(1, ("d1",)), nodes, "leaf")
    nowhere = nesting_warnings("domain", Nested(None, ("d1", "d2")), nodes, None)
    cleared = nesting_warnings("domain", Nested(1, (), (1,)), nodes, "leaf")
    assert "'d1'" in left_out[0]
    assert "no level" in nowhere[0]
    assert "'n2'" in cleared[0]
    assert "'leaf'" in cleared[0]
    assert nesting_warnings("domain", Nested(1), nodes, "leaf") == []
