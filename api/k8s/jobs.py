"""podyard.io/v1 Job: the job of `/v1` with all its fields, as an object."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from api.admission.change import changed_job
from api.k8s.base import Base, names_of, own, scope
from api.k8s.errors import Cause, already_exists, invalid
from api.k8s.kinds import (
    AGE,
    NAME,
    Call,
    Column,
    Kind,
    Obj,
    Subresource,
    Wanted,
    name_of,
    namespace_of,
)
from api.k8s.meta import Moved, kept_meta, metadata_of, time_text, version_of
from api.k8s.models import schema_of
from api.k8s.problems import causes_of
from api.k8s.schema import ANYTHING, object_schema
from api.k8s.table import age
from api.schemas.job import JobBody
from api.schemas.job_change import JobPatch
from api.schemas.job_spec import ReadJob, read_job
from api.schemas.reading import read_json, write_json
from api.store.ending import End, end_jobs
from api.store.engine import Transaction
from api.store.errors import NotFound
from api.store.job_changes import NO_PLACE, JobChange, change_in
from api.store.job_rows import job_view, newest_job
from api.store.jobs import fresh_job, submit_in
from api.store.look import Look, look_at
from api.store.objects import ObjectRow, list_objects, put_object
from api.store.views import EventView, JobView, Submission
from scheduler.errors import JobError, SchedulerError
from scheduler.model.lifecycle import FINAL, JobState

IN_METADATA = ("name", "namespace")
"""Fields of a job's body that stand in the metadata here."""


def _spec_schema() -> dict[str, Any]:
    found = schema_of(JobBody)
    found["properties"] = {k: v for k, v in found["properties"].items() if k not in IN_METADATA}
    found.pop("required", None)
    return found


KIND = Kind(
    "podyard.io",
    "v1",
    "jobs",
    "job",
    "Job",
    object_schema(
        "Job is a gang: all of its pods are placed together, or none. Its fields are those of "
        "POST /v1/jobs.",
        {
            "spec": _spec_schema(),
            "status": ANYTHING | {"description": "How the job stands, as GET /v1/jobs says it."},
        },
    ),
    short_names=("pj", "pyj"),
    categories=("all",),
    subresources=(Subresource("status", ("get",)),),
    columns=(
        NAME,
        Column("State", description="pending, running and so on."),
        Column("Reason", description="Why it is pending."),
        Column("Pods", description="Running pods of all."),
        Column("GPUs", type="integer"),
        Column("Queue"),
        AGE,
        Column("Priority", type="integer", priority=1),
        Column("Attempt", type="integer", priority=1),
        Column("Message", priority=1),
    ),
    selectable=("status.state", "spec.queue"),
)


