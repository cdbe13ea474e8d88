"""scheduling.volcano.sh/v1beta1 PodGroup: one for each job, and those that people write."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from api.k8s.base import Base, names_of, own, scope
from api.k8s.errors import already_exists, conflict
from api.k8s.gangs import form
from api.k8s.kinds import Call, Kind, Obj, Wanted, name_of, namespace_of
from api.k8s.meta import Moved, kept_meta, metadata_of, version_of
from api.k8s.schema import object_schema
from api.k8s.table import age
from api.k8s.volcano.columns import gang_columns
from api.k8s.volcano.jobs import KIND as JOB
from api.k8s.volcano.jobs import RESOURCE as JOBS
from api.k8s.volcano.jobs import is_shown, newest_revision, shown_spec
from api.k8s.volcano.kinds_other import GROUP_SPEC, GROUP_STATUS
from api.k8s.volcano.look_site import site_of
from api.k8s.volcano.other_rules import group_defaults, group_problems
from api.k8s.volcano.patch import apply_patch
from api.k8s.volcano.pod_rules import tree
from api.k8s.volcano.refuse import refused
from api.k8s.volcano.shape import filled, shape_problems
from api.k8s.volcano.status import group_name, group_spec, group_status
from api.k8s.volcano.tiers import Tiers, tier_problem
from api.store.look import Look, look_at
from api.store.objects import ObjectRow, drop_object, find_object, put_object
from api.store.transaction import Transaction
from api.store.uids import new_uid
from api.store.views import EventView, JobView, PodView

KIND = Kind(
    "scheduling.volcano.sh",
    "v1beta1",
    "podgroups",
    "podgroup",
    "PodGroup",
    object_schema(
        "PodGroup says which pods start together.", {"spec": GROUP_SPEC, "status": GROUP_STATUS}
    ),
    short_names=("pg", "podgroup-v1beta1"),
    columns=gang_columns("group"),
)
RESOURCE = KIND.resource
_SHAPE = {"type": "object", "properties": {"spec": GROUP_SPEC}}


class PodGroups(Base):
    """The group of a job follows the job; it is read here and changed there."""

    kind = KIND

    def read(self, look: Look, wanted: Wanted) -> Iterable[Obj]:
        found = [*_stored(look, wanted), *_of_jobs(look, wanted)]
        return sorted(found, key=lambda obj: (namespace_of(obj), name_of(obj)))

    def create(self, call: Call, obj: Obj) -> Obj:
        group = _checked(call, obj)
        if call.dry_run:
            return group
        row = call.write(lambda tx: _create(tx, group))
        form(call, row)  # pods that came before it may have waited for it
        return shown_group(row)

    def update(self, call: Call, old: Obj, new: Obj) -> Obj:
        if old["metadata"].get("ownerReferences"):
            raise _owned(old)
        group = _checked(call, new) | {"status": new.get("status") or old["status"]}
        if call.dry_run:
            return group
        row = call.write(lambda tx: _change(tx, old, group))
        form(call, row)
        return shown_group(row)

    def delete(self, call: Call, old: Obj, options: Obj) -> Obj | None:
        if old["metadata"].get("ownerReferences"):
            raise _owned(old)
        if not call.dry_run:
            call.parts.database.grouped(lambda tx: _drop(tx, old), call.now_s)
        return None

    def cells(self, obj: Obj, now_s: float) -> list[object]:
        status, spec = obj.get("status", {}), obj["spec"]
        return [
            name_of(obj),
            status.get("phase", ""),
            spec.get("minMember", 0),
            status.get("running", 0),
            age(obj["metadata"]["creationTimestamp"], now_s),
            spec.get("queue", ""),
        ]

    def scope_of(self, obj: Obj) -> str:
        owners = obj["metadata"].get("ownerReferences") or [{}]
        return scope(namespace_of(obj), str(owners[0].get("name") or name_of(obj)))

    def touched(self, look: Look, event: EventView) -> Collection[str] | None:
        if event.subject_kind == "job":
            return (scope(event.namespace, event.name),)
        if event.subject_kind == "pod":
            found = look.pods(namespace=event.namespace, name=event.name)
            return {scope(pod.namespace, pod.job) for pod in found}
        if event.body.get("resource") == JOBS:
            return (scope(event.namespace, event.name),)
        return own(KIND, event)


def _owned(obj: Obj) -> Exception:
    owner = obj["metadata"]["ownerReferences"][0]["name"]
    return conflict(RESOURCE, name_of(obj), f"it belongs to job '{owner}' and follows that")


# -- reading --------------------------------------------------------------------------------------


def _stored(look: Look, wanted: Wanted) -> Iterable[Obj]:
    scopes = None if wanted.scopes is None else set(names_of(wanted.scopes))
    for row in look.objects(RESOURCE, namespace=wanted.namespace, name=wanted.name):
        if scopes is None or (row.namespace, row.name) in scopes:
            yield shown_group(row)


def shown_group(row: ObjectRow) -> Obj:
    """A group that somebody wrote; its status is what was written last, or that it waits."""
    metadata = metadata_of(
        KIND,
        name=row.name,
        namespace=row.namespace,
        uid=row.uid,
        revision=row.revision,
        created_s=row.created_at,
        row=row,
    )
    return {
        "apiVersion": KIND.api_version,
        "kind": KIND.kind,
        "metadata": metadata,
        "spec": tree(row.body, "spec"),
        "status": tree(row.body, "status") or {"phase": "Pending"},
    }


def _of_jobs(look: Look, wanted: Wanted) -> Iterable[Obj]:
    scopes = None if wanted.scopes is None else set(names_of(wanted.scopes))
    rows = [
        row
        for row in look.objects(JOBS, namespace=wanted.namespace)
        if (scopes is None or (row.namespace, row.name) in scopes)
        and wanted.name in (None, f"{row.name}-{row.job_uid}")
    ]
    if not rows:
        return
    views = {view.uid: view for view in look.jobs(uids=[str(row.job_uid) for row in rows])}
    pods: dict[str, list[PodView]] = {uid: [] for uid in views}
    for pod in look.pods(job_uids=list(views)):
        pods[pod.job_uid].append(pod)
    for row in rows:
        view = views.get(str(row.job_uid))
        if view is not None and is_shown(view, row):
            yield group_of(view, row, pods[view.uid])


def group_of(view: JobView, row: ObjectRow, pods: Sequence[PodView]) -> Obj:
    """The group of a job."""
    owner = {
        "apiVersion": JOB.api_version,
        "kind": JOB.kind,
        "name": view.name,
        "uid": view.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata = metadata_of(
        KIND,
        name=group_name(view),
        namespace=view.namespace,
        uid=f"{view.uid}/group",
        revision=newest_revision(view, row, pods),
        created_s=view.submitted_at,
        labels=row.labels,
        annotations=row.annotations,
        owners=[owner],
    )
    return {
        "apiVersion": KIND.api_version,
        "kind": KIND.kind,
        "metadata": metadata,
        "spec": group_spec(shown_spec(view, tree(row.body, "spec")), view),
        "status": group_status(view, pods),
    }


# -- writing --------------------------------------------------------------------------------------


def _checked(call: Call, obj: Obj) -> Obj:
    """A group with its defaults. Raises StatusError if it breaks a rule."""
    problems = list(shape_problems(_SHAPE, obj, ""))
    if problems:
        raise refused(KIND, obj, problems)
    group = {k: v for k, v in obj.items() if k != "status"}
    group["spec"] = filled(GROUP_SPEC, obj.get("spec") or {})
    with look_at(call.parts.database) as look:
        site = site_of(look, names=call.caller.namespaces)
        tiers = Tiers(look.topology().level_names)
    made = apply_patch(group, group_defaults(group, site, namespace_of(group)))
    group = {**made} if isinstance(made, dict) else group
    problems = list(group_problems(group, site))
    unknown = tier_problem(tree(group["spec"], "networkTopology"), tiers, "spec")
    if problems or unknown:
        raise refused(KIND, obj, [*problems, *([unknown] if unknown else [])])
    return group


def _create(tx: Transaction, group: Obj) -> ObjectRow:
    namespace, name = namespace_of(group), name_of(group)
    if find_object(tx.connection, RESOURCE, namespace, name) is not None:
        raise already_exists(RESOURCE, name)
    meta = group["metadata"]
    row = ObjectRow(
        uid=new_uid(tx.now_s),
        resource=RESOURCE,
        namespace=namespace,
        name=name,
        created_at=tx.now_s,
        labels=meta.get("labels", {}),
        annotations=meta.get("annotations", {}),
        meta=kept_meta(meta),
        managed=meta.get("managedFields", []),
        body={"spec": group["spec"]},
    )
    return put_object(tx, row)


def _known(tx: Transaction, old: Obj) -> ObjectRow:
    row = find_object(tx.connection, RESOURCE, namespace_of(old), name_of(old))
    if row is None or version_of(row.revision, row.uid) != old["metadata"]["resourceVersion"]:
        raise Moved(name_of(old))
    return row


def _change(tx: Transaction, old: Obj, group: Obj) -> ObjectRow:
    row, meta = _known(tx, old), group["metadata"]
    row = replace(
        row,
        labels=meta.get("labels", {}),
        annotations=meta.get("annotations", {}),
        meta=kept_meta(meta),
        managed=meta.get("managedFields", []),
        body={"spec": group["spec"], "status": group["status"]},
        generation=row.generation + (group["spec"] != old["spec"]),
    )
    return put_object(tx, row)


def _drop(tx: Transaction, old: Obj) -> None:
    drop_object(tx, _known(tx, old))
