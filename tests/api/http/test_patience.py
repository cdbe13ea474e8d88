"""While the database is silent nobody waits for it; what was begun is not answered twice."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.types import Message, Receive, Scope, Send

from api.http import patience as module
from api.http.patience import Patience
from api.k8s.face import error_response
from api.k8s.request import is_face
from api.store import listen
from api.store.listen import Listener
from api.store.notify import Notifier


class Silence:
    """Whether the database is silent, as a test says."""

    def __init__(self) -> None:
        self.holds = False

    def __call__(self) -> bool:
        return self.holds


async def ask(app: Callable[..., Awaitable[None]], path: str = "/v1/jobs") -> list[Message]:
    """What is sent in answer to a request."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": path, "headers": [], "query_string": b""}
    await app(scope, receive, send)
    return sent


def status_of(sent: list[Message]) -> tuple[int, dict[bytes, bytes]]:
    (start,) = (m for m in sent if m["type"] == "http.response.start")
    return start["status"], dict(start["headers"])


def patient(app: Any, silence: Silence) -> Patience:  # noqa: ANN401 - any ASGI app
    return Patience(app, is_silent=silence, answers={is_face: error_response})


async def greet(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse("here")(scope, receive, send)


def test_answer_passes_while_the_database_answers() -> None:
    assert status_of(asyncio.run(ask(patient(greet, Silence()))))[0] == 200


def test_new_request_is_refused_at_once_while_the_database_is_silent() -> None:
    silence = Silence()
    silence.holds = True
    app = patient(greet, silence)
    for path in ("/v1/jobs", "/api/v1/pods"):
        status, headers = status_of(asyncio.run(ask(app, path)))
        assert status == 503, path
        assert int(headers[b"retry-after"]) >= 1
    for path in module.ALWAYS:
        assert status_of(asyncio.run(ask(app, path)))[0] == 200


def test_request_that_waits_is_told_and_what_comes_later_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "LOOK_S", 0.001)
    silence, told = Silence(), asyncio.Event()

    async def run() -> list[Message]:
        sent: list[Message] = []

        async def wait(scope: Scope, receive: Receive, send: Send) -> None:
            silence.holds = True
            await told.wait()
            await JSONResponse({"late": True})(scope, receive, send)

        app = patient(wait, silence)

        async def send(message: Message) -> None:
            sent.append(message)
            if message["type"] == "http.response.body":
                told.set()

        scope = {"type": "http", "method": "POST", "path": "/v1/jobs", "headers": []}
        await app(scope, Request(scope).receive, send)
        return sent

    sent = asyncio.run(asyncio.wait_for(run(), 60))
    assert status_of(sent)[0] == 503
    assert [m["type"] for m in sent] == ["http.response.start", "http.response.body"]
    assert b"database" in sent[1]["body"]
    assert b"late" not in sent[1]["body"]


def test_stream_that_has_begun_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_S", 0.0)
    silence = Silence()

    async def stream(scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive
        await send({"type": "http.response.start", "status": 200, "headers": []})
        silence.holds = True
        for number in range(20):
            await asyncio.get_running_loop().run_in_executor(None, int)
            body = {"type": "http.response.body", "body": b"%d" % number, "more_body": number < 19}
            await send(body)

    sent = asyncio.run(ask(patient(stream, silence)))
    assert status_of(sent)[0] == 200
    assert len(sent) == 21


def test_silence_is_an_answer_that_is_overdue(monkeypatch: pytest.MonkeyPatch) -> None:
    listener = Listener(None, Notifier(lambda: 0))  # type: ignore[arg-type]  # never connects here
    found = [listener.is_silent]
    monkeypatch.setattr(listener, "_asked_at", time.monotonic())
    found.append(listener.is_silent)
    monkeypatch.setattr(listen, "SILENT_S", -1.0)
    found.append(listener.is_silent)
    listener.stop()
    found.append(listener.is_silent)
    assert found == [False, False, True, False]
