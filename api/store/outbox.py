"""The outbox: what is to be delivered, written with what it is about, and sent at least once.

Messages of one lane (a job, one of its hooks) are delivered one after the other. A message is
delivered, or dead once it was tried too often or its time is over, or withdrawn.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection

from api.schemas.spec import load_eviction
from api.store.bulk import among, insert_rows, within
from api.store.checkpoints import Checkpoint, put_fact, write_checkpoint
from api.store.engine import Database, Transaction, read_revision
from api.store.errors import Conflict, NotFound, StoreError
from api.store.hook_events import Row
from api.store.job_rows import job_view, select_jobs
from api.store.paging import clamp, encode_cursor, int_cursor, page_of
from api.store.rows import AnyRow
from api.store.tables import deliveries, jobs
from api.store.views import Page
from scheduler.errors import SchedulerError
from scheduler.model.plan import EvictStep, FactKind

ERROR_MAX = 500
"""Characters of an error that are kept."""

PRUNE_STEP = 1_000
"""Rows removed in one transaction."""

TIME_IS_OVER = "the time that the job had to save is over"


class DeliveryState(StrEnum):
    PENDING = "pending"
    """To be sent, or sent again."""
    DELIVERED = "delivered"
    DEAD = "dead"
    """Given up; a person may have it sent again."""
    WITHDRAWN = "withdrawn"
    """A request to save that is not asked any more."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message to one hook.

    Attributes:
        number: Orders messages; the `revision` of the event it is about x 64 and some.
        id: The same in every attempt.
        lane: What is delivered one after the other.
        attempts: That failed or were taken, since it was last retried by hand.
        request_id, grace_s: Of a request to save.
        due_at: Unix seconds of the next attempt.
        asked_at: When a request to save was first sent; its time counts from then.
        status, error: Of the last attempt.
    """

    number: int
    id: str
    kind: str
    job_uid: str
    namespace: str
    name: str
    url: str
    lane: str
    body: str
    state: DeliveryState
    attempts: int
    request_id: str | None
    grace_s: float | None
    at: float
    due_at: float
    asked_at: float | None
    done_at: float | None
    status: int | None
    error: str

    @property
    def is_request(self) -> bool:
        """Whether a job is asked to save."""
        return self.request_id is not None

    @property
    def expires_at(self) -> float | None:
        """When a request to save is not to be sent any more."""
        if self.asked_at is None or self.grace_s is None:
            return None
        return self.asked_at + self.grace_s


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an attempt came to.

    Attributes:
        status: Of the answer; None without one.
        error: Why it was not taken; "" if it was.
        due_at: When it is to be tried again; None = not any more.
        saved: What the hook says that the job has saved.
        is_saving: The hook says that the job will save and tell.
    """

    status: int | None = None
    error: str = ""
    due_at: float | None = None
    saved: Checkpoint | None = None
    is_saving: bool = False


def put_deliveries(connection: Connection, rows: Sequence[Row]) -> None:
    """Write messages, in the transaction of what they are about."""
    insert_rows(connection, deliveries, rows)


def end_requests(tx: Transaction, request_ids: Sequence[str]) -> None:
    """Requests to save that are not asked any more, or whose time is over."""
    if not request_ids:
        return
    over = deliveries.c.asked_at + deliveries.c.grace_s <= tx.now_s
    values = {
        "state": sa.case((over, DeliveryState.DEAD), else_=DeliveryState.WITHDRAWN),
        "error": sa.case(
            (sa.and_(over, deliveries.c.error == ""), TIME_IS_OVER), else_=deliveries.c.error
        ),
        "done_at": tx.now_s,
    }
    mine = among(tx.connection, deliveries.c.request_id, request_ids)
    tx.connection.execute(sa.update(deliveries).where(mine, _PENDING).values(values))


