import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.errors import InventoryError
from scheduler.importers.hostlist import NAMES_MAX, compress, expand


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n[1-3]", ["n1", "n2", "n3"]),
        ("n[001-003]", ["n001", "n002", "n003"]),
        ("n[08-11]", ["n08", "n09", "n10", "n11"]),
        ("n[98-101]", ["n98", "n99", "n100", "n101"]),
        ("n[01-02,7,010]", ["n01", "n02", "n7", "n010"]),
        ("n[1,3-4]x[0-1]", ["n1x0", "n1x1", "n3x0", "n3x1", "n4x0", "n4x1"]),
        ("r[1-2][3-4]", ["r13", "r14", "r23", "r24"]),
        ("[1-2]n.example.org", ["1n.example.org", "2n.example.org"]),
        ("a, b[2-3] ,\n c", ["a", "b2", "b3", "c"]),
        ("n[1-2],n1", ["n1", "n2", "n1"]),
    ],
)
def test_hostlist_expands_in_the_order_written(text: str, names: list[str]) -> None:
    assert expand(text) == names


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "expected a name at position 1, found the end"),
        ("  ", "expected a name at position 3, found the end"),
        ("n[1-2", "the bracket at position 2 is not closed"),
        ("n[", "expected a number at position 3, found the end"),
        ("n[]", "expected a number at position 3, found ']'"),
        ("n[1,]", "expected a number at position 5, found ']'"),
        ("n[a-b]", "expected a number at position 3, found 'a'"),
        ("n[-3]", "expected a number at position 3, found '-'"),
        ("n[1-]", "expected ',', '-' or ']' at position 4, found '-'"),
        ("n[1-2-3]", "expected ',', '-' or ']' at position 6, found '-'"),
        ("n[1[2]]", "expected ',', '-' or ']' at position 4, found '['"),
        ("n[1 - 2]", "expected ',', '-' or ']' at position 4, found ' '"),
        ("n]", "expected a comma between names at position 2, found ']'"),
        ("a b", "expected a comma between names at position 3, found 'b'"),
        (",a", "expected a name at position 1, found ','"),
        ("a,,b", "expected a name at position 3, found ','"),
        ("a,", "expected a name at position 3, found the end"),
        ("n[5-3]", "the range '5-3' at position 3 ends before it starts"),
        ("n[010-2]", "the range '010-2' at position 3 ends before it starts"),
        ("n[001-10]", "the range '001-10' at position 3 has ends of different width"),
        ("n[1-010]", "the range '1-010' at position 3 has ends of different width"),
        ("n[1234567890123456789]", "expected ',', '-' or ']' at position 21, found '9'"),
    ],
)
def test_hostlist_refuses_malformed_text_with_the_position(text: str, problem: str) -> None:
    with pytest.raises(InventoryError) as caught:
        expand(text)
    assert str(caught.value).startswith(f"hostlist '{text}'")
    assert problem in str(caught.value)


def test_hostlist_of_too_many_names_is_refused_at_once() -> None:
    start = time.perf_counter()
    with pytest.raises(InventoryError, match="stands for 100000000 names; at most 200000 are"):
        expand("n[00000001-100000000]")
    with pytest.raises(InventoryError, match="stands for more than 10\\^15 names"):
        expand("n" + "[0-9]" * 1_000)
    assert time.perf_counter() - start < 2


def test_hostlist_may_stand_for_as_many_names_as_allowed() -> None:
    assert len(expand(f"n[1-{NAMES_MAX}]")) == NAMES_MAX


def test_hostlist_counts_the_names_before_it() -> None:
    assert expand("n[1-3]", limit=5, used=2) == ["n1", "n2", "n3"]
    with pytest.raises(InventoryError, match="stands for 3 names beside 3 before it; at most 5"):
        expand("n[1-3]", limit=5, used=3)


def test_hostlist_refuses_names_that_are_too_long_before_making_them() -> None:
    with pytest.raises(InventoryError, match="has a name of 256 characters; at most 253"):
        expand("x" * 250 + "[1-150000]")


def test_hostlist_shows_the_start_of_a_long_text() -> None:
    with pytest.raises(InventoryError, match=r"hostlist 'a{57}\.\.\.': expected"):
        expand("a" * 100 + "]")


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["n1"], "n1"),
        (["n2", "n1", "n3", "n1"], "n[1-3]"),
        (["n8", "n9", "n10", "n11"], "n[8-11]"),
        (["n08", "n09", "n10", "n100"], "n[08-10,100]"),
        (["n1", "n01", "n2", "n02"], "n[01-02,1-2]"),
        (["n0", "n1", "n00"], "n[0-1,00]"),
        (["r1n1", "r1n2", "r2n1", "r2n2"], "r[1-2]n[1-2]"),
        (["r1n1", "r1n2", "r2n1"], "r1n[1-2],r2n1"),
        (["gpu", "a1b", "a2b"], "a[1-2]b,gpu"),
        (["n12345678901234567890", "n12345678901234567891"], None),
    ],
)
def test_compress_folds_numbers_into_ranges(names: list[str], text: str | None) -> None:
    assert compress(names) == (text if text is not None else ",".join(names))


def names() -> st.SearchStrategy[str]:
    part = st.one_of(st.sampled_from(("n", "r", "-", "gpu")), st.integers(0, 120).map(str))
    padded = st.tuples(st.integers(0, 40), st.integers(1, 4)).map(lambda p: f"{p[0]:0{p[1]}d}")
    return st.lists(st.one_of(part, padded), min_size=1, max_size=5).map("".join)


@settings(deadline=None)
@given(st.lists(names(), max_size=30))
def test_expanding_a_compressed_list_gives_its_names_once_each(given_names: list[str]) -> None:
    text = compress(given_names)
    expanded = expand(text) if text else []
    assert sorted(expanded) == sorted(set(given_names))


@settings(deadline=None)
@given(st.text(alphabet="n01-,[] ", max_size=12))
def test_hostlist_is_expanded_or_refused_whatever_it_is(text: str) -> None:
    try:
        found = expand(text, limit=1_000)
    except InventoryError:
        return
    assert found
    assert all(name and not set(name) & set(",[] ") for name in found)
