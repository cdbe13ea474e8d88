"""History is pruned in the background, by whoever leads: small steps, and a pause after each."""

import threading
import time
from collections.abc import Callable

from api.clock import Clock
from api.log import get_logger
from api.store.decisions import DecisionLog
from api.store.engine import Database
from api.store.events import TRIM_STEP, trim_history
from api.store.retention import STEP, forget_jobs, forget_usage

LOOK_S = 10.0
"""Between looks whether anything is too old."""

REST = 4.0
"""Pause after a step, in times of what the step took: a fifth of the time at most."""

REST_S_MIN = 0.02

USAGE_EVERY_S = 3_600.0

log = get_logger(__name__)


class Pruner:
    """A thread that forgets what is older than is to be kept.

    Args:
        event_history: Events kept, at least.
        job_history_s: How long records of jobs are kept after they ended.
        decisions: The log whose limits are kept too.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        *,
        event_history: int,
        job_history_s: float,
        decisions: DecisionLog | None = None,
    ) -> None:
        self._database = database
        self._clock = clock
        self._event_history = event_history
        self._job_history_s = job_history_s
        self._decisions = decisions
        self._usage_at = -USAGE_EVERY_S
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, is_leading: Callable[[], bool]) -> None:
        """Begin; returns at once. Nothing is forgotten while `is_leading()` does not hold."""
        self._stopping.clear()
        self._thread = threading.Thread(
            target=self._run, args=(is_leading,), name="podyard-pruner", daemon=True
        )
        self._thread.start()

    def stop(self, timeout_s: float = 5.0) -> None:
        """End; the step under way is finished."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout_s)
            self._thread = None

    def step(self) -> bool:
        """Forget a little of everything; whether there is more."""
        now_s = self._clock.now_s()
        before = now_s - self._job_history_s
        jobs = forget_jobs(self._database, before=before, now_s=now_s)
        events = trim_history(self._database, keep=self._event_history, now_s=now_s)
        return jobs >= STEP or events >= TRIM_STEP

    def _run(self, is_leading: Callable[[], bool]) -> None:
        pause_s = LOOK_S
        while not self._stopping.wait(pause_s):
            pause_s = LOOK_S
            if not is_leading():
                continue
            began = time.monotonic()
            try:
                if self.step():
                    pause_s = max(REST_S_MIN, REST * (time.monotonic() - began))
                else:
                    self._rarely(began)
            except Exception:  # an edge: what could not be forgotten now is so later
                log.exception("pruning_failed")

    def _rarely(self, at: float) -> None:
        """What is done once all else is."""
        if self._decisions is not None:
            self._decisions.trim()
        if at - self._usage_at >= USAGE_EVERY_S:
            forget_usage(self._database, now_s=self._clock.now_s())
            self._usage_at = at
