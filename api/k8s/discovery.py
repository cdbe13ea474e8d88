"""Discovery: which kinds there are, in the form that the caller accepts."""

from collections.abc import Sequence
from typing import Any

from api.k8s.kinds import Handler, Kind, Obj
from api.k8s.registry import Registry

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"
VERSIONS = ("v2", "v2beta1")

SERVER_VERSION = {"major": "1", "minor": "32", "gitVersion": "v1.32.0+podyard"}


def accepted_version(accept: str) -> str | None:
    """The first version of aggregated discovery that the caller accepts; None = the old form."""
    for part in accept.split(","):
        fields = {f.strip() for f in part.split(";")}
        for version in VERSIONS:
            if {"g=apidiscovery.k8s.io", f"v={version}", "as=APIGroupDiscoveryList"} <= fields:
                return version
    return None


def aggregated(registry: Registry, version: str, *, core: bool) -> Obj:
    """All groups with all their kinds, or the core group alone."""
    groups = [group for group in registry.groups if (group == "") is core]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": group} if group else {},
                "versions": [
                    {
                        "version": name,
                        "freshness": "Current",
                        "resources": [_told(h.kind) for h in registry.of_version(group, name)],
                    }
                    for name in registry.groups[group]
                ],
            }
            for group in groups
        ],
    }


def api_versions(address: str) -> Obj:
    """`/api`."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def group_list(registry: Registry) -> Obj:
    """`/apis`."""
    groups = [_group(registry, group) for group in registry.groups if group]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def group(registry: Registry, name: str) -> Obj | None:
    """`/apis/GROUP`; None where there is no such group."""
    if not name or name not in registry.groups:
        return None
    return {"kind": "APIGroup", "apiVersion": "v1"} | _group(registry, name)


def resource_list(handlers: Sequence[Handler], group_version: str) -> Obj:
    """`/api/v1` or `/apis/GROUP/VERSION`."""
    found: list[dict[str, Any]] = []
    for kind in (handler.kind for handler in handlers):
        found.append(
            {
                "name": kind.plural,
                "singularName": kind.singular,
                "namespaced": kind.namespaced,
                "kind": kind.kind,
                "verbs": list(kind.verbs),
            }
            | ({"shortNames": list(kind.short_names)} if kind.short_names else {})
            | ({"categories": list(kind.categories)} if kind.categories else {})
        )
        found += [
            {
                "name": f"{kind.plural}/{sub.name}",
                "singularName": "",
                "namespaced": kind.namespaced,
                "kind": sub.kind or kind.kind,
                "verbs": list(sub.verbs),
            }
            | ({"group": sub.group, "version": sub.version} if sub.version else {})
            for sub in kind.subresources
        ]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": found,
    }


def _group(registry: Registry, name: str) -> dict[str, Any]:
    versions = [{"groupVersion": f"{name}/{v}", "version": v} for v in registry.groups[name]]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _told(kind: Kind) -> dict[str, Any]:
    told: dict[str, Any] = {
        "resource": kind.plural,
        "responseKind": _response(kind.group, kind.version, kind.kind),
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        told["shortNames"] = list(kind.short_names)
    if kind.categories:
        told["categories"] = list(kind.categories)
    if kind.subresources:
        told["subresources"] = [
            {
                "subresource": sub.name,
                "responseKind": _response(
                    sub.group if sub.version else kind.group,
                    sub.version or kind.version,
                    sub.kind or kind.kind,
                ),
                "verbs": list(sub.verbs),
            }
            for sub in kind.subresources
        ]
    return told


def _response(group: str, version: str, kind: str) -> dict[str, str]:
    return {"group": group, "version": version, "kind": kind}
