"""A client of bare sockets, which sends what it likes and as slowly as it likes."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

import uvicorn

from api.clock import ManualClock
from api.http.connection import Limits, bounded
from api.http.service import Service
from api.http.serving import Server
from api.main import create_app
from api.settings import Settings
from api.store.engine import Database
from tests.client.waiting import until

PATIENCE_S = 30.0


class Bounded:
    """A service with small limits, served from a thread."""

    def __init__(self, database: Database, limits: Limits) -> None:
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        settings = Settings(database_url=database.url, clock="manual")
        app = create_app(settings, database, ManualClock(), None)
        service: Service = app.service
        self.service = service
        config = uvicorn.Config(
            app, http=bounded(limits), log_config=None, access_log=False, lifespan="on"
        )
        self.server = Server(config, service)
        self._thread = threading.Thread(
            target=self.server.run, kwargs={"sockets": [self._listener]}, daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        until(lambda: self.server.started)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.server.should_exit = True
        self._thread.join(PATIENCE_S)
        self._listener.close()

    @contextmanager
    def client(self) -> Iterator["Bare"]:
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE_S) as sock:
            yield Bare(sock, self.port)

    def open_connections(self) -> int:
        return len(self.server.server_state.connections)


class Bare:
    """One connection."""

    def __init__(self, sock: socket.socket, port: int) -> None:
        self.sock = sock
        self._host = f"Host: 127.0.0.1:{port}\r\n"

    def send(self, content: bytes) -> None:
        self.sock.sendall(content)

    def head(self, line: str, *headers: str, ended: bool = True) -> bytes:
        """The start of a request; `line` without the version."""
        lines = "".join(f"{header}\r\n" for header in headers)
        end = "\r\n" if ended else ""
        return f"{line} HTTP/1.1\r\n{self._host}{lines}{end}".encode("latin-1")

    def ask(self, line: str, *headers: str, body: bytes = b"") -> "Answer":
        given = [*headers, f"Content-Length: {len(body)}"] if body else list(headers)
        self.send(self.head(line, *given, "Connection: close") + body)
        return self.answer()

    def answer(self) -> "Answer":
        """What comes until the other end hangs up."""
        return Answer(self.rest())

    def rest(self) -> bytes:
        """All that comes until the other end hangs up."""
        found = b""
        try:
            while piece := self.sock.recv(65_536):
                found += piece
        except ConnectionError:
            pass  # hung up on while there was more to read
        return found

    def is_taken(self, content: bytes) -> bool:
        """Whether the other end, which has not answered yet, is still there to take more."""
        try:
            self.sock.settimeout(0.01)
            self.sock.sendall(content)
            return bool(self.sock.recv(1))
        except TimeoutError:
            return True
        except OSError:
            return False


class Answer:
    """One answer, or none.

    Attributes:
        status: 0 = none.
    """

    def __init__(self, content: bytes) -> None:
        head, _, self.body = content.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        self.status = int(first.split(" ")[1]) if first else 0
        pairs = (line.partition(": ") for line in lines)
        self.headers = {name.lower(): value for name, _, value in pairs}

    def told(self) -> str:
        """Its detail, where it is a problem."""
        return str(json.loads(self.body)["detail"])
