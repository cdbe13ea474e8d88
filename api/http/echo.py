"""Heartbeats that say what the last one said: answered before any route is looked for.

Nine of ten requests of a large cluster are such. What is not word for word the same, or may be
answered otherwise by now, goes on to the route.
"""

from dataclasses import dataclass
from types import SimpleNamespace

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.clock import Clock
from api.store.echoes import Echo, Echoes
from api.store.hearing import Agent, Heard
from api.store.leases import Leases

BODY_BYTES_MAX = 32_768
"""Longer heartbeats, of hundreds of pods, are not remembered."""

_BEGIN, _END = "/v1/nodes/", "/heartbeat"
_ROUTE = SimpleNamespace(path="/v1/nodes/{name}/heartbeat")
_JSON = b"application/json"
_KEY = "podyard.asked"


@dataclass(slots=True)
class _Asked:
    """A heartbeat on its way to the route."""

    echoes: Echoes
    words: tuple[bytes, ...]


class EchoHeartbeats:
    """Wraps the app."""

    def __init__(self, app: ASGIApp, *, leases: Leases, clock: Clock) -> None:
        self._app = app
        self._leases = leases
        self._clock = clock
        self._echoes = Echoes(leases.database)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        node = _node_of(scope)
        if node is None:
            await self._app(scope, receive, send)
            return
        messages, body = await _read(receive)
        if body is None:
            await self._app(scope, _again(messages, receive), send)
            return
        asked = (body, *_callers(scope))
        echo = self._echoes.get(node, asked)
        if echo is None:
            await run_in_threadpool(self._echoes.follow)
            echo = self._echoes.get(node, asked)
        if echo is None:
            scope[_KEY] = _Asked(self._echoes, asked)
            await self._app(scope, _again(messages, receive), send)
            return
        scope["route"] = _ROUTE
        self._leases.heard(node, echo.session, self._clock.now_s())
        length = b"%d" % len(echo.answer)
        headers = [(b"content-length", length), (b"content-type", _JSON)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": echo.answer})


def remember(request: Request, agent: Agent, answer: Response, heard: Heard) -> None:
    """Have the same words of a node answered the same, for as long as that holds."""
    asked = request.scope.get(_KEY)
    if isinstance(asked, _Asked):
        uids = tuple(pod.uid for pod in heard.desired)
        echo = Echo(asked.words, agent.session, bytes(answer.body), uids, heard.revision)
        asked.echoes.put(agent.node, echo)


def _node_of(scope: Scope) -> str | None:
    """The node whose heartbeat this is; None if it is anything else, or unusual."""
    if scope["type"] != "http" or scope["method"] != "POST":
        return None
    path = scope["path"]
    if not (path.startswith(_BEGIN) and path.endswith(_END)) or scope["query_string"]:
        return None
    node = str(path[len(_BEGIN) : -len(_END)])
    return node if node and "/" not in node else None


def _callers(scope: Scope) -> list[bytes]:
    """What else an answer may depend on: who asks, and in what form."""
    wanted = (b"authorization", b"content-type", b"content-encoding", b"cookie")
    return [name + b"=" + value for name, value in scope["headers"] if name in wanted]


async def _read(receive: Receive) -> tuple[list[Message], bytes | None]:
    """The messages of a body, and the body; None if it is too long or broken off."""
    messages, chunks, size = [], [], 0
    while True:
        message = await receive()
        messages.append(message)
        if message["type"] != "http.request":
            return messages, None
        chunk = message.get("body", b"")
        chunks.append(chunk)
        size += len(chunk)
        if size > BODY_BYTES_MAX:
            return messages, None
        if not message.get("more_body", False):
            return messages, chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _again(messages: list[Message], receive: Receive) -> Receive:
    """The same messages once more, then what follows."""
    left = iter(messages)

    async def replayed() -> Message:
        for message in left:
            return message
        return await receive()

    return replayed
