import json
import time
from contextlib import suppress

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.errors import InventoryError, Problem
from scheduler.importers.plain_values import MAX_DEPTH, MAX_VALUES, Value, resolve, shown
from scheduler.importers.yaml_events import documents
from scheduler.importers.yaml_text import MAX_BYTES, read, read_all


def refusal(text: str | bytes, **limits: int) -> Problem:
    with pytest.raises(InventoryError) as caught:
        read(text, **limits)
    (problem,) = caught.value.problems
    return problem


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12),
        ("-3", -3),
        ("0", 0),
        ("1.5", 1.5),
        ("1.", 1.0),
        (".5", 0.5),
        ("70e9", 70e9),
        ("-1.0e-05", -1e-5),
        ("", None),
        ("~", None),
        ("Null", None),
        ("true", True),
        ("FALSE", False),
        ("012", "012"),
        ("+1", "+1"),
        ("0x1F", "0x1F"),
        ("1_000", "1_000"),
        ("12:30", "12:30"),
        ("2026-12-01", "2026-12-01"),
        ("1.2.3", "1.2.3"),
        ("-", "-"),
        (".", "."),
        ("e5", "e5"),
        ("yes", "yes"),
        ("no", "no"),
        ("on", "on"),
        ("NaN", "NaN"),
        ("Infinity", "Infinity"),
    ],
)
def test_plain_scalar_is_read_as_in_json_and_names_stay_text(text: str, value: Value) -> None:
    found = resolve(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({}, "a mapping"),
        ([[]], "a list"),
        (None, "null"),
        (True, "true"),
        (1.5, "1.5"),
        ("x", "'x'"),
        ("x" * 61, f"'{'x' * 57}...'"),
    ],
)
def test_value_is_shown_short(value: Value, text: str) -> None:
    assert shown(value) == text


def test_yaml_and_json_of_the_same_values_read_alike() -> None:
    value: Value = {"a": [1, 2.5, None, True, "x", {}], "b": {"c": [], "d": "ä"}}
    assert read(json.dumps(value)).value == value
    assert read(yaml.safe_dump(value)).value == value
    assert read(json.dumps(value, indent="\t")).value == value


def test_document_tells_the_line_of_its_lists_and_mappings() -> None:
    document = read("a:\n  - x: 1\n  - x: 2\nb: []\n")
    value = document.value
    assert isinstance(value, dict)
    assert isinstance(value["a"], list)
    assert [document.line_of(item) for item in (value, value["a"], value["a"][1])] == [1, 2, 3]
    assert read('{"a": 1}').line_of({}) is None


def test_bytes_with_a_byte_order_mark_are_read() -> None:
    assert read(b"\xef\xbb\xbfa: \xc3\xa4").value == {"a": "ä"}


def test_quoted_numbers_and_string_tags_stay_text() -> None:
    assert read("""{a: "12", b: '1.5', c: !!str 12, d: ! 7, !!str e: 1}""").value == {
        "a": "12",
        "b": "1.5",
        "c": "12",
        "d": "7",
        "e": 1,
    }


def test_keys_are_text_as_written() -> None:
    assert read("1: a\n007: b\ntrue: c\nnull: d").value == {
        "1": "a",
        "007": "b",
        "true": "c",
        "null": "d",
    }


def test_documents_are_read_one_after_the_other() -> None:
    documents = read_all("a: 1\n---\nb: 2\n---\n- 3\n")
    assert [document.value for document in documents] == [{"a": 1}, {"b": 2}, [3]]
    assert read_all("") == read_all("# nothing\n") == []


def test_single_document_is_asked_for_when_there_are_more_or_none() -> None:
    assert "holds 2 documents; one is expected" in refusal("a: 1\n---\nb: 2").message
    assert "the text is empty" in refusal(" \n").message


def test_alias_stands_for_its_value() -> None:
    assert read("a: &x {n: [1]}\nb: *x\nc: [&y hello, *y]\n&k d: *x").value == {
        "a": {"n": [1]},
        "b": {"n": [1]},
        "c": ["hello", "hello"],
        "d": {"n": [1]},
    }


