"""What callers who are bound to namespaces are told of things that are no single tenant's.

Nodes, the map and the policy are everybody's. A queue is shown to whom it takes jobs from; an event
to whom its subject is.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

from api.auth.caller import ANYBODY, Caller, Owned, Role, visible
from api.auth.rights import Right, check
from scheduler.model.queue import QueueRecord
from scheduler.order.tree import chain

CALLER_KEY = "podyard.caller"
"""Where `Authenticate` puts the caller into the scope of a request."""

Names = frozenset[str] | None
"""Namespaces that somebody is bound to; None = all."""

NAMESPACES, QUEUES = "namespaces", "queues.scheduling.volcano.sh"
"""Resources of stored objects that are no tenant's and may be named after one."""


def may_report(caller: Caller, namespace: str, node: str, has_agent: bool) -> None:  # noqa: FBT001  # called by place from the store
    """Refuse a report of a pod by somebody who cannot know.

    Where a node has an agent, GPUs that its pods are said to have left are given to others at
    once; so nobody but the agent, or an operator, may say so.

    Raises:
        Forbidden: Naming the right that would be needed.
    """
    if caller.role is Role.AGENT:
        check(caller, Right.REPORT, node=node)
    else:
        check(caller, Right.OPERATE if has_agent else Right.SUBMIT, namespace=namespace)


class Happened(Protocol):
    """An event."""

    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def subject_kind(self) -> str: ...
    @property
    def body(self) -> Mapping[str, object]: ...


def caller_in(scope: Mapping[str, Any]) -> Caller:
    """The caller of a request's scope; anybody where nobody is asked for a token."""
    found = scope.get(CALLER_KEY)
    return found if isinstance(found, Caller) else ANYBODY


def namespaces_read(caller: Caller, namespace: str | None = None) -> Names:
    """The namespaces that a list is of: those of the caller, or the one that is asked for.

    Raises:
        Forbidden: If that is not theirs, whether or not there is anything in it.
    """
    check(caller, Right.READ, namespace=namespace)
    return caller.namespaces if namespace is None else frozenset({namespace})


def sees_event(names: Names, event: Happened) -> bool:
    """Whether an event is told of to somebody bound to namespaces.

    What happened to queues is not told to them at all: whose a queue was that is gone, nobody
    knows any more.
    """
    if names is None:
        return True
    if event.namespace:
        return event.namespace in names
    if event.subject_kind == "object":
        resource = event.body.get("resource")
        return event.name in names if resource == NAMESPACES else resource != QUEUES
    return event.subject_kind != "queue"


def told_body(names: Names, body: Mapping[str, object]) -> Mapping[str, object]:
    """The body of an event without the uid of the job for which another had to leave."""
    if names is None or body.get("for_job") is None:
        return body
    return {**body, "for_job": None}


def sees_queue(names: Names, name: str, queues: Mapping[str, QueueRecord]) -> bool:
    """Whether a queue is shown: it and every queue above it take jobs of one of the namespaces.

    Args:
        queues: All there are, by name.
    """
    if names is None:
        return True
    if name not in queues:
        return False
    return takes_any(names, chain(name, queues))


def takes_any(names: Names, queues: tuple[QueueRecord, ...]) -> bool:
    """Whether each of some queues takes jobs of one of the namespaces."""
    if names is None:
        return True
    return all(not queue.namespaces or names.intersection(queue.namespaces) for queue in queues)


def shown_queue(names: Names, queue: QueueRecord) -> QueueRecord:
    """A queue without the namespaces of others that may use it."""
    if names is None or names.issuperset(queue.namespaces):
        return queue
    return replace(queue, namespaces=tuple(n for n in queue.namespaces if n in names))


__all__ = [
    "CALLER_KEY",
    "Caller",
    "Happened",
    "Names",
    "Owned",
    "caller_in",
    "may_report",
    "namespaces_read",
    "sees_event",
    "sees_queue",
    "shown_queue",
    "takes_any",
    "told_body",
    "visible",
]
