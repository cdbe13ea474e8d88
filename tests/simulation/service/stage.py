"""A stage on which actors take turns: each is a greenlet, one at a time runs, a seed says which.

What runs on it is ordinary code that blocks. Where it would wait for a lock, a moment or an answer
it parks, and the stage goes on with another. Time is virtual: it passes only when nobody is ready.
"""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from greenlet import getcurrent, greenlet  # type: ignore[import-untyped]  # it has no types

Work = Callable[[], object]


class Killed(BaseException):
    """The process of this actor ends here; no handler of its code is to take it for an error."""


@dataclass(slots=True, eq=False)
class Actor:
    """Something that runs by itself.

    Attributes:
        process: Whose it is; "" = of the world around the service.
        is_over: It has ended.
        error: What it ended with, if not by itself.
    """

    name: str
    process: str
    work: Work
    runs: greenlet
    is_over: bool = False
    is_doomed: bool = False
    is_parked: bool = False
    was_woken: bool = False
    nap: int = 0
    waits_for_me: list["Actor"] = field(default_factory=list)
    error: BaseException | None = None


class Stage:
    """Actors, the time, and the seed that orders them.

    Attributes:
        now_s: Virtual seconds since the beginning.
        steps: Turns that actors have had.
        rng: All chance of the simulation comes from here, in the order of the steps.
        failed: Actors that ended in an error.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.now_s = 0.0
        self.steps = 0
        self.failed: list[Actor] = []
        self._hub = getcurrent()
        self._ready: list[Actor] = []
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._paused: set[str] = set()
        self._actors: dict[greenlet, Actor] = {}

    @property
    def current(self) -> Actor | None:
        """Who runs; None outside of a turn."""
        return self._actors.get(getcurrent())

    def spawn(self, name: str, work: Work, process: str | None = None) -> Actor:
        """Have something run by itself, of the process of whoever asks for it."""
        if process is None:
            process = "" if self.current is None else self.current.process
        runs = greenlet(self._perform, self._hub)
        actor = Actor(name, process, work, runs)
        self._actors[runs] = actor
        self._ready.append(actor)
        return actor

    def at(self, at_s: float, do: Callable[[], None]) -> None:
        """Have something done at a time, between two turns."""
        heapq.heappush(self._later, (at_s, next(self._order), do))

    def after(self, delay_s: float, do: Callable[[], None]) -> None:
        self.at(self.now_s + delay_s, do)

    def park(self, until_s: float | None = None) -> bool:
        """Wait to be woken, or for a time; whether it was woken."""
        actor = self.current
        if actor is None:
            raise RuntimeError("somebody who is not on the stage waits: nobody could wake it")
        if actor.is_doomed:
            raise Killed
        actor.nap += 1
        nap = actor.nap
        actor.is_parked, actor.was_woken = True, False
        if until_s is not None:
            self.at(until_s, lambda: self._wake_nap(actor, nap))
        self._hub.switch()
        return actor.was_woken

    def sleep(self, seconds: float) -> None:
        """Wait for a time; nobody can wake it."""
        until_s = self.now_s + seconds
        while self.park(until_s) and self.now_s < until_s:
            continue

    def breathe(self) -> None:
        """Let others have a turn, in no time."""
        actor = self.current
        if actor is not None:
            actor.is_parked = True
            actor.nap += 1
            self.wake(actor)
            self._hub.switch()

    def wake(self, actor: Actor) -> None:
        """End the nap of an actor, if it takes one."""
        if actor.is_parked and not actor.is_over:
            actor.is_parked, actor.was_woken = False, True
            self._ready.append(actor)

    def join(self, actor: Actor, timeout_s: float | None = None) -> None:
        """Wait for an actor to end."""
        me = self.current
        until_s = None if timeout_s is None else self.now_s + timeout_s
        while not actor.is_over and me is not None:
            actor.waits_for_me.append(me)
            if not self.park(until_s):
                return

    def pause(self, process: str) -> None:
        """No actor of a process gets a turn any more, as if it were stopped by a signal."""
        self._paused.add(process)

    def resume(self, process: str) -> None:
        self._paused.discard(process)

    def is_paused(self, process: str) -> bool:
        return process in self._paused

    def kill(self, process: str) -> None:
        """End all actors of a process where they are. Not to be called by one of them."""
        self.resume(process)
        mine = [actor for actor in self._actors.values() if actor.process == process]
        for actor in mine:
            actor.is_doomed = True
        for actor in mine:
            self.end(actor)

    def end(self, actor: Actor) -> None:
        """End one actor where it is; what it does on its way out takes no turn."""
        actor.is_doomed = True
        if actor.is_over:
            return
        if actor in self._ready:
            self._ready.remove(actor)
        actor.is_parked = False
        me, actor.runs.parent = self._hub, getcurrent()
        try:
            if actor.runs:
                actor.runs.throw(Killed)
            else:
                self._over(actor)
        finally:
            actor.runs.parent = me

    def step(self) -> bool:
        """Give one actor its turn; False if there is nobody, now or later."""
        while True:
            ready = [actor for actor in self._ready if actor.process not in self._paused]
            if ready:
                break
            if not self._later:
                return False
            at_s, _, do = heapq.heappop(self._later)
            self.now_s = max(self.now_s, at_s)
            do()
        actor = ready[self.rng.randrange(len(ready))] if len(ready) > 1 else ready[0]
        self._ready.remove(actor)
        self.steps += 1
        actor.runs.switch()
        return True

    def _wake_nap(self, actor: Actor, nap: int) -> None:
        if actor.is_parked and actor.nap == nap:
            self.wake(actor)
            actor.was_woken = False

    def _perform(self) -> None:
        actor = self._actors[getcurrent()]
        try:
            if not actor.is_doomed:
                actor.work()
        except Killed:
            pass
        except Exception as error:
            actor.error = error
            self.failed.append(actor)
        self._over(actor)

    def _over(self, actor: Actor) -> None:
        actor.is_over = True
        self._actors.pop(actor.runs, None)
        for other in actor.waits_for_me:
            self.wake(other)
