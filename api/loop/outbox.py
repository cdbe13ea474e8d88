"""The loop of the outbox: what is due is sent, at least once, and what came of it written down.

It runs where the leader is. A process that dies between sending and writing leaves the message
pending, and it is sent again under the same id.
"""

import asyncio
import hashlib
import threading
import time
from collections.abc import Callable

from api.clock import Clock
from api.hooks.send import Answer, Message, Sender
from api.log import get_logger
from api.metrics import Metrics
from api.schemas.hook import read_saved
from api.store.checkpoints import Checkpoint
from api.store.engine import Database
from api.store.outbox import (
    PRUNE_STEP,
    Delivery,
    Outcome,
    begin_request,
    due_deliveries,
    finish_delivery,
    prune_deliveries,
)
from api.tracing import tracing

IDLE_S = 1.0
"""Between looks when nobody wakes the loop: other processes write messages too."""

SOON_S = 0.02
"""Shortest pause, so that a moment that has just not come is not looked for all the time."""

NOTICE_S, NOTICE_S_MAX = 5.0, 3_600.0
"""Pause after the first failed attempt to deliver a notice, doubled each time, and the longest."""

REQUEST_S, REQUEST_S_MAX = 1.0, 15.0
"""The same of a request to save, for as long as the job has time."""

REST_S = 1.0
"""Pause of a lane after an error of our own."""

PRUNE_EVERY_S = 60.0

GONE = 410
"""By this answer a receiver says that it wants no more."""

log = get_logger(__name__)


class Outbox:
    """A thread that delivers while this process leads.

    Args:
        concurrency: Notices under way at a time; as many requests to save go beside them.
        tries: Attempts after which a notice is dead.
        history_s: How long messages are kept that are done with.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        sender: Sender,
        *,
        concurrency: int = 32,
        tries: int = 12,
        history_s: float = 7 * 86_400.0,
        metrics: Metrics | None = None,
    ) -> None:
        self._database = database
        self._clock = clock
        self._sender = sender
        self._concurrency = concurrency
        self._tries = tries
        self._history_s = history_s
        self._metrics = metrics
        self._is_leading: Callable[[], bool] = lambda: True
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._woken = asyncio.Event()
        self._stopping = False
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._requests: set[str] = set()
        self._pruned_at = time.monotonic()

    def start(self, is_leading: Callable[[], bool]) -> None:
        """Begin; returns at once. Nothing is sent while `is_leading()` does not hold."""
        self._is_leading = is_leading
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="podyard-outbox", daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float = 5.0) -> None:
        """End; what is under way is sent again by whoever leads next."""
        self._stopping = True
        self.wake()
        if self._thread is not None:
            self._thread.join(timeout_s)
            self._thread = None

    def wake(self) -> None:
        """Look soon: something was written, or time has moved. From any thread."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            try:
                loop.call_soon_threadsafe(self._woken.set)
            except RuntimeError:
                log.debug("outbox_woken_at_its_end")

    def drain(self) -> None:
        """Send all that is due now, in this thread, and return when that is done."""
        asyncio.run(self._drain())

    async def _drain(self) -> None:
        while True:
            self._woken = asyncio.Event()
            await self._start_due()
            if not self._under_way:
                return
            await asyncio.wait(list(self._under_way.values()))

    def _run(self) -> None:
        while not self._stopping:
            try:
                asyncio.run(self._serve())
            except Exception:  # an edge: the loop outlives whatever it runs into
                log.exception("outbox_failed")
                time.sleep(REST_S)

    async def _serve(self) -> None:
        self._woken = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._under_way.clear()
        self._requests.clear()
        try:
            while not self._stopping:
                self._woken.clear()
                pause_s = await self._turn()
                try:
                    await asyncio.wait_for(self._woken.wait(), pause_s)
                except TimeoutError:
                    continue
        finally:
            self._loop = None
            for task in self._under_way.values():
                task.cancel()

    async def _turn(self) -> float:
        """Start what is due; seconds until the next look."""
        if not self._is_leading():
            return IDLE_S
        next_at = await self._start_due()
        if time.monotonic() - self._pruned_at >= PRUNE_EVERY_S:
            await self._prune()
        if next_at is None:
            return IDLE_S
        return min(max(next_at - self._clock.now_s(), SOON_S), IDLE_S)

    async def _start_due(self) -> float | None:
        """Start what is due as far as there are hands; when more is due, None if never."""
        later: list[float] = []
        for is_request in (True, False):
            busy = [lane for lane in self._under_way if (lane in self._requests) is is_request]
            free = self._concurrency - len(busy)
            if free <= 0:
                continue
            due, next_at = await asyncio.to_thread(
                due_deliveries,
                self._database,
                now_s=self._clock.now_s(),
                limit=free,
                requests=is_request,
                busy=busy,
            )
            later += [] if next_at is None else [next_at]
            for delivery in due:
                if is_request:
                    self._requests.add(delivery.lane)
                task = asyncio.create_task(self._deliver(delivery))
                self._under_way[delivery.lane] = task
        return min(later, default=None)

    async def _deliver(self, delivery: Delivery) -> None:
        try:
            await self._attempt(delivery)
        except Exception:  # an edge: the others are to be delivered all the same
            log.exception("delivery_failed", id=delivery.id)
            await asyncio.sleep(REST_S)
        finally:
            self._under_way.pop(delivery.lane, None)
            self._requests.discard(delivery.lane)
            self._woken.set()

    async def _attempt(self, delivery: Delivery) -> None:
        database, clock = self._database, self._clock
        if delivery.is_request:
            begun = await asyncio.to_thread(begin_request, database, delivery, now_s=clock.now_s())
            if begun is None:
                return
            delivery = begun
        message = Message(delivery.id, delivery.namespace, delivery.url, delivery.body)
        with tracing.span("hook delivery", id=str(delivery.id), attempt=delivery.attempts) as span:
            answer = await self._sender.send(message)
            now_s = clock.now_s()
            outcome = outcome_of(delivery, answer, now_s=now_s, tries=self._tries)
            span.set_attribute("error", outcome.error or "")
        self._count(delivery, outcome)
        await asyncio.to_thread(finish_delivery, database, delivery, outcome, now_s=now_s)

    def _count(self, delivery: Delivery, outcome: Outcome) -> None:
        result = "taken" if not outcome.error else "failed" if outcome.due_at else "dead"
        if self._metrics is not None:
            self._metrics.deliveries.labels(delivery.kind, result).inc()
        if outcome.error:
            log.info(
                "hook_not_taken",
                id=delivery.id,
                kind=delivery.kind,
                job=f"{delivery.namespace}/{delivery.name}",
                attempt=delivery.attempts + 1,
                error=outcome.error,
            )

    async def _prune(self) -> None:
        before = self._clock.now_s() - self._history_s
        if await asyncio.to_thread(prune_deliveries, self._database, before=before) < PRUNE_STEP:
            self._pruned_at = time.monotonic()


