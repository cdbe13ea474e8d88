"""Queues, plain: a tree of names with limits. What the limits mean is decided in the core."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

import sqlalchemy as sa
from sqlalchemy import Connection

from api.store.engine import Database, Transaction, read_revision
from api.store.errors import Conflict, NotFound
from api.store.jsontext import dump_json, load_list
from api.store.paging import clamp, encode_cursor, str_cursor
from api.store.rows import AnyRow
from api.store.tables import jobs, queues
from api.store.views import Page, QueueSpec, QueueView
from scheduler.errors import Problem, SchedulerError
from scheduler.model.lifecycle import JobState

DEFAULT_QUEUE = "default"
"""Always there."""

DEPTH_MAX = 32
"""Queues from a root down; deeper trees than any organisation's are a mistake."""

FIELDS = tuple(f.name for f in fields(QueueSpec))


@dataclass(slots=True)
class _Use:
    """What a queue uses by itself or, summed, with the queues below it."""

    gpus: int = 0
    pending: int = 0


def get_queue(db: Database, name: str) -> QueueView:
    """A queue by its name.

    Raises:
        NotFound: If there is none.
    """
    with db.read() as connection:
        return _get(connection, name)


def read_queue(connection: Connection, name: str) -> QueueSpec:
    """What was stated of a queue, without what it uses; cheap, for every submission.

    Raises:
        NotFound: If there is none.
    """
    row = connection.execute(sa.select(queues).where(queues.c.name == name)).one_or_none()
    if row is None:
        raise NotFound("queue", name)
    return _spec(row)


def list_queues(db: Database, *, limit: int = 500, cursor: str | None = None) -> Page[QueueView]:
    """Queues by name.

    Raises:
        BadCursor: If the cursor was not given by such a list.
    """
    size = clamp(limit)
    after = str_cursor(cursor) if cursor is not None else ""
    with db.read() as connection:
        revision = read_revision(connection)
        views = [view for view in _views(connection) if view.name > after]
    following = encode_cursor(views[size - 1].name) if len(views) > size else None
    return Page(tuple(views[:size]), revision, following)


def create_queue(db: Database, spec: QueueSpec, *, now_s: float) -> QueueView:
    """Make a queue.

    Raises:
        Conflict: If the name is in use.
        SchedulerError: If the parent does not exist or the tree would be too deep.
    """

    def work(tx: Transaction) -> QueueView:
        specs = _specs(tx.connection)
        if spec.name in specs:
            raise Conflict("name", f"queue '{spec.name}' exists; change it, or choose another name")
        _check_parent(spec, specs)
        revision = _emit(tx, "queue.created", spec.name)
        tx.connection.execute(sa.insert(queues), _row(spec) | {"revision": revision})
        return _get(tx.connection, spec.name)

    return db.grouped(work, now_s)


def patch_queue(
    db: Database, name: str, changes: Mapping[str, object], *, now_s: float
) -> QueueView:
    """Change only these fields of `QueueSpec`; nothing is written when nothing differs.

    Raises:
        NotFound: If there is no such queue.
        SchedulerError: If the name would change, the parent does not exist, or the tree would have
            a circle or be too deep.
    """
    unknown = sorted(set(changes) - set(FIELDS))
    if unknown:
        allowed = ", ".join(FIELDS)
        raise SchedulerError(
            Problem(n, f"there is no such field; allowed are {allowed}") for n in unknown
        )

    def work(tx: Transaction) -> QueueView:
        specs = _specs(tx.connection)
        if name not in specs:
            raise NotFound("queue", name)
        changed = replace(specs[name], **dict(changes))  # type: ignore[arg-type]  # kinds are the caller's schema's
        if changed.name != name:
            raise SchedulerError(Problem("name", f"queue '{name}' cannot be renamed"))
        _check_parent(changed, specs)
        if changed != specs[name]:
            revision = _emit(tx, "queue.changed", name)
            tx.connection.execute(
                sa.update(queues)
                .where(queues.c.name == name)
                .values(**_row(changed), revision=revision)
            )
        return _get(tx.connection, name)

    return db.grouped(work, now_s)


def delete_queue(db: Database, name: str, *, now_s: float) -> None:
    """Delete a queue; jobs of it that have ended still name it.

    Raises:
        NotFound: If there is none.
        Conflict: If it has jobs that have not ended or queues below it, or is the default one.
    """

    def work(tx: Transaction) -> None:
        specs = _specs(tx.connection)
        if name not in specs:
            raise NotFound("queue", name)
        _check_unused(tx.connection, name, specs)
        _emit(tx, "queue.deleted", name)
        tx.connection.execute(sa.delete(queues).where(queues.c.name == name))

    db.grouped(work, now_s)


