"""A small real HTTP server that answers from dicts, in the shapes of the service."""

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self
from urllib.parse import parse_qsl, urlsplit

from client.shapes import FieldError


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> object:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Answer:
    """What is sent back; `body` as it is if it is text, else as JSON."""

    body: object = None
    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


DROP = Answer(status=0)
"""Instead of an answer the connection is cut."""

Reply = Answer | Callable[[Request], Answer]


def problem(status: int, detail: str, *errors: FieldError, title: str = "Refused") -> Answer:
    """A problem document as the service writes it."""
    body = {
        "type": "about:blank",
        "title": title,
        "status": status,
        "detail": detail,
        "errors": list(errors),
    }
    return Answer(body, status, "application/problem+json")


class FakeServer:
    """Answers on a free port of the loopback; a context manager.

    Attributes:
        lists: Path -> items of `GET`; filtered by the query, cut into pages.
        replies: (method, path) -> what is answered; goes before `lists`.
        before: Answers given to the very next requests, whatever they are.
        requests: All that came, in order.
        page_items: Longest page, whatever `limit` says.
    """

    def __init__(self) -> None:
        self.lists: dict[str, list[Mapping[str, object]]] = {}
        self.replies: dict[tuple[str, str], Reply] = {}
        self.before: list[Answer] = []
        self.requests: list[Request] = []
        self.page_items = 500
        self.revision = 100
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def asked(self, method: str, path: str) -> list[Request]:
        """The requests of one kind that came so far."""
        return [r for r in self.requests if (r.method, r.path) == (method, path)]

    def answer(self, request: Request) -> Answer:
        self.requests.append(request)
        if self.before:
            return self.before.pop(0)
        reply = self.replies.get((request.method, request.path))
        if reply is not None:
            return reply(request) if callable(reply) else reply
        if request.method == "GET" and request.path in self.lists:
            return self._page(request)
        return problem(404, f"there is nothing at {request.path}", title="Not found")

    def _page(self, request: Request) -> Answer:
        query = dict(request.query)
        size = min(int(query.pop("limit", "500")), self.page_items)
        start = int(query.pop("cursor", "0"))
        since = int(query.pop("since", "0"))
        items = [
            item
            for item in self.lists[request.path]
            if all(_has(item, key, value) for key, value in query.items())
            and _revision(item) > since
        ]
        end = start + size
        following = str(end) if end < len(items) else None
        return Answer({"items": items[start:end], "revision": self.revision, "next": following})


def _has(item: Mapping[str, object], key: str, value: str) -> bool:
    """Whether a field has the value asked for; a pod names its job with the namespace."""
    found = str(item.get(key))
    return found in {value, "None"} or (key == "job" and found.rpartition("/")[2] == value)


def _revision(item: Mapping[str, object]) -> int:
    revision = item.get("revision", 1)
    return revision if isinstance(revision, int) else 1


def _handler(fake: FakeServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_any(self) -> None:
            url = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            query = dict(parse_qsl(url.query, keep_blank_values=True))
            headers = {key.lower(): value for key, value in self.headers.items()}
            answer = fake.answer(Request(self.command, url.path, query, headers, body))
            if answer is DROP:
                self.close_connection = True
                return
            is_text = isinstance(answer.body, str)
            content = (str(answer.body) if is_text else json.dumps(answer.body)).encode()
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.content_type)
            self.send_header("Content-Length", str(len(content)))
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_any  # noqa: N815 - the base's names

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler
