"""Answers to heartbeats that stand as long as nothing changes of their node.

Most heartbeats say what the one before said. Such a one is answered from memory, and the lease is
renewed; the database is asked only what has changed of all nodes since it was asked last.
"""

import threading
import time
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import CompoundSelect, Connection

from api.store.engine import Database, read_revision
from api.store.tables import events, nodes, pods
from api.store.tables_agents import log_requests

FRESH_S = 0.5
"""So long it is believed that nothing has changed, where other processes write too. Changes of
this process are known at once."""

SPAN_MAX = 5_000
"""Revisions that are looked through; after more nothing is remembered any more."""

_OF_ALL = ("cluster", "leader", "policy")
"""Events that change every answer."""

_AGENT = "node.agent"


@dataclass(frozen=True, slots=True)
class Echo:
    """One answer.

    Attributes:
        asked: What was sent, all of it that matters.
        uids: Pods that the answer is about.
        revision: What the answer stands on.
    """

    asked: tuple[bytes, ...]
    session: str
    answer: bytes
    uids: tuple[str, ...]
    revision: int


class Echoes:
    """The last answer to each node.

    Attributes:
        revision: Up to which changes were looked for.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._of: dict[str, Echo] = {}
        self._node_of: dict[str, str] = {}
        self._lock = threading.Lock()
        self._looked_at = 0.0
        self.revision = -1

    def __len__(self) -> int:
        return len(self._of)

    def get(self, node: str, asked: tuple[bytes, ...]) -> Echo | None:
        """The answer to the same words, if it is sure that it stands; takes no time."""
        echo = self._of.get(node)
        if echo is None or echo.asked != asked or not self._is_fresh():
            return None
        return echo

    def put(self, node: str, echo: Echo) -> None:
        """Remember an answer, unless something may have changed since."""
        with self._lock:
            if echo.revision < self.revision:
                return
            self._drop(node, echo.revision + 1)
            self._of[node] = echo
            self._node_of |= dict.fromkeys(echo.uids, node)

    def follow(self) -> None:
        """Forget the answers that changes have made stale."""
        if self._is_fresh():
            return
        with self._lock:
            if self._is_fresh():
                return  # another thread has just done so
            began = time.monotonic()
            with self._database.read() as connection:
                self._apply(connection)
            self._looked_at = began

    def _is_fresh(self) -> bool:
        is_young = time.monotonic() - self._looked_at < FRESH_S
        return is_young and self._database.notifier.known <= self.revision

    def _apply(self, connection: Connection) -> None:
        now = read_revision(connection)
        since, self.revision = self.revision, now
        if now == since:
            return
        if since < 0 or now - since > SPAN_MAX:
            self._of.clear()
            self._node_of.clear()
            return
        for row in connection.execute(_CHANGES, {"first": since + 1, "last": now}):
            kind, key, node, revision = row[0], row[1], row[2], row[3]
            if kind in _OF_ALL:
                for every in list(self._of):
                    self._drop(every, revision)
            if kind == "pod" and (held := self._node_of.get(key)) is not None:
                self._drop(held, revision)
            self._drop(node, revision)

    def _drop(self, node: str, revision: int) -> None:
        """Forget the answer to a node for a change of that revision."""
        old = self._of.get(node)
        if old is None or old.revision >= revision:
            return
        del self._of[node]
        for uid in old.uids:
            if self._node_of.get(uid) == node:
                del self._node_of[uid]


def _changes() -> CompoundSelect[Any]:
    first, last = (sa.bindparam(name, type_=sa.BigInteger) for name in ("first", "last"))
    told = events.c.subject_kind.in_(_OF_ALL) | (events.c.kind == _AGENT)
    return sa.union_all(
        sa.select(sa.literal("pod"), pods.c.uid, pods.c.node, pods.c.revision).where(
            pods.c.revision.between(first, last)
        ),
        sa.select(sa.literal("node"), nodes.c.name, nodes.c.name, nodes.c.revision).where(
            nodes.c.revision.between(first, last)
        ),
        sa.select(events.c.subject_kind, events.c.name, events.c.name, events.c.revision).where(
            events.c.revision.between(first, last), told
        ),
        sa.select(
            sa.literal("log"), *(log_requests.c[name] for name in ("node", "node", "id"))
        ).where(log_requests.c.id.between(first, last)),
    )


_CHANGES = _changes()
