"""Requests that wait for a job: told of it by whoever commits, in this process or another."""

import asyncio
import threading
import time
from collections.abc import Callable

from starlette.concurrency import run_in_threadpool

from api.store.engine import Database
from api.store.job_rows import later_view
from api.store.tail import Piece, Standing
from api.store.views import JobView

LOOK_AGAIN_S = 5.0
"""A waiting request looks by itself that often, should a wake-up be lost."""


class _Waiting:
    """One request that waits.

    Attributes:
        standing: How its job stood last, if who wrote that said so.
        has_news: Whether anything has happened to it that is not in `standing`.
    """

    __slots__ = ("_happened", "_loop", "has_news", "standing")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._happened = asyncio.Event()
        self.standing: Standing | None = None
        self.has_news = False

    def tell(self, standing: Standing | None) -> None:
        """Say that something happened; from any thread."""
        try:
            self._loop.call_soon_threadsafe(self._take, standing)
        except RuntimeError:
            # The loop of that request has ended, and the request with it.
            return

    def _take(self, standing: Standing | None) -> None:
        """On the loop, where all else here happens too."""
        self.standing, self.has_news = standing, standing is None
        self._happened.set()

    async def pause(self, timeout_s: float) -> None:
        """Until something happens, or so long."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._happened.wait()
        except TimeoutError:
            self.has_news = True
        self._happened.clear()


class JobWaiters:
    """Wakes requests when something happens to their job."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._waiting: dict[str, list[_Waiting]] = {}
        self._closed = False

    async def until(
        self,
        uid: str,
        look: Callable[[], JobView],
        done: Callable[[JobView], bool],
        timeout_s: float,
        known: JobView | None = None,
    ) -> JobView:
        """The job when `done` says so, or as it is after `timeout_s`.

        Args:
            look: Reads the job; runs in a thread.
            known: The job as of a moment ago; spares the first look if nothing happened since.
        """
        deadline_s = time.monotonic() + timeout_s
        waiting = _Waiting()
        self._add(uid, waiting)
        try:
            # What happened since is looked for once the waiter is known, so that nothing is missed.
            waiting.has_news = known is None
            if known is not None:
                waiting.has_news, waiting.standing = self._since(known)
            job = known
            while True:
                job = await self._job(waiting, job, look)
                left_s = deadline_s - time.monotonic()
                if done(job) or self._closed or left_s <= 0:
                    return job
                if not (waiting.has_news or waiting.standing):
                    await waiting.pause(min(left_s, LOOK_AGAIN_S))
        finally:
            self._remove(uid, waiting)

    def close(self) -> None:
        """Have everybody answered now, and leave the database alone from here."""
        self._closed = True
        self._database.tail.leave(self._hear)
        self._wake_all()

    async def _job(
        self, waiting: _Waiting, known: JobView | None, look: Callable[[], JobView]
    ) -> JobView:
        """The job as it is now: from what was said of it, or else from the database."""
        has_news, standing = waiting.has_news, waiting.standing
        waiting.has_news, waiting.standing = False, None
        if known is not None and not has_news:
            if standing is None:
                return known
            later = later_view(known, standing)
            if later is not None:
                return later
        return await run_in_threadpool(look)

    def _since(self, known: JobView) -> tuple[bool, Standing | None]:
        """Whether something happened to a job since that memory cannot tell, and what it tells."""
        tail = self._database.tail
        pieces = tail.is_all_after(known.revision, self._database.notifier.known)
        if pieces is None:
            return True, None
        about = [piece for piece in pieces if known.uid in piece.uids_after(known.revision)]
        standing = about[-1].jobs.get(known.uid) if about else None
        return bool(about) and standing is None, standing

    def _wake_all(self) -> None:
        with self._lock:
            everybody = [waiting for some in self._waiting.values() for waiting in some]
        for waiting in everybody:
            waiting.tell(None)

    def _hear(self, piece: Piece | None) -> None:
        if piece is None:
            self._wake_all()
            return
        with self._lock:
            if not self._waiting:
                return
            found = {uid for uid, _, _ in piece.subjects() if uid in self._waiting}
            told = [(waiting, piece.jobs.get(u)) for u in found for waiting in self._waiting[u]]
        for waiting, standing in told:
            waiting.tell(standing)

    def _add(self, uid: str, waiting: _Waiting) -> None:
        with self._lock:
            is_first = not self._waiting
            self._waiting.setdefault(uid, []).append(waiting)
        if is_first and not self._closed:
            self._database.tail.listen(self._hear)

    def _remove(self, uid: str, waiting: _Waiting) -> None:
        with self._lock:
            left = [other for other in self._waiting.get(uid, []) if other is not waiting]
            if left:
                self._waiting[uid] = left
            else:
                self._waiting.pop(uid, None)
            is_last = not self._waiting
        if is_last:
            self._database.tail.leave(self._hear)
