"""Following the events of a service: one endless stream over as many connections as it takes."""

import json
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from client.errors import ApiError, BadAnswer, ClientError, Unreachable
from client.shapes import Event
from client.transport import Call, Manners, Query, Transport, problem

WATCH = "/v1/watch"

SILENCE_S = 45.0
"""The service says something every 15 s; after three times that the connection is dead."""

_BUSY = 503


@dataclass(frozen=True, slots=True)
class Said:
    """One thing that a stream said.

    Attributes:
        at: Everything wanted up to this revision has come; None where it does not say.
        event: None of a heartbeat.
        error: A problem document, before the stream ends early.
    """

    at: int | None
    event: Event | None = None
    error: bytes | None = None


class Following:
    """How far a stream of events was followed, and how it goes on when a connection ends.

    Attributes:
        at: Everything wanted up to this revision has come; None before anything was said.
    """

    def __init__(self, manners: Manners, query: Query, since: int | None) -> None:
        self.at = since
        self._manners = manners
        self._query = query
        self._failures = 0
        self._fields: dict[str, str] = {}

    def call(self) -> Call:
        """What to ask for the next connection."""
        self._fields = {}
        headers = {"Accept": "text/event-stream"}
        if self.at is not None:
            headers["Last-Event-ID"] = str(self.at)
        return Call("GET", WATCH, self._query, headers=headers, wait_s=SILENCE_S)

    def take(self, line: str) -> Iterator[Event]:
        """The event that ends with this line, if one does.

        Raises:
            ApiError: If the stream ends with a problem.
            BadAnswer: If it is not one of a Podyard service.
        """
        said = _part(line, self._fields)
        if said is None:
            return
        self._failures = 0
        self.at = self.at if said.at is None else said.at
        if said.error is not None:
            raise problem(_status(said.error), said.error, Call("GET", WATCH))
        if said.event is not None:
            yield said.event

    def failed(self, error: ClientError) -> None:
        """A connection ended so; raises it if there is no point in another one."""
        if not isinstance(error, ApiError | Unreachable):
            raise error
        self._failures += 1
        if isinstance(error, ApiError) and error.status != _BUSY:
            raise error
        if self._failures >= self._manners.retry.tries:
            raise error

    def pause_s(self) -> float:
        """Seconds until the next connection."""
        return self._manners.retry.pause_s(max(1, self._failures))


def watch(transport: Transport, query: Query, since: int | None) -> Generator[Event, None, None]:
    """Events as they happen, each once and in order, for as long as they are iterated.

    A connection that breaks, or a service that restarts, is waited for and costs no event.

    Raises:
        ApiError: If the service refuses; with status 410 if it no longer keeps where to go on.
        Unreachable: If no answer comes, after all tries.
    """
    following = Following(transport, query, since)
    while True:
        try:
            with transport.stream(following.call()) as lines:
                for line in lines:
                    yield from following.take(line)
        except ClientError as error:
            following.failed(error)
        transport.sleep(following.pause_s())


def parse(lines: Iterable[str]) -> Iterator[Said]:
    """What the lines of a stream say; a last part that is not whole says nothing.

    Raises:
        BadAnswer: If they are not those of a Podyard service.
    """
    fields: dict[str, str] = {}
    for line in lines:
        said = _part(line, fields)
        if said is not None:
            yield said


def _part(line: str, fields: dict[str, str]) -> Said | None:
    """What is said once a line has come; fields of a part that is not whole are kept."""
    name, _, value = line.partition(": ")
    if line == "":
        whole = dict(fields)
        fields.clear()
        return _said(whole) if "data" in whole else None
    if line.startswith(":"):
        word, _, number = value.partition(" ")
        return Said(int(number)) if word == "revision" and number.isdecimal() else None
    fields[name] = value
    return None


def _said(fields: Mapping[str, str]) -> Said:
    data = fields["data"]
    if fields.get("event") == "error":
        return Said(None, error=data.encode())
    try:
        event = json.loads(data)
        at = int(fields["id"])
    except (ValueError, KeyError, RecursionError):
        raise BadAnswer(f"a watch said '{data[:80]}', which is no event") from None
    if not isinstance(event, dict):
        raise BadAnswer(f"a watch said '{data[:80]}', which is no event")
    return Said(at, cast(Event, event))


def _status(document: bytes) -> int:
    try:
        status = json.loads(document).get("status")
    except (ValueError, AttributeError, RecursionError):
        status = None
    return status if isinstance(status, int) else 500
