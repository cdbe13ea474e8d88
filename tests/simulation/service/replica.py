"""A process of the service in a play: the real runner, leader, outbox and leases over a wire."""

from collections.abc import Callable
from typing import Protocol

import sqlalchemy as sa

from api.hooks.send import Answer, Message
from api.loop import leader as leader_module
from api.loop.leader import Leader
from api.loop.outbox import Outbox
from api.loop.runner import Runner
from api.loop.silence import Silence
from api.store.decisions import DecisionLog
from api.store.engine import Database
from api.store.leases import Leases
from api.store.tables import leader
from tests.simulation.service.server import START_S, Server, Session, database_of
from tests.simulation.service.stage import Stage


class Hooks(Protocol):
    """Whoever the outbox delivers to."""

    async def send(self, message: Message) -> Answer: ...


class WallClock:
    """One process's clock; it may jump.

    Attributes:
        off_s: How far it is from the right time.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.off_s = 0.0

    def now_s(self) -> float:
        return START_S + self._stage.now_s + self.off_s


class Replica:
    """One process, over as many lives as it has.

    Attributes:
        name: Of the process; also what it is called as a leader.
        is_up: It takes requests.
        lives: How often it was started.
    """

    def __init__(self, stage: Stage, server: Server, name: str, hooks: Hooks) -> None:
        self.stage, self.server, self.name = stage, server, name
        self.clock = WallClock(stage)
        self.is_up = False
        self.lives = 0
        self._hooks = hooks
        self._engine = server.engine(name)
        self.database: Database
        self.leases: Leases
        self.runner: Runner

    def start(self) -> None:
        """Begin a life; what it does from then on it does as actors of its own."""
        self.lives += 1
        self.stage.spawn(f"{self.name}-start", self._begin, self.name)

    def _begin(self) -> None:
        self.database = database = database_of(self._engine)
        self.leases = Leases(database)
        self.runner = Runner(
            database,
            self.clock,
            event_history=self.server.weather.event_history,
            decisions=DecisionLog(database, keep=200, keep_bytes=1 << 22),
            outbox=Outbox(database, self.clock, self._hooks, concurrency=4),  # type: ignore[arg-type]  # all that it calls
        )
        self.runner.silence = Silence(self.leases)
        self._lead_by_session(self.runner._leader)
        self.runner.start()
        self.is_up = True

    def _lead_by_session(self, lead: Leader) -> None:
        """Have it lead as processes on PostgreSQL do, not by a lock on the file."""
        lead._holder = self.name
        lead._lock = leader_module._SessionLock(self.database, lead._lose)

    def session(self) -> Session:
        """What holds the lock of an epoch; the sign of life goes over a connection of its own."""

        def beat(epoch: int) -> bool:
            values = {"seen_at": self.server.now_s}
            row = sa.update(leader).where(leader.c.epoch == epoch).values(**values)
            with self._engine.execution_options(immediate=True).begin() as connection:
                return connection.execute(row).rowcount > 0

        return Session(self.server, self.name, beat)

    def die(self) -> None:
        """As by kill -9. Not to be called by an actor of its own."""
        self.is_up = False
        self.stage.kill(self.name)
        self.server.forget(self.name)
        self._engine.dispose()

    def end(self, then: Callable[[], None]) -> None:
        """As by SIGTERM: the runner ends what it does and lets another lead."""

        def work() -> None:
            self.is_up = False
            self.runner.stop()
            self.leases.close()
            self.database.close()
            self.stage.after(0.0, then)

        if self.is_up:
            self.stage.spawn(f"{self.name}-end", work, self.name)