def due_deliveries(
    db: Database, *, now_s: float, limit: int, requests: bool, busy: Collection[str] = ()
) -> tuple[list[Delivery], float | None]:
    """The next message of each lane that is due, what waits longest first.

    Args:
        requests: Of requests to save; else of notices.
        busy: Lanes that are being delivered.

    Returns:
        They, and when the next is due that is not yet; None if none is to be.
    """
    earlier = deliveries.alias()
    is_head = ~sa.exists().where(
        earlier.c.state == DeliveryState.PENDING,
        earlier.c.lane == deliveries.c.lane,
        earlier.c.number < deliveries.c.number,
    )
    of_kind = deliveries.c.request_id.is_not(None) if requests else _IS_NOTICE
    # As many more as may be busy: they are left out here, as there may be any number of them.
    query = (
        sa.select(deliveries)
        .where(_PENDING, of_kind, deliveries.c.due_at <= now_s, is_head)
        .order_by(deliveries.c.due_at, deliveries.c.number)
        .limit(limit + len(busy))
    )
    later = sa.select(sa.func.min(deliveries.c.due_at)).where(
        _PENDING, of_kind, deliveries.c.due_at > now_s, is_head
    )
    with db.read() as connection:
        rows = connection.execute(query).all()
        next_at = connection.execute(later).scalar_one()
    found = (_delivery(row) for row in rows)
    return [d for d in found if d.lane not in busy][:limit], next_at


def begin_request(db: Database, delivery: Delivery, *, now_s: float) -> Delivery | None:
    """Write down that a job is being asked to save; from then on its time counts.

    Returns:
        The request as it is to be sent; None if it is not to be sent any more.
    """
    with db.write(now_s) as tx:
        row = _open_row(tx.connection, delivery.number)
        if row is None:
            return None
        current = _delivery(row)
        if current.asked_at is not None:
            is_over = (current.expires_at or 0.0) <= now_s
            if is_over:
                _end(tx, current, DeliveryState.DEAD, error=current.error or TIME_IS_OVER)
            return None if is_over else current
        if not _is_asked(tx.connection, current):
            _end(tx, current, DeliveryState.WITHDRAWN)
            return None
        revision = _emit(tx, current, "job.save_asked", "its checkpoint hook is asked to save")
        put_fact(tx, FactKind.ASKED, current.job_uid, current.request_id or "", revision)
        _set(tx.connection, current, asked_at=now_s)
        return _delivery(_open_row(tx.connection, delivery.number) or row)


def finish_delivery(db: Database, delivery: Delivery, outcome: Outcome, *, now_s: float) -> None:
    """Write down what an attempt came to, and what the hook said of the job with it.

    A checkpoint that the job cannot have saved counts as a failed attempt.
    """
    try:
        with db.write(now_s) as tx:
            _finish(tx, delivery, outcome)
    except (SchedulerError, StoreError) as error:
        refused = Outcome(outcome.status, f"what it saved is refused: {error}", outcome.due_at)
        with db.write(now_s) as tx:
            _finish(tx, delivery, refused)


def _finish(tx: Transaction, delivery: Delivery, outcome: Outcome) -> None:
    row = _open_row(tx.connection, delivery.number)
    if row is None:
        # Withdrawn meanwhile: what the job has saved counts all the same.
        if outcome.saved is not None:
            _tell(tx, delivery, outcome)
        return
    if outcome.error and outcome.due_at is not None:
        _set(
            tx.connection,
            delivery,
            attempts=delivery.attempts + 1,
            due_at=outcome.due_at,
            status=outcome.status,
            error=outcome.error[:ERROR_MAX],
        )
        return
    state = DeliveryState.DEAD if outcome.error else DeliveryState.DELIVERED
    if not outcome.error:
        _tell(tx, delivery, outcome)
    _end(tx, delivery, state, status=outcome.status, error=outcome.error, tried=True)


def _tell(tx: Transaction, delivery: Delivery, outcome: Outcome) -> None:
    """What the hook said of the job, to the leader."""
    if outcome.saved is not None:
        query = select_jobs().where(jobs.c.uid == delivery.job_uid)
        row = tx.connection.execute(query).one_or_none()
        if row is not None:
            write_checkpoint(tx, job_view(row), outcome.saved)
    elif outcome.is_saving and _is_asked(tx.connection, delivery):
        revision = _emit(tx, delivery, "job.saving", "its checkpoint hook says that it saves")
        put_fact(tx, FactKind.SAVING, delivery.job_uid, delivery.request_id or "", revision)


