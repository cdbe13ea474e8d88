"""Objects that are kept and that nobody acts on: what manifests bring along beside their jobs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from api.k8s.base import Base, names_of
from api.k8s.errors import already_exists
from api.k8s.kinds import AGE, NAME, Call, Column, Kind, Obj, Wanted, name_of, namespace_of
from api.k8s.meta import Moved, kept_meta, metadata_of, version_of
from api.k8s.schema import ANYTHING, BOOLEAN, TEXT, TEXTS, object_schema
from api.k8s.table import age
from api.store.engine import Transaction
from api.store.look import Look
from api.store.objects import ObjectRow, drop_object, find_object, put_object
from api.store.uids import new_uid

Cell = Callable[[Obj], object]

IN_BODY = ("apiVersion", "kind", "metadata")


class Stored(Base):
    """Handler of one such kind.

    Args:
        cells: Of the columns between the first and the last, which are name and age.
    """

    pages = True

    def __init__(self, kind: Kind, cells: Sequence[Cell] = ()) -> None:
        self.kind = kind
        self._cells = tuple(cells)

    def read(self, look: Look, wanted: Wanted) -> Iterable[Obj]:
        if wanted.scopes is None:
            rows = look.objects(
                self.kind.resource,
                namespace=wanted.namespace,
                name=wanted.name,
                after=wanted.after,
                limit=wanted.limit,
            )
            return [self.shown(row) for row in rows]
        found = (
            find_object(look.connection, self.kind.resource, namespace, name)
            for namespace, name in sorted(names_of(wanted.scopes))
        )
        return [self.shown(row) for row in found if row is not None]

    def create(self, call: Call, obj: Obj) -> Obj:
        namespace, name = namespace_of(obj), name_of(obj)

        def work(tx: Transaction) -> ObjectRow:
            if find_object(tx.connection, self.kind.resource, namespace, name) is not None:
                raise already_exists(self.kind.resource, name)
            row = row_of(self.kind, obj, uid=new_uid(tx.now_s), created_s=tx.now_s)
            return row if call.dry_run else put_object(tx, row)

        return self.shown(call.write(work))

    def update(self, call: Call, old: Obj, new: Obj) -> Obj:
        namespace, name = namespace_of(old), name_of(old)

        def work(tx: Transaction) -> ObjectRow:
            found = find_object(tx.connection, self.kind.resource, namespace, name)
            if found is None or self.version(found) != old["metadata"]["resourceVersion"]:
                raise Moved(name)
            is_same = body_of(new) == found.body
            row = row_of(
                self.kind,
                new,
                uid=found.uid,
                created_s=found.created_at,
                generation=found.generation + (not is_same),
            )
            return row if call.dry_run else put_object(tx, row)

        return self.shown(call.write(work))

    def delete(self, call: Call, old: Obj, options: Obj) -> Obj | None:
        namespace, name = namespace_of(old), name_of(old)

        def work(tx: Transaction) -> None:
            found = find_object(tx.connection, self.kind.resource, namespace, name)
            if found is None or self.version(found) != old["metadata"]["resourceVersion"]:
                raise Moved(name)
            if not call.dry_run:
                drop_object(tx, found)

        call.write(work)
        return None

    def cells(self, obj: Obj, now_s: float) -> list[object]:
        inner = [cell(obj) for cell in self._cells]
        return [name_of(obj), *inner, age(obj["metadata"].get("creationTimestamp"), now_s)]

    def version(self, row: ObjectRow) -> str:
        return version_of(row.revision, row.uid)

    def shown(self, row: ObjectRow) -> Obj:
        """The object of a row."""
        metadata = metadata_of(
            self.kind,
            name=row.name,
            namespace=row.namespace,
            uid=row.uid,
            revision=row.revision,
            created_s=row.created_at,
            row=row,
        )
        head = {"apiVersion": self.kind.api_version, "kind": self.kind.kind, "metadata": metadata}
        return head | row.body


def row_of(kind: Kind, obj: Obj, *, uid: str, created_s: float, generation: int = 1) -> ObjectRow:
    """The row of an object."""
    metadata = obj["metadata"]
    return ObjectRow(
        uid=uid,
        resource=kind.resource,
        namespace=str(metadata.get("namespace", "")),
        name=str(metadata["name"]),
        created_at=created_s,
        labels={k: str(v) for k, v in (metadata.get("labels") or {}).items()},
        annotations={k: str(v) for k, v in (metadata.get("annotations") or {}).items()},
        meta=kept_meta(metadata),
        managed=metadata.get("managedFields") or [],
        body=body_of(obj),
        generation=generation,
    )


def body_of(obj: Obj) -> Obj:
    """An object without its head."""
    return {k: v for k, v in obj.items() if k not in IN_BODY}


def _simple(
    plural: str,
    singular: str,
    kind: str,
    description: str,
    properties: Mapping[str, Any],
    *,
    short: str = "",
    columns: tuple[Column, ...] = (),
) -> Kind:
    return Kind(
        "",
        "v1",
        plural,
        singular,
        kind,
        object_schema(description, properties),
        short_names=(short,) if short else (),
        columns=(NAME, *columns, AGE),
        strategic=True,
    )


CONFIG_MAP = _simple(
    "configmaps",
    "configmap",
    "ConfigMap",
    "ConfigMap keeps texts by name.",
    {"data": TEXTS, "binaryData": TEXTS, "immutable": BOOLEAN},
    short="cm",
    columns=(Column("Data", type="integer"),),
)
SECRET = _simple(
    "secrets",
    "secret",
    "Secret",
    "Secret keeps texts in base64 by name. Whoever may read the database may read them.",
    {"data": TEXTS, "stringData": TEXTS, "type": TEXT, "immutable": BOOLEAN},
    columns=(Column("Type"), Column("Data", type="integer")),
)
SERVICE_ACCOUNT = _simple(
    "serviceaccounts",
    "serviceaccount",
    "ServiceAccount",
    "ServiceAccount is kept for manifests that bring one along; nobody acts on it.",
    {
        "secrets": {"type": "array", "items": ANYTHING},
        "imagePullSecrets": {"type": "array", "items": ANYTHING},
        "automountServiceAccountToken": BOOLEAN,
    },
    short="sa",
    columns=(Column("Secrets", type="integer"),),
)
SERVICE = _simple(
    "services",
    "service",
    "Service",
    "Service is kept for manifests that bring one along; nobody acts on it.",
    {"spec": ANYTHING, "status": ANYTHING},
    short="svc",
)


def _count(*fields: str) -> Cell:
    return lambda obj: sum(len(obj.get(field) or ()) for field in fields)


HANDLERS = (
    Stored(CONFIG_MAP, (_count("data", "binaryData"),)),
    Stored(SECRET, (lambda obj: obj.get("type", "Opaque"), _count("data"))),
    Stored(SERVICE_ACCOUNT, (_count("secrets"),)),
    Stored(SERVICE),
)
