"""One write: its events, and the revisions that they take."""

from collections import Counter

import sqlalchemy as sa
from sqlalchemy import Connection

from api.store.bulk import insert_rows_and
from api.store.jsontext import dump_json
from api.store.tables import counter, events


class Transaction:
    """A write under the counter's lock.

    Attributes:
        connection: Of this transaction.
        now_s: Time of the events that are queued now.
        revision: The last revision given so far, events queued here included.
        is_finished: All is written; only the commit itself is left.
    """

    def __init__(self, connection: Connection, now_s: float) -> None:
        self.connection = connection
        self.now_s = now_s
        # On SQLite no more than a read: its transaction holds the lock of the file already.
        self.revision = int(connection.execute(_LOCK).scalar_one())
        self.is_finished = False
        self._events: list[dict[str, object]] = []

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

    def finish(self) -> None:
        """Write the queued events and bump the counter."""
        if self._events:
            insert_rows_and(self.connection, events, self._events, _BUMP, self.revision)
        self.is_finished = True

    @property
    def changed(self) -> bool:
        """Whether there are events, and so a new revision."""
        return bool(self._events)

    def counts(self) -> dict[str, int]:
        """Events of each kind."""
        return dict(Counter(str(event["kind"]) for event in self._events))


def read_revision(connection: Connection) -> int:
    """The last revision given, as this connection's snapshot has it."""
    return int(connection.execute(_REVISION).scalar_one())


_REVISION = sa.select(counter.c.revision).where(counter.c.id == 1)
_LOCK = _REVISION.with_for_update()
_BUMP = f"UPDATE {counter.name} SET revision = %s WHERE id = 1"
