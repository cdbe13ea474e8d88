"""The form of tokens."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.auth.tokens import LENGTH, SESSION, digest_of, is_same, make_token, read_id

LETTERS = string.ascii_letters + string.digits + "_"


def test_token_begins_with_its_id_and_is_its_own_digest() -> None:
    made = make_token()
    assert made.text.startswith(f"{made.id}_")
    assert made.id.startswith("pyd_")
    assert len(made.text) == LENGTH
    assert read_id(made.text) == made.id
    assert is_same(made.digest, made.text)
    assert make_token(SESSION).id.startswith("pys_")


def test_new_token_does_not_show_its_secret_where_it_is_printed() -> None:
    made = make_token()
    assert made.text not in repr(made)


def test_token_is_never_made_twice() -> None:
    assert len({make_token().text for _ in range(200)}) == 200


@given(st.integers(0, LENGTH - 1), st.sampled_from(LETTERS))
def test_token_with_one_other_letter_is_none(at: int, letter: str) -> None:
    made = make_token()
    changed = made.text[:at] + letter + made.text[at + 1 :]
    if changed == made.text:
        return
    assert read_id(changed) is None
    assert not is_same(made.digest, changed)


@given(st.text(max_size=80))
def test_text_that_is_no_token_is_refused_by_its_form(text: str) -> None:
    assert read_id(text) is None


@pytest.mark.parametrize("text", ["", "pyd_", "pyd_" + "a" * 47, "x" * 100_000, "pyd_é" + "a" * 46])
def test_malformed_token_is_none(text: str) -> None:
    assert read_id(text) is None


@given(st.text())
def test_digest_is_64_hexadecimal_digits_of_any_text(text: str) -> None:
    encodable = text.encode("utf-8", "ignore").decode()
    assert len(digest_of(encodable)) == 64