class Jobs(Base):
    kind = KIND
    pages = True

    def read(self, look: Look, wanted: Wanted) -> Iterable[Obj]:
        if wanted.scopes is not None:
            views = look.jobs(names=names_of(wanted.scopes))
        elif wanted.limit is None:
            views = look.jobs(namespace=wanted.namespace, name=wanted.name, after=wanted.after)
        else:
            return self._page(look, wanted, wanted.limit)
        return _shown(look, views)

    def _page(self, look: Look, wanted: Wanted, limit: int) -> list[Obj]:
        after = wanted.after
        while True:
            views = look.jobs(
                namespace=wanted.namespace, name=wanted.name, after=after, limit=limit
            )
            found = _shown(look, views)
            if found or len(views) < limit:
                return found
            after = (views[-1].namespace, views[-1].name)

    def create(self, call: Call, obj: Obj) -> Obj:
        read = admitted(call, body_of(obj), lambda problems: _invalid(obj, problems))
        if call.dry_run:
            with look_at(call.parts.database) as look:
                _check_free(look, self.kind, obj)
            view = fresh_job(read.spec, read.body, now_s=call.now_s)
            return job_object(view, _row(obj, view.uid, call.now_s))

        def work(tx: Transaction) -> tuple[JobView, ObjectRow]:
            check_free(tx, KIND, namespace_of(obj), name_of(obj))
            view, _ = submit_in(tx, Submission(read.spec, read.body))
            row = _row(obj, view.uid, tx.now_s)
            return view, put_object(tx, row, revision=view.revision)

        return job_object(*call.write(work))

    def update(self, call: Call, old: Obj, new: Obj) -> Obj:
        namespace, name = namespace_of(old), name_of(old)
        view = self._now(call, old)
        change = _changed(call, view, new)

        def work(tx: Transaction) -> tuple[JobView, ObjectRow]:
            now, stored = _in_tx(tx, namespace, name)
            if _version(now, stored) != old["metadata"]["resourceVersion"]:
                raise Moved(name)
            if change is not None and not call.dry_run:
                now = change_in(tx, namespace, name, change)
            is_new = change is not None and now.spec_revision != view.spec_revision
            generation = (stored.generation if stored else 1) + is_new
            wanted = replace(
                _row(new, now.uid, stored.created_at if stored else now.submitted_at),
                generation=generation,
                deleted_at=stored.deleted_at if stored else None,
            )
            if call.dry_run:
                shown = now if change is None else replace(now, body=dict(change.body))
                return shown, replace(wanted, revision=stored.revision if stored else 0)
            if stored is not None and _same(stored, wanted):
                return now, stored
            return now, put_object(tx, wanted, revision=now.revision if is_new else None)

        return job_object(*call.write(work))

    def delete(self, call: Call, old: Obj, options: Obj) -> Obj | None:
        """Cancel a job, and show it until its pods are gone; delete the record of an ended one."""
        namespace, name = namespace_of(old), name_of(old)

        def work(tx: Transaction) -> Obj | None:
            now, stored = _in_tx(tx, namespace, name)
            if now.uid != old["metadata"]["uid"]:
                raise Moved(name)
            row = stored or _row(old, now.uid, now.submitted_at)
            if call.dry_run:
                return job_object(now, row)
            return end_job(tx, now, row)

        return call.write(work)

    def _now(self, call: Call, old: Obj) -> JobView:
        with look_at(call.parts.database) as look:
            views = look.jobs(namespace=namespace_of(old), name=name_of(old))
        if not views or views[0].uid != old["metadata"]["uid"]:
            raise Moved(name_of(old))
        return views[0]

    def cells(self, obj: Obj, now_s: float) -> list[object]:
        status, spec = obj["status"], obj["spec"]
        state = "terminating" if "deletionTimestamp" in obj["metadata"] else status["state"]
        return [
            name_of(obj),
            state,
            status.get("reason", ""),
            f"{status['running']}/{status['members']}",
            status["gpus"],
            spec.get("queue", "default"),
            age(obj["metadata"].get("creationTimestamp"), now_s),
            status["priority"],
            status["attempt"],
            status.get("message", ""),
        ]

    def touched(self, look: Look, event: EventView) -> Collection[str] | None:
        if event.subject_kind == "job":
            return (scope(event.namespace, event.name),)
        return own(KIND, event)


def _shown(look: Look, views: Sequence[JobView]) -> list[Obj]:
    rows = rows_of(look, views)
    return [job_object(v, rows.get(v.uid)) for v in views if visible(v, rows.get(v.uid))]


# -- shared with other faces of the same jobs ------------------------------------------------------


def visible(view: JobView, row: ObjectRow | None) -> bool:
    """Whether a job is shown: one that was deleted here is, until its pods have stopped."""
    is_deleted = row is not None and row.deleted_at is not None
    return not (is_deleted and view.state in FINAL and not view.live)


def rows_of(
    look: Look, views: Iterable[JobView], resource: str = KIND.resource
) -> dict[str, ObjectRow]:
    """What is stored of jobs' metadata, by the job's uid."""
    uids = [view.uid for view in views]
    return {row.job_uid or row.uid: row for row in look.objects(resource, job_uids=uids)}


def admitted(call: Call, body: JobBody, told: Any) -> ReadJob:  # noqa: ANN401  # problems to error
    """The job that the door lets in; its refusals in the words of this kind's fields.

    Args:
        told: Makes an error of problems.
    """
    try:
        return call.parts.door.admit(body, call.caller.namespaces)
    except JobError as error:
        raise told(error.problems) from None


