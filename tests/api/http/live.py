"""A service on a real port, and readers of its event streams."""

import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Self

import uvicorn

from api.clock import ManualClock
from api.http.service import Service
from api.http.serving import Server
from api.main import create_app
from api.settings import Settings
from api.store.engine import Database

PATIENCE_S = 30.0


class Live:
    """A service without a runner, served from a thread."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        settings = Settings(database_url=database.url, clock="manual")
        app = create_app(settings, database, ManualClock(), None)
        self.service: Service = app.service
        config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="on")
        self._server = Server(config, self.service)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._listener]}, daemon=True
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        deadline_s = time.monotonic() + PATIENCE_S
        while not self._server.started:
            assert time.monotonic() < deadline_s
            assert self._thread.is_alive()
            self._thread.join(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._listener.close()

    def stop(self) -> None:
        """End the service and wait until it has."""
        self._server.should_exit = True
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the service did not end"

    @contextmanager
    def watch(self, query: str = "", headers: Mapping[str, str] | None = None) -> Iterator["Watch"]:
        """A stream, open once this begins."""
        request = urllib.request.Request(f"{self.url}/v1/watch{query}", headers=dict(headers or {}))
        with closing(urllib.request.urlopen(request, timeout=PATIENCE_S)) as answer:
            yield Watch(_lines(answer))

    def refused(self, query: str, headers: Mapping[str, str] | None = None) -> tuple[int, str]:
        """Status and type of the problem of a watch that must not be served."""
        try:
            with self.watch(query, headers):
                raise AssertionError("it was served")
        except urllib.error.HTTPError as error:
            with closing(error):
                return error.code, str(json.load(error)["type"]).rpartition(":")[2]


def _lines(answer: object) -> Iterator[bytes]:
    yield from answer  # type: ignore[misc]  # a response, which has no common type


@dataclass
class Watch:
    """One stream, line by line.

    Attributes:
        last_id: Of the last event read.
        error: What the stream said before it ended early.
        comments: Seen so far.
    """

    lines: Iterator[bytes]
    last_id: int = 0
    error: dict[str, object] | None = None
    comments: list[str] = field(default_factory=list)

    def events(self) -> Iterator[dict[str, object]]:
        """Events as they come, until the stream ends."""
        is_error, revision, data = False, 0, b""
        for line in self.lines:
            name, _, value = line.rstrip(b"\n").partition(b": ")
            if name == b"id":
                revision = int(value)
            elif name == b"event":
                is_error = value == b"error"
            elif name == b"data":
                data = value
            elif line.startswith(b":"):
                self.comments.append(value.decode())
            elif line == b"\n" and data:
                if is_error:
                    self.error = json.loads(data)
                else:
                    self.last_id = revision
                    event = json.loads(data)
                    assert event["revision"] == revision
                    yield event
                is_error, data = False, b""

    def take(self, count: int) -> list[int]:
        """Revisions of the next events."""
        events = self.events()
        return [int(str(next(events)["revision"])) for _ in range(count)]

    def kinds(self) -> list[str]:
        """Kinds of all events until the stream ends."""
        return [str(event["kind"]) for event in self.events()]
