"""The connections that a process shares among all that it does, as many as the service allows.

A process that stood still finds more requests waiting than it has connections. Whoever gets none
parks until one is given back, or the service's own limit is reached. The pool's own way would be to
hold up the thread, and with it everybody on the stage who could give one back.
"""

from typing import ClassVar

from sqlalchemy import Engine
from sqlalchemy.pool import ConnectionPoolEntry, QueuePool
from sqlalchemy.util.queue import Queue

from tests.simulation.service.stage import Actor, Stage


class _Free(Queue[ConnectionPoolEntry]):
    """Connections that nobody uses."""

    stage: ClassVar[Stage]

    def __init__(self, maxsize: int = 0, use_lifo: bool = False) -> None:  # noqa: FBT002 - as the real one
        super().__init__(maxsize, use_lifo)
        self._waiting: list[Actor] = []

    def put(
        self,
        item: ConnectionPoolEntry,
        block: bool = True,  # noqa: FBT002 - as the real one
        timeout: float | None = None,
    ) -> None:
        super().put(item, block, timeout)
        waiting, self._waiting = self._waiting, []
        for actor in waiting:
            self.stage.wake(actor)

    def get(self, block: bool = True, timeout: float | None = None) -> ConnectionPoolEntry:  # noqa: FBT002 - as the real one
        me, until_s = self.stage.current, self.stage.now_s + (timeout or 0.0)
        while block and me is not None and self.empty() and self.stage.now_s < until_s:
            self._waiting.append(me)
            self.stage.park(until_s)
        return super().get(block=False)


def share_on(stage: Stage, engine: Engine) -> None:
    """Have all who wait for a connection of an engine that has none yet do so on a stage."""
    old = engine.pool
    if not isinstance(old, QueuePool):
        raise TypeError(f"a pool with a limit was expected, this is {old}")
    kind = type(
        "PoolOn", (QueuePool,), {"_queue_class": type("FreeOn", (_Free,), {"stage": stage})}
    )
    engine.pool = kind(
        old._creator,
        pool_size=old.size(),
        max_overflow=old._max_overflow,
        timeout=old.timeout(),
        dialect=old._dialect,
        _dispatch=old.dispatch,
    )
