"""The history: every event has a revision of its own."""

from collections.abc import Collection, Sequence

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection

from api.auth.seen import NAMESPACES, QUEUES
from api.store.bulk import among
from api.store.engine import Database, read_revision
from api.store.errors import FutureRevision, Gone
from api.store.jsontext import load_dict
from api.store.paging import clamp
from api.store.rows import AnyRow
from api.store.tables import claims, counter, events, facts, idempotency, jobs
from api.store.views import EventView, Page

IDEMPOTENCY_S = 24 * 3600.0
"""How long an Idempotency-Key is remembered."""

NAMESAKES_MAX = 100
"""Jobs of one name whose pods a filter follows."""

TRIM_STEP = 5_000
"""Rows removed in one transaction; a few milliseconds."""


def current_revision(db: Database) -> int:
    """The last revision given."""
    with db.read() as connection:
        return read_revision(connection)


def list_events(
    db: Database,
    since: int,
    limit: int = 500,
    *,
    kind: str | None = None,
    uid: str | None = None,
    job_uid: str | None = None,
    subject_kind: str | None = None,
    namespace: str | None = None,
    name: str | None = None,
    kinds: Sequence[str] = (),
    job: str | None = None,
    namespaces: Collection[str] | None = None,
) -> Page[EventView]:
    """Events after revision `since`, oldest first.

    Args:
        job_uid: Of this job and of its pods.
        kinds: Of any of these, `job.bound`, or of these subjects, `job`; none = of all.
        job: Of jobs of this name and of their pods, as far as their records are there.
        namespaces: Those that are shown, see `api.auth.seen`; None = all.

    Returns:
        `revision` is that of the store; `next` is the last revision of a full page, as text, to be
        used as `since`.

    Raises:
        Gone: If some events after `since` are no longer kept.
        FutureRevision: If `since` has not been given yet.
    """
    size = clamp(limit)
    wanted: list[ColumnElement[bool]] = [events.c.revision > since]
    for column, value in (
        (events.c.kind, kind),
        (events.c.uid, uid),
        (events.c.subject_kind, subject_kind),
        (events.c.namespace, namespace),
        (events.c.name, name),
    ):
        if value is not None:
            wanted.append(column == value)
    if job_uid is not None:
        wanted.append(_of_job(job_uid))
    if kinds:
        wanted.append(sa.or_(events.c.kind.in_(kinds), events.c.subject_kind.in_(kinds)))
    with db.read() as connection:
        current = check_kept(connection, since)
        if job is not None:
            wanted.append(_of_jobs(connection, namespace, job))
        if namespaces is not None:
            wanted.append(_shown_to(connection, namespaces))
        # An upper end too, so that PostgreSQL goes by the index even when it knows no figures.
        wanted.append(events.c.revision <= current)
        rows = connection.execute(
            sa.select(events).where(*wanted).order_by(events.c.revision).limit(size + 1)
        ).all()
    items = tuple(_view(row) for row in rows[:size])
    return Page(items, current, str(items[-1].revision) if len(rows) > size else None)


def read_events(
    connection: Connection,
    wanted: Sequence[ColumnElement[bool]],
    limit: int,
    *,
    newest: bool = False,
) -> list[EventView]:
    """Events of a snapshot, oldest first; with `newest` the last ones, else the first."""
    order = events.c.revision.desc() if newest else events.c.revision
    rows = connection.execute(sa.select(events).where(*wanted).order_by(order).limit(limit)).all()
    return [_view(row) for row in (reversed(rows) if newest else rows)]


def check_since(db: Database, since: int | None) -> int:
    """The revision to start after: `since`, or else the current one.

    Raises:
        Gone, FutureRevision: As `list_events`.
    """
    with db.read() as connection:
        if since is None:
            return read_revision(connection)
        check_kept(connection, since)
    return since


def job_uids(db: Database, namespace: str | None, name: str) -> frozenset[str]:
    """Uids of the jobs of that name whose records are there; of all namespaces if None is given."""
    with db.read() as connection:
        return frozenset(_job_uids(connection, namespace, name))


