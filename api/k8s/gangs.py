"""Pods that are made by themselves: each joins the gang that it names, or is a gang of one.

A pod that names a gang is one more member of the job of that name. Where there is none, it waits:
with a PodGroup of that name until so many pods have come as the group's `minMember`, which then are
one job; without one until there is a job or a group.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from api.admission.change import changed_job
from api.k8s.errors import Cause, StatusError, already_exists, invalid
from api.k8s.kinds import Call, Obj, name_of, namespace_of
from api.k8s.meta import kept_meta
from api.k8s.pod_shape import GROUP_KEYS, JOB_KEY, KIND, QUEUE_KEY, waiting_object
from api.k8s.volcano.gang import gang_of
from api.k8s.volcano.tiers import Tiers
from api.schemas.job import JobBody
from api.schemas.job_change import JobPatch, RolePatch
from api.schemas.job_spec import ReadJob
from api.schemas.reading import read_json, write_json
from api.store.engine import Transaction
from api.store.job_changes import NO_PLACE, JobChange, Moved, change_in
from api.store.jobs import submit_in
from api.store.look import Look, look_at
from api.store.objects import ObjectRow, find_object, list_objects, put_object
from api.store.policy import read_policy
from api.store.uids import new_uid
from api.store.views import JobView, Submission
from scheduler.errors import JobError, Problem, SchedulerError
from scheduler.model.lifecycle import FINAL

ROLE = "pod"
TRIES = 6
RESTARTS = 10
"""Of a pod that says it wants any; then it has failed."""

PODGROUPS = "podgroups.scheduling.volcano.sh"
JOBS = "jobs.podyard.io"

Shown = Callable[[Look, ObjectRow], Obj]
IsThere = Callable[[Look, str, str], bool]
Work = Callable[[Transaction, ObjectRow], ObjectRow]


@dataclass(frozen=True, slots=True)
class Formed:
    """The job that the pods of a group make.

    Attributes:
        members: Role and index of each pod, in order.
    """

    read: ReadJob
    members: list[tuple[str, int]]


def submit_pod(call: Call, obj: Obj, shown: Shown, is_there: IsThere) -> Obj:
    """Write a pod that was made by itself; the pod as it stands.

    Args:
        shown: The pod of a row that was written.
        is_there: Whether there is a pod of that namespace and name.

    Raises:
        StatusError: 409 if there is one of that name, 422 if it makes no sense or cannot join.
    """
    for _ in range(TRIES):
        try:
            return _submit(call, obj, shown, is_there)
        except Moved:
            continue
    raise StatusError(409, f'pods "{name_of(obj)}": its gang changes all the time; try again')


def _submit(call: Call, obj: Obj, shown: Shown, is_there: IsThere) -> Obj:
    work = _work(call, obj)
    namespace, name = namespace_of(obj), name_of(obj)

    def in_tx(tx: Transaction) -> Obj:
        look = Look(call.parts.database, tx.connection)
        if is_there(look, namespace, name):
            raise already_exists(KIND.resource, name)
        row = new_row(obj, tx.now_s)
        if call.dry_run:
            return waiting_object(row, attempt=1, revision=look.revision, message="")
        return shown(look, work(tx, row))

    return call.write(in_tx)


def _work(call: Call, obj: Obj) -> Work:
    """What is to be written: a job of one, a member more, a whole group, or a pod that waits."""
    namespace, group = namespace_of(obj), group_of(obj)
    body = _member_body(call, obj)
    if group is None:
        read = _admitted(call, obj, body)
        return lambda tx, row: _alone(tx, row, read)
    job = live_job(call, namespace, group)
    if job is not None:
        role, change = _joined(call, obj, job, body)
        return lambda tx, row: _join(tx, row, job, role, change)
    gathered = _gathered(call, obj, group, body)
    if gathered is None:
        return put_object
    formed, rows = gathered
    return lambda tx, row: _form(tx, [*rows, row], formed)[-1]


def new_row(obj: Obj, now_s: float) -> ObjectRow:
    """The row of a pod that was made by itself."""
    metadata = obj["metadata"]
    annotations = metadata.get("annotations") or {}
    body: Obj = {"spec": obj["spec"]}
    group = group_of(obj)
    if group is not None:
        body["group"] = group
    return ObjectRow(
        uid=new_uid(now_s),
        resource=KIND.resource,
        namespace=namespace_of(obj),
        name=name_of(obj),
        created_at=now_s,
        labels={k: str(v) for k, v in (metadata.get("labels") or {}).items()},
        annotations={k: str(v) for k, v in annotations.items() if k != JOB_KEY},
        meta=kept_meta(metadata),
        managed=metadata.get("managedFields") or [],
        body=body,
        generation=0,
    )


def group_of(obj: Obj) -> str | None:
    """The gang that a pod names; without its namespace where it names its own."""
    annotations = obj["metadata"].get("annotations") or {}
    named = next((annotations[key] for key in GROUP_KEYS if annotations.get(key)), None)
    if named is None:
        return None
    return str(named).removeprefix(f"{namespace_of(obj)}/")


def why_waiting(row: ObjectRow) -> str:
    """What a pod that is of no job waits for."""
    group = row.body.get("group")
    return (
        f"waits for gang '{group}': there is no job of that name, or not enough pods of its group"
    )


# -- what it asks for ------------------------------------------------------------------------------


def _member_body(call: Call, obj: Obj) -> Obj:
    """What a pod asks for, as a job of one member."""
    metadata, spec = obj["metadata"], obj["spec"]
    annotations = metadata.get("annotations") or {}
    task = {
        "name": ROLE,
        "replicas": 1,
        "minAvailable": 1,
        "template": {"metadata": {"labels": metadata.get("labels") or {}}, "spec": spec},
    }
    job: Obj = {
        "metadata": {
            "name": name_of(obj),
            "namespace": namespace_of(obj),
            "annotations": annotations,
        },
        "spec": {
            "tasks": [task],
            "minAvailable": 1,
            "queue": str(annotations.get(QUEUE_KEY) or "default"),
            "maxRetry": 0,
        },
    }
    with look_at(call.parts.database) as look:
        tiers = Tiers(look.topology().level_names)
        priorities = read_policy(look.connection).priorities
    try:
        gang = gang_of(job, tiers, priorities)
    except JobError as error:
        raise _refused(obj, error.problems) from None
    except ValueError as error:
        raise _refused(obj, [Problem("spec.containers", str(error))]) from None
    call.warnings += gang.warnings
    restarts = RESTARTS if spec.get("restartPolicy") in {"Always", "OnFailure"} else 0
    return gang.body | {"failure": {"max_restarts": restarts}}


def _admitted(call: Call, obj: Obj, body: Obj) -> ReadJob:
    """The job that the door lets in."""
    try:
        wanted = read_json(JobBody, write_json(body))
        return call.parts.door.admit(wanted, call.caller.namespaces)
    except SchedulerError as error:
        raise _refused(obj, error.problems) from None


_PREFIX = "spec.tasks[0].template."
_FIELDS = {"queue": f"metadata.annotations[{QUEUE_KEY}]", "name": "metadata.name"}


def _refused(obj: Obj, problems: Sequence[Problem]) -> StatusError:
    causes = []
    for problem in problems:
        path = problem.path.removeprefix(_PREFIX)
        path = _FIELDS.get(path, path)
        if path.startswith("roles"):
            path = "spec.containers"
        causes.append(Cause(path, problem.message))
    return invalid("Pod", "", name_of(obj), causes)


# -- a gang of one ---------------------------------------------------------------------------------


def _alone(tx: Transaction, row: ObjectRow, read: ReadJob) -> ObjectRow:
    view, _ = submit_in(tx, Submission(read.spec, read.body))
    member = {"role": ROLE, "index": 0}
    own = replace(row, job_uid=view.uid, body=row.body | {"member": member, "alone": True})
    return put_object(tx, own, revision=view.revision)


# -- one more member -------------------------------------------------------------------------------


def live_job(call: Call, namespace: str, name: str) -> JobView | None:
    """The job of that name, if it has not ended and is not about to."""
    with look_at(call.parts.database) as look:
        found = look.jobs(namespace=namespace, name=name)
    return found[0] if found and found[0].state not in FINAL else None


def _joined(call: Call, obj: Obj, job: JobView, body: Obj) -> tuple[str, JobChange]:
    """The role that has one member more, and the change of the job."""
    queue = (obj["metadata"].get("annotations") or {}).get(QUEUE_KEY)
    if queue and queue != job.queue:
        why = (
            f"found '{str(queue)[:60]}'; gang '{job.name}' is in queue '{job.queue}', and its "
            "members are counted there"
        )
        raise _refused(obj, [Problem("queue", why)])
    role = _role_like(obj, job, body["roles"][0])
    there = next(r for r in job.spec.roles if r.name == role)
    # The minimum stays: who comes later must not hold up, or bring down, those who are there.
    patch = JobPatch(roles=[RolePatch(name=role, replicas=there.replicas + 1, min=there.min)])
    try:
        read = changed_job(job.spec, job.body, patch, placed=job.state not in NO_PLACE)
        call.parts.door.readmit(job.spec, read.spec, call.caller.namespaces)
    except SchedulerError as error:
        raise _refused(obj, error.problems) from None
    return role, JobChange(read.spec, read.body, job.spec_revision)


def _role_like(obj: Obj, job: JobView, wanted: Obj) -> str:
    """The role of a job whose members ask for what a pod asks for. Raises StatusError 422."""
    fields = ("gpus", "cpu", "memory", "resources")
    told: list[str] = []
    for role in job.body.get("roles") or []:  # type: ignore[attr-defined]  # a list, as admitted
        found = {f: role.get(f) or 0 for f in fields}
        asked = {f: wanted.get(f) or 0 for f in fields}
        if found["gpus"] == asked["gpus"] and all(
            asked[f] in (0, found[f]) or not asked[f] for f in fields[1:]
        ):
            return str(role["name"])
        told.append(f"'{role['name']}' with {role.get('gpus', 0)} GPUs")
    there = ", ".join(told) or "ranks by its parallel sizes, whose number is fixed"
    why = f"asks for {wanted.get('gpus', 0)} GPUs; members of gang '{job.name}' are {there}"
    raise _refused(obj, [Problem("spec.containers", why)])


def _join(tx: Transaction, row: ObjectRow, job: JobView, role: str, change: JobChange) -> ObjectRow:
    view = change_in(tx, job.namespace, job.name, change)
    index = next(r.replicas for r in view.spec.roles if r.name == role) - 1
    body = row.body | {"member": {"role": role, "index": index}}
    return put_object(tx, replace(row, job_uid=view.uid, body=body), revision=tx.revision)


# -- a group of pods -------------------------------------------------------------------------------


def _gathered(call: Call, obj: Obj, group: str, body: Obj) -> tuple[Formed, list[ObjectRow]] | None:
    """The job that a group's pods make with this one, and their rows; None if some are missing."""
    namespace = namespace_of(obj)
    with call.parts.database.read() as connection:
        found = find_object(connection, PODGROUPS, namespace, group)
        waiting = _waiting(connection, namespace, group)
    if found is None:
        return None
    bodies = [_member_body(call, as_object(row)) for row in waiting]
    formed = _formed(call, obj, found, [*bodies, body])
    return None if formed is None else (formed, waiting)


