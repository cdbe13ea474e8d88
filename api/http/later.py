"""What a service answers most calls with, made once it has decided for the first time.

The code behind those calls takes as long to import as a cluster takes to be read. Who waits for a
place after a restart waits for neither: submissions are taken, and decided on, before.
"""

import asyncio
import gc
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from api.auth.table import Asked
from api.log import get_logger

if TYPE_CHECKING:
    from fastapi import FastAPI

LATEST_S = 5.0
"""So long after the start it is made in any case: the first decision may need a database that is
away."""

LOOK_S = 0.02
"""Between looks whether there was a decision."""

log = get_logger(__name__)


class Worker(Protocol):
    """A thread of the service."""

    def start(self) -> None: ...

    def stop(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Rest:
    """All that can wait.

    Attributes:
        app: Answers every call.
        routed: The part of it that has routes and describes itself.
        asked_of: What a call of another face asks for.
        tell: An error, in that face's words.
        workers: Run while this process may lead.
    """

    app: ASGIApp
    routed: "FastAPI"
    asked_of: Callable[[str, str], Asked | None]
    tell: Callable[[Exception], Response]
    workers: tuple[Worker, ...]


class Later:
    """The rest as an ASGI app: a call that comes before it is there waits.

    Args:
        make: Imports and makes it.
    """

    def __init__(self, make: Callable[[], Rest]) -> None:
        self._make = make
        self._rest: Rest | None = None
        self._making = threading.Lock()
        self._tried: Future[None] | None = None
        self._works = self._is_over = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        rest = self._rest
        if rest is None:
            rest = await self.wait()
        await rest.app(scope, receive, send)

    @property
    def is_made(self) -> bool:
        return self._rest is not None

    def rest(self) -> Rest:
        """The rest; makes it, in a second or so, if it is not there yet."""
        with self._making:
            if self._rest is None:
                gc.disable()
                try:
                    self._rest = self._make()
                finally:
                    # Code is there to stay, and not worth a collection.
                    gc.freeze()
                    gc.enable()
                if self._works:
                    self._start_workers(self._rest)
            return self._rest

    async def wait(self) -> Rest:
        """The rest, once it is there."""
        if self._rest is None and self._tried is not None:
            await asyncio.shield(asyncio.wrap_future(self._tried))
        # Made here where nobody does, or where that failed: then whoever asks is told why.
        return await run_in_threadpool(self.rest)

    def start(self, first: threading.Event | None, *, works: bool) -> None:
        """Have it made by a thread; returns at once.

        Args:
            first: Set once there was a decision; None = none is to be waited for.
            works: Whether its workers are to run.
        """
        self._is_over, self._tried = False, Future()
        with self._making:
            self._works = works
            if works and self._rest is not None:
                self._start_workers(self._rest)
        thread = threading.Thread(
            target=self._run, args=(first, self._tried), name="podyard-later", daemon=True
        )
        thread.start()

    def stop(self) -> None:
        """Make no more of it, and end its workers; returns when they have."""
        self._is_over = True
        with self._making:
            if self._works and self._rest is not None:
                for worker in self._rest.workers:
                    worker.stop()
            self._works = False

    def _run(self, first: threading.Event | None, tried: Future[None]) -> None:
        latest_s = time.monotonic() + LATEST_S
        try:
            while first is not None and not first.wait(LOOK_S):
                if self._is_over or time.monotonic() > latest_s:
                    break
            if not self._is_over:
                self.rest()
        except Exception:  # an edge: whoever asks next tries again
            log.exception("not_made")
        finally:
            tried.set_result(None)

    def _start_workers(self, rest: Rest) -> None:
        for worker in rest.workers:
            worker.start()


class Until:
    """Wraps the layers of an app that ask the rest themselves, which is not to be made in the loop.

    Args:
        is_concerned: Whether they would on a path.
    """

    def __init__(self, app: ASGIApp, *, later: Later, is_concerned: Callable[[str], bool]) -> None:
        self._app, self._later, self._is_concerned = app, later, is_concerned

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (
            not self._later.is_made
            and scope["type"] == "http"
            and self._is_concerned(scope["path"])
        ):
            await self._later.wait()
        await self._app(scope, receive, send)