def _view(row: AnyRow) -> EventView:
    return EventView(
        revision=row.revision,
        at=row.at,
        kind=row.kind,
        subject_kind=row.subject_kind,
        namespace=row.namespace,
        name=row.name,
        uid=row.uid,
        message=row.message,
        body=load_dict(row.body),
    )


def check_kept(connection: Connection, since: int) -> int:
    """The current revision; refuses a start that lies ahead or too far back."""
    current, oldest = connection.execute(
        sa.select(counter.c.revision, counter.c.oldest).where(counter.c.id == 1)
    ).one()
    if since > current:
        raise FutureRevision(since, current)
    if since < oldest:
        raise Gone(since, oldest)
    return int(current)


def _of_job(uid: str) -> ColumnElement[bool]:
    """Events of a job and of its pods, whose uids are the job's, a dash and more."""
    # "." is the character after "-".
    return sa.or_(events.c.uid == uid, sa.and_(events.c.uid > f"{uid}-", events.c.uid < f"{uid}."))


def _of_jobs(connection: Connection, namespace: str | None, name: str) -> ColumnElement[bool]:
    by_name = sa.and_(events.c.subject_kind == "job", events.c.name == name)
    return sa.or_(by_name, *map(_of_job, _job_uids(connection, namespace, name)))


def _shown_to(connection: Connection, namespaces: Collection[str]) -> ColumnElement[bool]:
    """The same as `api.auth.seen.sees_event`; the message about a stored object is its resource."""
    c, names = events.c, sorted(namespaces)
    of_all = sa.and_(c.namespace == "", c.subject_kind.not_in(("object", "queue")))
    of_objects = sa.and_(c.namespace == "", c.subject_kind == "object")
    own_name = sa.and_(of_objects, c.message == NAMESPACES, among(connection, c.name, names))
    others = sa.and_(of_objects, c.message.not_in((NAMESPACES, QUEUES)))
    return sa.or_(among(connection, c.namespace, names), of_all, own_name, others)


def _job_uids(connection: Connection, namespace: str | None, name: str) -> list[str]:
    """The newest first; older records than so many are of no interest any more."""
    query = sa.select(jobs.c.uid).where(jobs.c.name == name)
    if namespace is not None:
        query = query.where(jobs.c.namespace == namespace)
    newest_first = query.order_by(jobs.c.age.desc()).limit(NAMESAKES_MAX)
    return list(connection.execute(newest_first).scalars())


def wait_for_revision(db: Database, after: int, timeout_s: float) -> int:
    """Wait until the revision is above `after`; returns the latest known, also when time is up.

    Commits of this process wake at once, those of others within 50 ms. Holds no connection while
    it waits.
    """
    return db.notifier.wait(after, timeout_s)


def trim_history(db: Database, *, keep: int, now_s: float) -> int:
    """Forget events beyond the newest `keep`, facts applied before them, and keys over a day old.

    Returns:
        Events removed, at most `TRIM_STEP`; so call it again while it removes as many.
    """
    with db.read() as connection:
        current, oldest = connection.execute(
            sa.select(counter.c.revision, counter.c.oldest).where(counter.c.id == 1)
        ).one()
    floor = min(current - keep, oldest + TRIM_STEP)
    with db.write_quietly() as connection:
        if floor > oldest:
            # The counter first, as every writer takes it.
            connection.execute(sa.update(counter).where(counter.c.id == 1).values(oldest=floor))
        connection.execute(sa.delete(idempotency).where(idempotency.c.at <= now_s - IDEMPOTENCY_S))
        if floor <= oldest:
            return 0
        connection.execute(
            sa.delete(facts).where(facts.c.id <= floor, facts.c.applied_at.is_not(None))
        )
        connection.execute(sa.delete(claims).where(claims.c.gone, claims.c.revision <= floor))
        return connection.execute(sa.delete(events).where(events.c.revision <= floor)).rowcount
