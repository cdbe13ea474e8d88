"""core/v1 Namespace: those that were made here, and those that jobs are in."""

from collections.abc import Collection, Iterable

from api.k8s.base import Base, own, scope
from api.k8s.errors import already_exists, conflict
from api.k8s.kinds import AGE, NAME, Call, Column, Kind, Obj, Wanted, name_of
from api.k8s.meta import Moved, kept_meta, metadata_of
from api.k8s.schema import ANYTHING, TEXT_LIST, object_schema
from api.k8s.table import age
from api.store.engine import Transaction
from api.store.look import Look
from api.store.namespaces import has_jobs, job_namespaces
from api.store.objects import ObjectRow, drop_object, find_object, put_object
from api.store.uids import new_uid
from api.store.views import EventView

ALWAYS = ("default", "kube-system")
"""There in any cluster; `kubectl` looks into the second one."""

KIND = Kind(
    "",
    "v1",
    "namespaces",
    "namespace",
    "Namespace",
    object_schema(
        "Namespace is a space for names. Jobs may be in any; one that no job is in is there if it "
        "was made.",
        {
            "spec": {
                "type": "object",
                "description": "Nothing that is acted on.",
                "properties": {"finalizers": TEXT_LIST},
            },
            "status": ANYTHING | {"description": "Active, always."},
        },
    ),
    namespaced=False,
    short_names=("ns",),
    columns=(NAME, Column("Status"), AGE),
    strategic=True,
    selectable=("status.phase",),
)


class Namespaces(Base):
    kind = KIND

    def read(self, look: Look, wanted: Wanted) -> Iterable[Obj]:
        rows = {row.name: row for row in look.objects(KIND.resource, name=wanted.name)}
        names = {*rows, *ALWAYS, *job_namespaces(look.connection)}
        if wanted.name is not None:
            names &= {wanted.name}
        if wanted.scopes is not None:
            names &= {text.partition("/")[2] for text in wanted.scopes}
        return [_object(name, rows.get(name)) for name in sorted(names)]

    def create(self, call: Call, obj: Obj) -> Obj:
        name = name_of(obj)

        def work(tx: Transaction) -> ObjectRow:
            if name in ALWAYS or find_object(tx.connection, KIND.resource, "", name):
                raise already_exists(KIND.resource, name)
            row = _row(obj, new_uid(tx.now_s), tx.now_s)
            return row if call.dry_run else put_object(tx, row)

        return _object(name, call.write(work))

    def update(self, call: Call, old: Obj, new: Obj) -> Obj:
        name = name_of(old)

        def work(tx: Transaction) -> ObjectRow:
            found = find_object(tx.connection, KIND.resource, "", name)
            if _object(name, found)["metadata"]["resourceVersion"] != _version(old):
                raise Moved(name)
            uid = found.uid if found else new_uid(tx.now_s)
            row = _row(new, uid, found.created_at if found else tx.now_s)
            return row if call.dry_run else put_object(tx, row)

        return _object(name, call.write(work))

    def delete(self, call: Call, old: Obj, options: Obj) -> Obj | None:
        name = name_of(old)

        def work(tx: Transaction) -> None:
            if name in ALWAYS:
                raise conflict(KIND.resource, name, "this namespace may not be deleted")
            if has_jobs(tx.connection, name):
                why = "jobs are in it; delete them first, as they would go on without it"
                raise conflict(KIND.resource, name, why)
            found = find_object(tx.connection, KIND.resource, "", name)
            if found is not None and not call.dry_run:
                drop_object(tx, found)

        call.write(work)
        return old if call.dry_run else None

    def cells(self, obj: Obj, now_s: float) -> list[object]:
        return [name_of(obj), "Active", age(obj["metadata"].get("creationTimestamp"), now_s)]

    def touched(self, look: Look, event: EventView) -> Collection[str] | None:
        if event.kind in {"job.submitted", "job.deleted"}:
            return (scope("", event.namespace),)
        return own(KIND, event)


def _version(obj: Obj) -> str:
    return str(obj["metadata"]["resourceVersion"])


def _row(obj: Obj, uid: str, created_s: float) -> ObjectRow:
    metadata = obj["metadata"]
    return ObjectRow(
        uid=uid,
        resource=KIND.resource,
        namespace="",
        name=name_of(obj),
        created_at=created_s,
        labels={k: str(v) for k, v in (metadata.get("labels") or {}).items()},
        annotations={k: str(v) for k, v in (metadata.get("annotations") or {}).items()},
        meta=kept_meta(metadata),
        managed=metadata.get("managedFields") or [],
        generation=0,
    )


def _object(name: str, row: ObjectRow | None) -> Obj:
    metadata = metadata_of(
        KIND,
        name=name,
        uid=row.uid if row else f"namespace-{name}",
        revision=1,
        created_s=row.created_at if row else None,
        row=row,
        labels={"kubernetes.io/metadata.name": name},
    )
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": metadata,
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }
