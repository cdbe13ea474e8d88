"""Jobs: submit, read, list, cancel. All here are facts; what becomes of them is the leader's."""

from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection

from api.store.bulk import upsert_rows
from api.store.engine import Database, Transaction, read_revision
from api.store.errors import Conflict, NotFound
from api.store.events import IDEMPOTENCY_S
from api.store.job_rows import GPUS_OF_A_NODE, fresh_view, job_view, new_job_row, select_jobs
from api.store.paging import clamp, encode_cursor, int_cursor, page_of
from api.store.rows import AnyRow, AnySelect
from api.store.tables import facts, idempotency, jobs, node_types, queues
from api.store.uids import new_uid
from api.store.views import IdempotencyKey, JobView, Page, Submission
from scheduler.model.job import JobSpec
from scheduler.model.lifecycle import FINAL, JobState
from scheduler.model.plan import FactKind


def submit_job(
    db: Database,
    spec: JobSpec,
    body: Mapping[str, object],
    *,
    now_s: float,
    idempotency: IdempotencyKey | None = None,
) -> tuple[JobView, bool]:
    """Write a job; durable when this returns.

    Returns:
        The job, and True when this call made it, False when an earlier one under the same key did.

    Raises:
        Conflict: If the name is in use (path `name`), or the key for another body (path
            `Idempotency-Key`).
        NotFound: If there is no such queue.
    """
    submission = Submission(spec, body, idempotency)
    return db.grouped(lambda tx: _submit(tx, submission), now_s)


def submit_jobs(
    db: Database, submissions: Sequence[Submission], *, now_s: float
) -> list[tuple[JobView, bool] | Conflict | NotFound]:
    """Write many jobs in one transaction; one result for each, in order."""

    def work(tx: Transaction) -> list[tuple[JobView, bool] | Conflict | NotFound]:
        return [_result(tx, submission) for submission in submissions]

    return db.grouped(work, now_s)


def get_job(db: Database, namespace: str, name: str) -> JobView:
    """The newest job of that name.

    Raises:
        NotFound: If there is none.
    """
    with db.read() as connection:
        return job_view(_newest(connection, namespace, name))


def get_job_by_uid(db: Database, uid: str) -> JobView:
    """A job by its uid, whatever became of its name.

    Raises:
        NotFound: If there is none.
    """
    with db.read() as connection:
        row = connection.execute(select_jobs().where(jobs.c.uid == uid)).one_or_none()
    if row is None:
        raise NotFound("job", uid)
    return job_view(row)


def list_jobs(
    db: Database,
    *,
    namespace: str | None = None,
    queue: str | None = None,
    state: JobState | None = None,
    limit: int = 500,
    cursor: str | None = None,
) -> Page[JobView]:
    """Jobs in the order of their submission.

    Raises:
        BadCursor: If the cursor was not given by such a list.
    """
    size = clamp(limit)
    wanted: list[ColumnElement[bool]] = []
    for column, value in (
        (jobs.c.namespace, namespace),
        (jobs.c.queue, queue),
        (jobs.c.state, state),
    ):
        if value is not None:
            wanted.append(column == value)
    if cursor is not None:
        wanted.append(jobs.c.age > int_cursor(cursor))
    with db.read() as connection:
        revision = read_revision(connection)
        query = select_jobs().where(*wanted).order_by(jobs.c.age).limit(size + 1)
        rows = connection.execute(query).all()
    return page_of(
        rows,
        size,
        revision=revision,
        view=job_view,
        cursor_of=lambda row: encode_cursor(row._mapping["age"]),
    )


def count_jobs(db: Database) -> dict[JobState, int]:
    """Jobs by state, states without any left out."""
    with db.read() as connection:
        query = sa.select(jobs.c.state, sa.func.count()).group_by(jobs.c.state)
        return {JobState(state): count for state, count in connection.execute(query)}


def cancel_job(db: Database, namespace: str, name: str, *, now_s: float) -> JobView:
    """Cancel the newest job of that name.

    A job that holds nothing is cancelled at once; for another the leader is asked to, once. The
    record of a job that has ended is deleted, so that the next call finds nothing.

    Raises:
        NotFound: If there is none.
        Conflict: If it has ended, but pods of it may still run.
    """
    return db.grouped(lambda tx: _cancel(tx, namespace, name), now_s)


def _result(tx: Transaction, submission: Submission) -> tuple[JobView, bool] | Conflict | NotFound:
    try:
        return _submit(tx, submission)
    except (Conflict, NotFound) as error:
        return error


def _submit(tx: Transaction, submission: Submission) -> tuple[JobView, bool]:
    spec, key = submission.spec, submission.idempotency
    if key is not None:
        earlier = _job_of_key(tx, key)
        if earlier is not None:
            return earlier, False
    largest = _check_free(tx.connection, spec)
    uid = new_uid(tx.now_s)
    row = new_job_row(uid, spec, submission.body, largest)
    revision = tx.emit(
        "job.submitted",
        subject_kind="job",
        namespace=spec.namespace,
        name=spec.name,
        uid=uid,
        message=f"{row['members']} pods, {spec.gpu_count} GPUs",
        body={"queue": spec.queue, "priority": spec.priority, "gpus": spec.gpu_count},
    )
    row |= {
        "age": revision,
        "spec_revision": revision,
        "revision": revision,
        "submitted_at": tx.now_s,
    }
    tx.connection.execute(_INSERT, row)
    if key is not None:
        _remember(tx, key, uid)
    return fresh_view(row, spec), True


