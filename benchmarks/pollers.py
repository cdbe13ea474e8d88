"""Open dashboards, as many as wanted, without browsers: each polls and follows as the page does."""

import asyncio
import re
import time
from dataclasses import dataclass, field

POLL_S = 10.0
"""As the page polls while nothing happens."""

SOON_S = 3.0
"""The least pause after an event, as in the page."""

_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
_ETAG = re.compile(rb"etag: ([^\r]+)", re.IGNORECASE)


@dataclass(slots=True)
class Seen:
    """What the pollers got."""

    polls: int = 0
    unchanged: int = 0
    seconds: list[float] = field(default_factory=list)


ANSWER_S = 30.0
"""Longest wait for an answer."""


async def poll(port: int, count: int, seconds: float) -> Seen:
    """So many dashboards for so long, spread over the interval at which they poll.

    Raises:
        TimeoutError: If the service does not answer one of them for half a minute.
    """
    seen, ends_s = Seen(), time.monotonic() + seconds
    dashboards = (_Dashboard(port, seen, ends_s, i / count) for i in range(count))
    await asyncio.gather(*(dashboard.run() for dashboard in dashboards))
    return seen


class _Dashboard:
    """One: a connection that polls, and one that follows the watch."""

    def __init__(self, port: int, seen: Seen, ends_s: float, phase: float) -> None:
        self._port = port
        self._seen = seen
        self._ends_s = ends_s
        self._phase = phase
        self._etag = b""
        self._news = asyncio.Event()

    async def run(self) -> None:
        await asyncio.sleep(self._phase * POLL_S)
        watch = asyncio.create_task(self._watch())
        try:
            await self._poll()
        finally:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)

    async def _poll(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        while time.monotonic() < self._ends_s:
            self._news.clear()
            began_s = time.perf_counter()
            try:
                await self._answered(reader, writer)
            except (asyncio.IncompleteReadError, ConnectionError):
                # The service closes what was silent for some seconds; browsers come back.
                writer.close()
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
                await self._answered(reader, writer)
            self._seen.seconds.append(time.perf_counter() - began_s)
            await asyncio.sleep(SOON_S)
            try:
                async with asyncio.timeout(POLL_S - SOON_S):
                    await self._news.wait()
            except TimeoutError:
                continue
        writer.close()

    async def _answered(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(ANSWER_S):
                await self._ask(reader, writer)
        except TimeoutError:
            message = f"no answer to GET /v1/overview within {ANSWER_S:g} s"
            raise TimeoutError(message) from None

    async def _ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        match = b"If-None-Match: " + self._etag + b"\r\n" if self._etag else b""
        writer.write(
            b"GET /v1/overview HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept-Encoding: gzip\r\n"
            + match
            + b"\r\n"
        )
        head = await reader.readuntil(b"\r\n\r\n")
        self._seen.polls += 1
        if b" 304 " in head.split(b"\r\n", 1)[0]:
            self._seen.unchanged += 1
            return
        length, etag = _LENGTH.search(head), _ETAG.search(head)
        if length is None or etag is None:
            raise RuntimeError(head.decode(errors="replace"))
        self._etag = etag[1]
        await reader.readexactly(int(length[1]))

    async def _watch(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        path = "/v1/watch?kind=job,node,queue,policy,set&pace_s=1"
        writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        try:
            while line := await reader.readline():
                if line.startswith(b"id:"):
                    self._news.set()
        finally:
            writer.close()
