"""Following the events of a service: one endless stream over as many connections as it takes."""

import json
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from client.errors import ApiError, BadAnswer, Unreachable
from client.shapes import Event
from client.transport import Call, Query, Transport, problem

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


def watch(transport: Transport, query: Query, since: int | None) -> Generator[Event, None, None]:
    """Events as they happen, each once and in order, for as long as they are iterated.

    A connection that breaks, or a service that restarts, is waited for and costs no event.

    Raises:
        ApiError: If the service refuses; with status 410 if it no longer keeps where to go on.
        Unreachable: If no answer comes, after all tries.
    """
    at, failures = since, 0
    while True:
        try:
            for said in _stream(transport, query, at):
                failures = 0
                at = at if said.at is None else said.at
                if said.error is not None:
                    raise problem(_status(said.error), said.error, Call("GET", WATCH))
                if said.event is not None:
                    yield said.event
        except (ApiError, Unreachable) as error:
            failures += 1
            if isinstance(error, ApiError) and error.status != _BUSY:
                raise
            if failures >= transport.retry.tries:
                raise
        transport.sleep(transport.retry.pause_s(max(1, failures)))


def _stream(transport: Transport, query: Query, at: int | None) -> Iterator[Said]:
    """One connection, until either side ends it."""
    headers = {"Accept": "text/event-stream"}
    if at is not None:
        headers["Last-Event-ID"] = str(at)
    call = Call("GET", WATCH, query, headers=headers, wait_s=SILENCE_S)
    with transport.stream(call) as lines:
        yield from parse(lines)


def parse(lines: Iterable[str]) -> Iterator[Said]:
    """What the lines of a stream say; a last part that is not whole says nothing.

    Raises:
        BadAnswer: If they are not those of a Podyard service.
    """
    fields: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        if line == "":
            if "data" in fields:
                yield _said(fields)
            fields = {}
        elif line.startswith(":"):
            word, _, number = value.partition(" ")
            if word == "revision" and number.isdecimal():
                yield Said(int(number))
        else:
            fields[name] = value


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