def check_free(tx: Transaction, kind: Kind, namespace: str, name: str) -> None:
    """Refuse a name that a job has which is still shown. Raises StatusError 409."""
    try:
        view, row = _in_tx(tx, namespace, name)
    except NotFound:
        return
    if visible(view, row):
        raise already_exists(kind.resource, name, f"it is {view.state}")


def end_job(tx: Transaction, view: JobView, row: ObjectRow) -> Obj | None:
    """Cancel or delete a job and mark its row; the object while it is still there."""
    (found,) = end_jobs(tx, [End(view.namespace, view.name)])
    if isinstance(found, Exception):
        raise found
    if view.state in FINAL:
        return None  # its record is gone, and the row with it
    now = found or view
    if row.deleted_at is None:
        row = replace(row, deleted_at=tx.now_s)
        row = put_object(tx, row, revision=now.revision if now.revision > view.revision else None)
    return job_object(now, row) if visible(now, row) else None


def _in_tx(tx: Transaction, namespace: str, name: str) -> tuple[JobView, ObjectRow | None]:
    view = job_view(newest_job(tx.connection, namespace, name))
    rows = list_objects(tx.connection, KIND.resource, job_uids=[view.uid])
    return view, rows[0] if rows else None


def _check_free(look: Look, kind: Kind, obj: Obj) -> None:
    for view in look.jobs(namespace=namespace_of(obj), name=name_of(obj)):
        if visible(view, rows_of(look, [view]).get(view.uid)):
            raise already_exists(kind.resource, name_of(obj), f"it is {view.state}")


# -- one job ---------------------------------------------------------------------------------------


def body_of(obj: Obj) -> JobBody:
    """The request of `/v1` that an object stands for; it waits where it never fits by default."""
    spec = obj.get("spec") or {}
    metadata = obj["metadata"]
    body = {"if_never_fits": "wait"} | spec
    body |= {"name": metadata["name"], "namespace": metadata["namespace"]}
    try:
        return read_json(JobBody, write_json(body))
    except SchedulerError as error:
        raise _invalid(obj, error.problems) from None


def _invalid(obj: Obj, problems: Iterable[Any]) -> Exception:
    causes = [
        Cause(f"metadata.{c.field}", c.message)
        if c.field in IN_METADATA
        else Cause(f"spec.{c.field}" if c.field else "spec", c.message)
        for c in causes_of(problems)
    ]
    return invalid(KIND.kind, KIND.group, name_of(obj), causes)


CHANGEABLE = ("priority", "queue", "duration_s", "time_limit_s")


def _changed(call: Call, view: JobView, new: Obj) -> JobChange | None:
    """What an update asks for as a change of the job; None where it asks for none."""
    wanted = read_job_of(new)
    was, now = _spec(view.body), _spec(wanted.body)
    if was == now:
        return None
    fields: dict[str, object] = {}
    causes: list[Cause] = []
    for key in sorted({*was, *now}):
        if was.get(key) == now.get(key):
            continue
        if key in CHANGEABLE:
            fields[key] = now.get(key)
        elif key == "roles" and isinstance(was.get(key), list) and isinstance(now.get(key), list):
            fields[key], found = _role_changes(was[key], now[key])
            causes += found
        else:
            allowed = f"allowed to change are {', '.join(CHANGEABLE)} and replicas and min of roles"
            causes.append(Cause(f"spec.{key}", f"Invalid value: field is immutable; {allowed}"))
    if causes:
        raise invalid(KIND.kind, KIND.group, name_of(new), causes)
    try:
        patch = read_json(
            JobPatch,
            write_json({k: v for k, v in fields.items() if v is not None} | _times_gone(fields)),
        )
        read = changed_job(view.spec, view.body, patch, placed=view.state not in NO_PLACE)
        call.parts.door.readmit(view.spec, read.spec, call.caller.namespaces)
    except (JobError, SchedulerError) as error:
        raise _invalid(new, error.problems) from None
    return JobChange(read.spec, read.body, view.spec_revision)


def _times_gone(fields: Mapping[str, object]) -> dict[str, object]:
    return {k: None for k, v in fields.items() if v is None and k.endswith("_s")} | {
        k: {"priority": 0, "queue": "default"}[k]
        for k, v in fields.items()
        if v is None and k in {"priority", "queue"}
    }