def test_alias_bomb_is_refused_before_it_goes_off() -> None:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 60)]
    start = time.perf_counter()
    problem = refusal("\n".join(rows))
    assert time.perf_counter() - start < 2
    assert "line 6: the text holds more than 1200000 values" in problem.message
    assert problem.path == "a5[9]"


def test_aliases_do_not_reach_deeper_than_brackets() -> None:
    rows = ["a0: &a0 [x]", *(f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, 100))]
    problem = refusal("\n".join(rows))
    assert problem.path == "a63[0]"
    assert f"more than {MAX_DEPTH} lists and mappings inside one another" in problem.message


@pytest.mark.parametrize("text", ["a: *x", "a: &x [*x]", "a: &x {b: *x}"])
def test_alias_without_a_finished_anchor_is_refused(text: str) -> None:
    assert "the alias '*x' comes before the end of its anchor" in refusal(text).message


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "[" * 100_000 + "]" * 100_000,
        '{"a":' * 100_000,
        '{"a":' * 100_000 + "1" + "}" * 100_000,
        "- " * 100_000,
        "? " * 100_000,
        "\n".join(" " * i + "a:" for i in range(3_000)),
    ],
    ids=["open", "closed", "mappings", "closed-mappings", "dashes", "keys", "indent"],
)
def test_deep_nesting_is_refused_quickly(text: str) -> None:
    start = time.perf_counter()
    message = refusal(text).message
    assert time.perf_counter() - start < 2
    assert "nesting" in message or "inside one another" in message or "a key is plain" in message


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_depth_allowed_is_the_same_in_json_and_yaml(opening: str) -> None:
    closing = "]" if opening == "[" else "}"
    inner = "" if opening == "[" else "1"
    for extra, space in ((0, ""), (0, "\n# yaml\n"), (1, ""), (1, "\n# yaml\n")):
        text = opening * (MAX_DEPTH + extra) + inner + closing * (MAX_DEPTH + extra) + space
        if extra:
            assert "inside one another" in refusal(text).message
        else:
            read(text)


def test_key_that_comes_twice_is_refused_with_both_lines() -> None:
    problem = refusal("a: 1\nb:\n  - x: 1\n    y: 2\n    x: 3\n")
    assert problem == Problem("b[0]", "line 5: the key 'x' comes twice, first in line 3")


def test_key_that_comes_twice_in_json_is_refused_with_both_lines() -> None:
    problem = refusal('{\n\t"a": 1,\n\t"b": {},\n\t"a": 2\n}')
    assert problem == Problem("", "line 4: the key 'a' comes twice, first in line 2")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: {b: [1, .nan]}", Problem("a.b[1]", "line 1: .nan is not allowed; a number is finite")),
        ("a:\n- -.inf", Problem("a[0]", "line 2: -.inf is not allowed; a number is finite")),
        ("a:\n  b: 1e400", Problem("a.b", "line 2: the number 1e400 is out of range")),
        ('{"a": 1e400}', Problem("a", "line 1: the number 1e400 is out of range")),
        ('{"a": "NaN",\n"b": NaN}', Problem("", "line 2: NaN is not allowed; a number is finite")),
        ("[\n-Infinity]", Problem("", "line 2: -Infinity is not allowed; a number is finite")),
        (
            "a: " + "9" * 5_000,
            Problem("a", "line 1: a number has 5000 characters; at most 400 are allowed"),
        ),
        (
            '{"a": ' + "9" * 5_000 + "}",
            Problem("a", "line 1: a number has 5000 characters; at most 400 are allowed"),
        ),
    ],
)
def test_number_that_is_not_finite_is_refused(text: str, problem: Problem) -> None:
    assert refusal(text) == problem


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"a: 1\nb: \xff", "line 2: byte 0xff is not UTF-8 text"),
        ("a: 1".encode("utf-16"), "line 1: byte 0xff is not UTF-8 text"),
        ("a: 1\n\nb: \x00", "line 3: the character U+0000 is not allowed in text"),
        ("a: \ud800", "line 1: the character U+D800 is not allowed in text"),
        ("a:\n\t- b", "line 2: a tab stands where only spaces may; indent with spaces"),
        ("a: [1", "line 2, column 1: did not find expected ',' or ']'"),
        ("a: b: c", "line 1, column 5: mapping values are not allowed in this context"),
        ("a: 'b", "found unexpected end of stream"),
        ('{"a": "\\ud800"}', "found invalid Unicode character escape code"),
        ("a: !!binary aGk=", "line 1: the tag 'tag:yaml.org,2002:binary' is not allowed"),
        ("!!python/name:os.system {}", "line 1: the tag 'tag:yaml.org,2002:python/name:os.sy"),
        ("a: !!int '1'", "line 1: the tag 'tag:yaml.org,2002:int' is not allowed"),
        ("!x a: 1", "line 1: the tag '!x' is not allowed"),
        ("? [a]\n: b", "line 1: a key is plain text, not a list, a mapping or an alias"),
        ("a: &x b\n*x : c", "line 2: a key is plain text, not a list, a mapping or an alias"),
    ],
)
def test_text_that_cannot_be_read_is_refused_with_the_line(text: str | bytes, message: str) -> None:
    assert message in refusal(text).message


