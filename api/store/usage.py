"""Usage accounting: GPU-seconds by queue, namespace, job, GPU model and month.

A pod's GPUs count from its binding until it leaves them. When it does, the commit that says so adds
its life to two tables, in the same transaction; what live pods have used so far is added when
somebody asks. So a second is counted once whatever is restarted, and a job whose record is deleted
is still accounted for. All is in whole GPU-milliseconds, so that sums are exact.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import sqlalchemy as sa
from sqlalchemy import Column, ColumnElement, Connection, RowMapping, Table

from api.store.bulk import add_rows, among, within
from api.store.engine import Database, Transaction, read_revision
from api.store.months import by_month
from api.store.paging import clamp, decode_cursor, encode_cursor
from api.store.parts import Kept, PodNow
from api.store.rows import AnySelect
from api.store.tables import jobs, node_types, nodes, pods, usage, usage_jobs
from api.store.views import Page
from scheduler.errors import InvariantError
from scheduler.model.lifecycle import LIVE_POD

BY = ("queue", "namespace", "job", "gpu")
"""What usage is summed up by."""


@dataclass(frozen=True, slots=True)
class UsageRow:
    """What one owner used of one GPU model in a month.

    Attributes:
        owner: Queue, namespace or GPU model; of a job its uid.
        queue, namespace, job: Of a job, its own; else "".
        gpu: Model; "" for nodes that the map does not have.
        gpu_ms: Thousandths of a GPU-second.
    """

    owner: str
    gpu: str
    gpu_ms: int
    queue: str = ""
    namespace: str = ""
    job: str = ""


@dataclass(frozen=True, slots=True)
class _Life:
    """Pods of one job that were bound together to GPUs of one model."""

    job_uid: str
    queue: str
    namespace: str
    name: str
    gpu: str
    since_s: float | None
    gpus: int

    def months(self, now_s: float) -> Iterator[tuple[str, int]]:
        """GPU-milliseconds until now in each month."""
        if self.since_s is not None:
            for month, ms in by_month(round(self.since_s * 1_000), round(now_s * 1_000)):
                yield month, ms * self.gpus


def ended_lives(connection: Connection, kept: Kept, ending: Sequence[str]) -> list[_Life]:
    """The lives of pods that a plan ends, from what its commit has read already.

    Args:
        ending: Uids among `kept.now`. Pods that hold nothing any more are not counted again.
    """
    gpus: dict[tuple[str, str, float | None], int] = {}
    found = [kept.now[uid] for uid in ending]
    live = [now for now in found if now.state in LIVE_POD and now.gpu_mask]
    model_of = _models(connection, kept, live)
    for now in live:
        key = (now.job, model_of(now), now.bound_at)
        gpus[key] = gpus.get(key, 0) + now.gpu_mask.bit_count()
    lives = []
    for (uid, model, bound_at), count in gpus.items():
        job = _job_row(kept, uid)
        since_s = job["bound_at"] if bound_at is None else bound_at
        owner = (uid, job["queue"], job["namespace"], job["name"])
        lives.append(_Life(*owner, model, since_s, count))
    return lives


def _job_row(kept: Kept, uid: str) -> RowMapping:
    row = kept.parts[uid].row
    if row is None:
        raise InvariantError(f"pods of job '{uid}' end, whose record is not there")
    return row._mapping


def _models(connection: Connection, kept: Kept, live: Iterable[PodNow]) -> Callable[[PodNow], str]:
    """The GPU model of each pod: of its job's node type, else of its node's."""
    wanted: set[str] = set()
    types: dict[str, str] = {}
    for now in live:
        kind = str(_job_row(kept, now.job)["node_type"])
        types[now.job] = kind
        if not kind:
            wanted.add(now.node)
    if not types:
        return lambda _: ""
    of_type: dict[str, str] = dict(
        connection.execute(sa.select(node_types.c.name, node_types.c.gpu)).all()
    )
    of_node: dict[str, str] = {}
    if wanted:
        query = sa.select(nodes.c.name, nodes.c.type)
        rows = connection.execute(query.where(among(connection, nodes.c.name, sorted(wanted))))
        of_node = {name: of_type.get(kind, "") for name, kind in rows}
    return lambda now: of_type.get(types[now.job]) or of_node.get(now.node, "")


def accrue(tx: Transaction, lives: Iterable[_Life]) -> None:
    """Account for lives that this transaction ends."""
    of_owners: dict[tuple[object, ...], int] = {}
    of_jobs: dict[tuple[object, ...], int] = {}
    for life in lives:
        for month, gpu_ms in life.months(tx.now_s):
            owner = (month, life.queue, life.namespace, life.gpu)
            job = (month, life.job_uid, life.gpu, life.queue, life.namespace, life.name)
            of_owners[owner] = of_owners.get(owner, 0) + gpu_ms
            of_jobs[job] = of_jobs.get(job, 0) + gpu_ms
    for table, sums in ((usage, of_owners), (usage_jobs, of_jobs)):
        names = [column.name for column in table.columns][:-1]
        rows = [dict(zip(names, key, strict=True)) | {"gpu_ms": ms} for key, ms in sums.items()]
        add_rows(tx.connection, table, rows, "gpu_ms")


def read_usage(
    db: Database,
    *,
    by: str,
    month: str,
    now_s: float,
    queue: str | None = None,
    namespace: str | None = None,
    limit: int = 500,
    cursor: str | None = None,
    namespaces: Collection[str] | None = None,
) -> Page[UsageRow]:
    """What was used in a month up to now, by owner and GPU model.

    Args:
        by: One of `BY`.
        queue, namespace: Only of these; what queues below it used is their own.
        namespaces: Those whose use is counted at all; None = all.

    Raises:
        BadCursor: If the cursor was not given by such a list.
    """
    size = clamp(limit)
    after = ("", "") if cursor is None else _key(decode_cursor(cursor, str, str))
    table = usage_jobs if by == "job" else usage
    with db.read() as connection:
        revision = read_revision(connection)
        wanted = _only(table, queue, namespace)
        wanted += within(connection, table.c.namespace, namespaces)
        sums = _past(connection, table, by, [*wanted, table.c.month == month], after, size + 1)
        live = _only(jobs, queue, namespace)
        live += within(connection, jobs.c.namespace, namespaces)
        for life in _lives(connection, jobs.c.holds_name, jobs.c.pods_live > 0, *live):
            used = dict(life.months(now_s)).get(month, 0)
            row = _row_of(life, by, used)
            key = (row.owner, row.gpu)
            if used and key > after:
                known = sums.get(key)
                sums[key] = _sum(row, known) if known is not None else row
    rows = [sums[key] for key in sorted(sums)]
    following = None
    if len(rows) > size:
        following = encode_cursor(rows[size - 1].owner, rows[size - 1].gpu)
    return Page(tuple(rows[:size]), revision, following)


Key: TypeAlias = tuple[str, str]
"""Owner and GPU model."""


def _key(cursor: Sequence[object]) -> Key:
    return str(cursor[0]), str(cursor[1])


def _past(
    connection: Connection,
    table: Table,
    by: str,
    wanted: Sequence[ColumnElement[bool]],
    after: Key,
    limit: int,
) -> dict[Key, UsageRow]:
    """What pods that ended have used."""
    owner: Column[str] = table.c["job_uid" if by == "job" else by]
    names = (table.c.queue, table.c.namespace, table.c.name) if by == "job" else ()
    total = sa.func.sum(table.c.gpu_ms)
    key = sa.tuple_(owner, table.c.gpu)
    query = (
        sa.select(owner, table.c.gpu, total, *map(sa.func.min, names))
        .where(*wanted, key > sa.tuple_(*map(sa.literal, after)))
        .group_by(owner, table.c.gpu)
        .order_by(owner, table.c.gpu)
        .limit(limit)
    )
    return {
        (who, gpu): UsageRow(who, gpu, int(gpu_ms), *rest)
        for who, gpu, gpu_ms, *rest in connection.execute(query)
    }


def _only(table: Table, queue: str | None, namespace: str | None) -> list[ColumnElement[bool]]:
    pairs = ((table.c.queue, queue), (table.c.namespace, namespace))
    return [column == value for column, value in pairs if value is not None]


def _row_of(life: _Life, by: str, gpu_ms: int) -> UsageRow:
    if by == "job":
        return UsageRow(life.job_uid, life.gpu, gpu_ms, life.queue, life.namespace, life.name)
    owners: Mapping[str, Callable[[_Life], str]] = {
        "queue": lambda found: found.queue,
        "namespace": lambda found: found.namespace,
        "gpu": lambda found: found.gpu,
    }
    return UsageRow(owners[by](life), life.gpu, gpu_ms)


def _sum(row: UsageRow, known: UsageRow) -> UsageRow:
    return UsageRow(
        row.owner, row.gpu, row.gpu_ms + known.gpu_ms, row.queue, row.namespace, row.job
    )


def _lives(connection: Connection, *wanted: ColumnElement[bool]) -> Iterable[_Life]:
    return [_Life(*row) for row in connection.execute(_SELECT.where(*wanted).group_by(*_GROUP))]


# A pod from before it had a time of its own counts from the binding of its job.
_SINCE = sa.func.coalesce(pods.c.bound_at, jobs.c.bound_at)
# Written out: PostgreSQL takes two parameters for two values.
_GPU = sa.func.coalesce(node_types.c.gpu, sa.literal_column("''"))
_GROUP = (jobs.c.uid, jobs.c.queue, jobs.c.namespace, jobs.c.name, _GPU, _SINCE)
_SELECT: AnySelect = (
    sa.select(*_GROUP, sa.func.sum(pods.c.gpus))
    .select_from(pods)
    .join(jobs, jobs.c.uid == pods.c.job_uid)
    .outerjoin(nodes, nodes.c.name == pods.c.node)
    .outerjoin(node_types, node_types.c.name == nodes.c.type)
    .where(pods.c.state.in_(sorted(LIVE_POD)), pods.c.gpus > 0)
)
