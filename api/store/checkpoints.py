"""Checkpoints that jobs tell of: the newest is what an eviction would lose the least since."""

import json
from collections.abc import Collection
from dataclasses import dataclass, replace
from urllib.parse import unquote

import sqlalchemy as sa
from sqlalchemy import Connection

from api.store.engine import Database, Transaction, read_revision
from api.store.errors import Conflict
from api.store.job_rows import job_view, newest_job
from api.store.jsontext import dump_json
from api.store.rows import AnyRow
from api.store.tables import checkpoints, facts, jobs, nodes
from api.store.views import JobView, Page
from scheduler.errors import JobError, Problem, StateError
from scheduler.model.lifecycle import FINAL
from scheduler.model.node import Health
from scheduler.model.plan import EvictStep, FactKind

NODES_SHOWN = 32
"""Names of nodes in the event."""

KEPT = 100
"""Checkpoints of a job that are remembered; older ones were overwritten long ago."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a job saved.

    Attributes:
        step: Of its training; does not go back.
        tier: In the job's own words, e.g. `local` or `remote`.
        nodes: That hold a copy; none = it is kept elsewhere, and no node takes it along.
        request_id: Of the request to save that it answers; "" if it saved by itself.
        at: Unix seconds when the job told of it; 0 until then.
    """

    step: int
    uri: str
    tier: str = ""
    nodes: tuple[str, ...] = ()
    request_id: str = ""
    at: float = 0.0

    def exists(self, lost: Collection[str]) -> bool:
        """Whether any copy is left when these nodes are lost with what they hold."""
        return not self.nodes or any(node not in lost for node in self.nodes)


@dataclass(frozen=True, slots=True)
class KnownCheckpoint:
    """A checkpoint in a job's list.

    Attributes:
        lost: Nodes that held a copy and are lost.
    """

    checkpoint: Checkpoint
    lost: tuple[str, ...]
    revision: int

    @property
    def exists(self) -> bool:
        return self.checkpoint.exists(self.lost)


def save_checkpoint(
    db: Database, namespace: str, name: str, checkpoint: Checkpoint, *, now_s: float
) -> JobView:
    """Write down that the newest job of that name has saved its state.

    The same step and address again is taken and does nothing, unless it answers a request.

    Raises:
        NotFound: If there is no such job.
        StateError: If it has ended.
        Conflict: If the step is below the last one.
        JobError: If the address is not below the one that the job has stated.
    """

    def work(tx: Transaction) -> JobView:
        view = job_view(newest_job(tx.connection, namespace, name))
        if not write_checkpoint(tx, view, checkpoint):
            return view
        return job_view(newest_job(tx.connection, namespace, name))

    return db.grouped(work, now_s)


def write_checkpoint(tx: Transaction, view: JobView, checkpoint: Checkpoint) -> bool:
    """Write down what a job has saved; whether that was news.

    If it answers the request that the job got before it is to leave, the leader is told.

    Raises:
        StateError, Conflict, JobError: As `save_checkpoint`; nothing was written.
    """
    check_checkpoint(view, checkpoint)
    answers = answers_request(view, checkpoint.request_id)
    if not answers and _is_known(tx.connection, view.uid, checkpoint):
        return False
    revision = _emit(tx, view, checkpoint)
    tx.connection.execute(
        sa.insert(checkpoints),
        {
            "job_uid": view.uid,
            "revision": revision,
            "step": checkpoint.step,
            "uri": checkpoint.uri,
            "tier": checkpoint.tier,
            "nodes": dump_json(list(checkpoint.nodes)),
            "request_id": checkpoint.request_id or None,
            "at": tx.now_s,
        },
    )
    _forget_old(tx.connection, view.uid)
    values = {"saved_step": checkpoint.step, "saved_uri": checkpoint.uri, "revision": revision}
    tx.connection.execute(
        sa.update(jobs).where(jobs.c.uid == view.uid).values(saved_at=tx.now_s, **values)
    )
    if answers:
        put_fact(tx, FactKind.CHECKPOINT, view.uid, checkpoint.request_id, revision)
    return True


def check_checkpoint(view: JobView, checkpoint: Checkpoint) -> None:
    """Refuse what a job cannot have saved.

    Raises:
        StateError: If it has ended.
        Conflict: If the step is below the last one.
        JobError: If the address is not below the one that the job has stated.
    """
    job = f"job '{view.namespace}/{view.name}'"
    if view.state in FINAL:
        raise StateError(Problem("state", f"{job} is {view.state}; it saves no more"))
    if view.saved is not None and checkpoint.step < view.saved.step:
        raise Conflict(
            "step",
            f"found {checkpoint.step}; {job} has saved step {view.saved.step} already, and steps "
            "do not go back",
        )
    base = stated_uri(view)
    if base is not None and not is_below(base, checkpoint.uri):
        raise JobError(
            Problem("uri", f"found '{checkpoint.uri[:200]}'; {job} saves below '{base[:200]}'")
        )


