"""Jobs as rows: how a job is written down, and how a row is read back."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy import Connection

from api.schemas.spec import dump_spec, load_eviction, load_rules, load_spec
from api.store.errors import Conflict, NotFound
from api.store.job_recovery import NOTHING_LEFT, load_recovery
from api.store.jsontext import dump_json, load_dict
from api.store.rows import AnyRow, AnySelect
from api.store.subscribers import hooks_of
from api.store.tables import facts, jobs, pods
from api.store.transaction import Transaction
from api.store.views import IdempotencyKey, JobView, Saved
from scheduler.model.job import JobSpec, default_gpus_per_pod
from scheduler.model.lifecycle import JobState, PodState, Reason
from scheduler.model.plan import FactKind

Columns: TypeAlias = Mapping[str, Any] | sa.RowMapping
"""A row by the names of its columns."""

GPUS_OF_A_NODE = 8
"""What is assumed while no node type of the asked model is known; most servers have so many."""

_CANCELLING = (
    sa.exists()
    .where(
        facts.c.job_uid == jobs.c.uid, facts.c.kind == FactKind.CANCEL, facts.c.applied_at.is_(None)
    )
    .label("cancelling")
)
_ASKED_HOLD = (
    sa.select(facts.c.kind)
    .where(
        facts.c.job_uid == jobs.c.uid,
        facts.c.kind.in_((FactKind.HOLD, FactKind.RELEASE)),
        facts.c.applied_at.is_(None),
    )
    .order_by(facts.c.id.desc())
    .limit(1)
    .scalar_subquery()
    .label("asked_hold")
)


# Only jobs that a fault has hit are looked at pod by pod.
_LOST = sa.case(
    (
        jobs.c.recovery.is_not(None),
        sa.select(sa.func.count())
        .where(pods.c.job_uid == jobs.c.uid, pods.c.state == PodState.LOST)
        .correlate(jobs)
        .scalar_subquery(),
    ),
    else_=0,
).label("pods_lost")


def select_jobs() -> AnySelect:
    """All that `job_view` reads."""
    return sa.select(jobs, _CANCELLING, _ASKED_HOLD, _LOST)


def newest_job(connection: Connection, namespace: str, name: str) -> AnyRow:
    """The row of the newest job of that name.

    Raises:
        NotFound: If there is none.
    """
    row = connection.execute(
        select_jobs()
        .where(jobs.c.namespace == namespace, jobs.c.name == name)
        .order_by(jobs.c.age.desc())
        .limit(1)
    ).one_or_none()
    if row is None:
        raise NotFound("job", f"{namespace}/{name}")
    return row


def job_view(row: AnyRow) -> JobView:
    """A row of `select_jobs` as a value."""
    r = row._mapping
    return JobView(
        uid=r["uid"],
        namespace=r["namespace"],
        name=r["name"],
        queue=r["queue"],
        priority=r["priority"],
        state=JobState(r["state"]),
        reason=Reason(r["reason"]) if r["reason"] else None,
        message=r["message"],
        attempt=r["attempt"],
        gpus_per_pod=_gpus_per_pod(r),
        node_type=r["node_type"],
        search=r["search"],
        gap=r["gap"],
        revision=r["revision"],
        age=r["age"],
        submitted_at=r["submitted_at"],
        bound_at=r["bound_at"],
        started_at=r["started_at"],
        finished_at=r["finished_at"],
        body=load_dict(r["body"]),
        spec=load_spec(r["spec"]),
        verdict=load_dict(r["verdict"]) if r["verdict"] else None,
        minimum=r["minimum"],
        members=r["members"],
        gpus=r["gpus"],
        running=r["pods_running"],
        broken=load_rules(r["broken"]),
        live=r["pods_live"],
        cancelling=bool(r["cancelling"]),
        spec_revision=r["spec_revision"],
        saved=_saved(r),
        expected_start_at=r["expected_start_at"],
        held=bool(r["held"]) if r["asked_hold"] is None else r["asked_hold"] == FactKind.HOLD,
        evict=load_eviction(r["evict"]),
        recovery=load_recovery(r["recovery"]),
        lost=r["pods_lost"],
        mismatch=r["mismatch"],
    )


def _gpus_per_pod(r: Columns) -> int:
    return int(r["gpus_per_pod"] or (0 if r["roles"] else r["gpus"] // max(1, r["members"])))


def _saved(r: Columns) -> Saved | None:
    if r["saved_at"] is None or r["saved_step"] is None:
        return None
    return Saved(r["saved_step"], r["saved_uri"] or "", r["saved_at"])


def new_job_row(
    uid: str, spec: JobSpec, body: Mapping[str, object], node_gpus: int
) -> dict[str, object]:
    """Everything of a new row but its revisions and times.

    Args:
        node_gpus: GPUs of the largest node type that the job may use.
    """
    minimum, members = _counts(spec, node_gpus)
    return {
        "uid": uid,
        "namespace": spec.namespace,
        "name": spec.name,
        "queue": spec.queue,
        "priority": spec.priority,
        "state": JobState.PENDING,
        "roles": ",".join(role.name for role in spec.roles),
        "minimum": minimum,
        "members": members,
        "gpus": spec.gpu_count,
        "spec": dump_spec(spec),
        "body": dump_json(dict(body)),
        "hooks": hooks_of(spec),
    }


_NEW_JOB: Mapping[str, object] = {
    **{column.name: None for column in jobs.c if column.computed is None},
    "message": "",
    "attempt": 0,
    "gpus_per_pod": 0,
    "node_type": "",
    "search": "exact",
    "broken": "[]",
    "pods_live": 0,
    "pods_running": 0,
    "gpus_held": 0,
    "held": False,
    "mismatch": "",
}
"""What the table makes of columns that a new row leaves out."""


def whole_row(row: Mapping[str, object]) -> dict[str, object]:
    """A new row with all the columns that the table gives it."""
    return {**_NEW_JOB, **row}


def fresh_view(
    row: Mapping[str, object], spec: JobSpec, body: Mapping[str, object] | None = None
) -> JobView:
    """The view of a row that `new_job_row` began and the submission completed.

    Args:
        body: What the row's text stands for, where that is at hand.
    """
    return JobView(
        uid=str(row["uid"]),
        namespace=spec.namespace,
        name=spec.name,
        queue=spec.queue,
        priority=spec.priority,
        state=JobState.PENDING,
        reason=None,
        message="",
        attempt=0,
        gpus_per_pod=0 if spec.roles else spec.gpu_count // max(1, _int(row["members"])),
        node_type="",
        search="exact",
        gap=None,
        revision=_int(row["revision"]),
        age=_int(row["age"]),
        submitted_at=float(str(row["submitted_at"])),
        bound_at=None,
        started_at=None,
        finished_at=None,
        body=load_dict(str(row["body"])) if body is None else dict(body),
        spec=spec,
        verdict=None,
        minimum=_int(row["minimum"]),
        members=_int(row["members"]),
        gpus=spec.gpu_count,
        running=0,
        spec_revision=_int(row["spec_revision"]),
    )


def emit_submitted(tx: Transaction, spec: JobSpec, row: Mapping[str, object]) -> dict[str, object]:
    """Queue the event of a submission; what it gives to the job's row."""
    revision = tx.emit(
        "job.submitted",
        subject_kind="job",
        namespace=spec.namespace,
        name=spec.name,
        uid=str(row["uid"]),
        message=f"{row['members']} pods, {spec.gpu_count} GPUs",
        body={"queue": spec.queue, "priority": spec.priority, "gpus": spec.gpu_count},
    )
    return {
        "age": revision,
        "spec_revision": revision,
        "revision": revision,
        "submitted_at": tx.now_s,
    }


