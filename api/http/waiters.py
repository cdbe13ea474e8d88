"""Requests that wait for a job: one thread watches the events for all of them."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterable

from fastapi.concurrency import run_in_threadpool

from api.log import get_logger
from api.store.engine import Database
from api.store.events import current_revision, list_events
from api.store.views import JobView

log = get_logger(__name__)

LOOK_AGAIN_S = 5.0
"""A waiting request looks by itself that often, should a wake-up be lost."""

_WATCH_S = 1.0
_EVENTS = 1_000


class JobWaiters:
    """Wakes requests when something happens to their job.

    The watching thread lives as long as somebody waits.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._waiting: dict[str, list[Callable[[], None]]] = {}
        self._watching = False
        self._watcher: threading.Thread | None = None
        self._closed = False

    async def until(
        self,
        uid: str,
        look: Callable[[], JobView],
        done: Callable[[JobView], bool],
        timeout_s: float,
    ) -> JobView:
        """The job when `done` says so, or as it is after `timeout_s`.

        Args:
            look: Reads the job; runs in a thread.
        """
        happened, loop = asyncio.Event(), asyncio.get_running_loop()
        deadline_s = time.monotonic() + timeout_s

        def wake() -> None:
            loop.call_soon_threadsafe(happened.set)

        self._add(uid, wake)
        try:
            # The job is read after the waiter is known, so that nothing happens in between unseen.
            job = await run_in_threadpool(look)
            while not (done(job) or self._closed):
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    break
                await _wait(happened, min(left_s, LOOK_AGAIN_S))
                happened.clear()
                job = await run_in_threadpool(look)
            return job
        finally:
            self._remove(uid, wake)

    def close(self) -> None:
        """Have everybody answered now, and leave the database alone from here."""
        self._closed = True
        self._wake_all()
        self._database.notifier.poke()
        with self._lock:
            watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.join(_WATCH_S)

    def _add(self, uid: str, wake: Callable[[], None]) -> None:
        with self._lock:
            self._waiting.setdefault(uid, []).append(wake)
            if self._watching or self._closed:
                return
            self._watching = True
            self._watcher = threading.Thread(target=self._watch, name="job-waiters", daemon=True)
            self._watcher.start()

    def _remove(self, uid: str, wake: Callable[[], None]) -> None:
        with self._lock:
            left = [w for w in self._waiting.get(uid, []) if w is not wake]
            if left:
                self._waiting[uid] = left
            else:
                self._waiting.pop(uid, None)

    def _watch(self) -> None:
        seen = -1
        while self._goes_on():
            try:
                if seen < 0:
                    seen = current_revision(self._database)
                    # What came between the first look of a request and now would be missed.
                    self._wake_all()
                seen = self._watch_once(seen)
            except Exception:
                # An edge: the database may be away for a while, or the history trimmed.
                log.exception("job_watch_failed")
                seen = -1
                time.sleep(_WATCH_S)

    def _watch_once(self, seen: int) -> int:
        known = self._database.notifier.wait(seen, _WATCH_S, until=lambda: self._closed)
        if known <= seen or self._closed:
            return seen
        page = list_events(self._database, seen, _EVENTS)
        if not page.items:
            return max(seen, page.revision)
        self._wake({event.uid for event in page.items if event.subject_kind == "job"})
        return page.items[-1].revision

    def _goes_on(self) -> bool:
        with self._lock:
            self._watching = bool(self._waiting) and not self._closed
            return self._watching

    def _wake(self, uids: Iterable[str]) -> None:
        with self._lock:
            wakes = [wake for uid in uids for wake in self._waiting.get(uid, ())]
        for wake in wakes:
            _quietly(wake)

    def _wake_all(self) -> None:
        with self._lock:
            uids = list(self._waiting)
        self._wake(uids)


async def _wait(event: asyncio.Event, timeout_s: float) -> None:
    try:
        await asyncio.wait_for(event.wait(), timeout_s)
    except TimeoutError:
        return


def _quietly(wake: Callable[[], None]) -> None:
    try:
        wake()
    except RuntimeError:
        # The loop of that request has ended, and the request with it.
        return