def stated_uri(view: JobView) -> str | None:
    """Where a job has said that it saves."""
    stated = view.body.get("checkpoint")
    uri = stated.get("uri") if isinstance(stated, dict) else None
    return str(uri) if uri else None


def is_below(base: str, uri: str) -> bool:
    """Whether an address is the stated one or below it, and does not climb out again."""
    root = base.rstrip("/")
    if uri != base and uri != root and not uri.startswith(root + "/"):
        return False
    return ".." not in unquote(uri[len(root) :]).replace("\\", "/").split("/")


def answers_request(view: JobView, request_id: str) -> bool:
    """Whether this is the request to save that the job got before it is to leave."""
    evict = view.evict
    return (
        evict is not None
        and bool(request_id)
        and evict.request_id == request_id
        and evict.step is not EvictStep.TERMINATING
    )


def put_fact(tx: Transaction, kind: FactKind, job_uid: str, request_id: str, revision: int) -> None:
    """Tell the leader what became of a request to save; `revision` is that of its event."""
    row = {"id": revision, "kind": kind, "job_uid": job_uid, "request_id": request_id}
    tx.connection.execute(sa.insert(facts), row | {"at": tx.now_s})


def list_checkpoints(db: Database, namespace: str, name: str) -> Page[KnownCheckpoint]:
    """What the newest job of that name has saved, the newest first.

    Raises:
        NotFound: If there is no such job.
    """
    with db.read() as connection:
        uid = newest_job(connection, namespace, name)._mapping["uid"]
        lost = lost_nodes(connection)
        items = tuple(
            KnownCheckpoint(found, tuple(n for n in found.nodes if n in lost), revision)
            for found, revision in _of_job(connection, uid)
        )
        return Page(items, read_revision(connection))


def newest_that_exists(
    connection: Connection, job_uid: str, lost: Collection[str]
) -> Checkpoint | None:
    """The newest checkpoint of a job of which a copy is left when these nodes are lost.

    Of those of one step it is the one that was told of last.
    """
    left = [found for found, _ in _of_job(connection, job_uid) if found.exists(lost)]
    return max(left, key=lambda found: found.step, default=None)


def lost_nodes(connection: Connection) -> frozenset[str]:
    """Nodes that are lost with what they hold."""
    found = connection.execute(sa.select(nodes.c.name).where(nodes.c.health == Health.LOST))
    return frozenset(found.scalars())


def _is_known(connection: Connection, uid: str, checkpoint: Checkpoint) -> bool:
    """Whether the job has told of the same last."""
    last = next(iter(_of_job(connection, uid, limit=1)), None)
    return last is not None and replace(last[0], request_id="", at=0.0) == replace(
        checkpoint, request_id="", at=0.0
    )


def _of_job(connection: Connection, uid: str, limit: int = KEPT) -> list[tuple[Checkpoint, int]]:
    """The newest first, each with its revision."""
    query = sa.select(checkpoints).where(checkpoints.c.job_uid == uid)
    rows = connection.execute(query.order_by(checkpoints.c.revision.desc()).limit(limit))
    return [(_checkpoint(row), int(row.revision)) for row in rows]


def _checkpoint(row: AnyRow) -> Checkpoint:
    r = row._mapping
    nodes_ = tuple(json.loads(r["nodes"]))
    return Checkpoint(r["step"], r["uri"], r["tier"], nodes_, r["request_id"] or "", r["at"])


def _forget_old(connection: Connection, uid: str) -> None:
    mine = checkpoints.c.job_uid == uid
    newest = sa.select(checkpoints.c.revision).where(mine).order_by(checkpoints.c.revision.desc())
    floor = newest.limit(1).offset(KEPT).scalar_subquery()
    connection.execute(sa.delete(checkpoints).where(mine, checkpoints.c.revision <= floor))


def _emit(tx: Transaction, view: JobView, checkpoint: Checkpoint) -> int:
    body: dict[str, object] = {"step": checkpoint.step, "uri": checkpoint.uri}
    if checkpoint.tier:
        body["tier"] = checkpoint.tier
    if checkpoint.request_id:
        body["request_id"] = checkpoint.request_id
    if checkpoint.nodes:
        body |= {"nodes": list(checkpoint.nodes[:NODES_SHOWN])}
        body |= {"node_count": len(checkpoint.nodes)}
    return tx.emit(
        "job.saved",
        subject_kind="job",
        namespace=view.namespace,
        name=view.name,
        uid=view.uid,
        message=f"step {checkpoint.step} at {checkpoint.uri}",
        body=body,
    )