def _formed(call: Call, obj: Obj, group: ObjectRow, bodies: list[Obj]) -> Formed | None:
    """The job that a group's pods make; None if some are missing."""
    spec: Any = group.body.get("spec") or {}
    if len(bodies) < max(1, int(spec.get("minMember") or 0)):
        return None
    roles: list[Obj] = []
    members: list[tuple[str, int]] = []
    for body in bodies:
        shape = {k: v for k, v in body["roles"][0].items() if k not in _COUNTED}
        role = next((r for r in roles if {k: r[k] for k in shape} == shape), None)
        if role is None:
            name = f"{ROLE}{len(roles)}" if roles else ROLE
            role = shape | {"name": name, "replicas": 0}
            roles.append(role)
        members.append((role["name"], role["replicas"]))
        role["replicas"] += 1
    job = bodies[-1] | {
        "name": group.name,
        "namespace": group.namespace,
        "roles": roles,
        "queue": str(spec.get("queue") or "default"),
    }
    if spec.get("priorityClassName"):
        job["priority_class"] = spec["priorityClassName"]
    return Formed(_admitted(call, obj, job), members)


_COUNTED = frozenset({"name", "replicas", "min", "decides"})


def form(call: Call, group: ObjectRow) -> None:
    """Make a job of a group's pods, if enough wait: called when a group was made or changed."""
    if live_job(call, group.namespace, group.name) is not None:
        return
    with call.parts.database.read() as connection:
        waiting = _waiting(connection, group.namespace, group.name)
    if not waiting:
        return
    bodies = [_member_body(call, as_object(row)) for row in waiting]
    formed = _formed(call, as_object(waiting[-1]), group, bodies)
    if formed is not None:
        call.write(lambda tx: _form(tx, waiting, formed))


def _form(tx: Transaction, rows: Sequence[ObjectRow], formed: Formed) -> list[ObjectRow]:
    """Submit the job, and make each pod one of its members."""
    view, _ = submit_in(tx, Submission(formed.read.spec, formed.read.body))
    return [
        put_object(
            tx,
            replace(
                row,
                job_uid=view.uid,
                body=row.body | {"member": {"role": role, "index": index}},
            ),
            revision=tx.revision,
        )
        for row, (role, index) in zip(rows, formed.members, strict=True)
    ]


def _waiting(connection: Any, namespace: str, group: str) -> list[ObjectRow]:  # noqa: ANN401  # a connection, whose type only the store knows
    rows = list_objects(connection, KIND.resource, namespace=namespace)
    found = [r for r in rows if r.job_uid is None and r.body.get("group") == group]
    return sorted(found, key=lambda row: row.revision)


def as_object(row: ObjectRow) -> Obj:
    """A waiting pod as it was sent."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": row.name,
            "namespace": row.namespace,
            "labels": row.labels,
            "annotations": row.annotations,
        },
        "spec": row.body["spec"],
    }