def _role_changes(was: list[Obj], now: list[Obj]) -> tuple[list[Obj], list[Cause]]:
    """Numbers of roles that change, and what cannot."""
    if [role["name"] for role in was] != [role["name"] for role in now]:
        return [], [Cause("spec.roles", "Invalid value: roles cannot be added, removed or renamed")]
    fields: list[Obj] = []
    causes: list[Cause] = []
    for index, (before, after) in enumerate(zip(was, now, strict=True)):
        if before == after:
            continue
        fixed = [
            key
            for key in sorted({*before, *after} - {"replicas", "min", "parts"})
            if before.get(key) != after.get(key)
        ]
        causes += [
            Cause(f"spec.roles[{index}].{key}", "Invalid value: field is immutable")
            for key in fixed
        ]
        change = {k: after[k] for k in ("replicas", "min") if before.get(k) != after.get(k)}
        if "replicas" in change and before["min"] == before["replicas"]:
            # A minimum of all that the caller did not speak of follows.
            change.pop("min", None)
        fields.append({"name": before["name"]} | change)
    return fields, causes


def read_job_of(obj: Obj) -> ReadJob:
    """An object's request with its defaults, looked at by itself."""
    body = body_of(obj)
    try:
        return read_job(body)
    except JobError as error:
        raise _invalid(obj, error.problems) from None


def _spec(body: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in body.items() if k not in IN_METADATA}


def _row(obj: Obj, uid: str, created_s: float) -> ObjectRow:
    metadata = obj["metadata"]
    return ObjectRow(
        uid=uid,
        resource=KIND.resource,
        namespace=namespace_of(obj),
        name=name_of(obj),
        created_at=created_s,
        job_uid=uid,
        labels={k: str(v) for k, v in (metadata.get("labels") or {}).items()},
        annotations={k: str(v) for k, v in (metadata.get("annotations") or {}).items()},
        meta=kept_meta(metadata),
        managed=metadata.get("managedFields") or [],
    )


def _same(one: ObjectRow, other: ObjectRow) -> bool:
    return replace(one, revision=0) == replace(other, revision=0)


def _version(view: JobView, row: ObjectRow | None) -> str:
    return version_of(max(view.revision, row.revision if row else 0), view.uid)


def job_object(view: JobView, row: ObjectRow | None) -> Obj:
    """A job as an object."""
    return {
        "apiVersion": KIND.api_version,
        "kind": KIND.kind,
        "metadata": metadata_of(
            KIND,
            name=view.name,
            namespace=view.namespace,
            uid=view.uid,
            revision=view.revision,
            created_s=view.submitted_at,
            row=row,
            generation=row.generation if row else 1,
        ),
        "spec": _spec(view.body),
        "status": _status(view),
    }


def _status(view: JobView) -> Obj:
    status: Obj = {
        "state": str(view.state),
        "priority": view.priority,
        "attempt": view.attempt,
        "minimum": view.minimum,
        "members": view.members,
        "running": view.running,
        "gpus": view.gpus,
        "held": view.held,
        "conditions": _conditions(view),
    }
    texts = {
        "reason": view.reason and str(view.reason),
        "message": view.message,
        "nodeType": view.node_type,
    }
    times = {
        "boundAt": view.bound_at,
        "startedAt": view.started_at,
        "finishedAt": view.finished_at,
        "expectedStart": view.expected_start_at,
    }
    status |= {k: v for k, v in texts.items() if v}
    return status | {k: time_text(v) for k, v in times.items() if v is not None}


_HOLDS_PLACE = FINAL | {JobState.PENDING, JobState.RESERVED, JobState.SUSPENDED}


def _conditions(view: JobView) -> list[Obj]:
    """What `kubectl wait --for=condition=...` waits for."""
    state = view.state
    found = {
        "Bound": (state not in _HOLDS_PLACE, view.bound_at),
        "Running": (state is JobState.RUNNING, view.started_at),
        "Complete": (state is JobState.SUCCEEDED, view.finished_at),
        "Failed": (state in {JobState.FAILED, JobState.CANCELLED}, view.finished_at),
    }
    return [
        {"type": name, "status": "True" if is_so else "False"}
        | ({"lastTransitionTime": time_text(at)} if is_so and at is not None else {})
        for name, (is_so, at) in found.items()
    ]
