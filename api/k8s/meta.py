"""Metadata of objects, and resource versions.

A resourceVersion is a number made of the revision of the store and, behind it, nine digits. One
plan changes all pods of a gang at one revision; the digits give each of them a version of its own,
so that a watch which ends between two of them can be taken up between them. The version of a list
has the highest digits: all of its revision is in it.
"""

from collections.abc import Mapping
from typing import Any
from zlib import crc32

from api.clock import date_of
from api.k8s.errors import bad_request
from api.k8s.kinds import Kind, Obj
from api.store.errors import StoreError
from api.store.objects import ObjectRow

SPAN = 1_000_000_000
"""Versions of one revision."""

VERSION_DIGITS_MAX = 18
"""Of a BIGINT, which revisions are."""


class Moved(StoreError):
    """The object is no longer at the resourceVersion that a change was made on."""


def version_of(revision: int, uid: str) -> str:
    """The resourceVersion of an object that was changed last at a revision."""
    return str(revision * SPAN + crc32(uid.encode()) % (SPAN - 1))


def list_version(revision: int) -> str:
    """The resourceVersion of everything at a revision."""
    return str(revision * SPAN + SPAN - 1)


def read_version(text: str, name: str = "resourceVersion") -> int:
    """A resourceVersion that a caller gave, as a number; "" and 0 are 0.

    Raises:
        StatusError: 400 if it is not one.
    """
    if not text:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) <= VERSION_DIGITS_MAX):
        raise bad_request(f'{name}: invalid value "{text[:80]}": it must be a number')
    return int(text)


def metadata_of(
    kind: Kind,
    *,
    name: str,
    uid: str,
    revision: int,
    created_s: float | None,
    namespace: str = "",
    row: ObjectRow | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    generation: int = 0,
    owners: list[Obj] | None = None,
    deleted_s: float | None = None,
    grace_s: int = 30,
) -> Obj:
    """`metadata` of an object.

    Args:
        revision: Of the last change of anything that the object shows beside `row`.
        row: What was stored of it: labels, annotations, managedFields, generation.
        labels, annotations: Made by the service; those of `row` count more.
        generation: Of the object; that of `row` if it is 0.
    """
    found: Obj = {"name": name}
    if kind.namespaced:
        found["namespace"] = namespace
    newest = max(revision, row.revision if row else 0)
    found |= {"uid": uid, "resourceVersion": version_of(newest, uid)}
    if created_s is not None:
        found["creationTimestamp"] = time_text(created_s)
    number = generation or (row.generation if row else 0)
    if number:
        found["generation"] = number
    for field, made, stored in (
        ("labels", labels, row.labels if row else {}),
        ("annotations", annotations, row.annotations if row else {}),
    ):
        if merged := {**(made or {}), **stored}:
            found[field] = merged
    if owners:
        found["ownerReferences"] = owners
    if row is not None:
        found |= row.meta
        if row.managed:
            found["managedFields"] = row.managed
        deleted_s = row.deleted_at if deleted_s is None else deleted_s
    if deleted_s is not None:
        found["deletionTimestamp"] = time_text(deleted_s)
        found["deletionGracePeriodSeconds"] = grace_s
    return found


def kept_meta(metadata: Obj) -> dict[str, Any]:
    """What of an object's metadata is stored beside labels, annotations and managedFields."""
    fields = ("generateName", "ownerReferences", "finalizers")
    return {f: metadata[f] for f in fields if metadata.get(f)}


def time_text(at_s: float) -> str:
    """RFC 3339 in whole seconds, as Kubernetes writes times."""
    return date_of(int(at_s)).strftime("%Y-%m-%dT%H:%M:%SZ")
