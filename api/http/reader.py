"""A copy of the world for questions: dry runs and counts, never decisions."""

import threading
from collections.abc import Callable
from typing import TypeVar

from api.store.engine import Database
from api.store.snapshot import follow, load_world
from scheduler.cluster.world import World

T = TypeVar("T")


class Reader:
    """The world as of the last question; made at the first one, followed from there."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._world: World | None = None

    def ask(self, question: Callable[[World], T]) -> T:
        """Answer a question on the world as it is now; it must leave the world as it was."""
        with self._lock:
            return self._answer(question)

    def ask_if_free(self, question: Callable[[World], T], wait_s: float = 0.0) -> T | None:
        """The same; None while another question is being answered, which may take a second.

        Args:
            wait_s: Longest wait for it.
        """
        if not self._lock.acquire(timeout=wait_s):
            return None
        try:
            return self._answer(question)
        finally:
            self._lock.release()

    def keep_up(self) -> None:
        """Follow what changed, so that the next question has less to take in; not the first."""
        if self._world is not None:
            self.ask_if_free(_nothing)

    def _answer(self, question: Callable[[World], T]) -> T:
        world = self._current()
        # Whatever stops a question half-way may leave edits behind: better a new copy then.
        self._world = None
        answer = question(world)
        self._world = world
        return answer

    def _current(self) -> World:
        if self._world is None:
            return load_world(self._database)
        follow(self._database, self._world)
        return self._world


def _nothing(_world: World) -> None:
    """No question."""
