"""What people ask of a job that is there: hold, release, suspend, resume, requeue.

All are facts; what becomes of the job is the leader's, by one table (`scheduler.evict.control`).
Asking again for what is so already, or was asked for already, is taken and does nothing.
"""

from collections.abc import Mapping
from functools import partial

import sqlalchemy as sa
from sqlalchemy import Connection

from api.store.engine import Database, Transaction
from api.store.job_rows import job_view, newest_job
from api.store.tables import facts
from api.store.told_facts import tell_facts
from api.store.views import JobView
from scheduler.errors import Problem, StateError
from scheduler.model.lifecycle import FINAL, JobState
from scheduler.model.plan import FactKind

OPPOSITES: Mapping[FactKind, frozenset[FactKind]] = {
    FactKind.HOLD: frozenset({FactKind.RELEASE}),
    FactKind.RELEASE: frozenset({FactKind.HOLD}),
    FactKind.SUSPEND: frozenset({FactKind.RESUME, FactKind.REQUEUE}),
    FactKind.RESUME: frozenset({FactKind.SUSPEND}),
    FactKind.REQUEUE: frozenset({FactKind.SUSPEND, FactKind.RESUME}),
}
"""What can be asked, and what makes it worth asking again."""

IN_LINE = frozenset({JobState.PENDING, JobState.RESERVED})

LEAVING = "it is on its way out, then {then}; that is not to be turned any more"


def control_job(
    db: Database, namespace: str, name: str, kind: FactKind, *, now_s: float
) -> JobView:
    """Write down what is asked of the newest job of that name.

    Args:
        kind: One of `OPPOSITES`.

    Returns:
        The job as it stands; the leader has yet to act.

    Raises:
        NotFound: If there is none.
        StateError: If its state makes no sense of it.
    """
    return db.grouped(lambda tx: control_in(tx, namespace, name, kind), now_s)


def control_in(tx: Transaction, namespace: str, name: str, kind: FactKind) -> JobView:
    """What `control_job` does, in a transaction that also writes what goes with it."""
    view = job_view(newest_job(tx.connection, namespace, name))
    _check(view, kind)
    asked = _newest_asked(tx.connection, view, kind)
    if asked is kind or (asked is None and _is_so(view, kind)):
        return view
    _write(tx, view, kind)
    return job_view(newest_job(tx.connection, namespace, name))


def _check(view: JobView, kind: FactKind) -> None:
    why = _why_not(view, kind)
    if why is not None:
        job = f"job '{view.namespace}/{view.name}'"
        raise StateError(Problem("state", f"cannot {kind} {job}: {why}"))


def _why_not(view: JobView, kind: FactKind) -> str | None:
    if view.state in FINAL:
        return f"it is {view.state}; submit it anew"
    if view.cancelling:
        return "it is being cancelled"
    if view.evict is not None and view.evict.then in FINAL and view.state is JobState.EVICTING:
        return LEAVING.format(then=view.evict.then)
    if kind is FactKind.REQUEUE and view.state is JobState.SUSPENDED:
        return "it is suspended and has no pods; resume it"
    return None


def _newest_asked(connection: Connection, view: JobView, kind: FactKind) -> FactKind | None:
    """What was asked last of this kind or its opposites and has not been acted on."""
    found = connection.execute(
        sa.select(facts.c.kind)
        .where(
            facts.c.job_uid == view.uid,
            facts.c.kind.in_(sorted({kind, *OPPOSITES[kind]})),
            facts.c.applied_at.is_(None),
        )
        .order_by(facts.c.id.desc())
        .limit(1)
    ).scalar()
    return None if found is None else FactKind(found)


def _is_so(view: JobView, kind: FactKind) -> bool:
    """Whether the job is already as it is to be."""
    leaves_for = view.evict.then if view.evict and view.state is JobState.EVICTING else None
    match kind:
        case FactKind.HOLD | FactKind.RELEASE:
            return view.held == (kind is FactKind.HOLD)
        case FactKind.SUSPEND:
            return JobState.SUSPENDED in {view.state, leaves_for}
        case FactKind.RESUME:
            return JobState.SUSPENDED not in {view.state, leaves_for}
        case _:
            return view.state in IN_LINE or leaves_for is JobState.PENDING


def _write(tx: Transaction, view: JobView, kind: FactKind) -> None:
    revision = tx.emit(
        f"job.{kind}_asked",
        subject_kind="job",
        namespace=view.namespace,
        name=view.name,
        uid=view.uid,
        message=f"asked for while {view.state}",
    )
    row = {"id": revision, "kind": kind, "job_uid": view.uid, "at": tx.now_s}
    tx.connection.execute(sa.insert(facts), row)
    tx.tell(partial(tell_facts, (row,)), 1)