def list_deliveries(
    db: Database,
    *,
    namespace: str | None = None,
    job: str | None = None,
    state: DeliveryState | None = None,
    kind: str | None = None,
    limit: int = 500,
    cursor: str | None = None,
    namespaces: Collection[str] | None = None,
) -> Page[Delivery]:
    """Messages, the newest first.

    Args:
        namespaces: Those that are shown; None = all.

    Raises:
        BadCursor: If the cursor was not given by such a list.
    """
    size = clamp(limit)
    wanted: list[ColumnElement[bool]] = []
    for column, value in (
        (deliveries.c.namespace, namespace),
        (deliveries.c.name, job),
        (deliveries.c.state, state),
        (deliveries.c.kind, kind),
    ):
        if value is not None:
            wanted.append(column == value)
    if cursor is not None:
        wanted.append(deliveries.c.number < int_cursor(cursor))
    with db.read() as connection:
        revision = read_revision(connection)
        wanted += within(connection, deliveries.c.namespace, namespaces)
        query = sa.select(deliveries).where(*wanted).order_by(deliveries.c.number.desc())
        rows = connection.execute(query.limit(size + 1)).all()
    return page_of(
        rows,
        size,
        revision=revision,
        view=_delivery,
        cursor_of=lambda row: encode_cursor(row._mapping["number"]),
    )


def get_delivery(db: Database, id_: str) -> Delivery:
    """One message.

    Raises:
        NotFound: If there is none of that id.
    """
    with db.read() as connection:
        return _by_id(connection, id_)


def retry_delivery(db: Database, id_: str, *, now_s: float) -> Delivery:
    """Have a message sent again now, with all its attempts before it.

    Raises:
        NotFound: If there is none of that id.
        Conflict: If it was delivered or withdrawn, or its time is over.
    """
    with db.write_quietly() as connection:
        found = _by_id(connection, id_)
        if found.state in {DeliveryState.DELIVERED, DeliveryState.WITHDRAWN}:
            raise Conflict("", f"delivery '{id_}' is {found.state}; there is nothing to send")
        if found.expires_at is not None and found.expires_at <= now_s:
            raise Conflict("", f"delivery '{id_}' is a request to save: {TIME_IS_OVER}")
        _set(
            connection,
            found,
            state=DeliveryState.PENDING,
            attempts=0,
            due_at=now_s,
            done_at=None,
        )
        return _by_id(connection, id_)


def prune_deliveries(db: Database, *, before: float) -> int:
    """Forget messages that were done with before then, at most `PRUNE_STEP`; returns how many."""
    old = sa.select(deliveries.c.number).where(
        deliveries.c.state != DeliveryState.PENDING, deliveries.c.done_at < before
    )
    with db.write_quietly() as connection:
        numbers = list(connection.execute(old.limit(PRUNE_STEP)).scalars())
        if numbers:
            mine = among(connection, deliveries.c.number, numbers)
            connection.execute(sa.delete(deliveries).where(mine))
    return len(numbers)


_PENDING = deliveries.c.state == DeliveryState.PENDING
_IS_NOTICE = deliveries.c.request_id.is_(None)


def _by_id(connection: Connection, id_: str) -> Delivery:
    row = connection.execute(sa.select(deliveries).where(deliveries.c.id == id_)).one_or_none()
    if row is None:
        raise NotFound("delivery", id_)
    return _delivery(row)


def _open_row(connection: Connection, number: int) -> AnyRow | None:
    query = sa.select(deliveries).where(deliveries.c.number == number, _PENDING)
    return connection.execute(query).one_or_none()


def _is_asked(connection: Connection, delivery: Delivery) -> bool:
    """Whether the job still waits for the answer to this request before it leaves."""
    query = sa.select(jobs.c.evict).where(jobs.c.uid == delivery.job_uid)
    evict = load_eviction(connection.execute(query).scalar_one_or_none())
    return (
        evict is not None
        and evict.request_id == delivery.request_id
        and evict.step is not EvictStep.TERMINATING
    )


def _end(
    tx: Transaction,
    delivery: Delivery,
    state: DeliveryState,
    *,
    status: int | None = None,
    error: str = "",
    tried: bool = False,
) -> None:
    _set(
        tx.connection,
        delivery,
        state=state,
        attempts=delivery.attempts + tried,
        status=status if tried else delivery.status,
        error=error[:ERROR_MAX],
        done_at=tx.now_s,
    )


def _set(connection: Connection, delivery: Delivery, **values: object) -> None:
    mine = deliveries.c.number == delivery.number
    connection.execute(sa.update(deliveries).where(mine).values(**values))


def _emit(tx: Transaction, delivery: Delivery, kind: str, message: str) -> int:
    return tx.emit(
        kind,
        subject_kind="job",
        namespace=delivery.namespace,
        name=delivery.name,
        uid=delivery.job_uid,
        message=message,
        body={"request_id": delivery.request_id},
    )


def _delivery(row: AnyRow) -> Delivery:
    r = dict(row._mapping)
    r["state"] = DeliveryState(r["state"])
    return Delivery(**r)
