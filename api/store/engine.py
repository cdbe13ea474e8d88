"""The database: snapshots to read, one write transaction at a time, waking who waits.

Every write takes the lock of the counter's row first (SQLite: the write lock of the file) and bumps
it last. So writers are ordered, revisions become visible in their order, and whatever is read
inside a write transaction is what the commit will stand on. Writes that come together from several
threads share a transaction.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias, TypeVar

from sqlalchemy import Connection, Engine

from api.store.connect import lone_engine, open_engine, own_sessions, sqlite_path
from api.store.group import Group, GroupQueue, Outcome, Ticket, run_all
from api.store.listen import Listener
from api.store.notify import Notifier
from api.store.tail import Tail
from api.store.transaction import Transaction, read_revision
from api.store.views import EventView, Page

__all__ = ["Database", "Transaction", "open_engine", "read_revision", "sqlite_path"]

Result = TypeVar("Result")
Item = TypeVar("Item")

Settle: TypeAlias = Callable[[bool], None]
"""To be called once a transaction has ended, with whether it was committed."""

Decider: TypeAlias = Callable[[Transaction], Settle | None]
"""Decides on what a transaction has written so far, and writes that into it; None if it is to be
decided later. What it raises is its own trouble: all is written again without it."""


class Database:
    """One database and what this process knows of its revision.

    Attributes:
        url: As opened, with the driver's name.
        is_sqlite: Else PostgreSQL.
        notifier: Woken after each commit of this process.
        listener: Hears of commits of other processes, while it is started; None on SQLite.
        tail: The newest events, for all in this process who follow them.
        cache: Values derived from the database, kept by whoever derives them.
        decider: Asked where somebody waits for what is decided; None where nobody decides.
    """

    def __init__(self, url: str, engine: Engine) -> None:
        self.url = url
        self.engine = engine
        self.is_sqlite = engine.dialect.name == "sqlite"
        self.notifier = Notifier(self._read_revision)
        self.tail = Tail(self._read_events, self.notifier)
        self.notifier.told = self.tail.look
        self._alone = None if self.is_sqlite else lone_engine(engine)
        self.listener = (
            None
            if self._alone is None
            else Listener(self._alone, self.notifier, own_sessions(engine))
        )
        self.cache: dict[str, object] = {}
        self.decider: Decider | None = None
        self._gate = threading.Lock()
        self._groups = GroupQueue(self._run_group)
        options = (
            {}
            if self.is_sqlite
            else {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        )
        self._reader = engine.execution_options(**options)
        self._writer = engine.execution_options(immediate=True)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A consistent snapshot for any number of statements."""
        with self._reader.connect() as connection:
            yield connection

    @contextmanager
    def write(self, now_s: float) -> Iterator[Transaction]:
        """The write lock; commits at the end of the block, or writes nothing if it raises."""
        with self._gate:
            with self._transaction(now_s) as transaction:
                yield transaction
            self._publish(transaction)

    @contextmanager
    def write_quietly(self) -> Iterator[Connection]:
        """A write that is no event and needs no revision (a heartbeat, a clock, a trim)."""
        with self._gate, self._writer.begin() as connection:
            yield connection

    def grouped(self, work: Callable[[Transaction], Result], now_s: float) -> Result:
        """Run a short write that may share its transaction with others that came meanwhile.

        `work` raises StoreError or SchedulerError before it writes anything, or not at all; it may
        be run again from the start if the shared transaction fails.
        """
        return self._groups.submit(Ticket(work, now_s))

    def gathered(
        self,
        many: Callable[[Transaction, list[Item]], Sequence[Outcome]],
        item: Item,
        now_s: float,
        *,
        is_awaited: bool = False,
    ) -> Outcome:
        """The same for one of many alike: all that come together are handed to `many` at once.

        `many` answers for each in order, with what is returned here or with an error to be raised,
        and writes nothing for what it refuses.

        Args:
            is_awaited: Somebody waits for what is decided on it: where that can be, it is decided
                in the same transaction.
        """
        ticket: Ticket[Outcome] = Ticket(many=many, item=item, now_s=now_s, is_awaited=is_awaited)
        return self._groups.submit(ticket)

    @property
    def is_silent(self) -> bool:
        """Whether the database answers nothing, though nobody was told that it is gone."""
        return self.listener is not None and self.listener.is_silent

    def connect_alone(self) -> Connection:
        """A new connection, outside of those that requests share."""
        return (self._alone or self.engine).connect()

    def close(self) -> None:
        """Wake all who wait and let go of all connections."""
        if self.listener is not None:
            self.listener.stop()
        self.tail.close()
        self.notifier.close()
        self.engine.dispose()

    @contextmanager
    def _transaction(self, now_s: float) -> Iterator[Transaction]:
        with self._writer.begin() as connection:
            transaction = Transaction(connection, now_s)
            yield transaction
            transaction.finish()

    def _run_group(self, take: Callable[[], Group]) -> None:
        with self._gate:
            group = take()
            if not self._try_group(group, self.decider):
                for ticket in group:
                    self._try_group([ticket])

    def _try_group(self, group: Group, decider: Decider | None = None) -> bool:
        """Run tickets in one transaction; False when it failed and each must be tried by itself."""
        transaction: Transaction | None = None
        settle: Settle | None = None
        was_asked = is_committed = False
        try:
            with self._transaction(group[0].now_s) as transaction:
                run_all(group, transaction)
                is_awaited = any(ticket.is_awaited for ticket in group)
                if decider is not None and is_awaited and transaction.changed:
                    was_asked = True
                    settle = decider(transaction)
            is_committed = True
        except Exception as error:  # an edge: the error goes to the callers whose write it was
            is_finished = transaction is not None and transaction.is_finished
            if not is_finished and (len(group) > 1 or was_asked):
                return False
            # Where the commit itself failed it may have come through: nothing is tried again.
            for ticket in group:
                ticket.error = error
        else:
            self._publish(transaction)
        finally:
            if settle is not None:
                settle(is_committed)
        return True

    def _publish(self, transaction: Transaction) -> None:
        """Tell who follows; in the order of the revisions, as the next has to wait for the gate."""
        if transaction.changed:
            self.tail.note(transaction)
            self.notifier.publish(transaction.revision)

    def _read_events(self, after: int, limit: int) -> Page[EventView]:
        from api.store.events import list_events

        return list_events(self, after, limit)

    def _read_revision(self) -> int:
        with self._reader.connect() as connection:
            return read_revision(connection)
