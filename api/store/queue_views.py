"""Queues as they stand: what was stated of them, what they use, who waits."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import sqlalchemy as sa
from sqlalchemy import Connection

from api.auth.seen import Names, sees_queue
from api.store.engine import Database, read_revision
from api.store.errors import NotFound
from api.store.paging import clamp, encode_cursor, str_cursor
from api.store.queue_rows import WAITING, queue_record, read_queues
from api.store.tables import jobs, node_types, node_usage, nodes, pods, queues
from api.store.views import Page, QueueView
from scheduler.cluster.accounts import Account, Accounts, Capacity
from scheduler.model.lifecycle import LIVE_POD
from scheduler.model.queue import QueueRecord
from scheduler.order.shares import Shares
from scheduler.order.tree import chain, quota_of


def get_queue(db: Database, name: str, names: Names = None) -> QueueView:
    """A queue by its name.

    Args:
        names: Namespaces of whose queues it is to be one; None = all.

    Raises:
        NotFound: If there is none.
    """
    with db.read() as connection:
        view = queue_view(connection, name)
        if names is not None and not sees_queue(names, name, read_queues(connection)):
            raise NotFound("queue", name)
        return view


def list_queues(
    db: Database, *, limit: int = 500, cursor: str | None = None, names: Names = None
) -> Page[QueueView]:
    """Queues by name.

    Args:
        names: Namespaces whose queues are shown; None = all.

    Raises:
        BadCursor: If the cursor was not given by such a list.
    """
    size = clamp(limit)
    after = str_cursor(cursor) if cursor is not None else ""
    with db.read() as connection:
        revision = read_revision(connection)
        found = _views(connection)
    there = {view.name: view.queue for view in found}
    views = [v for v in found if v.name > after and sees_queue(names, v.name, there)]
    following = encode_cursor(views[size - 1].name) if len(views) > size else None
    return Page(tuple(views[:size]), revision, following)


def queue_view(connection: Connection, name: str) -> QueueView:
    """The same as `get_queue`, on a connection that is open."""
    for view in _views(connection):
        if view.name == name:
            return view
    raise NotFound("queue", name)


@dataclass(frozen=True, slots=True)
class QueueSummary:
    """The part of `QueueView` that is cheap to read."""

    queue: QueueRecord
    used_gpus: int
    pending: int


def queue_summaries(db: Database, *, limit: int, names: Names = None) -> list[QueueSummary]:
    """The first queues by name, for a dashboard.

    Args:
        names: Namespaces whose queues are shown; None = all.
    """
    with db.read() as connection:
        there = read_queues(connection)
        totals = {name: _Total() for name in there}
        _add_jobs(connection, there, totals)
    shown = [pair for pair in there.items() if sees_queue(names, pair[0], there)][:limit]
    return [QueueSummary(q, totals[name].gpus, totals[name].pending) for name, q in shown]


@dataclass(slots=True)
class _Total:
    """What a queue uses and who is in it, the queues below it counted."""

    gpus: int = 0
    pending: int = 0
    running: int = 0
    account: Account = field(default_factory=Account)


def _views(connection: Connection) -> list[QueueView]:
    rows = connection.execute(sa.select(queues).order_by(queues.c.name)).all()
    there = {row.name: queue_record(row) for row in rows}
    totals = {name: _Total() for name in there}
    _add_jobs(connection, there, totals)
    _add_pods(connection, there, totals)
    shares = _shares(connection, there, totals)
    return [
        _view(there[row.name], totals[row.name], shares.share(row.name), row.revision)
        for row in rows
    ]


def _view(queue: QueueRecord, total: _Total, share: float, revision: int) -> QueueView:
    quota = quota_of(queue, None)
    return QueueView(
        queue=queue,
        used_gpus=total.gpus,
        used_by_model={m: n for m, n in sorted(total.account.by_model.items()) if m and n},
        borrowed_gpus=None if quota is None else max(0, total.gpus - quota),
        lent_gpus=None if quota is None else max(0, quota - total.gpus),
        share=share,
        pending=total.pending,
        running=total.running,
        revision=revision,
    )


def _add_jobs(
    connection: Connection, there: Mapping[str, QueueRecord], totals: Mapping[str, _Total]
) -> None:
    """GPUs held, as the ledger's triggers count them; jobs that wait and that have a place."""
    waiting = sa.func.count().filter(jobs.c.state.in_(sorted(WAITING)))
    placed = sa.func.count().filter(jobs.c.pods_live > 0)
    query = sa.select(jobs.c.queue, sa.func.sum(jobs.c.gpus_held), waiting, placed)
    query = query.where(jobs.c.holds_name).group_by(jobs.c.queue)
    for name, gpus, pending, running in connection.execute(query):
        for queue in chain(name, there):
            total = totals[queue.name]
            total.gpus += int(gpus)
            total.pending += pending
            total.running += running


def _add_pods(
    connection: Connection, there: Mapping[str, QueueRecord], totals: Mapping[str, _Total]
) -> None:
    """The same GPUs by model, and CPUs and memory, from the live pods themselves."""
    query = (
        sa.select(
            jobs.c.queue,
            node_types.c.gpu,
            sa.func.sum(pods.c.gpus),
            sa.func.sum(pods.c.cpu_milli),
            sa.func.sum(pods.c.memory_mib),
        )
        .select_from(jobs)
        .join(pods, pods.c.job_uid == jobs.c.uid)
        .join(nodes, nodes.c.name == pods.c.node)
        .join(node_types, node_types.c.name == nodes.c.type)
        .where(jobs.c.holds_name, jobs.c.pods_live > 0, pods.c.state.in_(sorted(LIVE_POD)))
        .group_by(jobs.c.queue, node_types.c.gpu)
    )
    for name, model, gpus, cpu_milli, memory_mib in connection.execute(query):
        for queue in chain(name, there):
            account = totals[queue.name].account
            account.add(model, int(gpus), int(cpu_milli), int(memory_mib))


def _shares(
    connection: Connection, there: Mapping[str, QueueRecord], totals: Mapping[str, _Total]
) -> Shares:
    accounts = Accounts()
    accounts.set_queues(there.values())
    accounts.total = {name: total.account for name, total in totals.items()}
    accounts.capacity = _capacity(connection)
    return Shares(accounts)


def _capacity(connection: Connection) -> Capacity:
    query = sa.select(
        sa.func.sum(node_usage.c.cpu_milli_all), sa.func.sum(node_usage.c.memory_mib_all)
    )
    cpu_milli, memory_mib = connection.execute(query).one()
    of_types = sa.select(sa.func.sum(node_types.c.gpus)).join(
        nodes, nodes.c.type == node_types.c.name
    )
    gpus = connection.execute(of_types).scalar_one()
    return Capacity(int(gpus or 0), int(cpu_milli or 0), int(memory_mib or 0))
