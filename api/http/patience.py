"""What waits for a database that has gone silent is told so, instead of waiting with it.

A server that is stopped, or a network that swallows everything, ends no connection: a request would
be answered once it is back, long after its client has given up. What such a request began may still
come through; nothing was acknowledged.
"""

import asyncio
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.http.guard import Answers, problem_response
from api.store.errors import DatabaseSilent

LOOK_S = 0.5
"""Between looks at what waits."""

ALWAYS = frozenset({"/healthz", "/readyz", "/metrics"})
"""Answered at any time; they ask a silent database nothing."""


class Patience:
    """Answers 503 to whoever waits while the database is silent.

    Args:
        is_silent: Whether it is.
        answers: How errors are told of on paths that are not answered with problem documents.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        is_silent: Callable[[], bool],
        answers: Answers | None = None,
    ) -> None:
        self._app = app
        self._is_silent = is_silent
        self._answers = answers or {}
        self._waiting: set[_Waiting] = set()
        self._telling: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in ALWAYS:
            await self._app(scope, receive, send)
            return
        waiting = _Waiting(scope, receive, send)
        if self._is_silent():
            await self._give_up(waiting)
            return
        self._waiting.add(waiting)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._look)
        try:
            await self._app(scope, receive, waiting.send)
        finally:
            self._waiting.discard(waiting)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        if self._is_silent():
            for waiting in [w for w in self._waiting if not w.has_begun]:
                task = loop.create_task(self._give_up(waiting))
                self._telling.add(task)
                task.add_done_callback(self._telling.discard)
        self._timer = loop.call_later(LOOK_S, self._look) if self._waiting else None

    async def _give_up(self, waiting: "_Waiting") -> None:
        waiting.has_begun = waiting.is_told = True
        error = DatabaseSilent()
        path = waiting.scope["path"]
        answer = next((a for has, a in self._answers.items() if has(path)), problem_response)
        await answer(error)(waiting.scope, waiting.receive, waiting.send_anyway)


class _Waiting:
    """A request that may have no answer yet.

    Attributes:
        has_begun: Its answer has.
        is_told: It was answered here; what comes of it later is dropped.
    """

    __slots__ = ("has_begun", "is_told", "receive", "scope", "send_anyway")

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self.receive = receive
        self.send_anyway = send
        self.has_begun = False
        self.is_told = False

    async def send(self, message: Message) -> None:
        """What the application sends."""
        if not self.is_told:
            self.has_begun = True
            await self.send_anyway(message)
