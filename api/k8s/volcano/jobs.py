"""batch.volcano.sh/v1alpha1 Job: a gang of tasks, over the same jobs as `/v1/jobs`."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import cast

from api.admission.change import changed_job
from api.k8s.base import Base, names_of, own, scope
from api.k8s.errors import already_exists
from api.k8s.kinds import Call, Kind, Obj, Subresource, Wanted, name_of, namespace_of
from api.k8s.meta import Moved, kept_meta, metadata_of, version_of
from api.k8s.schema import object_schema
from api.k8s.table import age
from api.k8s.volcano.columns import gang_columns
from api.k8s.volcano.gang import gang_of
from api.k8s.volcano.job_defaults import defaulted_job
from api.k8s.volcano.job_rules import create_problems, update_problems
from api.k8s.volcano.kinds_job import JOB_SPEC, JOB_STATUS
from api.k8s.volcano.life import Life, read_life, with_life
from api.k8s.volcano.look_site import site_of
from api.k8s.volcano.pod_rules import number_at, text_at, tree, trees
from api.k8s.volcano.refuse import refused
from api.k8s.volcano.shape import Tree, filled, shape_problems
from api.k8s.volcano.shown_labels import meant
from api.k8s.volcano.status import job_status
from api.k8s.volcano.tiers import Tiers
from api.schemas.job import JobBody
from api.schemas.job_change import JobPatch
from api.schemas.job_spec import ReadJob
from api.schemas.reading import read_json, write_json
from api.store.ending import End, end_jobs
from api.store.errors import Conflict, NotFound
from api.store.job_changes import JobChange, change_in
from api.store.jobs import fresh_job, submit_in
from api.store.look import Look, look_at
from api.store.objects import ObjectRow, put_object
from api.store.policy import read_policy
from api.store.transaction import Transaction
from api.store.views import EventView, JobView, PodView, Submission
from scheduler.errors import JobError, Problem, SchedulerError
from scheduler.model.lifecycle import FINAL

KIND = Kind(
    "batch.volcano.sh",
    "v1alpha1",
    "jobs",
    "job",
    "Job",
    object_schema(
        "Job is a gang of tasks, as Volcano has it: pods start together, or not at all.",
        {"spec": JOB_SPEC, "status": JOB_STATUS},
    ),
    short_names=("vcjob", "vj"),
    subresources=(Subresource("status", ("get", "patch", "update")),),
    columns=gang_columns("job"),
)
RESOURCE = KIND.resource

_ROLE = re.compile(r"roles\[(\d+)\]")
_RUN = re.compile(r"run\.roles\.([a-z0-9-]+)")
_OF_ROLE = ((".parts", ".partitionPolicy"), (".topology", ""), (".min", ".minAvailable"))
_OF_JOB = {"topology": "spec.networkTopology", "priority_class": "spec.priorityClassName"}
_SPEC = {"type": "object", "properties": {"spec": JOB_SPEC}}


class VolcanoJobs(Base):
    """Jobs that came as Volcano's; all others have no such object."""

    kind = KIND

    def read(self, look: Look, wanted: Wanted) -> Iterable[Obj]:
        rows = rows_of(look, wanted)
        if not rows:
            return
        views = {v.uid: v for v in look.jobs(uids=[str(r.job_uid) for r in rows])}
        pods: dict[str, list[PodView]] = {uid: [] for uid in views}
        for pod in look.pods(job_uids=list(views)):
            pods[pod.job_uid].append(pod)
        for row in rows:
            view = views.get(str(row.job_uid))
            if view is not None and is_shown(view, row):
                yield shown_job(view, row, pods[view.uid])

    def create(self, call: Call, obj: Obj) -> Obj:
        job = whole(obj)
        with look_at(call.parts.database) as look:
            site = site_of(look, names=call.caller.namespaces)
            topology = look.topology()
            priorities = read_policy(look.connection).priorities
        problems = list(create_problems(job, site))
        if problems:
            raise refused(KIND, job, problems)
        try:
            door = call.parts.door
            tiers = Tiers(topology.level_names)
            gang = gang_of(job, tiers, priorities, with_images=door.has_launcher)
            read = admitted(call, meant(gang.body, topology), trees(tree(job, "spec"), "tasks"))
        except JobError as error:
            raise refused(KIND, job, error.problems) from None
        call.warnings += gang.warnings
        if call.dry_run:
            return _dry(call, job, read)
        return call.parts.database.grouped(lambda tx: _write(call, tx, job, read), call.now_s)

    def update(self, call: Call, old: Obj, new: Obj) -> Obj:
        if call.subresource:
            return old  # what a job's status is follows from its pods
        job = whole(new)
        problems = list(update_problems(whole(old), job))
        if problems:
            raise refused(KIND, job, problems)
        try:
            change = resized(call, old, job["spec"]) if job["spec"] != old["spec"] else None
        except JobError as error:
            raise refused(KIND, job, error.problems) from None
        if call.dry_run:
            return job | {"status": old["status"]}
        return call.parts.database.grouped(
            lambda tx: _change(call, tx, old, job, change), call.now_s
        )

    def delete(self, call: Call, old: Obj, options: Obj) -> Obj | None:
        if call.dry_run:
            return old
        return call.parts.database.grouped(lambda tx: _delete(call, tx, old), call.now_s)

    def cells(self, obj: Obj, now_s: float) -> list[object]:
        status = obj.get("status", {})
        return [
            name_of(obj),
            status.get("state", {}).get("phase", ""),
            status.get("minAvailable", 0),
            status.get("running", 0),
            age(obj["metadata"]["creationTimestamp"], now_s),
            obj["spec"].get("queue", ""),
        ]

    def touched(self, look: Look, event: EventView) -> Collection[str] | None:
        if event.subject_kind == "job":
            return (scope(event.namespace, event.name),)
        if event.subject_kind == "pod":
            return pod_scopes(look, event)
        return own(self.kind, event)


