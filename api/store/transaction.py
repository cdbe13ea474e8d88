"""One write: its events, and the revisions that they take."""

from collections import Counter
from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy import Connection

from api.store.bulk import Row, insert_all_and, insert_rows
from api.store.driver import ask
from api.store.jsontext import dump_json
from api.store.notify import CHANNEL
from api.store.tables import counter, events
from api.store.tail import Piece, Standing, Telling


class Transaction:
    """A write under the counter's lock.

    Attributes:
        connection: Of this transaction.
        now_s: Time of the events that are queued now.
        revision: The last revision given so far, events queued here included.
        locked: The last revision given before it began.
        is_finished: All is written; only the commit itself is left.
        jobs: How some of the jobs that the piece under way changed stand after it, by uid.
        resources: Of the objects of other faces that it wrote.
    """

    def __init__(self, connection: Connection, now_s: float) -> None:
        self.connection = connection
        self.now_s = now_s
        # On SQLite no more than a read: its transaction holds the lock of the file already.
        is_lite = connection.dialect.name == "sqlite"
        lock = _LOCK if is_lite else f"{_LOCK} FOR UPDATE"
        self.revision = int(ask(connection, lock)[0][0])
        self.locked = self.revision
        self.is_finished = False
        self.jobs: dict[str, Standing] = {}
        self.resources: set[str] = set()
        self._events: list[dict[str, object]] = []
        self._last: list[tuple[sa.Table, Sequence[Row]]] = []
        self._tellings: list[Telling] = []
        self._told = 0
        self._told_bytes = 0
        self._pieces: list[Piece] = []
        self._told_of = 0

    def emit(
        self,
        kind: str,
        *,
        subject_kind: str,
        namespace: str = "",
        name: str = "",
        uid: str = "",
        message: str = "",
        body: dict[str, object] | None = None,
    ) -> int:
        """Queue an event and return its revision, for the rows it is about."""
        self.revision += 1
        self._events.append(
            {
                "revision": self.revision,
                "at": self.now_s,
                "kind": kind,
                "subject_kind": subject_kind,
                "namespace": namespace,
                "name": name,
                "uid": uid,
                "message": message,
                "body": dump_json(body) if body else "{}",
            }
        )
        return self.revision

    def tell(self, telling: Telling, events: int, *, told_bytes: int = 0) -> None:
        """Say what a world has to be told of some of the events, so that it need not be read.

        Args:
            events: How many; a transaction that has others too is read all the same.
            told_bytes: Of text that is kept with it, if that may be much.
        """
        self._tellings.append(telling)
        self._told += events
        self._told_bytes += told_bytes

    def pieces(self) -> list[Piece]:
        """The events as they were written, for who follows them in memory."""
        self.split()
        return self._pieces

    def split(self) -> Piece | None:
        """End a piece here, so that a world can be told of it alone; None if no event came since.

        Nobody else may be told of it before the commit.
        """
        events = self._events[self._told_of :]
        if not events:
            return None
        is_all = self._told == len(events)
        piece = Piece(
            events,
            tellings=tuple(self._tellings) if is_all else None,
            jobs=self.jobs,
            resources=frozenset(self.resources),
            told_bytes=self._told_bytes if is_all else 0,
        )
        self._pieces.append(piece)
        self._told_of = len(self._events)
        self.jobs, self.resources = {}, set()
        self._tellings, self._told, self._told_bytes = [], 0, 0
        return piece

    def put_last(self, table: sa.Table, rows: Sequence[Row]) -> None:
        """Insert rows along with the events, in one round trip less.

        Whoever puts them off asks nothing of their table from here on; others that share the
        transaction find them there, see `catch_up`.
        """
        if rows:
            self._last.append((table, rows))

    def put_off(self, table: sa.Table) -> list[Row]:
        """Rows of a table that are not written yet."""
        return [row for other, rows in self._last if other is table for row in rows]

    def put_off_instead(self, table: sa.Table, rows: Sequence[Row]) -> None:
        """Other rows for those of a table that are not written yet."""
        self._last = [(other, these) for other, these in self._last if other is not table]
        self.put_last(table, rows)

    def catch_up(self) -> None:
        """Write what was put off, as somebody else goes on in this transaction."""
        for table, rows in self._last:
            insert_rows(self.connection, table, rows)
        self._last = []

    def finish(self) -> None:
        """Write the queued events and bump the counter."""
        if self._events:
            bump = _BUMP if self.connection.dialect.name == "sqlite" else _BUMP_AND_TELL
            inserts = [*self._last, (events, self._events)]
            insert_all_and(self.connection, inserts, bump, self.revision)
        else:
            self.catch_up()
        self.is_finished = True

    @property
    def changed(self) -> bool:
        """Whether there are events, and so a new revision."""
        return bool(self._events)

    def kinds(self) -> list[str]:
        """Kinds of the events that are queued so far."""
        return [str(event["kind"]) for event in self._events]

    def counts(self, after: int) -> dict[str, int]:
        """Events of each kind that came after a revision."""
        events = self._events[after - self.locked :]
        return dict(Counter(str(event["kind"]) for event in events))


def read_revision(connection: Connection) -> int:
    """The last revision given, as this connection's snapshot has it."""
    return int(connection.execute(_REVISION).scalar_one())


_REVISION = sa.select(counter.c.revision).where(counter.c.id == 1)
_LOCK = f"SELECT revision FROM {counter.name} WHERE id = 1"
_BUMP = f"UPDATE {counter.name} SET revision = %s WHERE id = 1"
_BUMP_AND_TELL = f"{_BUMP} RETURNING pg_notify('{CHANNEL}', revision::text)"