def _check_free(connection: Connection, spec: JobSpec) -> int:
    """Refuse an unknown queue and a name in use; GPUs of the largest node type the job may use."""
    wanted = {"queue": spec.queue, "namespace": spec.namespace, "name": spec.name, "gpu": spec.gpu}
    found = connection.execute(_FREE, wanted).one()
    if found.queue is None:
        raise NotFound("queue", spec.queue)
    if found.state is not None:
        pods = f" and has {found.pods_live} live pods" if found.pods_live else ""
        raise Conflict(
            "name",
            f"job '{spec.namespace}/{spec.name}' exists: it is {found.state}{pods}; "
            "choose another name, or delete it first",
        )
    return found.gpus or GPUS_OF_A_NODE


def _free_select() -> AnySelect:
    """All that a submission asks, in one statement that is always the same one."""
    one = sa.select(sa.literal(1).label("one")).subquery("one")
    gpu = sa.bindparam("gpu", type_=sa.Text)
    largest = (
        sa.select(sa.func.max(node_types.c.gpus))
        .where(sa.or_(gpu.is_(None), node_types.c.gpu == gpu))
        .scalar_subquery()
    )
    holder = sa.and_(
        jobs.c.namespace == sa.bindparam("namespace"),
        jobs.c.name == sa.bindparam("name"),
        jobs.c.holds_name,
    )
    return (
        sa.select(
            queues.c.name.label("queue"), jobs.c.state, jobs.c.pods_live, largest.label("gpus")
        )
        .select_from(one)
        .outerjoin(queues, queues.c.name == sa.bindparam("queue"))
        .outerjoin(jobs, holder)
    )


_FREE = _free_select()
_INSERT = sa.insert(jobs)


def _job_of_key(tx: Transaction, key: IdempotencyKey) -> JobView | None:
    """The job an earlier request under this key made, if it is remembered."""
    row = tx.connection.execute(
        sa.select(idempotency.c.body_hash, idempotency.c.job_uid).where(
            idempotency.c.caller == key.caller,
            idempotency.c.namespace == key.namespace,
            idempotency.c.key == key.key,
            idempotency.c.at > tx.now_s - IDEMPOTENCY_S,
        )
    ).first()
    if row is None:
        return None
    if row.body_hash != key.body_hash:
        raise Conflict(
            "Idempotency-Key",
            f"key '{key.key}' was used for another body within 24 h; use a new key for a new job",
        )
    job = tx.connection.execute(select_jobs().where(jobs.c.uid == row.job_uid)).one_or_none()
    if job is None:
        raise Conflict(
            "Idempotency-Key",
            f"the job that key '{key.key}' made was deleted; use a new key for a new job",
        )
    return job_view(job)


def _remember(tx: Transaction, key: IdempotencyKey, uid: str) -> None:
    row = {
        "caller": key.caller,
        "namespace": key.namespace,
        "key": key.key,
        "body_hash": key.body_hash,
        "job_uid": uid,
        "at": tx.now_s,
    }
    upsert_rows(tx.connection, idempotency, [row])


def _newest(connection: Connection, namespace: str, name: str) -> AnyRow:
    row = connection.execute(
        select_jobs()
        .where(jobs.c.namespace == namespace, jobs.c.name == name)
        .order_by(jobs.c.age.desc())
        .limit(1)
    ).one_or_none()
    if row is None:
        raise NotFound("job", f"{namespace}/{name}")
    return row


def _cancel(tx: Transaction, namespace: str, name: str) -> JobView:
    view = job_view(_newest(tx.connection, namespace, name))
    if view.state in FINAL:
        _delete(tx, view)
        return view
    if view.cancelling:
        return view
    if view.state is JobState.PENDING and not view.live:
        revision = _emit(tx, view, "job.cancelled", "cancelled while pending")
        tx.connection.execute(
            sa.update(jobs)
            .where(jobs.c.uid == view.uid)
            .values(
                state=JobState.CANCELLED,
                reason=None,
                message="",
                finished_at=tx.now_s,
                revision=revision,
            )
        )
    else:
        revision = _emit(tx, view, "job.cancel_asked", f"asked for while {view.state}")
        tx.connection.execute(
            sa.insert(facts),
            {"id": revision, "kind": FactKind.CANCEL, "job_uid": view.uid, "at": tx.now_s},
        )
    return job_view(_newest(tx.connection, namespace, name))


def _delete(tx: Transaction, view: JobView) -> None:
    if view.live:
        raise Conflict(
            "",
            f"job '{view.namespace}/{view.name}' is {view.state}, but {view.live} of its pods may "
            "still run; it can be deleted when their nodes have said that they stopped",
        )
    _emit(tx, view, "job.deleted", f"its record was deleted; it had {view.state}")
    tx.connection.execute(sa.delete(jobs).where(jobs.c.uid == view.uid))


def _emit(tx: Transaction, view: JobView, kind: str, message: str) -> int:
    return tx.emit(
        kind,
        subject_kind="job",
        namespace=view.namespace,
        name=view.name,
        uid=view.uid,
        message=message,
    )
