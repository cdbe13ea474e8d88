"""The newest events, read once and given to all who watch; what is older each reads by itself."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from starlette.concurrency import run_in_threadpool

from api.auth.seen import Names, sees_event, told_body
from api.http import shapes
from api.http.sse import GREETING, event_text, heartbeat, last_words
from api.log import get_logger
from api.problems import document_of
from api.store.engine import Database
from api.store.errors import Gone, StoreError
from api.store.events import current_revision, list_events
from api.store.views import EventView

log = get_logger(__name__)

BATCH_EVENTS = 500
"""Events read, or sent, at a time: about 200 KB."""

KEPT_EVENTS, KEPT_BYTES = 10_000, 16 * 1024 * 1024
"""How far the slowest watcher may fall behind before it is cut off; one copy serves all."""

LINGER_S = 0.01
"""Pause after each read, so that many small writes reach the watchers in one piece."""

HEARTBEAT_S = 15.0
"""Proxies cut what is silent for 30 or 60 s."""

WATCHERS_MAX = 1_000
HISTORY_READS = 4
"""Watchers that read old events at the same time; others wait their turn, so that many that come
back at once leave threads and connections to everybody else."""

RETRY_S = 1.0
"""After a read that failed."""

_WAIT_S = 1.0

Wanted = Callable[[EventView], bool]
Texts = tuple[tuple[EventView, bytes], ...]
"""Events, each as it is sent."""


class TooSlow(StoreError):
    """A watcher that did not keep up."""


class TooManyWatchers(StoreError):
    """No room for another one."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Events that were read together, without a gap, each with its text."""

    events: Texts
    text: bytes
    shown: dict[frozenset[str], tuple[Texts, bytes]] = field(default_factory=dict)

    def seen_by(self, names: Names) -> tuple[Texts, bytes]:
        """What of it is shown to who is bound to namespaces; made once for all who are alike."""
        if names is None:
            return self.events, self.text
        kept = self.shown.get(names)
        if kept is None:
            found = ((e, _shown_text(names, e, t)) for e, t in self.events if sees_event(names, e))
            some = tuple(found)
            kept = self.shown[names] = (some, b"".join(text for _, text in some))
        return kept

    @property
    def first(self) -> int:
        return self.events[0][0].revision

    @property
    def last(self) -> int:
        return self.events[-1][0].revision


