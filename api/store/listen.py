"""Hearing of commits of other processes at once: PostgreSQL's LISTEN, in a thread of its own.

Every commit that gives revisions notifies with the last of them. What is lost while there is no
connection is found by the notifier, which looks by itself more often meanwhile.

As it asks something every second, this thread is also who knows when the database has gone silent.
"""

import selectors
import socket
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager

import psycopg
from sqlalchemy import Engine

from api.log import get_logger
from api.store.notify import CHANNEL, Notifier

LOOK_S = 1.0
"""Between looks whether the database still answers."""

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
        self._bell: tuple[socket.socket, socket.socket] | None = None
        self._thread: threading.Thread | None = None
        self._asked_at: float | None = None

    @property
    def is_silent(self) -> bool:
        """Whether an answer is overdue."""
        asked_at = self._asked_at
        return asked_at is not None and time.monotonic() - asked_at > SILENT_S

    def start(self) -> None:
        """Begin, unless it has begun; returns at once."""
        if self._thread is not None:
            return
        self._stopping.clear()
        self._bell = socket.socketpair()
        self._thread = threading.Thread(
            target=self._run, args=self._bell[:1], name="podyard-listener", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End, and let go of the connection; at once, unless the database is silent."""
        self._stopping.set()
        if self._thread is not None and self._bell is not None:
            rung, rings = self._bell
            with rung, rings:
                rings.send(b"\0")
                self._thread.join(2 * LOOK_S)
        self._thread = self._bell = self._asked_at = None

    def _run(self, bell: socket.socket) -> None:
        failures = 0
        while not self._stopping.is_set():
            try:
                with self._connected() as connection:
                    failures = 0
                    self._hear(connection, bell)
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

    def _hear(
        self, connection: "psycopg.Connection[tuple[object, ...]]", bell: socket.socket
    ) -> None:
        told = connection.pgconn  # the driver's loop over notes would not hear the bell
        connection.add_notify_handler(lambda note: self._take(note.payload, note.pid))
        ask_at = time.monotonic() + LOOK_S
        with selectors.DefaultSelector() as waiting:
            waiting.register(connection, selectors.EVENT_READ)
            waiting.register(bell, selectors.EVENT_READ)
            while not self._stopping.is_set():
                told.consume_input()
                while note := told.notifies():
                    self._take(note.extra.decode(errors="replace"), note.be_pid)
                waiting.select(max(0.0, ask_at - time.monotonic()))
                if time.monotonic() >= ask_at:
                    self._asked_at = time.monotonic()
                    connection.execute(ALIVE)  # notes that come with the answer are handled
                    self._asked_at = None
                    ask_at = time.monotonic() + LOOK_S

    def _take(self, payload: str, session: int) -> None:
        if payload.isdecimal() and session not in self._own:
            self._notifier.publish(int(payload))
