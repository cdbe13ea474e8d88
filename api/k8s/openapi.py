"""OpenAPI of the kinds: what `kubectl` validates manifests against and explains fields with."""

import hashlib
import json
from typing import Any

from api.k8s.kinds import Kind, Obj
from api.k8s.registry import Registry

V2_MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
"""The old form is answered with an empty document, which is a valid one of zero bytes."""


def index(registry: Registry) -> Obj:
    """`/openapi/v3`: where the document of each group and version is."""
    paths: dict[str, Any] = {}
    for group, versions in registry.groups.items():
        for version in versions:
            path = prefix(group, version)
            text = json.dumps(document(registry, group, version), sort_keys=True)
            mark = hashlib.sha256(text.encode()).hexdigest().upper()
            paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={mark}"}
    return {"paths": paths}


def document(registry: Registry, group: str, version: str) -> Obj | None:
    """The document of one version of a group; None where there is none."""
    kinds = [handler.kind for handler in registry.of_version(group, version)]
    if not kinds:
        return None
    schemas = {_schema_name(kind): _schema(kind) for kind in kinds}
    paths: dict[str, Any] = {}
    for kind in kinds:
        paths |= _paths(kind)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Podyard", "version": "v1"},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def prefix(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def _schema_name(kind: Kind) -> str:
    domain = ".".join(reversed(kind.group.split("."))) if kind.group else "core"
    return f"{domain}.{kind.version}.{kind.kind}"


def _schema(kind: Kind) -> dict[str, Any]:
    return dict(kind.schema) | {"x-kubernetes-group-version-kind": [_gvk(kind)]}


def _gvk(kind: Kind) -> dict[str, str]:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


_OPERATIONS = (
    ("get", "get", "get"),
    ("put", "update", "put"),
    ("patch", "patch", "patch"),
    ("delete", "delete", "delete"),
)


def _paths(kind: Kind) -> dict[str, Any]:
    base = f"/{prefix(kind.group, kind.version)}"
    if kind.namespaced:
        base += "/namespaces/{namespace}"
    one: dict[str, Any] = {
        method: _operation(kind, action)
        for method, verb, action in _OPERATIONS
        if verb in kind.verbs
    }
    all_: dict[str, Any] = {}
    if "list" in kind.verbs:
        all_["get"] = _operation(kind, "list")
    if "create" in kind.verbs:
        all_["post"] = _operation(kind, "post")
    found = {f"{base}/{kind.plural}": all_}
    return found | ({f"{base}/{kind.plural}/{{name}}": one} if one else {})


def _operation(kind: Kind, action: str) -> dict[str, Any]:
    body = {"application/json": {"schema": {"$ref": f"#/components/schemas/{_schema_name(kind)}"}}}
    operation: dict[str, Any] = {
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": _gvk(kind),
        "responses": {"200": {"description": "OK", "content": body}},
    }
    if action in {"post", "put", "patch"}:
        operation["parameters"] = [
            {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
            for name in ("dryRun", "fieldManager", "fieldValidation")
        ]
        operation["requestBody"] = {"content": body}
    return operation
