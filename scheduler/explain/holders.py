"""Who holds the GPUs that a gang could use, where, and until when."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from math import inf

from scheduler.cluster.world import World
from scheduler.explain.answer import Holder, Visible, ref_of
from scheduler.explain.engine import Freed
from scheduler.model.ids import JobId
from scheduler.model.job import JobSpec
from scheduler.model.lifecycle import LIVE_POD
from scheduler.model.placement import Nearest
from scheduler.model.plan import JobRecord
from scheduler.place.members import node_types_for, shape_of
from scheduler.place.search import ask_for_parallel

HOLDERS_SHOWN = 20

Scope = tuple[int, int]
"""Nodes from one index up to, but without, another."""


@dataclass(frozen=True, slots=True, eq=False)
class Tenant:
    """A job with pods on nodes that a gang could use.

    Attributes:
        freed: What it would give back, wherever it is; `gpus` of it.
        gpus_on: GPUs that it holds, by index of the nodes the gang could use.
        ends_s: As in `Holder`; infinity where not known.
    """

    job: JobRecord
    freed: Freed
    gpus: int
    gpus_on: dict[int, int]
    ends_s: float

    def gpus_in(self, scope: Scope) -> int:
        low, high = scope
        return sum(n for node, n in self.gpus_on.items() if low <= node < high)


def those_in(tenants: Sequence[Tenant], scope: Scope, node_count: int) -> Sequence[Tenant]:
    """Tenants with pods in a scope."""
    if scope == (0, node_count):
        return tenants
    low, high = scope
    return [t for t in tenants if any(low <= node < high for node in t.gpus_on)]


def usable_nodes(world: World, spec: JobSpec) -> list[bool]:
    """Whether each node could hold a pod of the gang when empty, whatever its health."""
    out = [False] * world.topology.node_count
    for eligible in _eligible(world, spec):
        out = [a or b for a, b in zip(out, eligible, strict=True)]
    return out


def _eligible(world: World, spec: JobSpec) -> Iterator[Sequence[bool]]:
    trial = world.trial
    if spec.parallelism is not None:
        for kind in node_types_for(trial, spec.gpu, spec.gpus_per_pod or 1):
            if kind is not None:
                yield ask_for_parallel(trial, spec, spec.parallelism, kind).view.eligible
    for role in spec.roles:
        for kind in node_types_for(trial, spec.gpu, role.gpus):
            yield trial.view(shape_of(world.topology, spec, role, kind)).eligible


def tenants_of(
    world: World, usable: Sequence[bool], now_s: float, *, but: JobId | None = None
) -> list[Tenant]:
    """Jobs with live pods on usable nodes.

    Args:
        but: A job that is not asked about.
    """
    index = world.topology.node_index
    found = []
    for uid, job in world.jobs.items():
        mine = world.pods.get(uid)
        if not mine or uid == but:
            continue
        pods = tuple(pod for pod in mine.values() if pod.state in LIVE_POD and pod.node in index)
        gpus_on: dict[int, int] = {}
        gpus = 0
        for pod in pods:
            node = index[pod.node]
            count = pod.gpu_mask.bit_count()
            gpus += count
            if usable[node]:
                gpus_on[node] = gpus_on.get(node, 0) + count
        if gpus_on:
            found.append(Tenant(job, Freed(job, pods), gpus, gpus_on, ends_s(job, now_s)))
    return found


def ends_s(job: JobRecord, now_s: float) -> float:
    """When a job has run as long as it declared; infinity if it declared nothing or overstays."""
    began = job.started_s if job.started_s is not None else job.bound_s
    if job.spec.duration_s is None or began is None:
        return inf
    end = began + job.spec.duration_s
    return end if end > now_s else inf


def scope_of(world: World, nearest: Nearest | None) -> Scope:
    """The nodes of the nearest domain; all nodes where there is none."""
    topology = world.topology
    if nearest is not None and nearest.domain and nearest.level in topology.level_index:
        level = topology.levels[topology.level_index[nearest.level]]
        if nearest.domain in level.names:
            domain = level.names.index(nearest.domain)
            return level.node_lo[domain], level.node_hi[domain]
    return 0, topology.node_count


def holders_in(
    tenants: Iterable[Tenant], scope: Scope, visible: Visible, shown: int = HOLDERS_SHOWN
) -> tuple[Holder, ...]:
    """Who holds what in a scope, as far as the caller may see it; the rest as numbers."""
    inside = [(t, gpus) for t in tenants if (gpus := t.gpus_in(scope))]
    seen = [(t, gpus) for t, gpus in inside if visible(t.job)]
    first = nsmallest(
        shown, seen, key=lambda item: (item[0].ends_s, -item[1], item[0].job.age, item[0].job.uid)
    )
    gpus_seen = sum(gpus for _, gpus in seen)
    out = [Holder(ref_of(t.job), 1, gpus, finite(t.ends_s)) for t, gpus in first]
    if len(seen) > len(first):
        more = gpus_seen - sum(gpus for _, gpus in first)
        out.append(Holder(None, len(seen) - len(first), more))
    if len(inside) > len(seen):
        hidden = sum(gpus for _, gpus in inside) - gpus_seen
        out.append(Holder(None, len(inside) - len(seen), hidden, is_hidden=True))
    return tuple(out)


def finite(at_s: float) -> float | None:
    return None if at_s == inf else at_s
