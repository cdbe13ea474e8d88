"""What a request says of its sender: a token in a header or a cookie, read and not believed yet."""

import base64
import binascii
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from scheduler.errors import Problem, SchedulerError

COOKIE, SECURE_COOKIE = "podyard_session", "__Host-podyard_session"
"""Of a browser's session; browsers take the second kind over TLS alone, and from nobody else."""

HEADER_BYTES_MAX = 8_192
"""Of an `Authorization` header; tokens of identity providers that hold many groups are long."""

_COOKIE = re.compile(rf"(?:^|;)\s*({COOKIE}|{SECURE_COOKIE})=([0-9A-Za-z_]{{1,100}})(?=\s*(?:;|$))")

_WAYS = "send `Authorization: Bearer TOKEN`, or any name with the token as its password"


class Unauthenticated(SchedulerError):
    """Nobody known: no token, a wrong one, or one that is over."""

    def __init__(self, why: str) -> None:
        super().__init__(Problem("Authorization", f"{why}; {_WAYS}"))


@dataclass(frozen=True, slots=True)
class Credentials:
    """A token that somebody sent.

    Attributes:
        is_cookie: A browser's, which sends it with all its requests.
    """

    text: str = field(repr=False)
    is_cookie: bool = False


def read_credentials(headers: Iterable[tuple[bytes, bytes]]) -> Credentials | None:
    """The token of a request; None if it has none.

    A header goes before a cookie, as somebody wrote it for this request.

    Raises:
        Unauthenticated: If the header cannot be read.
    """
    given, cookies = [], []
    for name, value in headers:
        if name == b"authorization":
            given.append(value)
        elif name == b"cookie":
            cookies.append(value)
    if len(given) > 1:
        raise Unauthenticated(f"found {len(given)} of these headers, one is allowed")
    if given:
        return Credentials(_of_header(given[0]))
    for value in cookies:
        found = _COOKIE.search(value.decode("latin-1"))
        if found is not None:
            return Credentials(found[2], is_cookie=True)
    return None


def _of_header(value: bytes) -> str:
    if len(value) > HEADER_BYTES_MAX:
        raise Unauthenticated(f"found {len(value)} bytes; at most {HEADER_BYTES_MAX} are read")
    scheme, _, rest = value.decode("latin-1").partition(" ")
    rest = rest.strip()
    if scheme.lower() == "bearer":
        return rest
    if scheme.lower() == "basic":
        return _password(rest)
    raise Unauthenticated("found another scheme than Bearer and Basic")


def _password(text: str) -> str:
    try:
        decoded = base64.b64decode(text, validate=True).decode("latin-1")
    except (binascii.Error, ValueError):
        raise Unauthenticated("what follows Basic is not base64") from None
    _, colon, password = decoded.partition(":")
    if not colon:
        raise Unauthenticated("what follows Basic has no ':' between name and password")
    return password