def outcome_of(delivery: Delivery, answer: Answer, *, now_s: float, tries: int) -> Outcome:
    """What an answer means, and when the message is to be sent again if it was not taken."""
    attempt = delivery.attempts + 1
    due_at: float | None = now_s + pause_s(delivery, attempt)
    if delivery.is_request:
        if due_at is not None and due_at >= (delivery.expires_at or 0.0):
            due_at = None
        return _of_request(delivery, answer, due_at)
    if attempt >= tries or answer.status == GONE:
        due_at = None
    return Outcome(answer.status, answer.error, due_at)


def _of_request(delivery: Delivery, answer: Answer, due_at: float | None) -> Outcome:
    status = answer.status
    if answer.error:
        return Outcome(status, answer.error, due_at)
    if status == 202:
        return Outcome(status, is_saving=True)
    saved = read_saved(answer.body) if status == 200 else None
    if saved is None:
        wanted = '200 with {"state": "saved", "step", "uri"}, or 202'
        return Outcome(status, f"answered {status}; expected is {wanted}", due_at)
    checkpoint = Checkpoint(
        step=saved.step,
        uri=saved.uri,
        tier=saved.tier or "",
        nodes=tuple(saved.nodes),
        request_id=delivery.request_id or "",
    )
    return Outcome(status, due_at=due_at, saved=checkpoint)


def pause_s(delivery: Delivery, attempt: int) -> float:
    """Seconds until a message is sent again: doubled each time, and spread by its id.

    Args:
        attempt: That has failed, from 1 on.
    """
    base, most = (REQUEST_S, REQUEST_S_MAX) if delivery.is_request else (NOTICE_S, NOTICE_S_MAX)
    digest = hashlib.sha256(f"{delivery.id}:{attempt}".encode()).digest()
    spread = int.from_bytes(digest[:4]) / 2**32
    return float(min(base * 2 ** min(attempt - 1, 30), most) * (0.5 + spread / 2))
