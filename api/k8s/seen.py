"""Which objects of a kind are shown to who is bound to namespaces."""

from collections.abc import Callable, Mapping

from api.auth.seen import NAMESPACES, QUEUES, Names, sees_queue
from api.k8s.kinds import Kind, Obj, name_of, namespace_of
from api.k8s.selectors import Test
from scheduler.model.queue import QueueRecord

EVENTS = "events"

AllQueues = Callable[[], Mapping[str, QueueRecord]]


def seen_by(kind: Kind, names: Names, queues: AllQueues) -> Test | None:
    """Whether an object is shown; None where all are.

    Args:
        names: Namespaces that whoever asks is bound to; None = all.
        queues: All there are, by name; asked only where the kind is that of queues.
    """
    if names is None:
        return None
    if kind.resource == EVENTS:
        return lambda obj: _sees_event(names, obj)
    if kind.namespaced:
        return lambda obj: namespace_of(obj) in names
    if kind.resource == NAMESPACES:
        return lambda obj: name_of(obj) in names
    if kind.resource == QUEUES:
        return lambda obj: sees_queue(names, name_of(obj), queues())
    return None


def narrowed(kind: Kind, names: Names, namespace: str | None) -> str | None:
    """The namespace to read where there is no other that could be shown."""
    if namespace is None and kind.namespaced and kind.resource != EVENTS and names is not None:
        return next(iter(names)) if len(names) == 1 else None
    return namespace


def _sees_event(names: frozenset[str], obj: Obj) -> bool:
    """Events of what has no namespace stand in one all the same; those of queues are no one's."""
    about = obj["involvedObject"]
    if "namespace" in about:
        return about["namespace"] in names
    return str(about["kind"]) != "Queue"
