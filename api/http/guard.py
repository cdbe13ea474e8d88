"""What is turned away before any route sees it: foreign hosts, foreign pages, bodies too large."""

from collections.abc import Callable, Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.problems import MEDIA_TYPE, document_of
from api.schemas.reading import write_json
from scheduler.errors import Problem, SchedulerError

BODY_BYTES_MAX = 4 * 1024 * 1024
"""Of every path but the inventory's: a job of a thousand roles is below 1 MB."""

INVENTORY_PATH = "/v1/inventory"
SNAPSHOT_PATHS = "/extender/"
"""Foreign schedulers send whole clusters there."""

Answers = Mapping[Callable[[str], bool], Callable[[Exception], Response]]
"""How errors are told of on paths that are not answered with problem documents."""


class BodyTooLarge(SchedulerError):
    """A body over the limit of its path."""

    def __init__(self, limit_bytes: int, found_bytes: int | None = None) -> None:
        found = f"{found_bytes} bytes" if found_bytes is not None else "more"
        super().__init__(
            Problem("", f"found {found}; at most {limit_bytes} bytes are allowed here")
        )


class BadRequest(SchedulerError):
    """A request that HTTP itself does not allow."""


class NoSuchPath(SchedulerError):
    """A path that no route has."""


class WrongMethod(SchedulerError):
    """A path that does not have this method."""


class ForeignHost(SchedulerError):
    """A name that an attacker may have pointed at this machine."""


class ForeignOrigin(SchedulerError):
    """A page of another site that uses its visitor's browser to get here."""


class Guard:
    """Checks the envelope of every request.

    Args:
        is_loopback: Whether the service listens on loopback alone; only then is `Host` checked,
            as nobody but this machine's browsers could be tricked into coming here.
        inventory_bytes_max: Largest body of an import.
        answers: How errors are told of on paths that are not answered with problem documents.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        is_loopback: bool,
        inventory_bytes_max: int,
        answers: Answers | None = None,
    ) -> None:
        self._app = app
        self._answers = answers or {}
        self._is_loopback = is_loopback
        self._inventory_bytes_max = inventory_bytes_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        is_large = scope["path"] == INVENTORY_PATH or scope["path"].startswith(SNAPSHOT_PATHS)
        limit = self._inventory_bytes_max if is_large else BODY_BYTES_MAX
        try:
            if self._is_loopback:
                check_host(headers)
            check_origin(headers)
            check_length(headers, limit)
        except SchedulerError as error:
            await self._told(scope["path"], error)(scope, receive, send)
            return
        await self._app(scope, _limited(receive, limit), send)

    def _told(self, path: str, error: Exception) -> Response:
        for has, answer in self._answers.items():
            if has(path):
                return answer(error)
        return problem_response(error)


def problem_response(error: Exception, headers: dict[str, str] | None = None) -> Response:
    """The answer that tells of an error."""
    told = document_of(error)
    status = int(str(told["status"]))
    if status == 503:
        headers = {"Retry-After": "1"} | (headers or {})
    return Response(write_json(told), status, headers=headers, media_type=MEDIA_TYPE)


def check_host(headers: Headers) -> None:
    """Refuse a name that is not this machine's.

    Raises:
        BadRequest, ForeignHost: If `Host` is not there once, or names something else than loopback.
    """
    hosts = headers.getlist("host")
    if len(hosts) != 1 or not hosts[0]:
        raise BadRequest(Problem("Host", f"is required once; found it {len(hosts)} times"))
    host = hosts[0]
    if not is_loopback_host(host):
        raise ForeignHost(
            Problem(
                "Host",
                f"found '{host[:80]}'; the service listens on this machine alone: localhost, "
                "127.0.0.1 or [::1]",
            )
        )


def is_loopback_host(host: str) -> bool:
    """Whether `name:port` names this machine."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False


def check_origin(headers: Headers) -> None:
    """Refuse what a page of another site sends through its visitor's browser.

    Raises:
        ForeignOrigin: If the browser says so; other clients send no `Origin`.
    """
    origin = headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != headers.get("host"):
        raise ForeignOrigin(
            Problem("Origin", f"found '{origin[:80]}'; pages of other sites are not served")
        )


def check_length(headers: Headers, limit_bytes: int) -> None:
    """Refuse a body that says of itself that it is too large.

    Raises:
        BadRequest, BodyTooLarge: If the length is no number, or too large a one.
    """
    said = headers.get("content-length")
    if said is None:
        return
    if not (said.isascii() and said.isdigit() and len(said) < 20):
        raise BadRequest(Problem("Content-Length", f"found '{said[:80]}'; it must be a number"))
    if int(said) > limit_bytes:
        raise BodyTooLarge(limit_bytes, int(said))


def _limited(receive: Receive, limit_bytes: int) -> Receive:
    """Count what is read, for bodies that do not say how long they are."""
    read_bytes = 0

    async def counted() -> Message:
        nonlocal read_bytes
        message = await receive()
        if message["type"] == "http.request":
            read_bytes += len(message.get("body", b""))
            if read_bytes > limit_bytes:
                raise BodyTooLarge(limit_bytes)
        return message

    return counted
