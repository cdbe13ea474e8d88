"""Schemas of our own models in the form that OpenAPI v3 and `kubectl explain` understand."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from api.k8s.schema import INT_OR_STRING, OPEN

_KEPT = ("type", "description", "enum", "minimum", "maximum", "pattern", "default", "format")


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """A model's schema with everything it refers to written out, and without nulls."""
    found = model.model_json_schema(ref_template="{model}")
    return _plain(found, found.get("$defs", {}))


def _plain(schema: Mapping[str, Any], models: Mapping[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        inner = dict(models[schema["$ref"]])
        if "description" in schema:
            inner["description"] = schema["description"]
        return _plain(inner, models)
    choices = schema.get("anyOf") or schema.get("oneOf")
    if choices:
        return _chosen([c for c in choices if c.get("type") != "null"], models)
    made = {key: schema[key] for key in _KEPT if schema.get(key) is not None}
    made.pop("default", None)
    if "const" in schema:
        made["enum"] = [schema["const"]]
    if isinstance(made.get("description"), str):
        made["description"] = " ".join(made["description"].split())
    if "properties" in schema:
        made["properties"] = {k: _plain(v, models) for k, v in schema["properties"].items()}
        if schema.get("required"):
            made["required"] = list(schema["required"])
    more = schema.get("additionalProperties")
    if isinstance(more, Mapping):
        made["additionalProperties"] = _plain(more, models)
    if "items" in schema:
        made["items"] = _plain(schema["items"], models)
    if made.get("type") == "integer":
        made["format"] = "int64"
    return made


def _chosen(choices: list[Mapping[str, Any]], models: Mapping[str, Any]) -> dict[str, Any]:
    """One of several kinds of value: OpenAPI of Kubernetes has no word for it but these."""
    found = [_plain(choice, models) for choice in choices]
    if len(found) == 1:
        return found[0]
    if {c.get("type") for c in found} <= {"integer", "string"}:
        return {INT_OR_STRING: True}
    return {
        OPEN: True,
        "description": next((c["description"] for c in found if c.get("description")), ""),
    }
