"""The right that each call of this API needs, by the verb and the kind that its path names.

Namespaces in paths are checked where callers are; what lists and watches show of other namespaces
is left out by the routes.
"""

from api.auth import Right
from api.auth.table import KNOWN, Asked
from api.k8s.errors import StatusError
from api.k8s.kinds import Kind
from api.k8s.registry import Registry
from api.k8s.request import NAMESPACES, Target, is_face, read_path

_PUBLIC = ("/version", "/livez")

_READ_METHODS = frozenset({"GET", "HEAD"})

_CLUSTERS = frozenset(
    {
        "nodes",
        "namespaces",
        "queues.scheduling.volcano.sh",
    }
)
"""Kinds that are no tenant's: operators write them."""

_ADMINS = frozenset({"hypernodes.topology.volcano.sh", "priorityclasses.scheduling.k8s.io"})
"""Parts of the inventory and of the policy."""

_SECRETS = "secrets"
"""Read by those alone who could write them, as in Kubernetes' own roles."""

_OF_THE_CLUSTER = frozenset({"status", "binding"})
"""Subresources that kubelets and schedulers write."""


def asked_of(registry: Registry, method: str, path: str) -> Asked | None:
    """What a call of this API asks for; None if the path is no such call."""
    if not is_face(path):
        return None
    if path.startswith(_PUBLIC):
        return Asked((Right.PUBLIC,), path if path in _PUBLIC else "")
    try:
        target = read_path(path)
    except StatusError:
        return Asked(KNOWN, "")
    handler = registry.find(target.group, target.version, target.plural)
    if handler is None:
        return Asked(KNOWN, "")
    return _of_kind(handler.kind, method, target)


def _of_kind(kind: Kind, method: str, target: Target) -> Asked:
    if kind.nameless:
        return Asked(KNOWN, kind.resource)
    reads = method in _READ_METHODS
    namespace = target.namespace
    if kind.resource == NAMESPACES and target.name is not None and reads:
        namespace = target.name
    node = target.name if kind.resource == "nodes" else None
    return Asked(
        (_right(kind, target, reads=reads),),
        kind.resource,
        namespace,
        node,
        everybodys=kind.namespaced and target.namespace is None and not reads,
    )


def _right(kind: Kind, target: Target, *, reads: bool) -> Right:
    if reads:
        return Right.SUBMIT if kind.resource == _SECRETS else Right.READ
    if kind.resource in _ADMINS:
        return Right.ADMIN
    if kind.resource in _CLUSTERS or target.subresource in _OF_THE_CLUSTER:
        return Right.OPERATE
    return Right.SUBMIT
