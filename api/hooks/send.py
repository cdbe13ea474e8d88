"""One attempt to deliver one message."""

import asyncio
import json
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

from api.hooks.allow import Address, Allowed, HookRefused, Target, address_of
from api.hooks.sign import Secrets

if TYPE_CHECKING:
    import httpx

USER_AGENT = "podyard-hooks/1"

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Addresses of a host, for a port."""


@dataclass(frozen=True, slots=True)
class Message:
    """What is to be delivered.

    Attributes:
        id: The same in every attempt, so that a receiver can tell a message that it has seen.
        body: JSON text; the same in every attempt.
    """

    id: str
    namespace: str
    url: str
    body: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of an attempt.

    Attributes:
        status: Of the answer; None when there was none.
        body: Of the answer, as far as it was read.
        error: Why there was none, or why it is not taken; "" if all is well. Holds no secret.
    """

    status: int | None = None
    body: bytes = b""
    error: str = ""

    @property
    def is_taken(self) -> bool:
        return not self.error


class Sender:
    """Calls hooks, each call by itself: no connection, cookie or redirect leads elsewhere.

    Args:
        timeout_s: Of a whole attempt, from the name's resolution to the last byte.
        bytes_max: Of an answer that is read.
        now_s: The wall clock, which receivers compare the signed time with.
    """

    def __init__(
        self,
        allowed: Allowed,
        secrets: Secrets,
        *,
        timeout_s: float,
        bytes_max: int,
        resolve: Resolve | None = None,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._allowed = allowed
        self._secrets = secrets
        self._timeout_s = timeout_s
        self._bytes_max = bytes_max
        self._resolve = resolve or resolve_by_system
        self._now_s = now_s
        self._tls = ssl.create_default_context()

    async def send(self, message: Message) -> Answer:
        """Try once; never raises for what the other side does."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._send(message)
        except TimeoutError:
            return Answer(error=f"no answer within {self._timeout_s:g} s")
        except HookRefused as error:
            return Answer(error=str(error))
        except socket.gaierror as error:
            return Answer(error=f"its host cannot be resolved: {error.strerror}")
        except (OSError, UnicodeError) as error:
            return _broken(error)

    async def _send(self, message: Message) -> Answer:
        # Not before there is something to send: a service that starts has no time for it.
        import httpx

        try:
            return await self._send_by(httpx, message)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return _broken(error)

    async def _send_by(self, httpx: ModuleType, message: Message) -> Answer:
        target = self._allowed.check_url(message.url)
        address = target.address or await self._address(target)
        headers = {
            "host": httpx.URL(message.url).netloc.decode("ascii"),
            "content-type": "application/json",
            "user-agent": USER_AGENT,
            # An answer that unpacks to more than was sent would get by the limit of its size.
            "accept-encoding": "identity",
        }
        headers |= self._secrets.headers(message.namespace, message.id, self._now_s(), message.body)
        # The address that was checked is the one that is called; the name is for the certificate.
        url = httpx.URL(message.url).copy_with(host=str(address))
        extensions = {} if target.address else {"sni_hostname": target.host}
        async with (
            httpx.AsyncClient(
                verify=self._tls,
                trust_env=False,
                follow_redirects=False,
                timeout=self._timeout_s,
            ) as client,
            client.stream(
                "POST", url, content=message.body.encode(), headers=headers, extensions=extensions
            ) as response,
        ):
            return await self._read(response)

    async def _address(self, target: Target) -> Address:
        """The first address of a host; all of them must be allowed."""
        found = [address_of(text) for text in await self._resolve(target.host, target.port)]
        if not found:
            raise HookRefused(f"host '{target.host}' has no address")
        for address in found:
            self._allowed.check_address(target, address)
        return found[0]

    async def _read(self, response: "httpx.Response") -> Answer:
        status = response.status_code
        if 300 <= status < 400:
            return Answer(status, error=f"answered {status}; redirects are not followed")
        if not 200 <= status < 300:
            return Answer(status, error=f"answered {status}")
        body = b""
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > self._bytes_max:
                return Answer(status, error=f"answered more than {self._bytes_max} bytes")
        return Answer(status, body)


def _broken(error: Exception) -> Answer:
    return Answer(error=f"{type(error).__name__}: {str(error)[:200] or 'it broke off'}")


async def resolve_by_system(host: str, port: int) -> Sequence[str]:
    """Addresses as the system's resolver gives them, each once."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(info[4][0]) for info in found))


def json_of(body: bytes) -> object:
    """What an answer says; None if it is no JSON."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
