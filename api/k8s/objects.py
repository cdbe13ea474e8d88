"""Objects as callers send them: who they say they are, their metadata, their fields."""

import re
import secrets
from collections.abc import Iterator, Sequence
from typing import Any

from api.k8s.errors import Cause, StatusError, bad_request, invalid
from api.k8s.kinds import Kind, Obj
from api.k8s.schema import pruned, unknown_fields, wrong_types
from api.k8s.selectors import is_label_key, is_label_value

NAME_BYTES_MAX = 253
ANNOTATIONS_BYTES_MAX = 256 * 1024
LABELS_MAX = 256

_NAME = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"
"""Letters of a made name: no vowels, so that no words come up."""

SUFFIX_LETTERS = 5
MADE_NAME_MAX = 63


def checked(kind: Kind, obj: Obj, *, validation: str, doubles: Sequence[str] = ()) -> list[str]:
    """Check an object against its kind; takes away fields that the kind does not have.

    Returns:
        Warnings.

    Raises:
        StatusError: 400 if it is of another kind, or has unknown fields where that is strict; 422
            if fields are of the wrong type.
    """
    said = (obj.get("apiVersion"), obj.get("kind"))
    if said != (kind.api_version, kind.kind):
        raise bad_request(
            f"the object is {str(said[1])[:80]!r} of {str(said[0])[:80]!r}, but "
            f"{kind.kind!r} of {kind.api_version!r} is expected here"
        )
    wrong = list(wrong_types(kind.schema, obj))
    if wrong:
        metadata = obj.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else ""
        raise invalid(kind.kind, kind.group, str(name or ""), wrong)
    told = [f'unknown field "{path}"' for path in unknown_fields(kind.schema, obj)]
    told += [f'duplicate field "{name[:80]}"' for name in doubles]
    if told and validation == "Strict":
        raise bad_request(
            f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: strict '
            f"decoding error: {', '.join(told)}"
        )
    clean = pruned(kind.schema, obj)
    obj.clear()
    obj.update(clean)
    return told if validation == "Warn" else []


def set_names(kind: Kind, obj: Obj, namespace: str | None) -> None:
    """Fill in name and namespace of a new object.

    Raises:
        StatusError: 400 if its namespace is not that of the path, 422 if its name is none.
    """
    metadata = obj.setdefault("metadata", {})
    if metadata.get("resourceVersion"):
        raise bad_request("resourceVersion should not be set on objects to be created")
    for field in ("uid", "creationTimestamp", "deletionTimestamp", "selfLink", "generation"):
        metadata.pop(field, None)
    given = metadata.get("namespace") or namespace
    if kind.namespaced and given != namespace:
        raise bad_request(
            f'the namespace of the object, "{str(given)[:80]}", does not match the namespace of '
            f'the request, "{namespace}"'
        )
    if kind.namespaced:
        metadata["namespace"] = namespace
    else:
        metadata.pop("namespace", None)
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = _made_name(str(metadata["generateName"]))
    if not metadata.get("name"):
        raise invalid(
            kind.kind,
            kind.group,
            "",
            [
                Cause(
                    "metadata.name",
                    "Required value: name or generateName is required",
                    "FieldValueRequired",
                )
            ],
        )
    check_name(kind, str(metadata["name"]))
    check_metadata(kind, obj)


def check_name(kind: Kind, name: str) -> None:
    """Refuse what is no name of an object. Raises StatusError 422."""
    if len(name) > NAME_BYTES_MAX or not _NAME.match(name):
        why = (
            f'Invalid value: "{name[:80]}": a lowercase RFC 1123 subdomain must consist of lower '
            "case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric "
            f"character; at most {NAME_BYTES_MAX} characters"
        )
        raise invalid(kind.kind, kind.group, name[:80], [Cause("metadata.name", why)])


def check_metadata(kind: Kind, obj: Obj) -> None:
    """Refuse labels and annotations that are none. Raises StatusError 422."""
    metadata = obj["metadata"]
    causes = list(_metadata_causes(metadata))
    if causes:
        raise invalid(kind.kind, kind.group, str(metadata.get("name", ""))[:80], causes)


def _metadata_causes(metadata: Obj) -> Iterator[Cause]:
    labels = metadata.get("labels") or {}
    annotations = metadata.get("annotations") or {}
    if len(labels) > LABELS_MAX:
        yield Cause("metadata.labels", f"has more than {LABELS_MAX} entries")
    for key, value in labels.items():
        if not is_label_key(key):
            yield Cause("metadata.labels", f'Invalid value: "{key[:80]}": {_KEY_RULE}')
        if value is not None and not is_label_value(str(value)):
            yield Cause("metadata.labels", f'Invalid value: "{str(value)[:80]}": {_VALUE_RULE}')
    for key in annotations:
        if not is_label_key(key.lower()):
            yield Cause("metadata.annotations", f'Invalid value: "{key[:80]}": {_KEY_RULE}')
    size = sum(len(str(k)) + len(str(v)) for k, v in annotations.items())
    if size > ANNOTATIONS_BYTES_MAX:
        yield Cause(
            "metadata.annotations",
            f"Too long: may not be more than {ANNOTATIONS_BYTES_MAX} bytes",
            "FieldValueTooLong",
        )


_KEY_RULE = (
    "a key is a name of at most 63 letters, digits, '-', '_' or '.', with an optional DNS prefix "
    "and a '/' before it"
)
_VALUE_RULE = (
    "a label's value has at most 63 letters, digits, '-', '_' and '.', and begins and ends with a "
    "letter or digit"
)


def same_identity(kind: Kind, old: Obj, new: Obj) -> None:
    """Carry over what no caller changes, and refuse an attempt to.

    Raises:
        StatusError: 400 if it is of another kind or name, 409 if its uid is another one.
    """
    if (new.get("apiVersion"), new.get("kind")) != (old["apiVersion"], old["kind"]):
        raise bad_request(
            f"apiVersion and kind are {old['apiVersion']} {old['kind']} and cannot be changed"
        )
    was = old["metadata"]
    metadata = new["metadata"]
    for field in ("name", "namespace"):
        if metadata.get(field, was.get(field)) != was.get(field):
            raise bad_request(
                f'the {field} of the object ("{str(metadata.get(field))[:80]}") does not match the '
                f'{field} on the URL ("{was.get(field)}")'
            )
    uid = metadata.get("uid")
    if uid and uid != was["uid"]:
        raise StatusError(
            409,
            f'Operation cannot be fulfilled on {kind.resource} "{was["name"]}": Precondition '
            f"failed: UID in precondition: {str(uid)[:80]}, UID in object meta: {was['uid']}",
            details={"name": was["name"], "group": kind.group, "kind": kind.plural},
        )
    for field in _SERVICE_OWN:
        metadata.pop(field, None)
        if field in was:
            metadata[field] = was[field]


_SERVICE_OWN = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "generateName",
)


def without(obj: Obj, *fields: str) -> Obj:
    """An object without some metadata, to compare it."""
    kept = {k: v for k, v in obj["metadata"].items() if k not in fields and v not in (None, {}, [])}
    return obj | {"metadata": kept}


def _made_name(prefix: str) -> str:
    chosen = "".join(secrets.choice(_SUFFIX) for _ in range(SUFFIX_LETTERS))
    return prefix[: MADE_NAME_MAX - SUFFIX_LETTERS] + chosen


def first_text(*values: Any) -> str:  # noqa: ANN401  # any values of JSON
    """The first that is a text and not empty."""
    return next((v for v in values if isinstance(v, str) and v), "")
