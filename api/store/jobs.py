"""Jobs: submit, read, list, cancel. All here are facts; what becomes of them is the leader's."""

from collections.abc import Collection, Mapping

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection

from api.store.batch import submit_together
from api.store.bulk import within
from api.store.ending import End, end_jobs
from api.store.engine import Database, Transaction, read_revision
from api.store.errors import NotFound
from api.store.ground import GroundKey
from api.store.job_rows import (
    GPUS_OF_A_NODE,
    emit_submitted,
    fresh_view,
    job_view,
    name_in_use,
    new_job_row,
    newest_job,
    no_job_of_key,
    select_jobs,
)
from api.store.keys import key_row, known_keys, remember
from api.store.paging import clamp, encode_cursor, int_cursor, page_of
from api.store.queue_rows import HAS_MAX_PENDING, Pending
from api.store.rows import AnySelect
from api.store.tables import jobs, node_types, queues
from api.store.uids import new_uid
from api.store.views import IdempotencyKey, JobView, Page, Submission
from scheduler.errors import InvariantError
from scheduler.model.job import JobSpec
from scheduler.model.lifecycle import JobState


def submit_job(
    db: Database,
    spec: JobSpec,
    body: Mapping[str, object],
    *,
    now_s: float,
    idempotency: IdempotencyKey | None = None,
    ground: GroundKey | None = None,
    is_awaited: bool = False,
) -> tuple[JobView, bool]:
    """Write a job; durable when this returns.

    Args:
        ground: What the job was checked against; None = nothing, or what it is by now.
        is_awaited: Somebody waits for its place: where that can be, it has one in the same write.
            What is returned is the job before that.

    Returns:
        The job, and True when this call made it, False when an earlier one under the same key did.

    Raises:
        Conflict: If the name is in use (path `name`), or the key for another body (path
            `Idempotency-Key`).
        NotFound: If there is no such queue.
        QueueFull: If as many jobs wait in it, or in one above it, as may.
        Moved: If what it was checked against has changed since.
    """
    submission = Submission(spec, body, idempotency, ground)
    item = (db, submission)
    done: tuple[JobView, bool] = db.gathered(submit_together, item, now_s, is_awaited=is_awaited)
    return done


def job_of_key(db: Database, key: IdempotencyKey, *, now_s: float) -> JobView | None:
    """The job that an earlier request under this key made; None if there was no such request.

    Raises:
        Conflict: If that request had another body, or its job was deleted.
    """
    with db.read() as connection:
        return _job_of_key(connection, key, now_s)


def get_job(db: Database, namespace: str, name: str) -> JobView:
    """The newest job of that name.

    Raises:
        NotFound: If there is none.
    """
    with db.read() as connection:
        return job_view(newest_job(connection, namespace, name))


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
    namespaces: Collection[str] | None = None,
) -> Page[JobView]:
    """Jobs in the order of their submission.

    Args:
        namespaces: Those that are shown; None = all.

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
        wanted += within(connection, jobs.c.namespace, namespaces)
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

    def work(tx: Transaction) -> JobView:
        (found,) = end_jobs(tx, [End(namespace, name)])
        if isinstance(found, JobView):
            return found
        raise found or InvariantError("an end without a key has its job")

    return db.grouped(work, now_s)


def submit_in(tx: Transaction, submission: Submission) -> tuple[JobView, bool]:
    """What `submit_job` does, in a transaction that also writes what goes with it."""
    spec, key = submission.spec, submission.idempotency
    if key is not None:
        earlier = _job_of_key(tx.connection, key, tx.now_s)
        if earlier is not None:
            return earlier, False
    largest = _check_free(tx.connection, spec)
    uid = new_uid(tx.now_s)
    row = new_job_row(uid, spec, submission.body, largest)
    row |= emit_submitted(tx, spec, row)
    tx.connection.execute(_INSERT, row)
    if key is not None:
        remember(tx.connection, [key_row(key, uid, tx.now_s)])
    return fresh_view(row, spec), True


def fresh_job(spec: JobSpec, body: Mapping[str, object], *, now_s: float) -> JobView:
    """A job as it would be just after its submission, for those who only ask."""
    row = new_job_row(new_uid(now_s), spec, body, GPUS_OF_A_NODE)
    return fresh_view(
        row | {"age": 0, "spec_revision": 0, "revision": 0, "submitted_at": now_s}, spec
    )


def _check_free(connection: Connection, spec: JobSpec) -> int:
    """GPUs of the largest node type the job may use; refuses a queue that does not take it.

    A name in use is refused too.
    """
    wanted = {"queue": spec.queue, "namespace": spec.namespace, "name": spec.name, "gpu": spec.gpu}
    found = connection.execute(_FREE, wanted).one()
    if found.queue is None:
        raise NotFound("queue", spec.queue)
    if found.state is not None:
        raise name_in_use(spec, found.state, found.pods_live)
    if found.counted:
        Pending(connection).check(spec.queue)
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
            queues.c.name.label("queue"),
            jobs.c.state,
            jobs.c.pods_live,
            largest.label("gpus"),
            HAS_MAX_PENDING.label("counted"),
        )
        .select_from(one)
        .outerjoin(queues, queues.c.name == sa.bindparam("queue"))
        .outerjoin(jobs, holder)
    )


_FREE = _free_select()
_INSERT = sa.insert(jobs)


def _job_of_key(connection: Connection, key: IdempotencyKey, now_s: float) -> JobView | None:
    uid = known_keys(connection, [key], now_s=now_s).job_of(key)
    if uid is None:
        return None
    job = connection.execute(select_jobs().where(jobs.c.uid == uid)).one_or_none()
    if job is None:
        raise no_job_of_key(key)
    return job_view(job)
