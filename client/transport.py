"""Requests that are tried again when that is safe, and answers that are what they should be."""

import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from urllib.parse import urlsplit

import httpx

from client.access import Access
from client.errors import ApiError, BadAnswer, InputError, Unreachable
from client.shapes import FieldError
from client.showing import auth_of, verify_of

CONNECT_TIMEOUT_S = 5.0
"""A handshake inside one data centre takes milliseconds; past this the address is wrong or down."""

_BROKEN = (httpx.NetworkError, httpx.RemoteProtocolError)
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_BUSY = 503
_LOOPBACK = ("localhost", "127.0.0.1", "::1")

Query = Mapping[str, str | int | float | bool | None]


@dataclass(frozen=True, slots=True)
class Retry:
    """How often and how far apart a request is tried; five tries take about two seconds.

    Attributes:
        tries: In all; at least 1.
        first_s: Longest pause after the first try; each further one is three times as long.
        longest_s: No pause is longer, whatever the service asks for.
    """

    tries: int = 5
    first_s: float = 0.1
    longest_s: float = 2.0

    def pause_s(self, tried: int) -> float:
        """Somewhere in the upper half, so that many clients do not come back as one."""
        bound_s = min(self.longest_s, self.first_s * 3.0 ** (tried - 1))
        return bound_s * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, keeps no secret


@dataclass(frozen=True, slots=True)
class Call:
    """One request.

    Attributes:
        path: Below the server's address, with every part already quoted.
        query: Entries that are None are left out.
        repeatable: Whether doing it twice is the same as doing it once.
        wait_s: How long the service may take on purpose, on top of the client's time limit.
        tries: At least 1; None = as the client has it.
    """

    method: str
    path: str
    query: Query = field(default_factory=dict)
    content: bytes | None = None
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = False
    wait_s: float = 0.0
    tries: int | None = None


def server_address(text: str) -> str:
    """A full address; `host:port` alone means plain HTTP.

    Raises:
        InputError: If it is no HTTP address.
    """
    address = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(address)
        good = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise InputError(
            f"'{text}' is not a server address; give one such as http://127.0.0.1:8080"
        )
    return address.rstrip("/")


class Manners:
    """How requests are tried, whoever sends them: when again, after how long, and what goes wrong.

    Attributes:
        server: Its full address.
        timeout_s: Longest wait for an answer.
    """

    def __init__(self, base_url: str, *, timeout_s: float, retry: Retry) -> None:
        self.server = server_address(base_url)
        self.timeout_s = timeout_s
        self.retry = retry

    def options(self, access: Access) -> dict[str, object]:
        """What a client of httpx is made with."""
        return {
            "base_url": self.server,
            "auth": auth_of(access),
            "verify": verify_of(access),
            # A proxy for the world outside must not be asked for a loopback address.
            "trust_env": urlsplit(self.server).hostname not in _LOOPBACK,
        }

    def request(self, call: Call) -> dict[str, Any]:
        """A call as httpx takes it."""
        headers = dict(call.headers)
        if call.content is not None:
            headers["Content-Type"] = call.content_type
        return {
            "method": call.method,
            "url": call.path,
            "params": {key: value for key, value in call.query.items() if value is not None},
            "content": call.content,
            "headers": headers,
            "timeout": httpx.Timeout(
                self.timeout_s + call.wait_s, connect=min(CONNECT_TIMEOUT_S, self.timeout_s)
            ),
        }

    def stream_request(self, call: Call) -> dict[str, Any]:
        """The same of a text that goes on; `wait_s` is its longest silence."""
        timeout = httpx.Timeout(call.wait_s, connect=min(CONNECT_TIMEOUT_S, self.timeout_s))
        return self.request(call) | {"timeout": timeout}

    def pause_after_error(self, error: httpx.TransportError, call: Call, tried: int) -> float:
        """Seconds until the next try, after one that brought no answer.

        Raises:
            Unreachable: If there is to be none.
        """
        again = isinstance(error, _NOT_SENT)
        again = again or (call.repeatable and isinstance(error, _BROKEN))
        if tried >= self._tries(call) or not again:
            raise Unreachable(self.server, self.why(error, call)) from error
        return self.retry.pause_s(tried)

    def pause_after(self, response: httpx.Response, call: Call, tried: int) -> float | None:
        """Seconds until the next try, after an answer; None when that is the last word."""
        is_last = tried >= self._tries(call)
        if response.status_code != _BUSY or is_last or not call.repeatable:
            return None
        return max(self.retry.pause_s(tried), self._asked_pause_s(response))

    def checked(self, response: httpx.Response, call: Call) -> httpx.Response:
        """The response if it is a success.

        Raises:
            ApiError: If it is none.
        """
        if response.is_success:
            return response
        raise problem(response.status_code, response.content, call)

    def value(self, response: httpx.Response, call: Call) -> object:
        """The JSON value of an answer; an empty object for one without a body.

        Raises:
            BadAnswer: If it is not JSON.
        """
        if response.status_code in {202, 204} and not response.content:
            return {}
        try:
            return json.loads(response.content)
        except (ValueError, RecursionError):
            kind = response.headers.get("content-type", "no type")
            raise BadAnswer(
                f"{self.server} answered {call.method} {call.path} with {kind}, not JSON; "
                "is it a Podyard service?"
            ) from None

    def why(self, error: httpx.TransportError, call: Call) -> str:
        """In words, why there was no answer."""
        if isinstance(error, httpx.ConnectTimeout):
            return f"no connection within {min(CONNECT_TIMEOUT_S, self.timeout_s):g} s"
        if isinstance(error, httpx.TimeoutException):
            return f"no answer within {self.timeout_s + call.wait_s:g} s"
        text = str(error) or type(error).__name__
        # "[Errno 111] Connection refused" says nothing more by its number.
        return text.partition("] ")[2] if text.startswith("[Errno") else text

    def _tries(self, call: Call) -> int:
        return call.tries or self.retry.tries

    def _asked_pause_s(self, response: httpx.Response) -> float:
        asked = response.headers.get("retry-after", "")
        return min(float(asked), self.retry.longest_s) if asked.isdecimal() else 0.0


