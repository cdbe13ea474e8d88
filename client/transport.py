"""Requests that are tried again when that is safe, and answers that are what they should be."""

import json
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import httpx

from client.errors import ApiError, BadAnswer, InputError, Unreachable
from client.shapes import FieldError

CONNECT_TIMEOUT_S = 5.0
"""A handshake inside one data centre takes milliseconds; past this the address is wrong or down."""

_BROKEN = (httpx.NetworkError, httpx.RemoteProtocolError)
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
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


class Transport:
    """Sends calls to one server and keeps its connections open in between."""

    def __init__(
        self,
        base_url: str,
        *,
        timeout_s: float,
        token: str | None,
        retry: Retry,
        sleep: Callable[[float], None],
    ) -> None:
        self.server = server_address(base_url)
        self.timeout_s = timeout_s
        self.retry = retry
        self.sleep = sleep
        self._http = httpx.Client(
            base_url=self.server,
            headers={"Authorization": f"Bearer {token}"} if token else {},
            # A proxy for the world outside must not be asked for a loopback address.
            trust_env=urlsplit(self.server).hostname not in _LOOPBACK,
        )

    def close(self) -> None:
        """Close the connections; the transport is of no use afterwards."""
        self._http.close()

    def read(self, call: Call) -> object:
        """The JSON value of the answer; an empty object for an answer without a body.

        Raises:
            ApiError, Unreachable: As `send`.
            BadAnswer: If the answer is not JSON.
        """
        response = self.send(call)
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

    def send(self, call: Call) -> httpx.Response:
        """A successful answer, after as many tries as are safe.

        Raises:
            ApiError: If the service refused, or could not serve the last try.
            Unreachable: If no answer came.
        """
        tries = call.tries or self.retry.tries
        for tried in range(1, tries + 1):
            last = tried == tries
            try:
                response = self._once(call)
            except httpx.TransportError as error:
                again = isinstance(error, _NOT_SENT)
                again = again or (call.repeatable and isinstance(error, _BROKEN))
                if last or not again:
                    raise Unreachable(self.server, self._why(error, call)) from error
                self.sleep(self.retry.pause_s(tried))
                continue
            if response.status_code != 503 or last or not call.repeatable:
                return self._checked(response, call)
            self.sleep(max(self.retry.pause_s(tried), self._asked_pause_s(response)))
        raise Unreachable(self.server, "not tried")

    @contextmanager
    def stream(self, call: Call) -> Iterator[Iterator[str]]:
        """The lines of a text that goes on, tried once; `wait_s` is its longest silence.

        Raises:
            ApiError: If the service refuses.
            Unreachable: If no answer comes, or it breaks off.
        """
        request = self._http.build_request(
            call.method,
            call.path,
            params={key: value for key, value in call.query.items() if value is not None},
            headers=dict(call.headers),
            timeout=httpx.Timeout(call.wait_s, connect=min(CONNECT_TIMEOUT_S, self.timeout_s)),
        )
        try:
            with closing(self._http.send(request, stream=True)) as response:
                if not response.is_success:
                    response.read()
                yield self._checked(response, call).iter_lines()
        except httpx.TransportError as error:
            raise Unreachable(self.server, self._why(error, call)) from error

    def _once(self, call: Call) -> httpx.Response:
        headers = dict(call.headers)
        if call.content is not None:
            headers["Content-Type"] = call.content_type
        return self._http.request(
            call.method,
            call.path,
            params={key: value for key, value in call.query.items() if value is not None},
            content=call.content,
            headers=headers,
            timeout=httpx.Timeout(
                self.timeout_s + call.wait_s, connect=min(CONNECT_TIMEOUT_S, self.timeout_s)
            ),
        )

    def _checked(self, response: httpx.Response, call: Call) -> httpx.Response:
        if response.is_success:
            return response
        raise problem(response.status_code, response.content, call)

    def _asked_pause_s(self, response: httpx.Response) -> float:
        asked = response.headers.get("retry-after", "")
        return min(float(asked), self.retry.longest_s) if asked.isdecimal() else 0.0

    def _why(self, error: httpx.TransportError, call: Call) -> str:
        if isinstance(error, httpx.ConnectTimeout):
            return f"no connection within {min(CONNECT_TIMEOUT_S, self.timeout_s):g} s"
        if isinstance(error, httpx.TimeoutException):
            return f"no answer within {self.timeout_s + call.wait_s:g} s"
        text = str(error) or type(error).__name__
        # "[Errno 111] Connection refused" says nothing more by its number.
        return text.partition("] ")[2] if text.startswith("[Errno") else text


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
