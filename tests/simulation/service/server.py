"""The database of a play: a SQLite file, and between it and each process a wire that can break.

What it does as PostgreSQL would: one writer at a time, as each write locks the counter first;
readers with a snapshot of their own; sessions that are ended when they hold others up; advisory
locks that end with their session; commits whose answer is lost. What it cannot show: writes that do
not take that lock first, deadlocks, what becomes of a commit when the power fails.
"""

import sqlite3
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import sqlalchemy as sa
from sqlalchemy import Engine, event

from api.store.connect import open_engine
from api.store.engine import Database
from tests.simulation.service.pool import share_on
from tests.simulation.service.stage import Actor, Killed, Stage
from tests.simulation.service.weather import Weather

LOCK_WAIT_S = 30.0
IDLE_WRITE_S = 60.0
"""A session that does nothing within a transaction for so long is ended."""
CONNECT_S = 5.0
START_S = 1_800_000_000.0
"""What the clocks show at the beginning, Unix seconds."""
CUT = "server closed the connection unexpectedly"


class Server:
    """The file, its one write lock, and what became of each commit.

    Attributes:
        weather: Faults that come by chance.
        on_commit: Called after each commit with the process and the actor that made it.
        on_death: Called when a process is to die at once.
        parted: Processes that cannot reach it.
        is_down: Nobody can.
    """

    def __init__(self, stage: Stage, path: str, weather: Weather) -> None:
        self.stage, self.path, self.weather = stage, path, weather
        self.on_commit: Callable[[str, str], None] = lambda _process, _actor: None
        self.on_death: Callable[[str], None] = lambda _process: None
        self.parted: set[str] = set()
        self.is_down = False
        self._writer: Wire | None = None
        self._queue: list[Actor] = []
        self._wires: list[Wire] = []
        self._sessions: dict[int, list[Session]] = {}

    # --- connections -------------------------------------------------------------------

    def engine(self, process: str) -> Engine:
        """An engine of the service's own make, whose connections go over wires."""
        made = open_engine(f"sqlite:///{self.path}")
        share_on(self.stage, made)
        kind = type("WireOf", (Wire,), {"server": self, "process": process})

        def connect(
            _dialect: object, _record: object, _arguments: object, named: dict[str, object]
        ) -> None:
            named |= {"factory": kind, "timeout": 0.0}

        event.listen(made, "do_connect", connect)
        event.listen(made, "connect", self._set_up)
        return made

    def _set_up(self, wire: Any, _entry: object) -> None:  # noqa: ANN401 - DB-API has no type
        wire.execute("PRAGMA synchronous=OFF")  # nothing here survives the power anyway
        wire.create_function("julianday", 1, lambda _now: self.now_s / 86_400.0 + 2_440_587.5)
        self._wires.append(wire)

    @property
    def now_s(self) -> float:
        """Its own clock."""
        return START_S + self.stage.now_s

    def forget(self, process: str) -> None:
        """End all that a process that is gone has here."""
        for wire in self._of(process):
            self.drop(wire)
        for sessions in list(self._sessions.values()):
            for session in [s for s in sessions if s.process == process]:
                session.close()
        self._wires = [wire for wire in self._wires if wire.process != process]

    def restart(self) -> None:
        """End all transactions and sessions there are."""
        for process in sorted({wire.process for wire in self._wires}):
            for wire in self._of(process):
                self.drop(wire)
        for session in [s for these in self._sessions.values() for s in these]:
            session.lose()

    def _of(self, process: str) -> list["Wire"]:
        return [wire for wire in self._wires if wire.process == process]

    def drop(self, wire: "Wire") -> None:
        """End what a connection is in the middle of; its owner learns of it when it goes on."""
        if wire.mode:
            wire.undo()
            wire.is_dropped = True
        self._let_go(wire)

    def hang_up(self, wire: "Wire") -> None:
        """A connection is closed by its owner."""
        self.drop(wire)
        self._wires = [other for other in self._wires if other is not wire]

    def end_writes(self, processes: Iterable[str], idle_s: float = -1.0) -> int:
        """End transactions of processes in which nothing happened for so long."""
        found = [
            wire
            for wire in self._wires
            if wire.mode == "write"
            and wire.process in processes
            and self.stage.now_s - wire.used_at_s > idle_s
        ]
        for wire in found:
            self.drop(wire)
        return len(found)

    # --- what happens on a wire ----------------------------------------------------------

    def before(self, wire: "Wire", sql: str) -> None:
        """Called with each statement; may take time, break the wire or end the process."""
        actor = self.stage.current
        if actor is None or sql.startswith("PRAGMA"):
            return
        if sql.startswith("BEGIN"):
            if sql == "BEGIN IMMEDIATE":
                self._stall(wire)
            self._reach(wire)
            if sql == "BEGIN IMMEDIATE":
                self._lock(wire)
            wire.mode = "write" if sql == "BEGIN IMMEDIATE" else "read"
        elif wire.mode or wire.is_dropped:
            self._check(wire)
            if self._happens(self.weather.pause_in_write):
                self._lag()
                # What comes after the end of its transaction would be one of its own.
                self._check(wire)
            if wire.mode == "write" and self._happens(self.weather.cut_in_write):
                self._break(wire, "at a statement")
        wire.used_at_s = self.stage.now_s

    def commit(self, wire: "Wire") -> None:
        actor = self.stage.current
        if wire.is_dropped:
            raise sqlite3.OperationalError(CUT)
        if wire.mode != "write" or actor is None:
            wire.do_commit()
            return
        self._stall(wire)
        self._lag()
        self._check(wire)
        if self._happens(self.weather.cut_before):
            self._break(wire, "before a commit")
        if self._happens(self.weather.die_before):
            self._die(wire)
        wire.do_commit()
        self._let_go(wire)
        self.on_commit(wire.process, actor.name)
        if self._happens(self.weather.die_after):
            self._die(wire)
        if self._happens(self.weather.cut_after):
            raise sqlite3.OperationalError(f"{CUT} (after a commit)")
        self._lag()

    def _lag(self) -> None:
        """What a message takes to the database or back."""
        seconds = self.weather.latency_s * self.stage.rng.random()
        if seconds:
            self.stage.sleep(seconds)
        else:
            self.stage.breathe()

    def _stall(self, wire: "Wire") -> None:
        """The process stands still, as if it were stopped by a signal, and goes on later."""
        if self._happens(self.weather.stall):
            process, stage = wire.process, self.stage
            stage.pause(process)
            stage.after(self.weather.stall_s * stage.rng.random(), lambda: stage.resume(process))
            stage.breathe()

    def _happens(self, chance: float) -> bool:
        return chance > 0.0 and self.stage.rng.random() < chance

    def _reach(self, wire: "Wire") -> None:
        """Begin a transaction: connect, or fail to."""
        actor = self.stage.current
        if actor is not None and actor.is_doomed:
            raise Killed
        self._lag()
        until_s = self.stage.now_s + CONNECT_S
        while self._is_cut(wire):
            if self.stage.now_s >= until_s:
                raise sqlite3.OperationalError("could not connect to server")
            self.stage.sleep(0.5)

    def _is_cut(self, wire: "Wire") -> bool:
        return self.is_down or wire.process in self.parted

    def _check(self, wire: "Wire") -> None:
        """Whether a transaction that has begun goes on."""
        actor = self.stage.current
        if actor is not None and actor.is_doomed:
            raise Killed
        if self._is_cut(wire) and not wire.is_dropped:
            self._break(wire, "in a partition")
        if wire.is_dropped:
            raise sqlite3.OperationalError(CUT)

    def _break(self, wire: "Wire", when: str) -> None:
        self.drop(wire)
        raise sqlite3.OperationalError(f"{CUT} ({when})")

    def _die(self, wire: "Wire") -> None:
        self.drop(wire)
        process = wire.process
        self.stage.after(0.0, lambda: self.on_death(process))
        self.stage.park()
        raise Killed  # it was not killed, and must not go on

    def _lock(self, wire: "Wire") -> None:
        until_s = self.stage.now_s + LOCK_WAIT_S
        me = self.stage.current
        while self._writer is not None:
            holder = self._writer
            over_s = holder.used_at_s + IDLE_WRITE_S
            if self.stage.now_s >= over_s:
                self.drop(holder)
                continue
            if me is None or self.stage.now_s >= until_s:
                raise sqlite3.OperationalError("canceling statement due to lock timeout")
            self._queue.append(me)
            self.stage.park(min(until_s, over_s))
        self._writer = wire
        wire.used_at_s = self.stage.now_s
        if self._is_cut(wire):
            self._let_go(wire)
            raise sqlite3.OperationalError(f"{CUT} (as it got the lock)")

    def _let_go(self, wire: "Wire") -> None:
        if self._writer is wire:
            self._writer = None
            waiting, self._queue = self._queue, []
            for actor in waiting:
                self.stage.wake(actor)

    # --- advisory locks ------------------------------------------------------------------

    def lock_epoch(self, epoch: int, session: "Session") -> bool:
        held = self._sessions.setdefault(epoch, [])
        if any(other is not session for other in held):
            return False
        held.append(session)
        return True

    def unlock_epoch(self, epoch: int, session: "Session") -> None:
        held = self._sessions.get(epoch, [])
        if session in held:
            held.remove(session)

    def unlock_all(self, session: "Session") -> None:
        for held in self._sessions.values():
            held[:] = [other for other in held if other is not session]


