"""What time it is: the system's, or one that moves only when told to (tests)."""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

LAST_S = 253_402_300_799.0
"""9999-12-31T23:59:59Z: the last moment that has a date."""

MANUAL_START_S = 1_767_225_600.0
"""2026-01-01T00:00:00Z: where a manual clock starts in a fresh database."""


def date_of(at_s: float) -> datetime:
    """Unix seconds as a date.

    What lies behind the last date has that one: the end of what is to go on for 1e300 s, say.
    """
    return datetime.fromtimestamp(min(max(at_s, 0.0), LAST_S), UTC)


def rfc3339(at_s: float) -> str:
    """Unix seconds as `2026-01-01T12:00:00.000Z`."""
    return date_of(at_s).isoformat(timespec="milliseconds")[:-6] + "Z"


class Clock(Protocol):
    """Unix seconds, UTC."""

    def now_s(self) -> float: ...


class SystemClock:
    """The machine's wall clock."""

    def now_s(self) -> float:
        return time.time()


class ManualClock:
    """Stands still until it is told to move; goes on from where it was after a restart.

    Args:
        start_s: Where it was.
        save: Keeps the new time before anybody sees it.
    """

    def __init__(
        self, start_s: float = MANUAL_START_S, save: Callable[[float], None] | None = None
    ) -> None:
        self._now_s = start_s
        self._save = save
        self._lock = threading.Lock()
        self._listeners: list[Callable[[], None]] = []

    def now_s(self) -> float:
        return self._now_s

    def on_advance(self, listener: Callable[[], None]) -> None:
        """Have `listener` called after every move."""
        self._listeners.append(listener)

    def advance(self, seconds: float) -> float:
        """Move on by `seconds`, at least 0, and return the new time.

        Raises:
            ValueError: If `seconds` is negative or not finite.
        """
        if not 0 <= seconds < float("inf"):
            raise ValueError(f"a clock moves by 0 or more seconds, not by {seconds}")
        with self._lock:
            now_s = self._now_s + seconds
            if self._save is not None:
                self._save(now_s)
            self._now_s = now_s
        for listener in self._listeners:
            listener()
        return now_s
