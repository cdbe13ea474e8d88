"""Server-sent events: their text, and an answer that goes on until either side ends it."""

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from api.schemas.reading import write_json

MEDIA_TYPE = "text/event-stream"

GREETING = b"retry: 1000\n"
"""Browsers come back after a second."""

STALL_S = 30.0
"""A reader that takes nothing for so long is cut off: nothing can be told to it either."""

GRACE_S = 1.0
"""For the last words of a stream when the service ends; below the server's own patience."""

_LOOK_S = 1.0


def event_text(revision: int, shape: Mapping[str, object]) -> bytes:
    """An event, its revision as its id."""
    return b"id: %d\ndata: %b\n\n" % (revision, write_json(shape))


def heartbeat(at: int) -> bytes:
    """A comment that says up to which revision everything wanted has been sent."""
    return b": revision %d\n\n" % at


def last_words(document: Mapping[str, object]) -> bytes:
    """Why a stream ends before its time, as an event of its own kind."""
    return b"event: error\ndata: %b\n\n" % write_json(document)


class EventStream(Response):
    """Sends what it is given until that ends, the reader leaves or stalls, or the service ends.

    Args:
        chunks: Texts; closed in any case.
        closing: Set when the service ends; `chunks` is to end by itself soon after.
    """

    media_type = MEDIA_TYPE

    def __init__(self, chunks: AsyncGenerator[bytes, None], closing: asyncio.Event) -> None:
        # A proxy that collects answers before it passes them on would hold everything back.
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._chunks = chunks
        self._closing = closing
        self._sending_since_s: float | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        loop = asyncio.get_running_loop()
        sending = loop.create_task(self._send(send))
        others = (loop.create_task(_left(receive)), loop.create_task(self._stalled()))
        try:
            await asyncio.wait((sending, *others), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, *others):
                task.cancel()
            await asyncio.gather(sending, *others, return_exceptions=True)
            await self._chunks.aclose()
        if not sending.cancelled():
            sending.result()

    async def _send(self, send: Send) -> None:
        await send(
            {
                "type": "http.response.start",
                "status": self.status_code,
                "headers": self.raw_headers,
            }
        )
        async for chunk in self._chunks:
            self._sending_since_s = time.monotonic()
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
            self._sending_since_s = None
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _stalled(self) -> None:
        """Returns when the reader takes nothing any more, or the service cannot wait for it."""
        while not self._closing.is_set():
            try:
                async with asyncio.timeout(_LOOK_S):
                    await self._closing.wait()
            except TimeoutError:
                since_s = self._sending_since_s
                if since_s is not None and time.monotonic() - since_s > STALL_S:
                    return
        await asyncio.sleep(GRACE_S)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue
