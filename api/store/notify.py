"""Waiting for a revision: woken by commits of this process, polling for those of others."""

import threading
import time
from collections.abc import Callable

POLL_S = 0.05
"""How late a commit of another process may be seen. One waiter polls for all."""


class Notifier:
    """The latest revision this process knows, and who waits for a later one.

    Args:
        read_revision: Reads it from the database.
    """

    def __init__(self, read_revision: Callable[[], int]) -> None:
        self._read_revision = read_revision
        self._changed = threading.Condition()
        self._polling = threading.Lock()
        self._polled_at = 0.0
        self._revision = 0
        self._closed = False

    @property
    def known(self) -> int:
        """The latest revision known without looking."""
        return self._revision

    def publish(self, revision: int) -> None:
        """Make a revision known and wake all who wait."""
        with self._changed:
            if revision > self._revision:
                self._revision = revision
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
                self._changed.wait(min(left_s, POLL_S))
        return self._revision

    def _poll(self) -> None:
        """Look into the database, unless another waiter does so or did so just now."""
        if time.monotonic() - self._polled_at < POLL_S or not self._polling.acquire(blocking=False):
            return
        try:
            self.publish(self._read_revision())
            self._polled_at = time.monotonic()
        finally:
            self._polling.release()
