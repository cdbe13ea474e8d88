"""Requests to the service: delayed, doubled, reordered, lost, and answers that never come."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import sqlalchemy as sa

from api.store.errors import StoreError
from scheduler.errors import InvariantError, SchedulerError
from tests.simulation.service.replica import Replica
from tests.simulation.service.stage import Actor, Stage
from tests.simulation.service.weather import Weather

Result = TypeVar("Result")

TIMEOUT_S = 10.0


class NoAnswer(Exception):
    """Nobody answered, or with 5xx: whether it was done is not known."""


@dataclass(slots=True, eq=False)
class _Call(Generic[Result]):
    """Of one request.

    Attributes:
        refused: What the service said instead.
    """

    caller: Actor
    results: list[Result]
    refused: Exception | None = None
    is_done: bool = False


class Network:
    """Between the world and the service.

    Attributes:
        unreachable: Names of those whose messages do not get through.
        bugs: What the service says of itself that it must never come to.
    """

    def __init__(self, stage: Stage, replicas: Sequence[Replica], weather: Weather) -> None:
        self.stage, self.replicas, self.weather = stage, replicas, weather
        self.unreachable: set[str] = set()
        self.bugs: list[str] = []

    def call(self, who: str, work: Callable[[Replica], Result]) -> Result:
        """Have one of the processes do something for somebody; what it answers.

        Raises:
            NoAnswer: If there is none in time.
            StoreError, SchedulerError: What the service refused it with.
        """
        me = self.stage.current
        if me is None:
            raise RuntimeError("only actors call the service")
        rng = self.stage.rng
        to = self.replicas[rng.randrange(len(self.replicas))]
        call: _Call[Result] = _Call(me, [])
        self._send(who, to, call, work)
        if rng.random() < self.weather.doubled:
            self._send(who, to, call, work)
        until_s = self.stage.now_s + TIMEOUT_S
        while not call.is_done and self.stage.park(until_s):
            continue
        call.is_done = True
        if call.refused is not None:
            raise call.refused
        if not call.results:
            raise NoAnswer
        return call.results[0]

    def delay_s(self) -> float:
        """How long a message takes."""
        rng, weather = self.stage.rng, self.weather
        if rng.random() < weather.late:
            return weather.late_s * rng.random()
        return weather.net_s * rng.random()

    def _send(
        self, who: str, to: Replica, call: _Call[Result], work: Callable[[Replica], Result]
    ) -> None:
        if who in self.unreachable or self.stage.rng.random() < self.weather.lost:
            return

        def arrive() -> None:
            # A process that stands still has it wait in its socket.
            if to.is_up:
                self.stage.spawn(f"{to.name}-for-{who}", serve, to.name)

        def serve() -> None:
            refused: Exception | None = None
            results: list[Result] = []
            try:
                results.append(work(to))
            except (StoreError, SchedulerError) as error:
                refused = error
                if isinstance(error, InvariantError):
                    self.bugs.append(f"{who}: {error}")
            except sa.exc.SQLAlchemyError:
                refused = NoAnswer("503")
            self.stage.after(self.delay_s(), lambda: reply(results, refused))

        def reply(results: list[Result], refused: Exception | None) -> None:
            if who in self.unreachable or self.stage.rng.random() < self.weather.lost:
                return
            if not call.is_done:
                call.is_done, call.refused = True, refused
                call.results += results
                self.stage.wake(call.caller)

        self.stage.after(self.delay_s(), arrive)
