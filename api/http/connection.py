"""One connection, and what it may cost: bytes before a request, time to send it, time to read.

uvicorn closes connections that are idle. A client that sends a byte now and then, headers without
end, or reads none of its answer would have its connection for as long as it likes; and nothing
would end the number of connections before the files of the process do. Limits are on what clients
do: time in which the service itself has not read on is not counted.
"""

import asyncio
import resource
from asyncio import TimerHandle
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus

from api.http.certificates import CertificateProtocol
from api.problems import MEDIA_TYPE
from api.schemas.reading import write_json

HEAD_BYTES_MAX = 64 * 1024
"""Of a request before its body; a token of 16 KB and a long query fit in."""

TARGET_BYTES_MAX = 16 * 1024
HEADERS_MAX = 200
BODY_BYTES_PER_S = 64 * 1024
"""A body may come as slowly as this, beside the time that any has."""

FRAMING_BYTES_MAX = 1024 * 1024
"""What a body in chunks may have around it, beside `FRAMING_PER_BYTE` for each of its bytes."""
FRAMING_PER_BYTE = 16

LINGER_S = 2.0
"""For an answer to be read by a client that is then hung up on."""

SPARE_FILES = 200
"""Open files that are left for databases, hooks and logs."""


class _At(Enum):
    """What is being read; between requests nothing is, whatever becomes of the last one."""

    NOTHING = 0
    HEAD = 1
    BODY = 2


@dataclass(frozen=True, slots=True)
class Limits:
    """What one process and one connection may take.

    Attributes:
        connections: Open at a time.
        head_s, body_s: Time for a request to be sent: up to its body, and the body itself.
        write_s: Time in which a client may read nothing while an answer waits for it.
    """

    connections: int = 20_000
    head_s: float = 10.0
    body_s: float = 30.0
    write_s: float = 60.0


class BoundedProtocol(CertificateProtocol):
    """HTTP with limits; a class of its own for each set of them, see `bounded`."""

    limits = Limits()

    _at = _At.NOTHING
    _head_bytes = 0
    _field_bytes = 0
    _body_bytes = 0
    _framing_bytes = 0
    _body_began_s = 0.0
    _timer: TimerHandle | None = None
    _write_timer: TimerHandle | None = None
    _why = (HTTPStatus.BAD_REQUEST, "this is not HTTP/1.1")
    _is_refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections:
            # It is not read: what it is about makes no difference.
            transport.pause_reading()
            self._refuse(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"{self.limits.connections} connections are open; no more are taken",
            )
            return
        self._arm(self.limits.head_s, self._is_silent)

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        if self._write_timer is not None:
            self._write_timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        before, body_bytes = self._at, self._body_bytes
        super().data_received(data)
        if self._was_refused():
            return
        # A piece may hold the end of one thing and the start of the next; it is bounded itself.
        if before is self._at is _At.HEAD:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES_MAX:
                self._refuse(*_TOO_LARGE)
                return
        elif before is self._at is _At.BODY:
            self._framing_bytes += len(data) - (self._body_bytes - body_bytes)
            allowed = FRAMING_BYTES_MAX + FRAMING_PER_BYTE * self._body_bytes
            if self._framing_bytes > allowed:
                self._refuse(HTTPStatus.BAD_REQUEST, "the body is nearly nothing but its framing")
                return
        if self._timer is None and self._at is not _At.NOTHING:
            self._body_began_s = self.loop.time()
            is_body = self._at is _At.BODY
            self._arm(self.limits.body_s if is_body else self.limits.head_s, self._is_late)

    def on_message_begin(self) -> None:
        self._at = _At.HEAD
        self._head_bytes = self._field_bytes = self._body_bytes = self._framing_bytes = 0
        self._disarm()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > TARGET_BYTES_MAX:
            self._fail(
                HTTPStatus.REQUEST_URI_TOO_LONG,
                f"path and query have more than {TARGET_BYTES_MAX} bytes",
            )

    def on_header(self, name: bytes, value: bytes) -> None:
        # Trailers come this way as well.
        self._field_bytes += len(name) + len(value)
        if len(self.headers) >= HEADERS_MAX or self._field_bytes > HEAD_BYTES_MAX:
            self._fail(*_TOO_LARGE)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._at = _At.BODY
        self._disarm()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._at = _At.NOTHING
        self._disarm()
        super().on_message_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(self.limits.write_s, self._is_not_read)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def send_400_response(self, msg: str) -> None:
        """Called by uvicorn for what the parser does not take."""
        self._refuse(*self._why)

    def _arm(self, after_s: float, then: Callable[[], None]) -> None:
        self._timer = self.loop.call_later(after_s, then)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _is_silent(self) -> None:
        """Nothing came since the connection was opened."""
        self._timer = None
        self.transport.close()

    def _is_late(self) -> None:
        """A request is not whole in its time."""
        self._timer = None
        if self._at is not _At.BODY:
            what = f"the headers were not all sent within {self.limits.head_s:g} s"
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, what)
            return
        if self.flow.read_paused or self.cycle.response_complete:
            # It is the service that does not read on, or that needs no more of it.
            self._body_began_s = self.loop.time()
            self._arm(self.limits.body_s, self._is_late)
            return
        allowed_s = self.limits.body_s + self._body_bytes / BODY_BYTES_PER_S
        left_s = self._body_began_s + allowed_s - self.loop.time()
        if left_s > 0:
            self._arm(left_s, self._is_late)
            return
        self._refuse(
            HTTPStatus.REQUEST_TIMEOUT, f"the body was not all sent within {allowed_s:.0f} s"
        )

    def _was_refused(self) -> bool:
        return self._is_refused

    def _is_not_read(self) -> None:
        self._write_timer = None
        self.transport.abort()

    def _fail(self, status: HTTPStatus, message: str) -> None:
        """Have the parser end, which then calls `send_400_response`."""
        self._why = (status, message)
        raise ValueError(message)

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        """Answer, if no answer has begun, and hang up."""
        self._is_refused = True
        self._disarm()
        # There is no cycle before the first request.
        has_begun = getattr(self.cycle, "response_started", False)
        if not has_begun or self.cycle.response_complete:
            self.transport.write(answer_of(status, message))
        self.transport.close()
        # Closing waits for the other end to take what was written.
        self.loop.call_later(LINGER_S, self.transport.abort)


_TOO_LARGE = (
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    f"at most {HEADERS_MAX} headers and {HEAD_BYTES_MAX} bytes of them are taken",
)


def bounded(limits: Limits) -> type[BoundedProtocol]:
    """A protocol for uvicorn, which makes one of the class for each connection."""
    return type("Bounded", (BoundedProtocol,), {"limits": limits})


def room_for(connections: int) -> int:
    """So many connections, or what the system lets the process open; it is asked for more first."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + SPARE_FILES
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(1, min(connections, soft - SPARE_FILES))


def answer_of(status: HTTPStatus, message: str) -> bytes:
    """A whole answer, for what never became a request."""
    body = write_json(
        {
            "type": "urn:podyard:problem:bad-request",
            "title": status.phrase,
            "status": status.value,
            "detail": message,
            "errors": [{"path": "", "message": message}],
        }
    )
    head = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        f"content-type: {MEDIA_TYPE}",
        f"content-length: {len(body)}",
        "connection: close",
    ]
    if status is HTTPStatus.SERVICE_UNAVAILABLE:
        head.append("retry-after: 1")
    return "\r\n".join([*head, "", ""]).encode() + body
