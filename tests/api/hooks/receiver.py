"""A receiver of hooks on a real port of this machine, which does what a test tells it to."""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

PATIENCE_S = 30.0


@dataclass
class Received:
    """One request that came in."""

    path: str
    headers: dict[str, str]
    body: str

    @property
    def kind(self) -> str:
        return str(json.loads(self.body)["type"])

    @property
    def data(self) -> dict[str, object]:
        data = json.loads(self.body)["data"]
        assert isinstance(data, dict)
        return data


@dataclass
class Reply:
    """What is answered.

    Attributes:
        waits: Set when it is to be answered; until then the connection hangs.
        chunks: Sent one by one, without a length, instead of the body.
        stalls: Set when the rest of the body is to be sent; until then the connection hangs after
            its first byte.
    """

    status: int = 204
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    waits: threading.Event | None = None
    chunks: int = 0
    stalls: threading.Event | None = None


def saved(step: int, uri: str) -> Reply:
    return Reply(200, json.dumps({"state": "saved", "step": step, "uri": uri}).encode())


class Receiver:
    """Answers 204 unless `answer` says otherwise.

    Attributes:
        got: Every request so far.
        answer: What is answered to a request.
    """

    def __init__(self) -> None:
        self.got: list[Received] = []
        self.answer: Callable[[Received], Reply] = lambda _: Reply()
        self.arrived = threading.Semaphore(0)
        self._hanging: list[threading.Event] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers.get("content-length", "0"))
                body = self.rfile.read(length).decode()
                headers = {k.lower(): v for k, v in self.headers.items()}
                outer._serve(self, Received(self.path, headers, body))

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for event in self._hanging:
            event.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(PATIENCE_S)

    def kinds(self) -> list[str]:
        return [received.kind for received in self.got]

    def hang(self) -> Reply:
        """A reply that never comes, or when the test says so."""
        event = threading.Event()
        self._hanging.append(event)
        return Reply(200, waits=event)

    def stall(self, reply: Reply) -> Reply:
        """The same reply, of which all but the first byte of the body never comes."""
        reply.stalls = threading.Event()
        self._hanging.append(reply.stalls)
        return reply

    def _serve(self, handler: BaseHTTPRequestHandler, received: Received) -> None:
        self.got.append(received)
        self.arrived.release()
        reply = self.answer(received)
        if reply.waits is not None:
            reply.waits.wait(PATIENCE_S)
        try:
            handler.send_response(reply.status)
            for name, value in reply.headers.items():
                handler.send_header(name, value)
            if not reply.chunks:
                handler.send_header("Content-Length", str(len(reply.body)))
            handler.end_headers()
            handler.wfile.write(reply.body[:1])
            if reply.stalls is not None:
                handler.wfile.flush()
                reply.stalls.wait(PATIENCE_S)
            handler.wfile.write(reply.body[1:])
            for _ in range(reply.chunks):
                handler.wfile.write(b"x" * 1024)
        except OSError:
            handler.close_connection = True
