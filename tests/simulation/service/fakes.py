"""What stands in for threads, clocks and the event loop while the service plays on a stage.

The service's modules name `threading`, `time`, `asyncio`, `os` and `gc`, or what is in these; for
the time of a play they are given these instead. Nothing else of them is touched: each line that
runs is theirs.
"""

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import fields, is_dataclass
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

from tests.simulation.service.stage import Actor, Stage

PLAYED = ("api.store.", "api.loop.", "api.clock")


class Lock:
    """A lock whose waiters park."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._is_held = False
        self._waiting: list[Actor] = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:  # noqa: FBT002 - as the real one
        until_s = None if timeout < 0 else self._stage.now_s + timeout
        while self._is_held:
            me = self._stage.current
            if not blocking or me is None:
                return False
            self._waiting.append(me)
            self._stage.park(until_s)
            if until_s is not None and self._stage.now_s >= until_s and self._is_held:
                return False
        self._is_held = True
        return True

    def release(self) -> None:
        self._is_held = False
        waiting, self._waiting = self._waiting, []
        for actor in waiting:
            self._stage.wake(actor)

    def locked(self) -> bool:
        return self._is_held

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Condition:
    """Waiters park; whoever holds its lock is alone, as nobody parks while holding it."""

    def __init__(self, stage: Stage, lock: Lock | None = None) -> None:
        self._stage = stage
        self._lock = lock or Lock(stage)
        self._waiting: list[Actor] = []

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        me = self._stage.current
        if me is None:
            return False
        self._waiting.append(me)
        self._lock.release()
        woken = self._stage.park(None if timeout is None else self._stage.now_s + timeout)
        self._lock.acquire()
        return woken

    def notify_all(self) -> None:
        waiting, self._waiting = self._waiting, []
        for actor in waiting:
            self._stage.wake(actor)

    def notify(self, n: int = 1) -> None:
        now, self._waiting = self._waiting[:n], self._waiting[n:]
        for actor in now:
            self._stage.wake(actor)


class Event:
    """A flag whose waiters park."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._is_set = False
        self._waiting: list[Actor] = []

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        waiting, self._waiting = self._waiting, []
        for actor in waiting:
            self._stage.wake(actor)

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        until_s = None if timeout is None else self._stage.now_s + max(timeout, 0.0)
        while not self._is_set:
            me = self._stage.current
            if me is None:
                return False
            self._waiting.append(me)
            self._stage.park(until_s)
            if until_s is not None and self._stage.now_s >= until_s:
                break
        return self._is_set


class Thread:
    """An actor of the process that starts it."""

    def __init__(
        self,
        stage: Stage,
        *,
        target: Callable[..., object],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
        name: str = "thread",
        daemon: bool | None = None,
    ) -> None:
        self._stage = stage
        self._work = lambda: target(*args, **(kwargs or {}))
        self.name = name
        self.daemon = daemon
        self.actor: Actor | None = None

    def start(self) -> None:
        self.actor = self._stage.spawn(self.name, self._work)

    def is_alive(self) -> bool:
        return self.actor is not None and not self.actor.is_over

    def join(self, timeout: float | None = None) -> None:
        if self.actor is not None:
            self._stage.join(self.actor, timeout)


class Timer(Thread):
    """A thread that begins later, if it is not cancelled."""

    def __init__(self, stage: Stage, interval: float, function: Callable[[], object]) -> None:
        super().__init__(stage, target=self._later, name="timer")
        self._interval_s, self._function = interval, function
        self._is_cancelled = False

    def cancel(self) -> None:
        self._is_cancelled = True

    def _later(self) -> None:
        self._stage.sleep(self._interval_s)
        if not self._is_cancelled:
            self._function()


