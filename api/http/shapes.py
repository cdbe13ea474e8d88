"""Views of the store to the plain values that `api/schemas` describes."""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from api import clock
from api.auth.seen import Names, shown_queue, told_body
from api.store.views import EventView, JobView, NodeView, Page, PodView, QueueView
from scheduler.model.lifecycle import FINAL
from scheduler.model.resources import indices_of
from scheduler.model.standing import NodeFault
from scheduler.topology.tree import Topology

Item = TypeVar("Item")
Shape = dict[str, object]

rfc3339 = clock.rfc3339

RANK_ROLE = "rank"
"""What the pods of a parallel job are called where a role is shown."""


def time_or_none(at_s: float | None) -> str | None:
    return None if at_s is None else rfc3339(at_s)


def page(found: Page[Item], shape: Callable[[Item], Shape]) -> Shape:
    return page_of([shape(item) for item in found.items], found.revision, found.next)


def page_of(items: Iterable[Shape], revision: int, following: str | None) -> Shape:
    return {"items": list(items), "revision": revision, "next": following}


def job(view: JobView) -> Shape:
    """As `schemas.job.Job` describes it."""
    spec = view.spec
    verdict = view.verdict or {}
    return {
        "namespace": view.namespace,
        "name": view.name,
        "uid": view.uid,
        "revision": view.revision,
        "state": view.state,
        "reason": view.reason,
        "message": view.message or ("a cancel was asked for" if view.cancelling else ""),
        "queue": view.queue,
        "priority": view.priority,
        "attempt": view.attempt,
        "minimum": view.minimum,
        "members": view.members,
        "running": view.running,
        "gpus": view.gpus,
        "preemptible": spec.preemptible,
        "if_never_fits": spec.if_never_fits,
        "submitted_at": rfc3339(view.submitted_at),
        "bound_at": time_or_none(view.bound_at),
        "started_at": time_or_none(view.started_at),
        "finished_at": time_or_none(view.finished_at),
        "expected_start": time_or_none(view.expected_start_at),
        "held": view.held,
        "mismatch": view.mismatch,
        "evicting": _evicting(view),
        "recovering": _recovering(view),
        "crashes": view.recovery.crashes,
        "saved": _saved(view),
        "rules_broken": [{"group": r.group, "within": r.within} for r in view.broken],
        "node_type": view.node_type or None,
        "gpus_per_pod": view.gpus_per_pod or None,
        "never": bool(verdict.get("never")),
        "spec": view.body,
    }


def _evicting(view: JobView) -> Shape | None:
    evict = view.evict
    if evict is None:
        return None
    return {
        "then": evict.then,
        "step": evict.step,
        "deadline": time_or_none(evict.deadline_s),
        "why": evict.why,
    }


def _recovering(view: JobView) -> Shape | None:
    """As `schemas.job.Recovering` describes it."""
    left = view.recovery
    times = (left.lost_since_s, left.hold_until_s, left.not_before_s)
    if view.state in FINAL or not (left.goes_first or any(at is not None for at in times)):
        return None
    return {
        "since": time_or_none(left.lost_since_s),
        "hold_until": time_or_none(left.hold_until_s),
        "not_before": time_or_none(left.not_before_s),
        "lost": view.lost,
        "goes_first": left.goes_first,
    }


def _saved(view: JobView) -> Shape | None:
    saved = view.saved
    if saved is None:
        return None
    return {"step": saved.step, "uri": saved.uri, "at": rfc3339(saved.at)}


def pod(view: PodView, topology: Topology) -> Shape:
    """As `schemas.pod.Pod` describes it."""
    gpus = indices_of(view.gpu_mask)
    return {
        "namespace": view.namespace,
        "job": f"{view.namespace}/{view.job}",
        "name": view.name,
        "role": view.role or RANK_ROLE,
        "index": view.index,
        "node": view.node,
        "gpus": gpus,
        "ranks": list(range(view.first_rank, view.first_rank + len(gpus))),
        "state": view.state,
        "uid": view.uid,
        "attempt": view.attempt,
        "exit_code": view.exit_code,
        "domains": domains_of(topology, view.node),
        "revision": view.revision,
    }


def domains_of(topology: Topology, node: str) -> dict[str, str | None]:
    """The places of a node; none for one that the map no longer has."""
    index = topology.node_index.get(node)
    return {} if index is None else topology.domains_of(index)


def node(view: NodeView) -> Shape:
    """As `schemas.node.Node` describes it."""
    return {
        "name": view.name,
        "type": view.type,
        "gpu": view.gpu or None,
        "gpus": view.gpus,
        "gpus_free": view.gpus_free,
        "cpus": view.cpu_milli / 1_000,
        "memory_gib": view.memory_mib / 1_024,
        "health": view.health,
        "why": view.standing.why,
        "since": rfc3339(since) if (since := view.standing.since_s) else None,
        "fenced": view.standing.fenced,
        "has_agent": view.standing.has_agent,
        "faults": [_open_fault(fault) for fault in view.standing.faults],
        "lemon": view.standing.lemon,
        "quarantined_until": time_or_none(view.standing.quarantined_until_s),
        "mismatch": view.standing.mismatch,
        "cordoned": _with_times(view.cordon, "at"),
        "draining": _with_times(view.drain, "deadline", "at"),
        "domains": view.places,
        "labels": dict(view.labels),
        "taints": [{"key": t.key, "value": t.value, "effect": t.effect} for t in view.taints],
        "pods": view.pods,
        "revision": view.revision,
    }


def _open_fault(fault: NodeFault) -> Shape:
    """As `schemas.node.OpenFault` describes it."""
    return {
        "id": fault.id,
        "code": fault.code,
        "at": rfc3339(fault.at_s),
        "message": fault.detail,
        "gpus": list(fault.gpus),
        "rail": fault.rail,
    }


def _with_times(value: Mapping[str, object] | None, *names: str) -> Shape | None:
    if value is None:
        return None
    times = {
        n: rfc3339(at) if isinstance(at := value.get(n), (int, float)) else None for n in names
    }
    return dict(value) | times


def queue(view: QueueView, names: Names = None) -> Shape:
    """As `schemas.queue.Queue` describes it.

    Args:
        names: Namespaces that its reader is bound to; None = all.
    """
    stated = shown_queue(names, view.queue)
    return {
        "name": stated.name,
        "parent": stated.parent,
        "quota_gpus": stated.quota_gpus,
        "limit_gpus": stated.limit_gpus,
        "quota_by_model": dict(stated.quota_by_model),
        "limit_by_model": dict(stated.limit_by_model),
        "weight": stated.weight,
        "max_priority": stated.max_priority,
        "max_pending": stated.max_pending,
        "namespaces": list(stated.namespaces),
        "closed": stated.closed,
        "used_gpus": view.used_gpus,
        "used_by_model": dict(view.used_by_model),
        "borrowed_gpus": view.borrowed_gpus,
        "lent_gpus": view.lent_gpus,
        "share": view.share,
        "pending": view.pending,
        "running": view.running,
        "revision": view.revision,
    }


def event(view: EventView, names: Names = None) -> Shape:
    """As `schemas.event.Event` describes it.

    Args:
        names: Namespaces that its reader is bound to; None = all.
    """
    return {
        "revision": view.revision,
        "at": rfc3339(view.at),
        "kind": view.kind,
        "subject": {
            "kind": view.subject_kind,
            "namespace": view.namespace,
            "name": view.name,
            "uid": view.uid,
        },
        "message": view.message,
        "body": told_body(names, view.body),
    }
