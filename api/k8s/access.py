"""What a caller may do here, as `kubectl auth can-i` asks: by the table that decides it."""

from collections.abc import Iterable, Mapping
from typing import Any

from api.auth import Caller, Forbidden, Role
from api.k8s.kinds import Kind, Obj
from api.k8s.registry import Registry
from api.k8s.rights import asked_of

METHODS = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETE",
}
EVERY = "*"
OPEN_PATHS = ("/api", "/apis", "/healthz", "/livez", "/openapi", "/readyz", "/version")
"""Open to all who are known."""

_OF_ALL = "whoever has the role admin and is not bound to namespaces may do everything"
_UNNAMED = "any"
"""Stands for the name of an object where a question names none and a path needs one."""


class Access:
    """Answers questions about the kinds of this service."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def review(self, caller: Caller, spec: Mapping[str, Any]) -> Obj:
        """`status` of a SelfSubjectAccessReview."""
        why = self._refusal(caller, spec)
        if why is None:
            return {"allowed": True, "reason": _OF_ALL if _may_all(caller) else ""}
        return {"allowed": False, "denied": False, "reason": why}

    def rules(self, caller: Caller, namespace: str) -> Obj:
        """`status` of a SelfSubjectRulesReview: every kind, with what may be done of it there."""
        if _may_all(caller):
            every = [EVERY]
            resources = [{"verbs": every, "apiGroups": every, "resources": every}]
            paths = [{"verbs": every, "nonResourceURLs": every}]
        else:
            resources = list(self._rules(caller, namespace))
            urls = [url for path in OPEN_PATHS for url in (path, f"{path}/*")]
            paths = [{"verbs": ["get"], "nonResourceURLs": urls}]
        return {"resourceRules": resources, "nonResourceRules": paths, "incomplete": False}

    def _rules(self, caller: Caller, namespace: str) -> Iterable[Obj]:
        for handler in self._registry.handlers:
            kind = handler.kind
            named = [("", kind.verbs), *((s.name, s.verbs) for s in kind.subresources)]
            for part, verbs in named:
                held = [v for v in verbs if self._call(caller, kind, v, namespace, part) is None]
                if held:
                    resource = f"{kind.plural}/{part}" if part else kind.plural
                    yield {"verbs": held, "apiGroups": [kind.group], "resources": [resource]}

    def _refusal(self, caller: Caller, spec: Mapping[str, Any]) -> str | None:
        """Why a caller may not do what a review asks for; None if they may."""
        if _may_all(caller):
            return None
        of_path = spec.get("nonResourceAttributes")
        if isinstance(of_path, dict):
            path = str(of_path.get("path", ""))
            is_open = any(path == p or path.startswith(f"{p}/") for p in OPEN_PATHS)
            return None if is_open else "other paths are not asked about here"
        asked = spec.get("resourceAttributes")
        if not isinstance(asked, dict):
            return "the review names neither a resource nor a path"
        verb, group = str(asked.get("verb", "")), str(asked.get("group", ""))
        plural = str(asked.get("resource", ""))
        kind = self._kind(group, plural)
        if kind is None:
            return f"there is no resource '{plural[:80]}' of group '{group[:80]}' here"
        part, name = str(asked.get("subresource", "")), str(asked.get("name", ""))
        sub = kind.subresource(part) if part else None
        if verb not in (sub.verbs if sub else () if part else kind.verbs):
            return f"{kind.resource} has no {verb[:20]} here"
        return self._call(caller, kind, verb, str(asked.get("namespace", "")), part, name)

    def _kind(self, group: str, plural: str) -> Kind | None:
        kinds = (handler.kind for handler in self._registry.handlers)
        return next((k for k in kinds if (k.group, k.plural) == (group, plural)), None)

    def _call(
        self,
        caller: Caller,
        kind: Kind,
        verb: str,
        namespace: str,
        part: str = "",
        name: str = "",
    ) -> str | None:
        """Why a caller may not do one call; None if they may."""
        path = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
        if namespace and kind.namespaced:
            path += f"/namespaces/{namespace}"
        path += f"/{kind.plural}"
        if name or part:
            path += f"/{name or _UNNAMED}" + (f"/{part}" if part else "")
        asked = asked_of(self._registry, METHODS[verb], path)
        if asked is None:
            return "there is no such path here"
        try:
            asked.check(caller)
        except Forbidden as error:
            return error.problems[0].message
        return None


def _may_all(caller: Caller) -> bool:
    return caller.role is Role.ADMIN and caller.namespaces is None