def pod_scopes(look: Look, event: EventView) -> Collection[str]:
    """The job of a pod, whose uid begins with that of its job."""
    found = look.pods(namespace=event.namespace, name=event.name)
    return {scope(pod.namespace, pod.job) for pod in found}


# -- reading --------------------------------------------------------------------------------------


def rows_of(look: Look, wanted: Wanted) -> list[ObjectRow]:
    """Stored rows, in order of (namespace, name)."""
    if wanted.scopes is None:
        return look.objects(RESOURCE, namespace=wanted.namespace, name=wanted.name)
    found = []
    for namespace, name in sorted(set(names_of(wanted.scopes))):
        if wanted.namespace in (None, namespace) and wanted.name in (None, name):
            found += look.objects(RESOURCE, namespace=namespace, name=name)
    return found


def is_shown(view: JobView, row: ObjectRow) -> bool:
    """A job whose deletion was asked for is gone when it has ended and nothing of it runs."""
    return row.deleted_at is None or view.state not in FINAL or view.live > 0


def find_one(look: Look, namespace: str, name: str) -> Obj | None:
    """A job by its name; None if there is none."""
    wanted = Wanted(namespace=namespace, name=name)
    return next(iter(VolcanoJobs().read(look, wanted)), None)


def current(call: Call, tx: Transaction, old: Obj) -> tuple[JobView, ObjectRow, list[PodView]]:
    """A job as it is in this transaction. Raises Moved if it is not as `old` any more."""
    return as_seen(Look(call.parts.database, tx.connection), old)


def as_seen(look: Look, old: Obj) -> tuple[JobView, ObjectRow, list[PodView]]:
    """A job as a snapshot has it. Raises Moved if it is not as `old` any more."""
    rows = rows_of(look, Wanted(namespace=namespace_of(old), name=name_of(old)))
    for row in rows:
        views = look.jobs(uids=[str(row.job_uid)])
        if views and is_shown(views[0], row):
            view, pods = views[0], look.pods(job_uids=[views[0].uid])
            if shown_job(view, row, pods)["metadata"]["uid"] == old["metadata"]["uid"]:
                revision = newest_revision(view, row, pods)
                if version_of(revision, view.uid) != old["metadata"]["resourceVersion"]:
                    raise Moved
                return view, row, pods
    raise Moved


