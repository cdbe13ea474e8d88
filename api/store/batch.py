"""Many jobs in one transaction: a few statements for all of them, however many they are."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from sqlalchemy import Connection

from api.store.bulk import among, array_of
from api.store.driver import ask
from api.store.ending import End, Ended, end_jobs
from api.store.engine import Database, Transaction
from api.store.errors import Conflict, NotFound, QueueFull
from api.store.ground import Ground, Moved, check_ground
from api.store.group import Outcome
from api.store.job_rows import (
    GPUS_OF_A_NODE,
    emit_submitted,
    fresh_view,
    job_view,
    name_in_use,
    new_job_row,
    no_job_of_key,
    select_jobs,
)
from api.store.keys import KnownKeys, key_row, known_keys, remember
from api.store.queue_rows import Pending
from api.store.tables import jobs
from api.store.telling import tell_new_jobs
from api.store.uids import new_uid
from api.store.views import JobView, Submission
from scheduler.model.job import JobSpec

Submitted: TypeAlias = tuple[JobView, bool] | Conflict | NotFound | QueueFull | Moved
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

    Raises:
        Moved: If what the jobs were checked against has changed since; nothing was written.
    """

    def work(tx: Transaction) -> BatchDone:
        for key in {submission.ground for submission in submissions}:
            check_ground(db, tx, key)
        ended = end_jobs(tx, ends) if ends else []
        return BatchDone(ended, _submit_all(db, tx, submissions) if submissions else [])

    return db.grouped(work, now_s)


def submit_together(tx: Transaction, asked: Sequence[tuple[Database, Submission]]) -> list[Outcome]:
    """Write jobs of several requests; for `Database.gathered`."""
    return list(_submit_all(asked[0][0], tx, [submission for _, submission in asked]))


@dataclass(slots=True)
class _There:
    """What the jobs of a batch are checked against.

    Attributes:
        names: In use -> state and live pods of who uses it.
        jobs: Of known keys, by uid.
        pending: Who waits; None while no queue limits that.
    """

    ground: Ground
    names: dict[tuple[str, str], tuple[str, int]]
    keys: KnownKeys
    jobs: dict[str, JobView]
    pending: Pending | None


@dataclass(slots=True)
class _Rows:
    jobs: list[dict[str, object]] = field(default_factory=list)
    specs: list[JobSpec] = field(default_factory=list)
    keys: list[dict[str, object]] = field(default_factory=list)


def _submit_all(
    db: Database, tx: Transaction, submissions: Sequence[Submission]
) -> list[Submitted]:
    there, rows = _read(db, tx, submissions), _Rows()
    results: list[Submitted] = []
    for submission in submissions:
        try:
            results.append(_submit(tx, there, rows, submission))
        except (Conflict, NotFound, QueueFull, Moved) as error:
            results.append(error)
    tx.put_last(jobs, rows.jobs)
    remember(tx.connection, rows.keys)
    told_bytes = sum(len(str(row["spec"])) + len(str(row["body"])) for row in rows.jobs)
    tx.tell(partial(tell_new_jobs, rows.jobs, rows.specs), len(rows.jobs), told_bytes=told_bytes)
    return results


def _submit(
    tx: Transaction, there: _There, rows: _Rows, submission: Submission
) -> tuple[JobView, bool]:
    spec, key = submission.spec, submission.idempotency
    if key is not None and (made := there.keys.job_of(key)) is not None:
        if made not in there.jobs:
            raise no_job_of_key(key)
        return there.jobs[made], False
    if submission.ground not in (None, there.ground.key):
        raise Moved("what the job was checked against has changed")
    if spec.queue not in there.ground.queues:
        raise NotFound("queue", spec.queue)
    at = (spec.namespace, spec.name)
    if at in there.names:
        raise name_in_use(spec, *there.names[at])
    if there.pending is not None:
        there.pending.check(spec.queue)
        there.pending.add(spec.queue)
    uid = new_uid(tx.now_s)
    largest = there.ground.largest.get(spec.gpu) or GPUS_OF_A_NODE
    row = new_job_row(uid, spec, submission.body, largest)
    row |= emit_submitted(tx, spec, row)
    rows.jobs.append(row)
    rows.specs.append(spec)
    view = fresh_view(row, spec, submission.body)
    if key is not None:
        rows.keys.append(key_row(key, uid, tx.now_s))
        there.keys.note(key, uid)
        there.jobs[uid] = view
    there.names[at] = (str(row["state"]), 0)
    return view, True


def _read(db: Database, tx: Transaction, submissions: Sequence[Submission]) -> _There:
    connection = tx.connection
    known = known_keys(connection, (s.idempotency for s in submissions), now_s=tx.now_s)
    ground = check_ground(db, tx, None)
    return _There(
        ground=ground,
        names=_names_in_use(connection, submissions),
        keys=known,
        jobs=_jobs(connection, [uid for _, uid in known.found.values()]),
        pending=Pending(connection) if ground.counts_pending else None,
    )


def _names_in_use(
    connection: Connection, submissions: Sequence[Submission]
) -> dict[tuple[str, str], tuple[str, int]]:
    by_namespace: dict[str, list[str]] = {}
    for submission in submissions:
        by_namespace.setdefault(submission.spec.namespace, []).append(submission.spec.name)
    is_lite = connection.dialect.name == "sqlite"
    sql = _NAMES_SQLITE if is_lite else _NAMES
    found: dict[tuple[str, str], tuple[str, int]] = {}
    for namespace, names in by_namespace.items():
        listed = json.dumps(names) if is_lite else array_of(names)
        for name, state, live in ask(connection, sql, (namespace, listed)):
            found[namespace, name] = (state, live)
    return found


_NAMES = (
    "SELECT name, state, pods_live FROM jobs WHERE namespace = %s AND name = ANY(%s::text[]) "
    "AND holds_name"
)
_NAMES_SQLITE = (
    "SELECT name, state, pods_live FROM jobs WHERE namespace = ? AND holds_name "
    "AND name IN (SELECT value FROM json_each(?))"
)


def _jobs(connection: Connection, uids: list[str]) -> dict[str, JobView]:
    if not uids:
        return {}
    rows = connection.execute(select_jobs().where(among(connection, jobs.c.uid, uids)))
    return {view.uid: view for view in map(job_view, rows)}
