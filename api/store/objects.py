"""Objects of the Kubernetes face: rows written in the transaction of what they belong to."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection

from api.store.bulk import among
from api.store.jsontext import dump_json, load_dict, load_list
from api.store.rows import AnyRow
from api.store.tables_objects import objects
from api.store.transaction import Transaction


@dataclass(frozen=True, slots=True)
class ObjectRow:
    """A stored object, or the metadata of a job, node or pod.

    Attributes:
        resource: `plural.group`, the plural alone of the core group.
        job_uid: The job it goes with; deleted with that job's record.
        meta: Metadata beside name, namespace, uid, labels and annotations: ownerReferences,
            finalizers, generateName.
        body: Everything of the object but apiVersion, kind and metadata.
        deleted_at: Its deletion was asked for.
        revision: Of its last change; 0 before it is written.
    """

    uid: str
    resource: str
    namespace: str
    name: str
    created_at: float
    job_uid: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    meta: dict[str, Any] = field(default_factory=dict)
    managed: list[Any] = field(default_factory=list)
    body: dict[str, Any] = field(default_factory=dict)
    generation: int = 1
    deleted_at: float | None = None
    revision: int = 0


def put_object(tx: Transaction, row: ObjectRow, revision: int | None = None) -> ObjectRow:
    """Write a row, new or as it is to be from now on.

    Args:
        revision: Of the event it belongs to; with None it is an event of its own.
    """
    tx.resources.add(row.resource)
    known = tx.connection.execute(
        sa.select(objects.c.uid).where(objects.c.uid == row.uid)
    ).one_or_none()
    if revision is None:
        revision = _emit(tx, row, "object.created" if known is None else "object.changed")
    written = replace(row, revision=revision)
    values = _values(written)
    if known is None:
        tx.connection.execute(sa.insert(objects), values)
    else:
        change = sa.update(objects).where(objects.c.uid == row.uid)
        tx.connection.execute(change.values(**values))
    return written


def drop_object(tx: Transaction, row: ObjectRow) -> int:
    """Delete a row; the revision of that event."""
    tx.connection.execute(sa.delete(objects).where(objects.c.uid == row.uid))
    return _emit(tx, row, "object.deleted")


def find_object(
    connection: Connection, resource: str, namespace: str, name: str
) -> ObjectRow | None:
    """The newest row of that name."""
    query = (
        sa.select(objects)
        .where(
            objects.c.resource == resource,
            objects.c.namespace == namespace,
            objects.c.name == name,
        )
        .order_by(objects.c.created_at.desc(), objects.c.uid.desc())
        .limit(1)
    )
    row = connection.execute(query).one_or_none()
    return None if row is None else object_row(row)


def list_objects(
    connection: Connection,
    resource: str,
    *,
    namespace: str | None = None,
    name: str | None = None,
    job_uids: Collection[str] | None = None,
    uids: Collection[str] | None = None,
    after: tuple[str, str] | None = None,
    limit: int | None = None,
) -> list[ObjectRow]:
    """Rows of one resource in order of (namespace, name)."""
    wanted: list[ColumnElement[bool]] = [objects.c.resource == resource]
    if namespace is not None:
        wanted.append(objects.c.namespace == namespace)
    if name is not None:
        wanted.append(objects.c.name == name)
    if job_uids is not None:
        wanted.append(among(connection, objects.c.job_uid, job_uids))
    if uids is not None:
        wanted.append(among(connection, objects.c.uid, uids))
    if after is not None:
        here = sa.tuple_(objects.c.namespace, objects.c.name)
        wanted.append(here > sa.tuple_(*map(sa.literal, after)))
    query = sa.select(objects).where(*wanted).order_by(objects.c.namespace, objects.c.name)
    return [object_row(row) for row in connection.execute(query.limit(limit))]


def object_row(row: AnyRow) -> ObjectRow:
    """A row of the table as a value."""
    r = row._mapping
    return ObjectRow(
        uid=r["uid"],
        resource=r["resource"],
        namespace=r["namespace"],
        name=r["name"],
        job_uid=r["job_uid"],
        labels={k: str(v) for k, v in load_dict(r["labels"]).items()},
        annotations={k: str(v) for k, v in load_dict(r["annotations"]).items()},
        meta=load_dict(r["meta"]),
        managed=load_list(r["managed"]),
        body=load_dict(r["body"]),
        generation=r["generation"],
        created_at=r["created_at"],
        deleted_at=r["deleted_at"],
        revision=r["revision"],
    )


def _values(row: ObjectRow) -> dict[str, object]:
    return {
        "uid": row.uid,
        "resource": row.resource,
        "namespace": row.namespace,
        "name": row.name,
        "job_uid": row.job_uid,
        "labels": dump_json(row.labels),
        "annotations": dump_json(row.annotations),
        "meta": dump_json(row.meta),
        "managed": dump_json(row.managed),
        "body": dump_json(row.body),
        "generation": row.generation,
        "created_at": row.created_at,
        "deleted_at": row.deleted_at,
        "revision": row.revision,
    }


def _emit(tx: Transaction, row: ObjectRow, kind: str) -> int:
    body: dict[str, object] = {"resource": row.resource}
    if row.job_uid:
        body["job"] = row.job_uid
    return tx.emit(
        kind,
        subject_kind="object",
        namespace=row.namespace,
        name=row.name,
        uid=row.uid,
        message=row.resource,
        body=body,
    )
