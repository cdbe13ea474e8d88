"""Hearing of commits of other processes at once: PostgreSQL's LISTEN, in a thread of its own.

Every commit that gives revisions notifies with the last of them. What is lost while there is no
connection is found by the notifier, which looks by itself more often meanwhile.

As it asks something every second, this thread is also who knows when the database has gone silent.
"""

import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager

import psycopg
from sqlalchemy import Engine

from api.log import get_logger
from api.store.notify import CHANNEL, Notifier

LOOK_S = 1.0
"""Between looks whether the thread is to end, and whether the database still answers."""

ALIVE = "SELECT 1 AS podyard_lives"
"""What it asks. Others see by it whether this process can still reach the database."""

SILENT_S = 5.0
"""Without an answer to so little: the server is stopped, or the way to it swallows everything."""

AGAIN_S, AGAIN_S_MAX = 0.2, 2.0
"""Pause after the connection was lost, doubled each time."""

log = get_logger(__name__)


class Listener:
    """A thread that publishes revisions as other processes commit them.

    Args:
        engine: Whose connections are nobody else's.
        own: Sessions of this process, whose commits are told of by who makes them.
    """

    def __init__(
        self, engine: Engine, notifier: Notifier, own: Collection[int] = frozenset()
    ) -> None:
        self._engine = engine
        self._own = own
        self._notifier = notifier
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._asked_at: float | None = None

    @property
    def is_silent(self) -> bool:
        """Whether an answer is overdue."""
        asked_at = self._asked_at
        return asked_at is not None and time.monotonic() - asked_at > SILENT_S

    def start(self) -> None:
        """Begin; returns at once."""
        self._stopping.clear()
        self._thread = threading.Thread(target=self._run, name="podyard-listener", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End; the connection goes within a second."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(2 * LOOK_S)
            self._thread = None
        self._asked_at = None

    def _run(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            try:
                with self._connected() as connection:
                    failures = 0
                    self._hear(connection)
            except Exception as error:  # an edge: whatever it is, there is another attempt
                failures += 1
                if not self.is_silent:
                    # A clear no is an answer, and everybody else gets it too.
                    self._asked_at = None
                if failures == 1:
                    log.warning("listener_lost", error=str(error).partition("\n")[0])
                self._stopping.wait(min(AGAIN_S * 2 ** (failures - 1), AGAIN_S_MAX))

    @contextmanager
    def _connected(self) -> Iterator["psycopg.Connection[tuple[object, ...]]"]:
        """The driver's own connection, while it hears."""
        self._asked_at = self._asked_at or time.monotonic()
        pooled = self._engine.raw_connection()
        connection = pooled.driver_connection
        try:
            if not isinstance(connection, psycopg.Connection):
                raise TypeError(f"{type(connection).__name__} cannot listen")
            connection.autocommit = True
            connection.execute(f"LISTEN {CHANNEL}".encode())
            self._asked_at = None
            # What was committed before is found by the look that follows.
            self._notifier.hears(is_so=True)
            yield connection
        finally:
            self._notifier.hears(is_so=False)
            pooled.invalidate()

    def _hear(self, connection: "psycopg.Connection[tuple[object, ...]]") -> None:
        while not self._stopping.is_set():
            for note in connection.notifies(timeout=LOOK_S):
                if note.payload.isdecimal() and note.pid not in self._own:
                    self._notifier.publish(int(note.payload))
                if self._stopping.is_set():
                    return
            self._asked_at = time.monotonic()
            connection.execute(ALIVE)
            self._asked_at = None
