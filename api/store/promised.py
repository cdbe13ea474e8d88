"""What was promised to gangs, compared with what the database says that they have.

The decision log tells which pods were given which GPUs. Rows that were changed since, by a
transaction as they should be, have a later revision and are left alone: what is looked for are rows
that differ though nothing ever said so.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Connection

from api.store.bulk import among
from api.store.rows import AnyRow
from api.store.tables import jobs, pods
from api.store.wrong import Wrong, WrongKind
from scheduler.model.ids import PodId
from scheduler.model.lifecycle import LIVE_POD
from scheduler.model.plan import PodRecord
from scheduler.model.resources import indices_of


@dataclass(frozen=True, slots=True)
class Promised:
    """The live pods as of a revision, as something other than the pods' rows has them.

    Attributes:
        pods: By uid.
    """

    revision: int
    pods: Mapping[PodId, PodRecord]


def audit_promised(connection: Connection, promised: Promised) -> Iterator[Wrong]:
    """Live pods that are not where they were promised to be, by uid."""
    rows = {row.uid: row for row in _rows(connection, promised)}
    for uid in sorted(promised.pods):
        pod, row = promised.pods[uid], rows.pop(uid, None)
        if row is None:
            if _has_job(connection, pod):
                yield _wrong(WrongKind.MISSING, pod, f"{_at(pod.node, pod.gpu_mask)} is gone")
        elif row.revision <= promised.revision and not _agrees(row, pod):
            now = f"is {_at(row.node, row.gpu_mask)}, {row.state}, attempt {row.attempt}"
            then = f"{_at(pod.node, pod.gpu_mask)}, {pod.state}, attempt {pod.attempt}"
            yield _wrong(WrongKind.MOVED, pod, f"{now}; the decision log has it {then}", row.node)
    for uid, row in sorted(rows.items()):
        if row.revision <= promised.revision and row.state in LIVE_POD:
            yield Wrong(
                WrongKind.MOVED,
                f"pod '{uid}' is {_at(row.node, row.gpu_mask)}, {row.state}; the decision log has "
                "no such live pod",
                nodes=(row.node,),
                jobs=(row.job_uid,),
                uids=(uid,),
            )


def _rows(connection: Connection, promised: Promised) -> Iterator[AnyRow]:
    """Rows of live pods, and of those that were promised, live or not."""
    columns = (
        pods.c.uid,
        pods.c.job_uid,
        pods.c.node,
        pods.c.gpu_mask,
        pods.c.state,
        pods.c.attempt,
        pods.c.revision,
    )
    seen = set()
    live = sa.select(*columns).where(pods.c.state.in_(sorted(LIVE_POD)))
    for row in connection.execute(live):
        seen.add(row.uid)
        yield row
    rest = [uid for uid in sorted(promised.pods) if uid not in seen]
    if rest:
        yield from connection.execute(
            sa.select(*columns).where(among(connection, pods.c.uid, rest))
        )


def _has_job(connection: Connection, pod: PodRecord) -> bool:
    """Else the record was deleted with its pods, as it should be."""
    query = sa.select(jobs.c.uid).where(jobs.c.uid == pod.job)
    return connection.execute(query).first() is not None


def _agrees(row: AnyRow, pod: PodRecord) -> bool:
    now = (row.node, row.gpu_mask, row.state, row.attempt)
    return bool(now == (pod.node, pod.gpu_mask, pod.state, pod.attempt))


def _wrong(kind: WrongKind, pod: PodRecord, said: str, *nodes: str) -> Wrong:
    names = tuple(dict.fromkeys((pod.node, *nodes)))
    return Wrong(kind, f"pod '{pod.uid}' {said}", names, (pod.job,), (pod.uid,))


def _at(node: str, mask: int) -> str:
    return f"on node '{node}' with GPUs {','.join(map(str, indices_of(mask))) or 'none'}"