class Transport(Manners):
    """Sends calls to one server and keeps its connections open in between."""

    def __init__(
        self,
        base_url: str,
        *,
        timeout_s: float,
        access: Access,
        retry: Retry,
        sleep: Callable[[float], None],
    ) -> None:
        super().__init__(base_url, timeout_s=timeout_s, retry=retry)
        self.sleep = sleep
        self._http = httpx.Client(**self.options(access))  # type: ignore[arg-type]  # named options

    def close(self) -> None:
        """Close the connections; the transport is of no use afterwards."""
        self._http.close()

    def read(self, call: Call) -> object:
        """The JSON value of the answer; an empty object for an answer without a body.

        Raises:
            ApiError, Unreachable: As `send`.
            BadAnswer: If the answer is not JSON.
        """
        return self.value(self.send(call), call)

    def send(self, call: Call) -> httpx.Response:
        """A successful answer, after as many tries as are safe.

        Raises:
            ApiError: If the service refused, or could not serve the last try.
            Unreachable: If no answer came.
        """
        for tried in count(1):
            try:
                response = self._http.request(**self.request(call))
            except httpx.TransportError as error:
                self.sleep(self.pause_after_error(error, call, tried))
                continue
            pause_s = self.pause_after(response, call, tried)
            if pause_s is None:
                return self.checked(response, call)
            self.sleep(pause_s)
        raise Unreachable(self.server, "not tried")

    @contextmanager
    def stream(self, call: Call) -> Iterator[Iterator[str]]:
        """The lines of a text that goes on, tried once; `wait_s` is its longest silence.

        Raises:
            ApiError: If the service refuses.
            Unreachable: If no answer comes, or it breaks off.
        """
        request = self._http.build_request(**self.stream_request(call))
        try:
            with closing(self._http.send(request, stream=True)) as response:
                if not response.is_success:
                    response.read()
                yield self.checked(response, call).iter_lines()
        except httpx.TransportError as error:
            raise Unreachable(self.server, self.why(error, call)) from error


class AsyncTransport(Manners):
    """The same for programs that run in an event loop."""

    def __init__(
        self,
        base_url: str,
        *,
        timeout_s: float,
        access: Access,
        retry: Retry,
        sleep: Callable[[float], Awaitable[object]],
    ) -> None:
        super().__init__(base_url, timeout_s=timeout_s, retry=retry)
        self.sleep = sleep
        self._http = httpx.AsyncClient(**self.options(access))  # type: ignore[arg-type]  # as above

    async def close(self) -> None:
        """Close the connections; the transport is of no use afterwards."""
        await self._http.aclose()

    async def send(self, call: Call) -> httpx.Response:
        """As `Transport.send`."""
        for tried in count(1):
            try:
                response = await self._http.request(**self.request(call))
            except httpx.TransportError as error:
                await self.sleep(self.pause_after_error(error, call, tried))
                continue
            pause_s = self.pause_after(response, call, tried)
            if pause_s is None:
                return self.checked(response, call)
            await self.sleep(pause_s)
        raise Unreachable(self.server, "not tried")

    @asynccontextmanager
    async def stream(self, call: Call) -> AsyncIterator[AsyncIterator[str]]:
        """As `Transport.stream`."""
        request = self._http.build_request(**self.stream_request(call))
        try:
            response = await self._http.send(request, stream=True)
            try:
                if not response.is_success:
                    await response.aread()
                yield self.checked(response, call).aiter_lines()
            finally:
                await response.aclose()
        except httpx.TransportError as error:
            raise Unreachable(self.server, self.why(error, call)) from error


def problem(status: int, content: bytes, call: Call) -> ApiError:
    """The error of a problem document (RFC 9457), or of whatever came instead."""
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        body = {}
    entries = body.get("errors")
    errors: list[FieldError] = [
        {"path": str(entry.get("path") or ""), "message": str(entry.get("message") or "")}
        for entry in (entries if isinstance(entries, list) else [])
        if isinstance(entry, dict)
    ]
    return ApiError(
        status,
        str(body.get("title") or f"HTTP status {status}"),
        str(body.get("detail") or ""),
        errors,
        method=call.method,
        path=call.path,
    )
