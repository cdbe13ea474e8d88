"""Trees of switches become levels, whatever is odd about them."""

import pytest

from scheduler.importers.switch_tree import LEVELS_MAX, Aligned, Switch, align, level_names_for
from tests.core.importers.samples import has_words, refusal


def tree(**switches: str) -> list[Switch]:
    """`a="b c"` has children, `b="n1 n2."` has nodes."""
    found = []
    for line, (name, text) in enumerate(switches.items(), 1):
        names = tuple(text.rstrip(".").split())
        of_nodes = text.endswith(".")
        found.append(Switch(name, line, () if of_nodes else names, names if of_nodes else ()))
    return found


def place(aligned: Aligned, node: str) -> list[str | None]:
    return [aligned.places[node][level] for level in aligned.levels]


def test_regular_tree_has_one_level_per_height() -> None:
    aligned = align(tree(top="a b", a="n1 n2.", b="n3."))
    assert aligned.levels == ("block", "leaf")
    assert place(aligned, "n1") == ["top", "a"]
    assert place(aligned, "n3") == ["top", "b"]
    assert aligned.warnings == ()


def test_branch_that_skips_a_level_has_a_domain_of_the_childs_name_there() -> None:
    aligned = align(tree(top="mid short", mid="deep", deep="n1.", short="n2."))
    assert aligned.levels == ("core", "block", "leaf")
    assert place(aligned, "n1") == ["top", "mid", "deep"]
    assert place(aligned, "n2") == ["top", "short", "short"]


def test_tree_without_a_common_root_keeps_its_parts_apart() -> None:
    aligned = align(tree(spine="a b", a="n1.", b="n2.", alone="n3."))
    assert place(aligned, "n3") == ["alone", "alone"]
    assert place(aligned, "n2") == ["spine", "b"]


def test_node_beside_child_switches_is_in_a_leaf_of_the_switchs_name() -> None:
    aligned = align([Switch("top", 1, ("a",), ("n9",)), Switch("a", 2, (), ("n1",))])
    assert place(aligned, "n9") == ["top", "top"]
    assert place(aligned, "n1") == ["top", "a"]


def test_switch_that_lists_all_nodes_below_it_is_not_taken_as_their_leaf() -> None:
    """So prints `scontrol show topology`."""
    aligned = align([Switch("top", 1, ("a",), ("n1", "n2")), Switch("a", 2, (), ("n1", "n2"))])
    assert place(aligned, "n1") == ["top", "a"]
    assert aligned.warnings == ()


def test_spines_with_the_same_children_are_one_domain() -> None:
    aligned = align(tree(s1="a b", s2="a b", a="n1.", b="n2."))
    assert place(aligned, "n1") == ["s1+s2", "a"]
    assert has_words(aligned.warnings, "'a'", "'b'", "'s1' (line 1)", "'s2' (line 2)", "no tree")


def test_switch_in_two_parents_is_left_out_and_only_it() -> None:
    aligned = align(tree(s1="a b", s2="b c", a="n1.", b="n2.", c="n3."))
    assert place(aligned, "n2") == [None, None]
    assert place(aligned, "n1") == ["s1", "a"]
    assert place(aligned, "n3") == ["s2", "c"]
    assert has_words(aligned.warnings, "'b'", "'s1'", "'s2'", "left out")


def test_levels_above_two_parents_are_kept_where_these_agree() -> None:
    aligned = align(tree(root="s1 s2", s1="a b", s2="b c", a="n1.", b="n2.", c="n3."))
    assert place(aligned, "n2") == ["root", None, None]


def test_node_in_two_switches_has_no_leaf_but_a_block() -> None:
    aligned = align(tree(top="a b", a="n1 n2.", b="n2 n3."))
    assert place(aligned, "n2") == ["top", None]
    assert has_words(aligned.warnings, "'n2'", "'a' (line 2)", "'b' (line 3)")


def test_switch_without_nodes_is_left_out_with_a_warning() -> None:
    aligned = align(tree(top="a b", a="n1.", b=""))
    assert place(aligned, "n1") == ["top", "a"]
    assert has_words(aligned.warnings, "'b'", "without nodes")


def test_cycle_of_switches_is_refused_with_its_way() -> None:
    found = refusal(lambda: align(tree(a="b", b="c", c="a")))
    assert has_words(found, "cycle", "'a' (line 1) -> 'b' (line 2) -> 'c' (line 3) -> 'a'")


def test_switch_below_a_cycle_is_refused_too() -> None:
    found = refusal(lambda: align(tree(a="b c", b="a", c="n1.")))
    assert has_words(found, "'a' (line 1) -> 'b' (line 2) -> 'a'")


def test_unknown_child_is_refused_unless_it_may_be_empty() -> None:
    switches = tree(top="a b", a="n1.")
    found = refusal(lambda: align(switches))
    assert has_words(found, "line 1", "'top'", "'b'")
    assert align(switches, unknown_children_are_empty=True).levels == ("block", "leaf")


def test_switch_that_comes_twice_is_refused_with_both_lines() -> None:
    switches = [Switch("a", 3, (), ("n1",)), Switch("a", 7, (), ("n2",))]
    found = refusal(lambda: align(switches))
    assert has_words(found, "line 7", "line 3")


def test_too_deep_a_tree_is_refused() -> None:
    chain = [Switch(f"s{i}", 0, (f"s{i + 1}",)) for i in range(LEVELS_MAX)]
    chain.append(Switch(f"s{LEVELS_MAX}", 0, (), ("n1",)))
    found = refusal(lambda: align(chain))
    assert has_words(found, f"{LEVELS_MAX + 1} levels")


@pytest.mark.parametrize(
    ("count", "wanted", "names"),
    [
        (2, (), ["leaf", "block"]),
        (5, (), ["leaf", "block", "core", "tier-4", "tier-5"]),
        (2, ("tor", "pod"), ["tor", "pod"]),
        (2, ("tor",), ["tor", "tier-2"]),
    ],
)
def test_levels_are_named_from_the_nodes_outwards(
    count: int, wanted: tuple[str, ...], names: list[str]
) -> None:
    assert level_names_for(count, wanted) == names
