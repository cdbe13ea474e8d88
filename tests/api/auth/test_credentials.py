"""What a request says of its sender."""

import base64
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.auth.credentials import (
    HEADER_BYTES_MAX,
    Credentials,
    Unauthenticated,
    read_credentials,
)


def basic(text: str) -> bytes:
    return b"Basic " + base64.b64encode(text.encode())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"Bearer abc", "abc"),
        (b"bearer  abc ", "abc"),
        (basic("anna:abc"), "abc"),
        (basic(":a:b"), "a:b"),
    ],
)
def test_token_is_read_from_the_header(value: bytes, text: str) -> None:
    assert read_credentials([(b"authorization", value)]) == Credentials(text)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"Digest abc", "another scheme"),
        (b"", "another scheme"),
        (b"Basic !!", "not base64"),
        (b"Basic YWJj", "no ':'"),
        (b"Bearer " + b"a" * HEADER_BYTES_MAX, "at most 8192 are read"),
    ],
)
def test_header_that_cannot_be_read_is_refused(value: bytes, why: str) -> None:
    with pytest.raises(Unauthenticated, match=why):
        read_credentials([(b"authorization", value)])


def test_two_headers_are_refused() -> None:
    with pytest.raises(Unauthenticated, match="found 2 of these headers"):
        read_credentials([(b"authorization", b"Bearer a"), (b"authorization", b"Bearer b")])


def test_cookie_is_read_among_others_and_goes_behind_the_header() -> None:
    cookie = (b"cookie", b"theme=dark; podyard_session=pys_abc; x=podyard_session=no")
    assert read_credentials([cookie]) == Credentials("pys_abc", is_cookie=True)
    assert read_credentials([cookie, (b"authorization", b"Bearer t")]) == Credentials("t")
    assert read_credentials([(b"cookie", b"my_podyard_session=pys_abc")]) is None
    secure = (b"cookie", b"__Host-podyard_session=pys_abc")
    assert read_credentials([secure]) == Credentials("pys_abc", is_cookie=True)
    assert read_credentials([]) is None


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_no_header_is_an_accident(authorization: bytes, cookie: bytes) -> None:
    with suppress(Unauthenticated):
        read_credentials([(b"authorization", authorization), (b"cookie", cookie)])


def test_credentials_do_not_show_the_token() -> None:
    assert "secret" not in repr(Credentials("secret"))