def run(coroutine: Coroutine[Any, Any, object]) -> object:
    """Run what never waits for an event loop, as whatever it awaits parks instead."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise RuntimeError(f"{coroutine} waits for an event loop, and there is none")


class Task:
    """A coroutine that runs as an actor."""

    def __init__(self, stage: Stage, coroutine: Coroutine[Any, Any, object]) -> None:
        self._stage = stage
        self.actor = stage.spawn("task", lambda: run(coroutine))

    def cancel(self) -> None:
        """Soon, as in an event loop; whoever cancels goes on first."""
        self._stage.after(0.0, lambda: self._stage.end(self.actor))


class AsyncEvent(Event):
    """The flag of an event loop: waited for without a limit."""

    async def wait(self) -> bool:  # type: ignore[override]  # of asyncio
        return super().wait()


class _Loop:
    """The one that the outbox is woken through."""

    def is_closed(self) -> bool:
        return False

    def call_soon_threadsafe(self, do: Callable[[], None]) -> None:
        do()


def _asyncio(stage: Stage) -> SimpleNamespace:
    async def sleep(seconds: float) -> None:
        stage.sleep(seconds)

    async def to_thread(do: Callable[..., object], /, *args: object, **named: object) -> object:
        return do(*args, **named)

    async def wait_for(waiting: Any, timeout: float | None) -> object:  # noqa: ANN401, ASYNC109 - as the real one
        # Only events are waited for with a limit, and theirs is what they park with.
        event = waiting.cr_frame.f_locals["self"] if waiting.cr_frame else None
        waiting.close()
        if not isinstance(event, AsyncEvent):
            raise TypeError(f"an event was expected, {waiting} is waited for")
        if not Event.wait(event, timeout):
            raise TimeoutError
        return True

    return SimpleNamespace(
        run=run,
        Event=lambda: AsyncEvent(stage),
        Task=Task,
        AbstractEventLoop=_Loop,
        create_task=lambda coroutine: Task(stage, coroutine),
        get_running_loop=_Loop,
        sleep=sleep,
        to_thread=to_thread,
        wait_for=wait_for,
    )


def stand_ins(stage: Stage) -> dict[ModuleType, object]:
    """What each module is replaced by."""
    threads = SimpleNamespace(
        Lock=lambda: Lock(stage),
        RLock=lambda: Lock(stage),
        Event=lambda: Event(stage),
        Condition=lambda lock=None: Condition(stage, lock),
        Thread=lambda **named: Thread(stage, **named),
        Timer=lambda interval, function: Timer(stage, interval, function),
        current_thread=lambda: None,
        get_ident=lambda: 1,
    )
    clock = SimpleNamespace(
        monotonic=lambda: stage.now_s,
        perf_counter=lambda: stage.now_s,
        time=lambda: stage.now_s,
        sleep=stage.sleep,
    )
    system = SimpleNamespace(**vars(os))
    system.urandom = lambda size: stage.rng.randbytes(size)
    return {threading: threads, time: clock, asyncio: _asyncio(stage), os: system}


@contextmanager
def installed(stage: Stage) -> Iterator[None]:
    """For this time the service's modules have no thread, no clock and no chance of their own."""
    made = {threading.Event: lambda: Event(stage), threading.Lock: lambda: Lock(stage)}
    with ExitStack() as stack:
        stack.enter_context(patched_modules(stand_ins(stage)))
        for kind, names in _with_factories(tuple(made)).items():
            given = {name: made[factory] for name, factory in names.items()}
            stack.enter_context(patch.object(kind, "__init__", _remaking(kind, given)))
        yield


def _with_factories(factories: tuple[object, ...]) -> dict[type, dict[str, Any]]:
    """Dataclasses of the service that make such things by themselves, and which fields these are.

    What makes them was looked up when the class was, so that no module's name leads there.
    """
    found: dict[type, dict[str, Any]] = {}
    for name, module in sorted(sys.modules.items()):
        if not name.startswith(PLAYED) or module is None:
            continue
        for kind in vars(module).values():
            if not isinstance(kind, type) or not is_dataclass(kind):
                continue
            names = {f.name: f.default_factory for f in fields(kind)}
            mine = {n: factory for n, factory in names.items() if factory in factories}
            if mine:
                found[kind] = mine
    return found


def _remaking(kind: type, given: Mapping[str, Callable[[], object]]) -> Callable[..., None]:
    real = kind.__init__  # type: ignore[misc]  # of this very class

    def begin(self: object, *words: object, **named: object) -> None:
        real(self, *words, **named)
        for name, make in given.items():
            setattr(self, name, make())

    return begin


@contextmanager
def patched_modules(replaced: dict[ModuleType, object]) -> Iterator[None]:
    undo: list[tuple[ModuleType, str, object]] = []
    taken = _by_themselves(replaced)
    quiet = SimpleNamespace(disable=_nothing, enable=_nothing, freeze=_nothing)
    try:
        for name, module in sys.modules.copy().items():
            if not name.startswith(PLAYED) or module is None:
                continue
            for word, value in list(vars(module).items()):
                if word == "gc":
                    other: object = quiet
                elif isinstance(value, ModuleType) and value in replaced:
                    other = replaced[value]
                elif id(value) in taken:
                    other = taken[id(value)]
                else:
                    continue
                undo.append((module, word, value))
                setattr(module, word, other)
        yield
    finally:
        for module, word, value in undo:
            setattr(module, word, value)


def _by_themselves(replaced: dict[ModuleType, object]) -> dict[int, object]:
    """What stands in for a class or function that was imported without its module, by its id."""
    return {
        id(vars(module)[name]): other
        for module, stand_in in replaced.items()
        for name, other in vars(stand_in).items()
        if callable(other) and vars(module).get(name, other) is not other
    }


def _nothing() -> None:
    """What a collector of memory is told here."""
