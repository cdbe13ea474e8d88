"""Changes of what a job asks for, as facts; what follows from them is the leader's."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Connection

from api.schemas.spec import dump_spec
from api.store.engine import Database, Transaction
from api.store.errors import Conflict, NotFound, StoreError
from api.store.job_rows import job_view, newest_job
from api.store.jsontext import dump_json
from api.store.queue_rows import HAS_MAX_PENDING, Pending
from api.store.tables import facts, jobs, pods, queues
from api.store.views import JobView
from scheduler.errors import Problem, StateError
from scheduler.model.job import JobSpec, Role
from scheduler.model.lifecycle import FINAL, LIVE_POD, JobState, PodState
from scheduler.model.plan import FactKind

NO_PLACE = frozenset({JobState.PENDING, JobState.RESERVED, JobState.SUSPENDED})
"""States without pods."""

UNPLANNED = frozenset({JobState.PENDING, JobState.SUSPENDED})
"""States in which the leader has decided on nothing that other members would make wrong."""


class Moved(StoreError):
    """What the job asks for was changed meanwhile: the change is to be made on that."""


@dataclass(frozen=True, slots=True)
class JobChange:
    """What a job is to ask for from now on.

    Attributes:
        body: The request as it is to be shown.
        based_on: `spec_revision` of the job that the change was made on.
        revision: The job must be at this one, if its caller says so.
    """

    spec: JobSpec
    body: Mapping[str, object]
    based_on: int
    revision: int | None = None


def change_job(
    db: Database, namespace: str, name: str, change: JobChange, *, now_s: float
) -> JobView:
    """Write a change; nothing is written when nothing differs.

    Raises:
        NotFound: If there is no such job.
        Moved: If the job has been changed since `change.based_on`.
        Conflict: If it is at another revision than its caller says.
        StateError: If its state does not allow the change.
    """
    return db.grouped(lambda tx: change_in(tx, namespace, name, change), now_s)


def change_in(tx: Transaction, namespace: str, name: str, change: JobChange) -> JobView:
    """What `change_job` does, in a transaction that also writes what goes with it."""
    view = job_view(newest_job(tx.connection, namespace, name))
    _check_revision(view, change)
    _check_state(view)
    said = dict(_differences(view.spec, change.spec))
    if not said:
        return view
    _check_queue(tx.connection, view, change.spec)
    if view.state not in NO_PLACE:
        _check_minimum(tx.connection, view, change.spec)
    _write(tx, view, change, said)
    return job_view(newest_job(tx.connection, namespace, name))


def _check_revision(view: JobView, change: JobChange) -> None:
    if change.revision is not None and view.revision != change.revision:
        raise Conflict(
            "revision",
            f"job '{view.namespace}/{view.name}' is at revision {view.revision}, not "
            f"{change.revision}; read it again and decide anew",
        )
    if view.spec_revision != change.based_on:
        raise Moved(f"job '{view.namespace}/{view.name}' was changed at the same time; try again")


def _check_state(view: JobView) -> None:
    job = f"job '{view.namespace}/{view.name}'"
    if view.state in FINAL:
        raise StateError(Problem("state", f"{job} is {view.state} and cannot be changed any more"))
    if view.cancelling:
        raise StateError(Problem("state", f"{job} is being cancelled and cannot be changed"))


def _differences(old: JobSpec, new: JobSpec) -> Iterator[tuple[str, tuple[object, object]]]:
    """What changes, by its path, from what to what."""
    for field in ("priority", "queue", "duration_s", "time_limit_s", "nodes"):
        was, now = getattr(old, field), getattr(new, field)
        if was != now:
            yield field, (was, now)
    for before, after in zip(old.roles, new.roles, strict=True):
        for field in ("replicas", "min"):
            was, now = getattr(before, field), getattr(after, field)
            if was != now:
                yield f"roles.{before.name}.{field}", (was, now)


def _check_queue(connection: Connection, view: JobView, spec: JobSpec) -> None:
    if spec.queue == view.queue:
        return
    if view.state is not JobState.PENDING:
        raise StateError(
            Problem(
                "queue",
                f"job '{view.namespace}/{view.name}' is {view.state}; only a pending job may "
                f"change its queue, from '{view.queue}' to '{spec.queue}'",
            )
        )
    if not connection.execute(sa.select(queues.c.name).where(queues.c.name == spec.queue)).first():
        raise NotFound("queue", spec.queue)
    if connection.execute(sa.select(HAS_MAX_PENDING)).scalar_one():
        Pending(connection).check(spec.queue, leaving=view.queue)


def _check_minimum(connection: Connection, view: JobView, spec: JobSpec) -> None:
    """A gang that has its place is never left with fewer members than must run together."""
    raised = [
        (index, new)
        for index, (old, new) in enumerate(zip(view.spec.roles, spec.roles, strict=True))
        if new.min > old.min
    ]
    if not raised:
        return
    there = _members_there(connection, view.uid)
    problems = [
        _too_few(view, index, role, there.get(role.name, 0))
        for index, role in raised
        if role.min > there.get(role.name, 0)
    ]
    if problems:
        raise StateError(problems)


def _too_few(view: JobView, index: int, role: Role, there: int) -> Problem:
    return Problem(
        f"roles[{index}].min",
        f"found {role.min}; job '{view.namespace}/{view.name}' is {view.state} with {there} "
        f"members of role '{role.name}', and its minimum cannot be more until it has them",
    )


def _members_there(connection: Connection, uid: str) -> dict[str, int]:
    """Members with a place, or done with it, by role."""
    states = sorted(LIVE_POD | {PodState.SUCCEEDED})
    query = sa.select(pods.c.role, sa.func.count()).where(
        pods.c.job_uid == uid, pods.c.state.in_(states)
    )
    return dict(connection.execute(query.group_by(pods.c.role)).all())


def _write(
    tx: Transaction,
    view: JobView,
    change: JobChange,
    said: Mapping[str, tuple[object, object]],
) -> None:
    spec = change.spec
    words = (f"{path}: {_word(was)} -> {_word(now)}" for path, (was, now) in said.items())
    revision = tx.emit(
        "job.changed",
        subject_kind="job",
        namespace=view.namespace,
        name=view.name,
        uid=view.uid,
        message=", ".join(words),
        body={"changed": {path: {"from": was, "to": now} for path, (was, now) in said.items()}},
    )
    row: dict[str, object] = {
        "priority": spec.priority,
        "queue": spec.queue,
        "spec": dump_spec(spec),
        "body": dump_json(dict(change.body)),
        "spec_revision": revision,
        "revision": revision,
    }
    if spec.roles:
        row |= {
            "minimum": sum(role.min for role in spec.roles),
            "members": sum(role.replicas for role in spec.roles),
            "gpus": spec.gpu_count,
        }
    tx.connection.execute(sa.update(jobs).where(jobs.c.uid == view.uid).values(**row))
    if spec.roles != view.spec.roles and view.state not in UNPLANNED:
        fact = {"id": revision, "kind": FactKind.RESIZE, "job_uid": view.uid, "at": tx.now_s}
        tx.connection.execute(sa.insert(facts), fact)


def _word(value: object) -> str:
    return "none" if value is None else str(value)