def test_character_that_the_parser_refuses_by_itself_is_refused() -> None:
    """`decode` finds it first; a caller of the events alone must not see another error."""
    with pytest.raises(InventoryError, match="not YAML: unacceptable character"):
        list(documents("a: \x01", 10))


def test_tab_between_values_is_allowed() -> None:
    assert read("a:\t1").value == {"a": 1}
    assert read('{"a":\t"😀",\n\t"b": "\\ud83d\\ude00"}').value == {"a": "😀", "b": "😀"}


def test_size_is_counted_in_bytes() -> None:
    assert read("ä" * 5, max_bytes=10).value == "ä" * 5
    assert refusal("ä" * 5, max_bytes=9).message == "the text has 10 bytes; at most 9 are allowed"
    assert "the text has 6 bytes" in refusal(b"aaaaaa", max_bytes=5).message
    assert f"at most {MAX_BYTES} are" in refusal("a" * (MAX_BYTES + 1)).message


def test_number_of_values_is_limited() -> None:
    assert read("[a, b, c]", max_values=4).value == ["a", "b", "c"]
    assert refusal("[a, b, c, d]", max_values=4).path == "[3]"
    assert "more than 4 values" in refusal("[1,2,3,4,5,6]", max_values=2).message
    assert "more than 3 values" in refusal("a: 1\n---\nb: 1", max_values=3).message


def test_too_many_values_of_json_are_refused_at_once() -> None:
    start = time.perf_counter()
    assert "values" in refusal("[" + "[]," * (2 * MAX_VALUES + 1) + "1]").message
    assert time.perf_counter() - start < 2


def test_path_in_a_refusal_is_short() -> None:
    assert len(refusal("{" + "a" * 1_000 + ": [*x]}").path) == 200


def values() -> st.SearchStrategy[Value]:
    scalars = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(10**20), 10**20),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Co", "Cn"))),
    )
    return st.recursive(
        scalars,
        lambda inner: st.one_of(
            st.lists(inner, max_size=4),
            st.dictionaries(st.text("abc~ä1. ", max_size=5), inner, max_size=4),
        ),
        max_leaves=12,
    )


@settings(deadline=None)
@given(values(), st.booleans())
def test_json_is_read_as_it_was_written(value: Value, ascii_only: bool) -> None:
    assert read(json.dumps([value], ensure_ascii=ascii_only)).value == [value]


@settings(deadline=None)
@given(st.text(max_size=60))
def test_text_is_read_or_refused_whatever_it_is(text: str) -> None:
    with suppress(InventoryError):
        read_all(text)


@settings(deadline=None)
@given(st.text(alphabet="{}[]:,-&*!|>'\"#? \n\tab1.", max_size=30))
def test_yaml_like_text_is_read_or_refused(text: str) -> None:
    with suppress(InventoryError):
        read_all(text)
