"""One reader for all watchers: it follows the events, and keeps what they changed for each kind.

Nothing is read from the database for a single watcher but what it missed before it came.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from starlette.concurrency import run_in_threadpool

from api.auth.seen import QUEUES
from api.k8s.changes import KEPT_CHANGES, Change, Line, missed, too_old
from api.k8s.kinds import Handler, Obj, Wanted
from api.k8s.meta import list_version
from api.log import get_logger
from api.store.engine import Database
from api.store.errors import Gone, StoreError
from api.store.look import look_at
from api.store.queue_rows import read_queues
from scheduler.model.queue import QueueRecord

log = get_logger(__name__)

ALL_EVENTS = 1_000_000
"""More than are kept."""

P = ParamSpec("P")
T = TypeVar("T")
LINGER_S = 0.01
"""Pause after each read, so that many small writes reach the watchers in one piece."""

LINGER_EACH_S = 0.0002
"""The same for each watcher: about what it takes to send one of them a piece."""

IDLE_S = 600.0
"""A kind that nobody has watched for so long is forgotten; its next watcher begins anew."""

WATCHERS_MAX = 2_000
NEVER = 1 << 62
"""Above every version."""

RETRY_S = 1.0
_WAIT_S = 1.0


class TooManyWatchers(StoreError):
    """No room for another one."""


class Mirror:
    """The lines of all kinds that are watched.

    Everything but the reads runs on the loop; the lines are changed by its reader alone.

    Args:
        closing: Set when the service ends.

    Attributes:
        queues: Those there are or were, while queues are watched: they say who may see one.
    """

    def __init__(self, database: Database, closing: asyncio.Event) -> None:
        self._database = database
        self.closing = closing
        self.watchers = 0
        self.queues: dict[str, QueueRecord] = {}
        self._lines: dict[str, Line] = {}
        self._used_s: dict[str, float] = {}
        self._tick = asyncio.Event()
        self._reader: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()
        self._one = ThreadPoolExecutor(1, "kubernetes-watch")

    async def line(self, handler: Handler) -> Line:
        """The line of a kind; read whole when it is wanted for the first time."""
        key = handler.kind.resource
        async with self._lock:
            if key not in self._lines:
                self._lines[key] = await self._in_thread(self._begin, handler)
            self._used_s[key] = asyncio.get_running_loop().time()
        self._start()
        return self._lines[key]

    async def initial(
        self, line: Line, namespace: str | None, name: str | None
    ) -> tuple[list[Obj], int]:
        """All objects of a kind at one moment, and the version of that moment."""
        return await self._in_thread(self._initial, line, namespace, name)

    async def missed(self, line: Line, version: int) -> tuple[list[Change], int]:
        """What a watcher that begins before the line missed, and the version to go on from.

        Raises:
            StatusError: 410 if that is too far back.
        """
        return await self._in_thread(self._missed, line, version)

    async def wait(self, longest_s: float) -> None:
        """Until there may be something new."""
        tick = self._tick
        try:
            async with asyncio.timeout(longest_s):
                await tick.wait()
        except TimeoutError:
            return

    def check_room(self) -> None:
        """Refuse a watcher for whom there is no room. Raises TooManyWatchers."""
        if self.watchers >= WATCHERS_MAX:
            raise TooManyWatchers(f"{self.watchers} watch already; at most {WATCHERS_MAX} may")

    def leave(self, line: Line) -> None:
        """Count a watcher out."""
        self.watchers -= 1
        self._used_s[line.handler.kind.resource] = asyncio.get_running_loop().time()

    def sizes(self) -> dict[str, tuple[int, int]]:
        """Changes kept of each kind, and their bytes."""
        return {key: (len(line), line.size_bytes) for key, line in self._lines.items()}

    # -- reading -----------------------------------------------------------------------------------

    def _begin(self, handler: Handler) -> Line:
        with look_at(self._database) as look:
            if handler.kind.resource == QUEUES:
                self.queues = read_queues(look.connection)
            return Line(handler, look)

    def _initial(
        self, line: Line, namespace: str | None, name: str | None
    ) -> tuple[list[Obj], int]:
        if not line.handler.kind.append_only:
            return list(line.objects(namespace, name)), int(list_version(line.head))
        with look_at(self._database) as look:
            line.follow(look, look.events(line.head, ALL_EVENTS))
            found = list(line.handler.read(look, Wanted(namespace, name)))
            return found, int(list_version(line.head))

    def _missed(self, line: Line, version: int) -> tuple[list[Change], int]:
        try:
            with look_at(self._database) as look:
                return missed(line, look, version), line.start
        except Gone:
            raise too_old(version, line.start) from None

    async def _in_thread(self, work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._one, partial(work, *args, **named))

    def _start(self) -> None:
        if self._reader is None and not self.closing.is_set():
            self._reader = asyncio.get_running_loop().create_task(self._keep_reading())

    async def _keep_reading(self) -> None:
        try:
            while self._lines and not self.closing.is_set():
                await self._read_on()
                self._forget_idle()
        finally:
            self._reader = None
            self._wake()
            if self.closing.is_set():
                await run_in_threadpool(self._one.shutdown)

    async def _read_on(self) -> None:
        try:
            changed = await self._in_thread(self._wait_and_read)
        except Gone:
            # So much happened while nothing could be read: everybody has to begin anew.
            for line in self._lines.values():
                line.start = NEVER
            self._lines.clear()
            self._wake()
            return
        except Exception:  # an edge: the database may be away for a while
            log.exception("kubernetes_watch_read_failed")
            await asyncio.sleep(RETRY_S)
            return
        if changed:
            self._wake()
            await asyncio.sleep(LINGER_S + LINGER_EACH_S * self.watchers)

    def _wait_and_read(self) -> bool:
        """In a thread: take in the next events; whether any line has changed."""
        lines = list(self._lines.values())
        head = min(line.head for line in lines)
        known = self._database.notifier.wait(head, _WAIT_S, until=self.closing.is_set)
        if known <= head or self.closing.is_set():
            return False
        with look_at(self._database) as look:
            events = self._database.tail.span(head, look.revision)
            if events is None:
                events = look.events(head, ALL_EVENTS)
            if QUEUES in self._lines and any(e.subject_kind == "queue" for e in events):
                self.follow_queues(read_queues(look.connection))
            changed = [line.follow(look, events) for line in lines]
        return any(changed)

    def follow_queues(self, there: dict[str, QueueRecord]) -> None:
        """Those that are gone stay, since whoever saw one is to be told that it went.

        But only as long as there is a change that may tell of it.
        """
        # In the order in which they went: those that went just now stood behind the others.
        gone = [name for name in self.queues if name not in there]
        self.queues = {name: self.queues[name] for name in gone[-KEPT_CHANGES:]} | there

    def _forget_idle(self) -> None:
        if self.watchers:
            return
        now_s = asyncio.get_running_loop().time()
        for key in [k for k, used_s in self._used_s.items() if now_s - used_s > IDLE_S]:
            self._lines.pop(key, None)
            self._used_s.pop(key, None)

    def _wake(self) -> None:
        tick, self._tick = self._tick, asyncio.Event()
        tick.set()
