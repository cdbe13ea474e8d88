"""Objects against the schema of their kind: unknown fields, and values of the wrong type."""

from collections.abc import Iterator, Mapping
from typing import Any

from api.k8s.errors import Cause
from api.k8s.kinds import Obj

OPEN = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING = "x-kubernetes-int-or-string"

FOUND_MAX = 30
"""Unknown fields told of at a time."""

TEXT: dict[str, Any] = {"type": "string"}
TEXTS: dict[str, Any] = {"type": "object", "additionalProperties": TEXT}
TEXT_LIST: dict[str, Any] = {"type": "array", "items": TEXT}
ANYTHING: dict[str, Any] = {"type": "object", OPEN: True}
INTEGER: dict[str, Any] = {"type": "integer", "format": "int64"}
BOOLEAN: dict[str, Any] = {"type": "boolean"}
QUANTITY: dict[str, Any] = {INT_OR_STRING: True}

OWNER: dict[str, Any] = {
    "type": "object",
    "required": ["apiVersion", "kind", "name", "uid"],
    "properties": {
        "apiVersion": TEXT,
        "kind": TEXT,
        "name": TEXT,
        "uid": TEXT,
        "controller": BOOLEAN,
        "blockOwnerDeletion": BOOLEAN,
    },
}
METADATA: dict[str, Any] = {
    "type": "object",
    "description": "Name, namespace, labels and annotations; the rest is set by the service.",
    "properties": {
        "name": TEXT | {"description": "Unique in its namespace."},
        "generateName": TEXT | {"description": "Beginning of a name that the service completes."},
        "namespace": TEXT,
        "labels": TEXTS,
        "annotations": TEXTS,
        "uid": TEXT,
        "resourceVersion": TEXT,
        "generation": INTEGER,
        "creationTimestamp": TEXT | {"format": "date-time"},
        "deletionTimestamp": TEXT | {"format": "date-time"},
        "deletionGracePeriodSeconds": INTEGER,
        "finalizers": TEXT_LIST,
        "ownerReferences": {"type": "array", "items": OWNER},
        "managedFields": {"type": "array", "items": ANYTHING},
        "selfLink": TEXT,
    },
}


def object_schema(
    description: str,
    properties: Mapping[str, Any],
    required: tuple[str, ...] = (),
) -> dict[str, Any]:
    """The schema of a kind: apiVersion, kind and metadata are added."""
    found: dict[str, Any] = {
        "type": "object",
        "description": description,
        "properties": {
            "apiVersion": TEXT | {"description": "Group and version of this kind."},
            "kind": TEXT | {"description": "Name of this kind."},
            "metadata": METADATA,
        }
        | dict(properties),
    }
    return found | ({"required": list(required)} if required else {})


def unknown_fields(schema: Mapping[str, Any], obj: Obj) -> list[str]:
    """Paths of fields that the schema does not have, as `spec.nosuchfield`."""
    found: list[str] = []
    for path in _unknown(schema, obj, ""):
        found.append(path)
        if len(found) == FOUND_MAX:
            break
    return found


def _unknown(schema: Mapping[str, Any], value: object, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        properties = schema.get("properties")
        more = schema.get("additionalProperties")
        for key, inner in value.items():
            here = f"{path}.{key}" if path else str(key)
            if properties is not None and key in properties:
                yield from _unknown(properties[key], inner, here)
            elif isinstance(more, Mapping):
                yield from _unknown(more, inner, here)
            elif properties is not None and not schema.get(OPEN):
                yield here
    elif isinstance(value, list) and "items" in schema:
        for index, inner in enumerate(value):
            yield from _unknown(schema["items"], inner, f"{path}[{index}]")


def pruned(schema: Mapping[str, Any], value: Any) -> Any:  # noqa: ANN401  # any value of JSON
    """A value without nulls, which are absent fields, and fields that the schema does not have."""
    if isinstance(value, dict):
        properties = schema.get("properties")
        more = schema.get("additionalProperties")
        kept = {}
        for key, inner in value.items():
            if inner is None:
                continue
            if properties is not None and key in properties:
                kept[key] = pruned(properties[key], inner)
            elif isinstance(more, Mapping):
                kept[key] = pruned(more, inner)
            elif properties is None or schema.get(OPEN):
                kept[key] = inner
        return kept
    if isinstance(value, list) and "items" in schema:
        return [pruned(schema["items"], inner) for inner in value]
    return value


_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}


def wrong_types(schema: Mapping[str, Any], value: object, path: str = "") -> Iterator[Cause]:
    """Values of another type than the schema says; null is an absent field."""
    wanted = schema.get("type")
    if value is None:
        return
    if isinstance(wanted, str) and wanted in _TYPES and not _is(value, wanted):
        yield Cause(
            path,
            f"Invalid value: {_shown(value)}: must be of type {wanted}",
            "FieldValueTypeInvalid",
        )
        return
    if isinstance(value, dict):
        properties = schema.get("properties") or {}
        more = schema.get("additionalProperties")
        for key, inner in value.items():
            here = f"{path}.{key}" if path else str(key)
            below = properties.get(key, more)
            if isinstance(below, Mapping):
                yield from wrong_types(below, inner, here)
        for key in schema.get("required", ()):
            if value.get(key) is None:
                here = f"{path}.{key}" if path else str(key)
                yield Cause(here, "Required value", "FieldValueRequired")
    elif isinstance(value, list) and "items" in schema:
        for index, inner in enumerate(value):
            here = f"{path}[{index}]"
            if inner is None:
                yield Cause(here, "Invalid value: null: a list has no nulls", "FieldValueInvalid")
            yield from wrong_types(schema["items"], inner, here)


def _is(value: object, wanted: str) -> bool:
    if isinstance(value, bool):
        return wanted == "boolean"
    if wanted == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[wanted])


def _shown(value: object) -> str:
    if isinstance(value, str):
        return f'"{value[:80]}"'
    if isinstance(value, dict):
        return "an object"
    return "a list" if isinstance(value, list) else str(value)[:80]