def _check_unused(connection: Connection, name: str, specs: Mapping[str, QueueSpec]) -> None:
    if name == DEFAULT_QUEUE:
        raise Conflict("", f"queue '{name}' is always there")
    below = sorted(spec.name for spec in specs.values() if spec.parent == name)
    if below:
        raise Conflict("", f"queue '{name}' has queues below it: {', '.join(below[:5])}")
    unended = sa.and_(jobs.c.queue == name, jobs.c.holds_name)
    count = connection.execute(sa.select(sa.func.count()).where(unended)).scalar_one()
    if count:
        raise Conflict("", f"queue '{name}' has {count} jobs that have not ended")


def _check_parent(spec: QueueSpec, specs: Mapping[str, QueueSpec]) -> None:
    """Follow the parents up: they exist, end, and are not too many."""
    depth, at = 1, spec.parent
    while at is not None:
        if at == spec.name:
            raise SchedulerError(Problem("parent", f"queue '{spec.name}' would lie below itself"))
        if at not in specs:
            raise SchedulerError(Problem("parent", f"queue '{at}' does not exist"))
        depth, at = depth + 1, specs[at].parent
    depth += _height(spec.name, specs)
    if depth > DEPTH_MAX:
        raise SchedulerError(
            Problem(
                "parent",
                f"queue '{spec.name}' would make a tree of {depth} levels; at most {DEPTH_MAX}",
            )
        )


def _height(name: str, specs: Mapping[str, QueueSpec]) -> int:
    """Levels of queues below a queue."""
    row, height = [name], -1
    while row:
        height += 1
        row = [spec.name for spec in specs.values() if spec.parent in row]
    return height


def _get(connection: Connection, name: str) -> QueueView:
    for view in _views(connection):
        if view.name == name:
            return view
    raise NotFound("queue", name)


def _views(connection: Connection) -> list[QueueView]:
    rows = connection.execute(sa.select(queues).order_by(queues.c.name)).all()
    specs = {row.name: _spec(row) for row in rows}
    totals = _totals(connection, specs)
    return [
        QueueView(
            name=row.name,
            parent=row.parent,
            quota_gpus=row.quota_gpus,
            limit_gpus=row.limit_gpus,
            weight=row.weight,
            max_priority=row.max_priority,
            namespaces=specs[row.name].namespaces,
            used_gpus=totals[row.name].gpus,
            pending=totals[row.name].pending,
            revision=row.revision,
        )
        for row in rows
    ]


def _totals(connection: Connection, specs: Mapping[str, QueueSpec]) -> dict[str, _Use]:
    """Use of every queue with the queues below it."""
    pending = sa.func.count().filter(jobs.c.state == JobState.PENDING)
    query = sa.select(jobs.c.queue, sa.func.sum(jobs.c.gpus_held), pending)
    totals = {name: _Use() for name in specs}
    for name, gpus, count in connection.execute(
        query.where(jobs.c.holds_name).group_by(jobs.c.queue)
    ):
        at: str | None = name
        while at is not None and at in totals:
            totals[at].gpus += int(gpus)
            totals[at].pending += count
            at = specs[at].parent
    return totals


def _specs(connection: Connection) -> dict[str, QueueSpec]:
    return {row.name: _spec(row) for row in connection.execute(sa.select(queues))}


def _spec(row: AnyRow) -> QueueSpec:
    r = row._mapping
    return QueueSpec(
        name=r["name"],
        parent=r["parent"],
        quota_gpus=r["quota_gpus"],
        limit_gpus=r["limit_gpus"],
        weight=r["weight"],
        max_priority=r["max_priority"],
        namespaces=tuple(str(name) for name in load_list(r["namespaces"])),
    )


def _row(spec: QueueSpec) -> dict[str, object]:
    return {
        "name": spec.name,
        "parent": spec.parent,
        "quota_gpus": spec.quota_gpus,
        "limit_gpus": spec.limit_gpus,
        "weight": spec.weight,
        "max_priority": spec.max_priority,
        "namespaces": dump_json(list(spec.namespaces)),
    }


def _emit(tx: Transaction, kind: str, name: str) -> int:
    what = kind.partition(".")[2]
    return tx.emit(
        kind, subject_kind="queue", name=name, uid=name, message=f"queue '{name}' {what}"
    )