def name_in_use(spec: JobSpec, state: str, live: int) -> Conflict:
    """Why a job cannot have its name."""
    pods = f" and has {live} live pods" if live else ""
    return Conflict(
        "name",
        f"job '{spec.namespace}/{spec.name}' exists: it is {state}{pods}; choose another name, or "
        "delete it first",
    )


def no_job_of_key(key: IdempotencyKey) -> Conflict:
    """Why a key can be used neither for its job nor for a new one."""
    return Conflict(
        "Idempotency-Key",
        f"the job that key '{key.key}' made was deleted; use a new key for a new job",
    )


def later_view(known: JobView, row: Mapping[str, Any]) -> JobView | None:
    """A job as a later row has it, its text aside; None if that has changed too, or it is older.

    Only of a row without facts that wait and without what faults have left.
    """
    if row["spec_revision"] != known.spec_revision or row["revision"] < known.revision:
        return None
    r = row
    return replace(
        known,
        state=JobState(r["state"]),
        reason=Reason(r["reason"]) if r["reason"] else None,
        message=r["message"],
        priority=r["priority"],
        queue=r["queue"],
        attempt=r["attempt"],
        gpus_per_pod=_gpus_per_pod(r),
        node_type=r["node_type"],
        search=r["search"],
        gap=r["gap"],
        revision=r["revision"],
        bound_at=r["bound_at"],
        started_at=r["started_at"],
        finished_at=r["finished_at"],
        verdict=load_dict(r["verdict"]) if r["verdict"] else None,
        minimum=r["minimum"],
        members=r["members"],
        running=r["pods_running"],
        broken=load_rules(r["broken"]),
        live=r["pods_live"],
        cancelling=False,
        saved=_saved(r),
        expected_start_at=r["expected_start_at"],
        held=bool(r["held"]),
        evict=load_eviction(r["evict"]),
        recovery=NOTHING_LEFT,
        lost=0,
    )


def _int(value: object) -> int:
    return int(str(value))


def _counts(spec: JobSpec, node_gpus: int) -> tuple[int, int]:
    """Pods that must run together, pods wanted.

    Until a parallel job is placed its pods are those of the largest node type it may use.
    """
    if spec.parallelism is None:
        return sum(r.min for r in spec.roles), sum(r.replicas for r in spec.roles)
    pods = [
        -(-sizes.world // (spec.gpus_per_pod or default_gpus_per_pod(sizes, node_gpus)))
        for sizes in spec.all_sizes()
    ]
    return min(pods), max(pods)
