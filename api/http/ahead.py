"""Answers made before they are asked for, while somebody asks from time to time.

On a large cluster an overview takes some milliseconds to make. Whoever polls is then told what was
known a moment ago, and a thread of its own makes what is told next: so no request waits for it, nor
shares the interpreter with it for longer than a moment.
"""

import threading
import time
from collections.abc import Callable

from api.log import get_logger

ASKED_S = 15.0
"""So long after the last question the next answer is made ahead; dashboards poll each 10 s."""

LOOK_S = 0.5
"""Longest wait for news before it is looked whether there still is somebody."""

log = get_logger(__name__)


class Ahead:
    """A thread that lives while it is asked.

    Args:
        make: Makes the answer if there is news.
        pause_s: Seconds until the next one may be made.
        wait: Waits for news, so many seconds at most.
    """

    def __init__(
        self,
        make: Callable[[], object],
        pause_s: Callable[[], float],
        wait: Callable[[float], object],
    ) -> None:
        self._make = make
        self._pause_s = pause_s
        self._wait = wait
        self._asked_s = 0.0
        self._stopping = threading.Event()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    def asked(self) -> None:
        """Somebody asked just now."""
        self._asked_s = time.monotonic()
        if self._thread is not None and self._thread.is_alive():
            return
        with self._starting:
            if self._stopping.is_set() or (self._thread is not None and self._thread.is_alive()):
                return
            self._thread = threading.Thread(target=self._run, name="podyard-ahead", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Make no more; the one under way is finished."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(5.0)

    def _run(self) -> None:
        while not self._stopping.is_set() and time.monotonic() - self._asked_s < ASKED_S:
            try:
                if not self._stopping.wait(self._pause_s()):
                    self._make()
                    self._wait(LOOK_S)
            except Exception:  # an edge: whoever asks makes the answer, and meets the trouble
                log.exception("ahead_failed")
                return
