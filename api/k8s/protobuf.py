"""The few bodies that `kubectl` sends as protobuf since 1.32, by the fields that it sets.

Wire format: protobuf.dev/programming-guides/encoding. Field numbers: the `generated.proto` files of
Kubernetes' API, of which only these are read; others are skipped, as protobuf readers do.
"""

from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from api.k8s.errors import StatusError, bad_request

MAGIC = b"k8s\x00"
MEDIA_TYPE = "application/vnd.kubernetes.protobuf"

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True, slots=True)
class Field:
    """How one field is read.

    Attributes:
        form: `text`, `int`, `bool`, `map` of texts, or the fields of a message.
    """

    name: str
    form: "str | Mapping[int, Field]" = "text"
    repeated: bool = False


_META: Mapping[int, Field] = {
    1: Field("name"),
    2: Field("generateName"),
    3: Field("namespace"),
    5: Field("uid"),
    6: Field("resourceVersion"),
    11: Field("labels", "map"),
    12: Field("annotations", "map"),
    14: Field("finalizers", repeated=True),
}
_DELETE_OPTIONS: Mapping[int, Field] = {
    1: Field("gracePeriodSeconds", "int"),
    2: Field("preconditions", {1: Field("uid"), 2: Field("resourceVersion")}),
    3: Field("orphanDependents", "bool"),
    4: Field("propagationPolicy"),
    5: Field("dryRun", repeated=True),
}
_ATTRIBUTES: Mapping[int, Field] = {
    1: Field("namespace"),
    2: Field("verb"),
    3: Field("group"),
    4: Field("version"),
    5: Field("resource"),
    6: Field("subresource"),
    7: Field("name"),
}
_META_FIELD = {1: Field("metadata", _META)}

MESSAGES: Mapping[str, Mapping[int, Field]] = {
    "Namespace": _META_FIELD
    | {2: Field("spec", {1: Field("finalizers", repeated=True)}), 3: Field("status", {})},
    "DeleteOptions": _DELETE_OPTIONS,
    "Eviction": _META_FIELD | {2: Field("deleteOptions", _DELETE_OPTIONS)},
    "SelfSubjectAccessReview": _META_FIELD
    | {
        2: Field(
            "spec",
            {
                1: Field("resourceAttributes", _ATTRIBUTES),
                2: Field("nonResourceAttributes", {1: Field("path"), 2: Field("verb")}),
            },
        )
    },
    "SelfSubjectRulesReview": _META_FIELD | {2: Field("spec", {1: Field("namespace")})},
    "SelfSubjectReview": _META_FIELD,
    "PriorityClass": _META_FIELD
    | {
        2: Field("value", "int"),
        3: Field("globalDefault", "bool"),
        4: Field("description"),
        5: Field("preemptionPolicy"),
    },
    "ConfigMap": _META_FIELD | {2: Field("data", "map"), 4: Field("immutable", "bool")},
    "ServiceAccount": _META_FIELD,
    "Secret": _META_FIELD | {2: Field("data", "bytes_map"), 3: Field("type")},
}


def decode(body: bytes) -> dict[str, Any]:
    """The object of a body that begins with the magic number.

    Raises:
        StatusError: 400 if it is not such a body, 415 if its kind is none of `MESSAGES`.
    """
    if not body.startswith(MAGIC):
        raise bad_request("the body is not protobuf as Kubernetes wraps it")
    try:
        outer = _read(body[len(MAGIC) :], {1: Field("type", _TYPE), 2: Field("raw", "bytes")})
        kind = outer.get("type", {}).get("kind", "")
        fields = MESSAGES.get(kind)
        if fields is None:
            raise StatusError(
                415, f'kind "{kind[:80]}" is not read as protobuf; send it as application/json'
            )
        found = _read(outer.get("raw", b""), fields)
    except (ValueError, IndexError) as error:
        raise bad_request(f"the body cannot be read as protobuf: {error}") from None
    return {"apiVersion": outer["type"].get("apiVersion", ""), "kind": kind} | found


_TYPE = {1: Field("apiVersion"), 2: Field("kind")}


def _read(data: bytes, fields: Mapping[int, Field]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, value in _parts(data):
        field = fields.get(number)
        if field is None:
            continue
        decoded = _value(field, value)
        if decoded == "":
            continue  # what is empty was not set
        if field.form in ("map", "bytes_map"):
            found.setdefault(field.name, {}).update(decoded)
        elif field.repeated:
            found.setdefault(field.name, []).append(decoded)
        else:
            found[field.name] = decoded
    return found


def _value(field: Field, value: bytes | int) -> Any:  # noqa: ANN401  # as many types as forms
    if isinstance(field.form, Mapping):
        return _read(_bytes(value), field.form)
    if field.form == "int":
        number = _int(value)
        return number - (1 << 64) if number >= 1 << 63 else number
    if field.form == "bool":
        return bool(_int(value))
    if field.form == "bytes":
        return _bytes(value)
    if field.form == "map":
        entry = _read(_bytes(value), {1: Field("key"), 2: Field("value")})
        return {entry.get("key", ""): entry.get("value", "")}
    if field.form == "bytes_map":
        raw = _read(_bytes(value), {1: Field("key"), 2: Field("value", "bytes")})
        return {raw.get("key", ""): _base64(raw.get("value", b""))}
    return _bytes(value).decode()


def _base64(data: bytes) -> str:
    return b64encode(data).decode()


def _parts(data: bytes) -> Iterator[tuple[int, bytes | int]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        value: bytes | int
        if kind == VARINT:
            value, at = _varint(data, at)
        else:
            if kind == BYTES:
                length, at = _varint(data, at)
            elif kind in (FIXED64, FIXED32):
                length = 8 if kind == FIXED64 else 4
            else:
                raise ValueError(f"wire type {kind} at byte {at}")
            if at + length > len(data):
                raise ValueError(f"it ends inside field {number}")
            value, at = data[at : at + length], at + length
        yield number, value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError(f"a number at byte {at} does not end")
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, at
        shift += 7


def _bytes(value: bytes | int) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number where a message or text belongs")
    return value


def _int(value: bytes | int) -> int:
    if isinstance(value, bytes):
        raise ValueError("a message or text where a number belongs")
    return value