class Cursor(sqlite3.Cursor):
    """Asks the wire's server before each statement."""

    connection: "Wire"

    def execute(self, sql: str, parameters: Any = (), /) -> "Cursor":  # noqa: ANN401 - as DB-API
        self.connection.server.before(self.connection, sql)
        return super().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Any, /) -> "Cursor":  # noqa: ANN401 - as DB-API
        self.connection.server.before(self.connection, sql)
        return super().executemany(sql, parameters)


class Wire(sqlite3.Connection):
    """A connection of one process.

    Attributes:
        mode: `read` or `write` within a transaction, else "".
        is_dropped: The server has ended that transaction.
        used_at_s: Virtual time of the last statement.
    """

    server: ClassVar[Server]
    process: ClassVar[str]
    mode: str = ""
    is_dropped: bool = False
    used_at_s: float = 0.0

    def cursor(self, factory: Any = Cursor) -> Any:  # noqa: ANN401 - as DB-API
        return super().cursor(factory)

    def commit(self) -> None:
        self.server.commit(self)

    def do_commit(self) -> None:
        super().commit()
        self.mode = ""

    def rollback(self) -> None:
        self.server.drop(self)
        self.is_dropped = False

    def close(self) -> None:
        self.server.hang_up(self)
        super().close()

    def undo(self) -> None:
        super().rollback()
        self.mode = ""