class Feed:
    """Wakes and serves all watchers of one process.

    One task reads while anybody watches; everything here but the reads runs on its loop.

    Attributes:
        kept_events: Kept in memory, at least.
        heartbeat_s: Longest silence of a stream.
        closing: Set when the service ends.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.kept_events = KEPT_EVENTS
        self.heartbeat_s = HEARTBEAT_S
        self.closing = asyncio.Event()
        self.watchers = 0
        self._batches: deque[Batch] = deque()
        self._count = self._bytes = 0
        self._start = self._head = -1
        self._tick = asyncio.Event()
        self._reader: asyncio.Task[None] | None = None
        self._one = ThreadPoolExecutor(1, "watch-reader")
        self._few = ThreadPoolExecutor(HISTORY_READS, "watch-history")

    def check_room(self) -> None:
        """Refuse a watcher for whom there is no room. Raises TooManyWatchers."""
        if self.watchers >= WATCHERS_MAX:
            raise TooManyWatchers(f"{self.watchers} watch already; at most {WATCHERS_MAX} may")

    def close(self) -> None:
        """End all streams now; on the loop of the service."""
        self.closing.set()
        self._wake()
        self._database.notifier.poke()

    async def stop(self) -> None:
        """The same, and leave the database alone from here."""
        self.close()
        if self._reader is not None:
            await self._reader
        for threads in (self._one, self._few):
            await run_in_threadpool(threads.shutdown)

    async def follow(
        self,
        since: int,
        wanted: Wanted | None,
        timeout_s: float,
        pace_s: float = 0.0,
        names: Names = None,
    ) -> AsyncGenerator[bytes, None]:
        """Events after `since`, as text to be sent, until something ends it.

        Args:
            wanted: Picks events; None = all.
            timeout_s: Longest stream.
            pace_s: Pause after what is sent; what happens meanwhile is sent together.
            names: Namespaces that the reader is bound to; None = all.
        """
        self._join()
        end_s = time.monotonic() + timeout_s
        try:
            async for chunk in self._follow(since, wanted, end_s, names):
                yield chunk
                await self._rest(min(pace_s, end_s - time.monotonic()))
        except StoreError as error:
            yield last_words(document_of(error))
        finally:
            self.watchers -= 1

    async def _follow(
        self, since: int, wanted: Wanted | None, end_s: float, names: Names
    ) -> AsyncGenerator[bytes, None]:
        at, is_live, sent_s = since, False, time.monotonic()
        yield GREETING + heartbeat(at)
        while not self.closing.is_set() and (now_s := time.monotonic()) < end_s:
            is_live = is_live or 0 <= self._start <= at
            if is_live and at < self._start:
                raise TooSlow(_too_slow(at, self._head))
            batches = self._new(at) if is_live else await self._old(at)
            text = b"".join(_text_after(at, batch, wanted, names) for batch in batches)
            if batches:
                at = batches[-1].last
            if not text and now_s - sent_s >= self.heartbeat_s:
                text = heartbeat(at)
            if text:
                yield text
                sent_s = time.monotonic()
            elif not batches:
                await self._pause(min(end_s, sent_s + self.heartbeat_s) - now_s)

    def _new(self, at: int) -> list[Batch]:
        """What is in memory after a revision, as much as is sent at a time."""
        found: deque[Batch] = deque()
        for batch in reversed(self._batches):
            if batch.last <= at:
                break
            found.appendleft(batch)
        chosen, count = list[Batch](), 0
        for batch in found:
            if chosen and count + len(batch.events) > BATCH_EVENTS:
                break
            chosen.append(batch)
            count += len(batch.events)
        return chosen

    async def _old(self, at: int) -> list[Batch]:
        """The same from the database, for a watcher that begins before what is in memory."""
        if self._start < 0:
            return []
        loop = asyncio.get_running_loop()
        while not self.closing.is_set():
            try:
                return await loop.run_in_executor(self._few, self._read, at)
            except StoreError:
                raise
            except Exception:  # an edge: the database may be away for a while
                await self._after_failure()
        return []

    async def _after_failure(self) -> None:
        """Say that a read failed, and leave the database alone for a moment."""
        log.exception("watch_read_failed")
        await self._pause(RETRY_S)

    async def _rest(self, pace_s: float) -> None:
        """Send nothing for so long, or until the service ends."""
        if pace_s > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.closing.wait(), pace_s)

    async def _pause(self, longest_s: float) -> None:
        """Until there may be something new."""
        tick = self._tick
        try:
            async with asyncio.timeout(longest_s):
                await tick.wait()
        except TimeoutError:
            return

    # -- reading ----------------------------------------------------------------------------------

    def _join(self) -> None:
        self.watchers += 1
        if self._reader is None and not self.closing.is_set():
            self._reader = asyncio.get_running_loop().create_task(self._keep_reading())

    async def _keep_reading(self) -> None:
        try:
            while self.watchers and not self.closing.is_set():
                await self._read_on()
        finally:
            self._forget()
            self._reader = None

    async def _read_on(self) -> None:
        in_thread = partial(asyncio.get_running_loop().run_in_executor, self._one)
        try:
            if self._head < 0:
                self._start = self._head = await in_thread(current_revision, self._database)
                self._wake()
            batches = await in_thread(self._wait_and_read, self._head)
        except Gone:
            self._forget()  # so much happened while nothing could be read
            return
        except Exception:  # an edge: the database may be away for a while
            await self._after_failure()
            return
        if batches:
            self._keep(batches)
            self._wake()
            await asyncio.sleep(LINGER_S)

    def _wait_and_read(self, head: int) -> list[Batch]:
        """In a thread: the next events, or none after a second."""

        def is_over() -> bool:
            return self.closing.is_set() or not self.watchers

        known = self._database.notifier.wait(head, _WAIT_S, until=is_over)
        return self._newest(head) if known > head and not is_over() else []

    def _newest(self, after: int) -> list[Batch]:
        return _batches(self._database.tail.after(after, BATCH_EVENTS))

    def _read(self, after: int) -> list[Batch]:
        return _batches(list_events(self._database, after, BATCH_EVENTS).items)

    def _keep(self, batches: list[Batch]) -> None:
        for batch in batches:
            self._batches.append(batch)
            self._count += len(batch.events)
            self._bytes += len(batch.text)
            self._head = batch.last
        while self._is_too_much():
            oldest = self._batches.popleft()
            self._count -= len(oldest.events)
            self._bytes -= len(oldest.text)
            self._start = oldest.last

    def _is_too_much(self) -> bool:
        if len(self._batches) < 2:
            return False
        spare = self._count - len(self._batches[0].events)
        return spare >= self.kept_events or self._bytes > KEPT_BYTES

    def _forget(self) -> None:
        self._batches.clear()
        self._count = self._bytes = 0
        self._start = self._head = -1

    def _wake(self) -> None:
        tick, self._tick = self._tick, asyncio.Event()
        tick.set()


def _batches(found: Sequence[EventView]) -> list[Batch]:
    if not found:
        return []
    events = tuple((event, event_text(event.revision, shapes.event(event))) for event in found)
    return [Batch(events, b"".join(text for _, text in events))]


def _text_after(at: int, batch: Batch, wanted: Wanted | None, names: Names) -> bytes:
    events, whole = batch.seen_by(names)
    if wanted is None and batch.first > at:
        return whole
    return b"".join(
        text for event, text in events if event.revision > at and (wanted is None or wanted(event))
    )


def _shown_text(names: Names, event: EventView, text: bytes) -> bytes:
    """An event as it is sent to who is bound to namespaces: most often as to all."""
    if told_body(names, event.body) is event.body:
        return text
    return event_text(event.revision, shapes.event(event, names))


def _too_slow(at: int, head: int) -> str:
    return (
        f"the reader is {head - at} events behind at revision {at}, further than they are kept "
        "for it; it may come back with that revision as its Last-Event-ID"
    )
