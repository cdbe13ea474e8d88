"""Many jobs in one transaction: a few statements for all of them, however many they are."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import sqlalchemy as sa
from sqlalchemy import Connection

from api.store.bulk import among, insert_rows
from api.store.ending import End, Ended, end_jobs
from api.store.engine import Database, Transaction
from api.store.errors import Conflict, NotFound, QueueFull
from api.store.job_rows import GPUS_OF_A_NODE, fresh_view, job_view, new_job_row, select_jobs
from api.store.jobs import emit_submitted, name_in_use, no_job_of_key
from api.store.keys import KnownKeys, key_row, known_keys, remember
from api.store.queue_rows import HAS_MAX_PENDING, Pending
from api.store.tables import jobs, node_types, queues
from api.store.uids import new_uid
from api.store.views import JobView, Submission

Submitted: TypeAlias = tuple[JobView, bool] | Conflict | NotFound | QueueFull
"""The job and whether this call made it, or why there is none."""


@dataclass(frozen=True, slots=True)
class BatchDone:
    """What became of a batch, each list in the order of what was asked."""

    ended: list[Ended]
    submitted: list[Submitted]


def run_batch(
    db: Database, *, ends: Sequence[End], submissions: Sequence[Submission], now_s: float
) -> BatchDone:
    """End jobs, then write jobs, in one transaction; what is refused keeps nothing else out.

    A job that a pending one of the same batch makes room for may take its name.
    """

    def work(tx: Transaction) -> BatchDone:
        ended = end_jobs(tx, ends) if ends else []
        return BatchDone(ended, _submit_all(tx, submissions) if submissions else [])

    return db.grouped(work, now_s)


@dataclass(slots=True)
class _There:
    """What the jobs of a batch are checked against.

    Attributes:
        names: In use -> state and live pods of who uses it.
        largest: GPUs of the largest node type, by model; under None of all.
        jobs: Of known keys, by uid.
        pending: Who waits; None while no queue limits that.
    """

    queues: frozenset[str]
    names: dict[tuple[str, str], tuple[str, int]]
    largest: dict[str | None, int]
    keys: KnownKeys
    jobs: dict[str, JobView]
    pending: Pending | None


@dataclass(slots=True)
class _Rows:
    jobs: list[dict[str, object]] = field(default_factory=list)
    keys: list[dict[str, object]] = field(default_factory=list)


def _submit_all(tx: Transaction, submissions: Sequence[Submission]) -> list[Submitted]:
    there, rows = _read(tx, submissions), _Rows()
    results: list[Submitted] = []
    for submission in submissions:
        try:
            results.append(_submit(tx, there, rows, submission))
        except (Conflict, NotFound, QueueFull) as error:
            results.append(error)
    insert_rows(tx.connection, jobs, rows.jobs)
    remember(tx.connection, rows.keys)
    return results


def _submit(
    tx: Transaction, there: _There, rows: _Rows, submission: Submission
) -> tuple[JobView, bool]:
    spec, key = submission.spec, submission.idempotency
    if key is not None and (made := there.keys.job_of(key)) is not None:
        if made not in there.jobs:
            raise no_job_of_key(key)
        return there.jobs[made], False
    if spec.queue not in there.queues:
        raise NotFound("queue", spec.queue)
    at = (spec.namespace, spec.name)
    if at in there.names:
        raise name_in_use(spec, *there.names[at])
    if there.pending is not None:
        there.pending.check(spec.queue)
        there.pending.add(spec.queue)
    uid = new_uid(tx.now_s)
    row = new_job_row(uid, spec, submission.body, there.largest.get(spec.gpu) or GPUS_OF_A_NODE)
    row |= emit_submitted(tx, spec, row)
    rows.jobs.append(row)
    if key is not None:
        rows.keys.append(key_row(key, uid, tx.now_s))
    there.names[at] = (str(row["state"]), 0)
    return fresh_view(row, spec), True


def _read(tx: Transaction, submissions: Sequence[Submission]) -> _There:
    connection = tx.connection
    known = known_keys(connection, (s.idempotency for s in submissions), now_s=tx.now_s)
    asked = sorted({s.spec.queue for s in submissions})
    is_counted = connection.execute(sa.select(HAS_MAX_PENDING)).scalar_one()
    there = sa.select(queues.c.name).where(among(connection, queues.c.name, asked))
    return _There(
        queues=frozenset(connection.execute(there).scalars()),
        names=_names_in_use(connection, submissions),
        largest=_largest(connection),
        keys=known,
        jobs=_jobs(connection, [uid for _, uid in known.found.values()]),
        pending=Pending(connection) if is_counted else None,
    )


def _names_in_use(
    connection: Connection, submissions: Sequence[Submission]
) -> dict[tuple[str, str], tuple[str, int]]:
    by_namespace: dict[str, list[str]] = {}
    for submission in submissions:
        by_namespace.setdefault(submission.spec.namespace, []).append(submission.spec.name)
    found: dict[tuple[str, str], tuple[str, int]] = {}
    for namespace, names in by_namespace.items():
        query = sa.select(jobs.c.name, jobs.c.state, jobs.c.pods_live).where(
            jobs.c.namespace == namespace, among(connection, jobs.c.name, names), jobs.c.holds_name
        )
        for name, state, live in connection.execute(query):
            found[namespace, name] = (state, live)
    return found


def _largest(connection: Connection) -> dict[str | None, int]:
    query = sa.select(node_types.c.gpu, sa.func.max(node_types.c.gpus)).group_by(node_types.c.gpu)
    found: dict[str | None, int] = dict(connection.execute(query).all())
    return found | {None: max(found.values(), default=0)}


def _jobs(connection: Connection, uids: list[str]) -> dict[str, JobView]:
    if not uids:
        return {}
    rows = connection.execute(select_jobs().where(among(connection, jobs.c.uid, uids)))
    return {view.uid: view for view in map(job_view, rows)}