def newest_revision(view: JobView, row: ObjectRow, pods: Sequence[PodView]) -> int:
    return max(view.revision, row.revision, *(pod.revision for pod in pods))


def shown_job(view: JobView, row: ObjectRow, pods: Sequence[PodView]) -> Obj:
    """The object of a job."""
    spec = shown_spec(view, tree(row.body, "spec"))
    metadata = metadata_of(
        KIND,
        name=view.name,
        namespace=view.namespace,
        uid=view.uid,
        revision=newest_revision(view, row, pods),
        created_s=view.submitted_at,
        row=row,
    )
    return {
        "apiVersion": KIND.api_version,
        "kind": KIND.kind,
        "metadata": metadata,
        "spec": spec,
        "status": job_status(view, spec, read_life(row.body), pods),
    }


def shown_spec(view: JobView, spec: Tree) -> Tree:
    """The spec as it was written, with what has been changed since in `/v1`."""
    replicas = {role.name: role.replicas for role in view.spec.roles}
    tasks = [
        task | {"replicas": replicas[str(task.get("name"))]}
        if task.get("name") in replicas
        else task
        for task in trees(spec, "tasks")
    ]
    return spec | {"queue": view.queue, "tasks": tasks}


# -- writing --------------------------------------------------------------------------------------


def _dry(call: Call, job: Obj, read: ReadJob) -> Obj:
    """The job as it would be just after it was written."""
    namespace, name = namespace_of(job), name_of(job)
    with look_at(call.parts.database) as look:
        views = look.jobs(namespace=namespace, name=name)
        live = any(view.state not in FINAL or view.live for view in views)
        if live or find_one(look, namespace, name) is not None:
            raise already_exists(RESOURCE, name)
    view = fresh_job(read.spec, read.body, now_s=call.now_s)
    return shown_job(view, _row(job, view, call.now_s), [])


def _row(job: Obj, view: JobView, now_s: float) -> ObjectRow:
    """What is stored of a new job."""
    meta = job["metadata"]
    return ObjectRow(
        uid=f"{view.uid}/vcjob",
        resource=RESOURCE,
        namespace=view.namespace,
        name=view.name,
        created_at=now_s,
        job_uid=view.uid,
        labels=meta.get("labels", {}),
        annotations=meta.get("annotations", {}),
        meta=kept_meta(meta),
        managed=meta.get("managedFields", []),
        body=with_life({"spec": job["spec"]}, Life()),
    )


def _write(call: Call, tx: Transaction, job: Obj, read: ReadJob) -> Obj:
    namespace, name = namespace_of(job), name_of(job)
    look = Look(call.parts.database, tx.connection)
    if find_one(look, namespace, name) is not None:
        raise already_exists(RESOURCE, name)
    try:
        view, _ = submit_in(tx, Submission(read.spec, read.body))
    except Conflict as error:
        raise already_exists(RESOURCE, name, str(error)) from None
    row = _row(job, view, tx.now_s)
    return shown_job(view, put_object(tx, row, revision=view.revision), [])


def whole(obj: Obj) -> Obj:
    """An object with the defaults of its definition and of the webhook in.

    Raises:
        StatusError: If fields are not as the definition says.
    """
    problems = list(shape_problems(_SPEC, obj, "", limits=False))
    if problems:
        raise refused(KIND, obj, problems)
    spec = filled(JOB_SPEC, obj.get("spec") or {})
    job = defaulted_job({k: v for k, v in obj.items() if k != "status"} | {"spec": spec})
    problems = list(shape_problems(_SPEC, job, ""))
    if problems:
        raise refused(KIND, obj, problems)
    return job


