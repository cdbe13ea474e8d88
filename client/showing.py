"""How a client shows who it is, and checks whom it speaks to, in the words of httpx."""

import ssl
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import httpx

from client.access import Access
from client.errors import InputError

TOKEN_BYTES_MAX = 16_384


def auth_of(access: Access) -> httpx.Auth | None:
    """What puts the token into requests; None where there is none.

    Raises:
        InputError: If there is a token that cannot be sent, or a file that cannot be read.
    """
    if access.token:
        return TokenText(access.token)
    return TokenFile(Path(access.token_file)) if access.token_file else None


def verify_of(access: Access) -> ssl.SSLContext | bool:
    """How the service's certificate is checked, and which one is shown.

    Raises:
        InputError: If a file cannot be read or is none.
    """
    if not (access.ca_file or access.cert_file):
        return True
    for name, path in (("--ca-file", access.ca_file), ("--cert-file", access.cert_file)):
        if path and not Path(path).is_file():
            raise InputError(f"{name} {path}: there is no such file")
    try:
        context = ssl.create_default_context(cafile=access.ca_file or None)
        if access.cert_file:
            context.load_cert_chain(access.cert_file, access.key_file or None)
    except (OSError, ValueError) as error:
        files = " ".join(filter(None, (access.ca_file, access.cert_file, access.key_file)))
        raise InputError(f"{files}: no certificates that can be used ({error})") from None
    return context


class TokenText(httpx.Auth):
    """One token, for as long as the client lives.

    Raises:
        InputError: If it has letters that no header has.
    """

    def __init__(self, token: str) -> None:
        self._header = f"Bearer {_checked(token, 'the token')}"

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        request.headers["Authorization"] = self._header
        yield request


class TokenFile(httpx.Auth):
    """A token in a file, read again when the file is another one.

    Raises:
        InputError: If it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int, int] = (0, 0, 0)
        self._header = ""
        self._look()

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        with suppress(InputError):  # while somebody replaces the file the old one may still do
            self._look()
        request.headers["Authorization"] = self._header
        yield request

    def _look(self) -> None:
        try:
            found = self._path.stat()
            stamp = (found.st_mtime_ns, found.st_ino, found.st_size)
            if stamp == self._stamp:
                return
            with self._path.open(encoding="ascii") as file:
                text = file.read(TOKEN_BYTES_MAX)
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot read the token in {self._path}: {error}") from None
        self._header = f"Bearer {_checked(text.strip(), f'the token in {self._path}')}"
        self._stamp = stamp


def _checked(token: str, what: str) -> str:
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise InputError(f"{what} is empty, or has more than printable letters")
    return token
