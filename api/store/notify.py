"""Waiting for a revision: woken by commits of this process, and of others where they are heard.

Behind that it polls: often where nobody listens (see `listen.py`), from time to time where one
does, as a connection may be dead without knowing it.
"""

import threading
import time
from collections.abc import Callable

CHANNEL = "podyard_revision"
"""Of PostgreSQL, in each database by itself; what is told is a revision."""

POLL_S = 0.05
"""How late a commit of another process may be seen. One waiter polls for all."""

HEARING_POLL_S = 0.5
"""The same while commits of others are heard of."""


class Notifier:
    """The latest revision this process knows, and who waits for a later one.

    Args:
        read_revision: Reads it from the database.

    Attributes:
        told: Called with every new revision, whoever wrote it.
    """

    def __init__(self, read_revision: Callable[[], int]) -> None:
        self._read_revision = read_revision
        self._changed = threading.Condition()
        self._polling = threading.Lock()
        self._polled_at = 0.0
        self._revision = 0
        self._closed = False
        self._poll_s = POLL_S
        self.told: Callable[[int], None] = _nobody

    @property
    def pause_s(self) -> float:
        """How long it is left to others to look into the database."""
        return self._poll_s

    @property
    def known(self) -> int:
        """The latest revision known without looking."""
        return self._revision

    def publish(self, revision: int) -> None:
        """Make a revision known and wake all who wait."""
        with self._changed:
            if revision <= self._revision:
                return
            self._revision = revision
            self._changed.notify_all()
        self.told(revision)

    def look(self) -> None:
        """Look into the database, unless somebody did so just now."""
        self._poll()

    def hears(self, *, is_so: bool) -> None:
        """Whether commits of other processes are published here; all who wait look once more."""
        with self._changed:
            self._poll_s = HEARING_POLL_S if is_so else POLL_S
            self._polled_at = 0.0
            self._changed.notify_all()

    def poke(self) -> None:
        """Wake all who wait though nothing was written; they see that and wait on."""
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        """Wake all who wait, for good."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def wait(self, after: int, timeout_s: float, until: Callable[[], bool] = lambda: False) -> int:
        """Wait until the revision is above `after` or `until()` holds.

        Returns:
            The latest revision known, also when time is up.
        """
        deadline = time.monotonic() + timeout_s

        def is_over() -> bool:
            return self._closed or self._revision > after or until()

        while not is_over():
            self._poll()
            with self._changed:
                left_s = deadline - time.monotonic()
                if is_over() or left_s <= 0:
                    break
                self._changed.wait(min(left_s, self._poll_s))
        return self._revision

    def _poll(self) -> None:
        """Look into the database, unless another waiter does so or did so just now."""
        is_fresh = time.monotonic() - self._polled_at < self._poll_s
        if is_fresh or not self._polling.acquire(blocking=False):
            return
        try:
            self.publish(self._read_revision())
            self._polled_at = time.monotonic()
        finally:
            self._polling.release()


def _nobody(_revision: int) -> None:
    """Nobody wants to be told."""
