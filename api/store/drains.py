"""Draining nodes, and fencing them: what people want of nodes beside a cordon."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa
from sqlalchemy import Connection

from api.store.bulk import among, update_rows
from api.store.engine import Database, Transaction
from api.store.errors import NotFound
from api.store.nodes import read_nodes
from api.store.standing import change_node, set_health, standing_of, standings_of
from api.store.subscribers import REQUESTED
from api.store.tables import jobs, nodes, pods
from api.store.views import NodeView
from scheduler.errors import Problem, StateError
from scheduler.model.lifecycle import LIVE_POD
from scheduler.model.node import Health
from scheduler.model.standing import Drain

UNDRAINED = {"drain_at": None, "drain_deadline": None, "drain_why": "", "drain_by": ""}
"""Columns of a node that nobody drains."""

FENCED = frozenset({Health.SUSPECT, Health.LOST, Health.OUT})
"""Health of a node of which somebody may have to say that its pods are gone."""


@dataclass(slots=True)
class LeavingJob:
    """What one job has on nodes that are drained.

    Attributes:
        saves_first: It has a hook that is asked to save.
        nodes: As keys, in the order of its pods.
    """

    namespace: str
    name: str
    saves_first: bool
    pods: list[str] = field(default_factory=list)
    nodes: dict[str, None] = field(default_factory=dict)
    gpus: int = 0


def drain_nodes(
    db: Database, names: Sequence[str], drain: Drain, *, now_s: float
) -> list[NodeView]:
    """Have the pods of some nodes leave, all of these nodes or none.

    The same again changes nothing; with another deadline or reason it does.

    Raises:
        NotFound: If there is no such node.
    """

    def work(tx: Transaction) -> list[NodeView]:
        now = _drains_of(tx.connection, names)
        rows = [_drained(tx, name, drain) for name in now if now[name] != drain]
        update_rows(tx.connection, nodes, "name", rows)
        return read_nodes(db, tx.connection, names)

    return db.grouped(work, now_s)


def undrain_nodes(db: Database, names: Sequence[str], *, by: str, now_s: float) -> list[NodeView]:
    """Let pods stay on some nodes and come to them; does nothing to those that are not drained.

    Raises:
        NotFound: If there is no such node.
    """

    def work(tx: Transaction) -> list[NodeView]:
        now = _drains_of(tx.connection, names)
        rows = [_undrained(tx, name, by) for name in now if now[name] is not None]
        update_rows(tx.connection, nodes, "name", rows)
        return read_nodes(db, tx.connection, names)

    return db.grouped(work, now_s)


def fence_node(db: Database, name: str, *, reason: str, by: str, now_s: float) -> NodeView:
    """Say that nothing runs on a node any more; a second time does nothing.

    Raises:
        NotFound: If there is no such node.
        StateError: If nobody misses it: it is healthy, or being tested and empty.
    """

    def work(tx: Transaction) -> NodeView:
        standing = standing_of(tx.connection, name)
        if standing.health not in FENCED:
            allowed = ", ".join(sorted(FENCED))
            raise StateError(
                Problem(
                    "health",
                    f"node '{name}' is {standing.health}; only one that is {allowed} is fenced."
                    " Drain one that works",
                )
            )
        if not standing.fenced:
            # Whoever knows that a machine does not run any more need not wait for its silence.
            health = Health.LOST if standing.health is Health.SUSPECT else standing.health
            why = f"fenced: {reason}" if reason else "fenced"
            more: dict[str, object] = {"by": by, "reason": reason}
            set_health(tx, name, health, why, fenced=True, more=more)
        return read_nodes(db, tx.connection, [name])[0]

    return db.grouped(work, now_s)


def leaving_of(db: Database, names: Sequence[str]) -> list[LeavingJob]:
    """What is on some nodes, by age of its job."""
    live = pods.c.state.in_(sorted(LIVE_POD))
    columns = (jobs.c.uid, jobs.c.namespace, jobs.c.name.label("job"), jobs.c.hooks)
    query = (
        sa.select(*columns, pods.c.name, pods.c.node, pods.c.gpus)
        .join(pods, pods.c.job_uid == jobs.c.uid)
        .order_by(jobs.c.age, pods.c.role_index, pods.c.pod_index)
    )
    found: dict[str, LeavingJob] = {}
    with db.read() as connection:
        for row in connection.execute(query.where(live, among(connection, pods.c.node, names))):
            job = found.get(row.uid)
            if job is None:
                saves = any(REQUESTED in hook["events"] for hook in json.loads(row.hooks or "[]"))
                job = found[row.uid] = LeavingJob(row.namespace, row.job, saves_first=saves)
            job.pods.append(row.name)
            job.nodes[row.node] = None
            job.gpus += row.gpus
    return list(found.values())


def end_quarantines(db: Database, *, now_s: float) -> int:
    """Forget quarantines that are over; how many."""
    over = sa.select(nodes.c.name).where(nodes.c.quarantined_until <= now_s)
    with db.read() as connection:
        if connection.execute(over.limit(1)).first() is None:
            return 0

    def work(tx: Transaction) -> int:
        found = list(tx.connection.execute(over.order_by(nodes.c.name)).scalars())
        for name in found:
            said = "its quarantine is over"
            change_node(tx, name, "node.released", said, {}, {"quarantined_until": None})
        return len(found)

    return db.grouped(work, now_s)


def _drains_of(connection: Connection, names: Sequence[str]) -> dict[str, Drain | None]:
    """How these nodes are drained. Raises NotFound."""
    found = standings_of(connection, names)
    for name in names:
        if name not in found:
            raise NotFound("node", name[:253])
    return {name: found[name].drain for name in names}


def _drained(tx: Transaction, name: str, drain: Drain) -> dict[str, object]:
    body: dict[str, object] = {
        "reason": drain.why,
        "by": drain.by,
        "deadline": drain.deadline_s,
    }
    said = f"its pods are to leave: {drain.why}" if drain.why else "its pods are to leave"
    return {
        "name": name,
        "drain_at": tx.now_s,
        "drain_deadline": drain.deadline_s,
        "drain_why": drain.why,
        "drain_by": drain.by,
        "revision": _emit(tx, name, "node.draining", said, body),
    }


def _undrained(tx: Transaction, name: str, by: str) -> dict[str, object]:
    revision = _emit(tx, name, "node.undrained", "may take new pods", {"by": by})
    return {"name": name, **UNDRAINED, "revision": revision}


def _emit(tx: Transaction, name: str, kind: str, message: str, body: dict[str, object]) -> int:
    return tx.emit(kind, subject_kind="node", name=name, uid=name, message=message, body=body)
