"""What submissions are checked against: the map, the queues, the policy; kept until they change.

It is taken from memory as long as every event since it was read is known to this process and about
jobs or pods alone. Whether that still holds is looked at once more where a submission is written,
under the write lock: there nothing can be newer.
"""

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import sqlalchemy as sa
from sqlalchemy import Connection

from api.store.engine import Database, Transaction
from api.store.errors import StoreError
from api.store.policy import read_policy
from api.store.queue_rows import QueueChain, read_queues
from api.store.tables import counter, node_types, policy, queues
from api.store.topology import map_revision_select, read_topology
from scheduler.model.queue import QueueRecord
from scheduler.order.tree import chain
from scheduler.topology.tree import Topology

GroundKey: TypeAlias = tuple[int, int, int, int]
"""Revisions of map, policy and newest queue, and how many queues there are."""

BESIDE = ("job.", "pod.", "leader.")
"""Beginnings of the kinds of events that change nothing of it."""


class Moved(StoreError):
    """What a submission was checked against has changed meanwhile: it is to be checked anew."""


@dataclass(frozen=True, slots=True)
class Ground:
    """What submissions are checked against, of one moment.

    Attributes:
        below: A queue that has others below it -> the first of those.
        largest: GPUs of the largest node type, by model; under None of all.
        counts_pending: Whether any queue limits the jobs that wait in it.
    """

    key: GroundKey
    topology: Topology
    queues: Mapping[str, QueueRecord]
    below: Mapping[str, str]
    largest: Mapping[str | None, int]
    priorities: Mapping[str, int]
    never_preempt: tuple[str, ...]
    counts_pending: bool
    _chains: dict[str, QueueChain] = field(default_factory=dict)

    def chains(self, names: Collection[str]) -> dict[str, QueueChain]:
        """Queues with all above them; one that does not exist is left out."""
        return {name: self._chain(name) for name in names if name in self.queues}

    def _chain(self, name: str) -> QueueChain:
        found = self._chains.get(name)
        if found is None:
            found = QueueChain(chain(name, self.queues), self.below.get(name))
            self._chains[name] = found
        return found


class _Kept:
    """The ground read last, and the revision up to which it is known to hold."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.ground: Ground | None = None
        self.revision = -1

    def put(self, ground: Ground, revision: int) -> None:
        with self.lock:
            if revision >= self.revision:
                self.ground, self.revision = ground, revision


def current_ground(db: Database, *, fresh: bool = False) -> Ground:
    """What is checked against now, as far as this process knows.

    Args:
        fresh: Look into the database whether anything has changed.
    """
    kept = _kept(db)
    known = max(db.notifier.known, kept.revision)
    if not fresh and kept.ground is not None and _still_holds(db, kept, known):
        return kept.ground
    with db.read() as connection:
        key, revision = _key(connection)
        ground = kept.ground
        if ground is None or ground.key != key:
            ground = _read(db, connection, key)
    kept.put(ground, revision)
    return ground


def check_ground(db: Database, tx: Transaction, key: GroundKey | None) -> Ground:
    """The ground that a write stands on.

    Args:
        key: Of what was checked against; None = nothing was.

    Raises:
        Moved: If it has changed since; nothing was written.
    """
    kept, ground = _kept(db), None
    has_others = any(not kind.startswith(BESIDE) for kind in tx.kinds())
    if not has_others and kept.ground is not None and _still_holds(db, kept, tx.locked):
        ground = kept.ground
    if ground is None:
        found, _ = _key(tx.connection)
        ground = kept.ground
        if ground is None or ground.key != found:
            # Not to be kept: the transaction may yet fail.
            ground = _read(db, tx.connection, found)
        elif not has_others:
            kept.put(ground, tx.locked)
    if key is not None and key != ground.key:
        raise Moved("what the job was checked against has changed")
    return ground


def _still_holds(db: Database, kept: _Kept, until: int) -> bool:
    """Whether nothing of it has changed up to a revision, as far as memory tells."""
    if kept.revision >= until:
        return True
    pieces = db.tail.is_all_after(kept.revision, until)
    if pieces is None:
        return False
    for piece in pieces:
        if not all(kind.startswith(BESIDE) for _, kind, _ in piece.subjects()):
            return False
    if kept.ground is not None:
        kept.put(kept.ground, until)
    return True


def _key(connection: Connection) -> tuple[GroundKey, int]:
    *key, revision = connection.execute(_KEY).one()
    mapped, policy_, queue, count = map(int, key)
    return (mapped, policy_, queue, count), int(revision)


_KEY = sa.select(
    map_revision_select(),
    sa.func.coalesce(sa.select(policy.c.revision).scalar_subquery(), 0),
    sa.func.coalesce(sa.select(sa.func.max(queues.c.revision)).scalar_subquery(), 0),
    sa.select(sa.func.count()).select_from(queues).scalar_subquery(),
    sa.select(counter.c.revision).scalar_subquery(),
)


def _read(db: Database, connection: Connection, key: GroundKey) -> Ground:
    there, in_force = read_queues(connection), read_policy(connection)
    below: dict[str, str] = {}
    for name, queue in sorted(there.items(), reverse=True):
        if queue.parent is not None:
            below[queue.parent] = name
    models = sa.select(node_types.c.gpu, sa.func.max(node_types.c.gpus)).group_by(node_types.c.gpu)
    largest: dict[str | None, int] = dict(connection.execute(models).all())
    return Ground(
        key=key,
        topology=read_topology(db, connection).topology,
        queues=there,
        below=below,
        largest=largest | {None: max(largest.values(), default=0)},
        priorities=in_force.priorities,
        never_preempt=in_force.never_preempt,
        counts_pending=any(queue.max_pending is not None for queue in there.values()),
    )


def _kept(db: Database) -> _Kept:
    found = db.cache.setdefault("ground", _Kept())
    if not isinstance(found, _Kept):
        raise TypeError("the cache entry 'ground' is of another kind")
    return found