class Session:
    """The session in which a leader holds the lock of its epoch, as `api.store.epoch` has it."""

    def __init__(self, server: Server, process: str, beat: Callable[[int], bool]) -> None:
        self.process = process
        self._server, self._beat = server, beat
        self._is_lost = False

    def _reach(self) -> None:
        server = self._server
        server.stage.breathe()
        if self._is_lost:
            raise sa.exc.OperationalError("SELECT", {}, Exception(CUT))
        if server.is_down or self.process in server.parted:
            server.stage.sleep(CONNECT_S)
            raise sa.exc.OperationalError("SELECT", {}, Exception("could not connect to server"))

    def try_lock(self, epoch: int) -> bool:
        self._reach()
        return self._server.lock_epoch(epoch, self)

    def unlock(self, epoch: int) -> None:
        self._reach()
        self._server.unlock_epoch(epoch, self)

    def beat(self, epoch: int) -> bool:
        self._reach()
        return self._beat(epoch)

    def end_transactions(self, holder: str) -> int:
        self._reach()
        return self._server.end_writes([holder])

    def end_stuck(self) -> int:
        self._reach()
        everybody = {wire.process for wire in self._server._wires}
        return self._server.end_writes(everybody, idle_s=10.0)

    def lose(self) -> None:
        """The server has ended it; its owner learns of it when it next asks."""
        self._is_lost = True
        self._server.unlock_all(self)

    def close(self) -> None:
        self._server.unlock_all(self)


def database_of(engine: Engine) -> Database:
    return Database(engine.url.render_as_string(hide_password=False), engine)
