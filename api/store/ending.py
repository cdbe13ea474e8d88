"""Ending jobs, one or many in a transaction: a cancel, or the end of a record."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import sqlalchemy as sa
from sqlalchemy import Connection

from api.store.bulk import among, insert_rows, update_rows
from api.store.errors import Conflict, NotFound
from api.store.hook_events import finished_rows
from api.store.job_rows import job_view, select_jobs
from api.store.keys import KnownKeys, key_row, known_keys, remember
from api.store.outbox import put_deliveries
from api.store.tables import facts, jobs
from api.store.told_facts import ToldEnds
from api.store.transaction import Transaction
from api.store.views import IdempotencyKey, JobView
from scheduler.model.lifecycle import FINAL, JobState, Reason
from scheduler.model.plan import FactKind


@dataclass(frozen=True, slots=True)
class End:
    """One job to end."""

    namespace: str
    name: str
    idempotency: IdempotencyKey | None = None


Ended: TypeAlias = JobView | None | Conflict | NotFound
"""The job as it is after it; None when an earlier call under the same key ended it and its record
is gone by now."""


@dataclass(slots=True)
class _Rows:
    """What is to be written, and which jobs are to be read again."""

    deleted: list[str] = field(default_factory=list)
    cancelled: list[dict[str, object]] = field(default_factory=list)
    facts: list[dict[str, object]] = field(default_factory=list)
    keys: list[dict[str, object]] = field(default_factory=list)
    again: dict[int, str] = field(default_factory=dict)


def end_jobs(tx: Transaction, ends: Sequence[End]) -> list[Ended]:
    """Cancel the newest job of each name, or delete its record when it has ended.

    A job that holds nothing is cancelled at once; for another the leader is asked to, once.

    Returns:
        One result for each, in order.
    """
    newest = _newest(tx.connection, ends)
    known = known_keys(tx.connection, (end.idempotency for end in ends), now_s=tx.now_s)
    rows, results = _Rows(), list[Ended]()
    seen: set[tuple[str, str]] = set()
    for index, end in enumerate(ends):
        at = (end.namespace, end.name)
        try:
            if at in seen:
                raise Conflict("", f"job '{end.namespace}/{end.name}' is named twice")
            seen.add(at)
            results.append(_end(tx, rows, index, end, newest.get(at), known))
        except (Conflict, NotFound) as error:
            results.append(error)
    _write(tx.connection, rows)
    told = ToldEnds(rows.cancelled, rows.deleted, rows.facts)
    tx.tell(told, len(rows.cancelled) + len(rows.deleted) + len(rows.facts))
    return _read_again(tx.connection, rows, results)


def _newest(connection: Connection, ends: Sequence[End]) -> dict[tuple[str, str], JobView]:
    """The newest job of each name that has one."""
    by_namespace: dict[str, list[str]] = {}
    for end in ends:
        by_namespace.setdefault(end.namespace, []).append(end.name)
    found: dict[tuple[str, str], JobView] = {}
    for namespace, names in by_namespace.items():
        wanted = sa.and_(jobs.c.namespace == namespace, among(connection, jobs.c.name, names))
        for row in connection.execute(select_jobs().where(wanted).order_by(jobs.c.age)):
            view = job_view(row)
            found[namespace, view.name] = view
    return found


def _end(
    tx: Transaction, rows: _Rows, index: int, end: End, view: JobView | None, known: KnownKeys
) -> JobView | None:
    """Decide on one job and gather what is to be written."""
    if end.idempotency is not None and (uid := known.job_of(end.idempotency)) is not None:
        rows.again[index] = uid
        return None
    if view is None:
        raise NotFound("job", f"{end.namespace}/{end.name}")
    if view.state in FINAL:
        _delete(tx, rows, view)
    elif not view.cancelling:
        view = _cancel(tx, rows, view)
    if end.idempotency is not None:
        rows.keys.append(key_row(end.idempotency, view.uid, tx.now_s))
    return view


def _delete(tx: Transaction, rows: _Rows, view: JobView) -> None:
    if view.live:
        raise Conflict(
            "",
            f"job '{view.namespace}/{view.name}' is {view.state}, but {view.live} of its pods may "
            "still run; it can be deleted when their nodes have said that they stopped",
        )
    _emit(tx, view, "job.deleted", f"its record was deleted; it had {view.state}")
    rows.deleted.append(view.uid)


def _cancel(tx: Transaction, rows: _Rows, view: JobView) -> JobView:
    """The job as it is then."""
    # Places are kept for one that waits after a crash; the leader alone gives them up.
    if view.state is JobState.PENDING and not view.live and view.reason is not Reason.BACKOFF:
        revision = _emit(tx, view, "job.cancelled", "cancelled while pending")
        rows.cancelled.append(
            {
                "uid": view.uid,
                "state": JobState.CANCELLED,
                "reason": None,
                "message": "",
                "finished_at": tx.now_s,
                "revision": revision,
            }
        )
        return replace(
            view,
            state=JobState.CANCELLED,
            reason=None,
            message="",
            finished_at=tx.now_s,
            revision=revision,
        )
    revision = _emit(tx, view, "job.cancel_asked", f"asked for while {view.state}")
    rows.facts.append(
        {"id": revision, "kind": FactKind.CANCEL, "job_uid": view.uid, "at": tx.now_s}
    )
    return replace(view, cancelling=True)


def _write(connection: Connection, rows: _Rows) -> None:
    if rows.deleted:
        connection.execute(sa.delete(jobs).where(among(connection, jobs.c.uid, rows.deleted)))
    update_rows(connection, jobs, "uid", rows.cancelled)
    _tell_hooks(connection, rows.cancelled)
    insert_rows(connection, facts, rows.facts)
    remember(connection, rows.keys)


def _tell_hooks(connection: Connection, cancelled: list[dict[str, object]]) -> None:
    """Jobs that had no place end without a plan that would tell of it."""
    if not cancelled:
        return
    revisions = {str(row["uid"]): int(str(row["revision"])) for row in cancelled}
    columns = (jobs.c.uid, jobs.c.namespace, jobs.c.name, jobs.c.attempt)
    query = sa.select(*columns, jobs.c.hooks, jobs.c.finished_at).where(
        among(connection, jobs.c.uid, list(revisions)), jobs.c.hooks.is_not(None)
    )
    for row in connection.execute(query).all():
        told = finished_rows(row, row.hooks, revision=revisions[row.uid], now_s=row.finished_at)
        put_deliveries(connection, told)


def _read_again(connection: Connection, rows: _Rows, results: list[Ended]) -> list[Ended]:
    if not rows.again:
        return results
    wanted = among(connection, jobs.c.uid, list(rows.again.values()))
    now: Mapping[str, JobView] = {
        view.uid: view for view in map(job_view, connection.execute(select_jobs().where(wanted)))
    }
    for index, uid in rows.again.items():
        results[index] = now.get(uid)
    return results


def _emit(tx: Transaction, view: JobView, kind: str, message: str) -> int:
    return tx.emit(
        kind,
        subject_kind="job",
        namespace=view.namespace,
        name=view.name,
        uid=view.uid,
        message=message,
    )
