"""Pods put back where the decision log has them, and GPUs that two gangs hold given to one.

Pods that nothing is wrong with are not touched. Where two live pods hold a GPU and the log does not
say whose it is, the one that was there first keeps it: the other stops and its gang starts anew.
"""

from collections.abc import Iterator, Sequence

import sqlalchemy as sa

from api.store.commit import pod_row
from api.store.control import control_in
from api.store.engine import Transaction
from api.store.errors import NotFound
from api.store.job_rows import select_jobs
from api.store.promised import Promised
from api.store.rows import AnyRow
from api.store.tables import jobs, pods
from api.store.wrong import Wrong, WrongKind
from scheduler.errors import StateError
from scheduler.model.ids import PodId
from scheduler.model.lifecycle import LIVE_POD, PodState
from scheduler.model.plan import FactKind, PodRecord


def put_back(tx: Transaction, found: Sequence[Wrong], promised: Promised) -> Iterator[str]:
    """Give pods back the place that they were promised, where nobody else is by now.

    The numbers of the ledger must be those of the pods as they are.
    """
    wrong = {PodId(one.uids[0]): one for one in found}
    # All leave first: they may stand in each other's places.
    rows = {uid: _row(tx, uid) for uid in wrong}
    for uid, row in rows.items():
        if row is not None and row.state in LIVE_POD:
            _set(tx, uid, {"state": PodState.STOPPED})
    for uid, row in rows.items():
        pod = promised.pods.get(uid)
        if pod is None:
            yield f"pod '{uid}' is stopped, as the decision log has no such live pod"
        elif _is_taken(tx, pod):
            if row is not None and row.state in LIVE_POD and not _is_taken_by(tx, row):
                _set(tx, uid, {"state": row.state})
            continue
        else:
            values = {"node": pod.node, "gpu_mask": pod.gpu_mask, "state": pod.state}
            values |= {"attempt": pod.attempt, "gpus": pod.gpu_mask.bit_count()}
            if row is not None:
                _set(tx, uid, values)
            else:
                _insert(tx, pod)
            yield f"pod '{uid}' is on node '{pod.node}' again, as it was decided"
        _tell(tx, uid)


def give_to_one(tx: Transaction, doubles: Sequence[Wrong]) -> Iterator[str]:
    """Stop the later of two live pods with the same GPUs, and have its gang start anew."""
    for later in dict.fromkeys(one.uids[0] for one in doubles if one.kind is WrongKind.DOUBLE):
        row = _row(tx, PodId(later))
        if row is None or row.state not in LIVE_POD:
            continue
        _set(tx, PodId(later), {"state": PodState.STOPPED})
        _tell(tx, PodId(later))
        said = f"pod '{later}' is stopped, as another was on its GPUs first"
        job = tx.connection.execute(
            sa.select(jobs.c.namespace, jobs.c.name).where(jobs.c.uid == row.job_uid)
        ).one()
        try:
            control_in(tx, job.namespace, job.name, FactKind.REQUEUE)
        except (StateError, NotFound):
            yield said
        else:
            yield f"{said}; job '{job.namespace}/{job.name}' is to start anew"


def _row(tx: Transaction, uid: PodId) -> AnyRow | None:
    return tx.connection.execute(sa.select(pods).where(pods.c.uid == uid)).one_or_none()


def _set(tx: Transaction, uid: PodId, values: dict[str, object]) -> None:
    tx.connection.execute(sa.update(pods).where(pods.c.uid == uid).values(**values))


def _insert(tx: Transaction, pod: PodRecord) -> None:
    query = select_jobs().where(jobs.c.uid == pod.job)
    job = tx.connection.execute(query).one()
    row = pod_row(job, pod, revision=tx.revision, now_s=tx.now_s)
    tx.connection.execute(sa.insert(pods), row)


def _tell(tx: Transaction, uid: PodId) -> None:
    """An event about the pod, so that the leader and watchers look at it again."""
    row = _row(tx, uid)
    if row is None:
        return
    revision = tx.emit(
        "pod.mended",
        subject_kind="pod",
        namespace=row.namespace,
        name=row.name,
        uid=uid,
        message=f"{row.state} on node '{row.node}'",
    )
    _set(tx, uid, {"revision": revision})
    tx.connection.execute(
        sa.update(jobs).where(jobs.c.uid == row.job_uid).values(revision=revision)
    )


def _is_taken(tx: Transaction, pod: PodRecord) -> bool:
    return _meets(tx, pod.node, pod.gpu_mask)


def _is_taken_by(tx: Transaction, row: AnyRow) -> bool:
    return _meets(tx, row.node, row.gpu_mask)


def _meets(tx: Transaction, node: str, mask: int) -> bool:
    """Whether a live pod on a node has any of these GPUs."""
    query = sa.select(pods.c.gpu_mask).where(
        pods.c.node == node, pods.c.state.in_(sorted(LIVE_POD))
    )
    return any(held & mask for held in tx.connection.execute(query).scalars())