def _change(call: Call, tx: Transaction, old: Obj, job: Obj, change: JobChange | None) -> Obj:
    view, row, pods = current(call, tx, old)
    if change is not None:
        view = change_in(tx, view.namespace, view.name, change)
    meta = job["metadata"]
    changed = replace(
        row,
        labels=meta.get("labels", {}),
        annotations=meta.get("annotations", {}),
        meta=kept_meta(meta),
        managed=meta.get("managedFields", []),
        body=row.body | {"spec": job["spec"]},
        generation=row.generation + (change is not None),
    )
    # Defaults inside a list make a patch of what is there already; that is no change.
    return shown_job(view, row if changed == row else put_object(tx, changed), pods)


def _delete(call: Call, tx: Transaction, old: Obj) -> Obj | None:
    view, row, pods = current(call, tx, old)
    if not (view.state in FINAL and view.live):
        (ended,) = end_jobs(tx, [End(view.namespace, view.name)])
        if isinstance(ended, Conflict | NotFound):
            raise ended
        if view.state in FINAL:
            return None
        view = ended or view
    if row.deleted_at is None:
        row = put_object(tx, replace(row, deleted_at=tx.now_s))
    return shown_job(view, row, pods) if is_shown(view, row) else None


def admitted(call: Call, body: Tree, tasks: Sequence[Tree]) -> ReadJob:
    """The gang, let in by the door that all jobs come through.

    Raises:
        JobError: With paths of the object.
    """
    try:
        wanted = read_json(JobBody, write_json(body))
        return call.parts.door.admit(wanted, call.caller.namespaces)
    except SchedulerError as error:
        raise JobError(Problem(_path(p.path, tasks), p.message) for p in error.problems) from None


def _path(path: str, tasks: Sequence[Tree]) -> str:
    """Where in the object stands what the gang has at a path; its roles are the tasks with pods."""
    kept = [i for i, task in enumerate(tasks) if number_at(task, "replicas")]
    role, run = _ROLE.match(path), _RUN.match(path)
    if role is not None and int(role[1]) < len(kept):
        rest, at = path[role.end() :], f"spec.tasks[{kept[int(role[1])]}]"
        for ours, theirs in _OF_ROLE:
            if rest.startswith(ours):
                return f"{at}{theirs}{rest[len(ours) :]}"
        return f"{at}{rest}"
    if run is not None:
        index = next((i for i, task in enumerate(tasks) if task.get("name") == run[1]), 0)
        return f"spec.tasks[{index}].template.spec.containers[0]{path[run.end() :]}"
    if path in ("name", "namespace"):
        return f"metadata.{path}"
    head = path.partition("[")[0].partition(".")[0]
    return _OF_JOB.get(head, f"spec.{path}" if path else "spec")


def resized(call: Call, old: Obj, spec: Tree) -> JobChange:
    """The change of a job to the numbers and the priority of another spec.

    Raises:
        JobError: If it cannot be changed so.
        Moved: If the job is not as `old` any more.
    """
    with look_at(call.parts.database) as look:
        view, _, _ = as_seen(look, old)
        priorities = read_policy(look.connection).priorities
        tiers = Tiers(look.topology().level_names)
    meta = {"name": view.name, "namespace": view.namespace}
    gang = gang_of({"metadata": meta, "spec": spec}, tiers, priorities)
    roles = cast(list[Tree], gang.body["roles"])
    if {text_at(role, "name") for role in roles} != {role.name for role in view.spec.roles}:
        message = "a task without replicas cannot get some later, or lose all"
        raise JobError(Problem("spec.tasks", message))
    fields: Tree = {"roles": [_numbers(role) for role in roles]}
    name = text_at(gang.body, "priority_class")
    if name != text_at(view.body, "priority_class"):
        fields["priority"] = priorities.get(name, 0)
    patch = JobPatch.model_validate(fields)
    change = changed_job(view.spec, view.body, patch, placed=view.bound_at is not None)
    call.parts.door.readmit(view.spec, change.spec, call.caller.namespaces)
    return JobChange(change.spec, change.body, based_on=view.spec_revision)


def _numbers(role: Tree) -> Tree:
    parts = tree(role, "parts")
    least = number_at(parts, "min") * number_at(parts, "size") if parts else number_at(role, "min")
    return {"name": role["name"], "replicas": role["replicas"], "min": least}
