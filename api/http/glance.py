"""The cluster at a glance, counted from a copy of the world in the size of the cluster."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from api.auth.seen import Names
from api.http.shapes import Shape, rfc3339, time_or_none
from scheduler.cluster.world import World
from scheduler.model.lifecycle import JobState
from scheduler.model.node import Health
from scheduler.model.plan import JobRecord
from scheduler.topology.tree import Level, Topology

WAITING = frozenset({JobState.PENDING, JobState.RESERVED, JobState.SUSPENDED, JobState.RECOVERING})
"""States of gangs that lack a place, or a part of one."""

REASONS_SHOWN = 12
STARTS_SHOWN = 5
MESSAGE_SHOWN = 300
"""Characters of the sentence that goes with a reason; the job's own page has all of it."""

NEW = "new"
"""What waits without a reason has not been looked at yet."""

_HEALTH = frozenset(map(str, Health))


Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Spans:
    """The domains of one level: which nodes each has, and whether it has a name."""

    lo: Ints
    hi: Ints
    named: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Fixed:
    """What of a map stays as long as it does; made once, as it takes longer than what changes."""

    topology: Topology
    gpus: Ints
    power_w: Ints
    spans: tuple[_Spans, ...]


_FIXED_KEPT = 4
_fixed: list[_Fixed] = []
"""Of the maps looked at last; one in a service, more in tests of many."""


@dataclass(frozen=True, slots=True)
class NodeCounts:
    """What each node has, in tree order.

    Attributes:
        all, held, free: GPUs there are; that pods hold; that anybody may have, on usable nodes.
            Those that claims keep are neither held nor free, except where pods are.
        usable: Whether it takes new pods.
        aside: Why not, of those that do not.
    """

    all: Ints
    held: Ints
    free: Ints
    usable: NDArray[np.bool_]
    aside: Sequence[str]


def node_counts(world: World) -> NodeCounts:
    """The counts of every node; about a millisecond for 10,000."""
    table = world.table
    all_ = _fixed_of(world.topology).gpus
    aside = [(node, reason) for node, reason in enumerate(table.aside) if reason]
    usable = np.ones(len(all_), dtype=np.bool_)
    usable[[node for node, _ in aside]] = False
    free = np.bitwise_count(np.array(table.free, dtype=np.int64)).astype(np.int64)
    held = all_ - free
    for node, mask in table.vacant.items():
        held[node] -= mask.bit_count()
    reasons = [reason for _, reason in aside]
    return NodeCounts(all_, held, np.where(usable, free, 0), usable, reasons)


def _fixed_of(topology: Topology) -> _Fixed:
    for known in _fixed:
        if known.topology is topology:
            return known
    made = _Fixed(
        topology,
        np.array([kind.gpus for kind in topology.types], dtype=np.int64),
        np.array([kind.power_w for kind in topology.types], dtype=np.int64),
        tuple(map(_spans, topology.levels)),
    )
    _fixed[:] = [made, *_fixed][:_FIXED_KEPT]
    return made


def _spans(level: Level) -> _Spans:
    return _Spans(
        np.array(level.node_lo, dtype=np.int64),
        np.array(level.node_hi, dtype=np.int64),
        np.array([bool(name) for name in level.names], dtype=np.bool_),
    )


@dataclass(frozen=True, slots=True)
class Waits:
    """Gangs that wait for the same kind of thing.

    Attributes:
        firsts: By namespace, the gang of it that waits longest.
    """

    reason: str
    gangs: int
    gpus: int
    firsts: Mapping[str, JobRecord]


@dataclass(frozen=True, slots=True)
class Glance:
    """The part of the overview that follows from the world alone.

    Attributes:
        shape: What is the same for all who look.
        waits: The most GPUs first.
        starts: Of gangs whose start is known, the next first.
    """

    shape: Shape
    waits: Sequence[Waits]
    starts: Sequence[JobRecord]

    def told(self, names: Names) -> Shape:
        """What is told of gangs to who is bound to namespaces: numbers of all, names of theirs."""
        starts = (job for job in self.starts if names is None or job.spec.namespace in names)
        return {
            "waiting": [_reason(waits, names) for waits in self.waits],
            "starts": [_start(job) for job in islice(starts, STARTS_SHOWN)],
        }


def glance(world: World) -> Glance:
    """Count and look once, for all who ask."""
    counts = node_counts(world)
    shape = {
        "cluster": world.topology.cluster,
        "revision": world.revision,
        **_totals(world, counts),
        "levels": levels(world, counts),
        "power": _power(world),
    }
    return Glance(shape, waiting(world), _starts(world))


def _totals(world: World, counts: NodeCounts) -> Shape:
    aside = Counter(counts.aside)
    health = {reason: n for reason, n in aside.items() if reason in _HEALTH}
    if healthy := len(counts.all) - sum(health.values()):
        health[str(Health.HEALTHY)] = healthy
    total, used = int(counts.all.sum()), int(counts.held.sum())
    # What claims keep of usable nodes is as good as free to whoever looks at the whole.
    free = int((counts.all - counts.held)[counts.usable].sum())
    return {
        "nodes": {
            "total": len(counts.all),
            "usable": int(counts.usable.sum()),
            "free": int((counts.usable & (counts.held == 0)).sum()),
        },
        "gpus": {"total": total, "used": used, "free": free, "aside": total - used - free},
        "claimed_gpus": sum(mask.bit_count() for mask in world.table.claimed.values()),
        "health": dict(sorted(health.items())),
        "aside": dict(sorted(aside.items())),
    }


def levels(world: World, counts: NodeCounts) -> list[Shape]:
    """How full the domains of each level are, and how scattered what is free is over them."""
    free, held = _running(counts.free), _running(counts.held)
    spans = _fixed_of(world.topology).spans
    of_levels = zip(world.topology.levels, spans, strict=True)
    return [_level(level.name, here, free, held) for level, here in of_levels]


def _running(values: Ints) -> Ints:
    """Sums before each node; of a domain, the difference of two of them."""
    return np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(values)))


def _level(name: str, spans: _Spans, free: Ints, held: Ints) -> Shape:
    free_of = free[spans.hi] - free[spans.lo]
    held_of = held[spans.hi] - held[spans.lo]
    has_room = spans.named & (free_of > 0)
    empty = has_room & (held_of == 0)
    all_free = int(free[-1])
    return {
        "level": name,
        "empty": int(empty.sum()),
        "partly": int((has_room & ~empty).sum()),
        "full": int((spans.named & ~has_room).sum()),
        "fragmentation": round(1.0 - int(free_of[empty].sum()) / all_free, 4) if all_free else 0.0,
    }


def waiting(world: World) -> list[Waits]:
    """Gangs that wait by reason, the most GPUs first."""
    groups: dict[str, list[JobRecord]] = {}
    for job in world.jobs.values():
        if job.state in WAITING:
            groups.setdefault(reason_of(job), []).append(job)
    found = [_waits(reason, jobs) for reason, jobs in groups.items()]
    found.sort(key=lambda waits: (-waits.gpus, waits.reason))
    return found[:REASONS_SHOWN]


def _waits(reason: str, jobs: Sequence[JobRecord]) -> Waits:
    firsts: dict[str, JobRecord] = {}
    for job in jobs:
        known = firsts.get(job.spec.namespace)
        if known is None or (job.age, job.uid) < (known.age, known.uid):
            firsts[job.spec.namespace] = job
    return Waits(reason, len(jobs), sum(job.spec.gpu_count for job in jobs), firsts)


def name_of(job: JobRecord) -> str:
    """As people write it: `namespace/name`."""
    return f"{job.spec.namespace}/{job.spec.name}"


def reason_of(job: JobRecord) -> str:
    """Why a gang waits: a reason of pending, or the state it waits in."""
    if job.state is JobState.PENDING:
        return str(job.reason or NEW)
    return str(job.state)


def _reason(waits: Waits, names: Names) -> Shape:
    """As `schemas.polling.WaitingFor` describes it."""
    jobs = (job for ns, job in waits.firsts.items() if names is None or ns in names)
    first = min(jobs, key=lambda job: (job.age, job.uid), default=None)
    return {
        "reason": waits.reason,
        "gangs": waits.gangs,
        "gpus": waits.gpus,
        "job": None if first is None else name_of(first),
        "message": "" if first is None else first.message[:MESSAGE_SHOWN],
        "since": None if first is None else rfc3339(first.submitted_s),
    }


def _starts(world: World) -> list[JobRecord]:
    """Gangs whose start is known, the next first."""
    known = [
        (job.expected_start_s, job.age, job)
        for job in world.jobs.values()
        if job.expected_start_s is not None and job.state in WAITING
    ]
    known.sort(key=lambda entry: entry[:2])
    return [job for _, _, job in known]


def _start(job: JobRecord) -> Shape:
    return {
        "job": name_of(job),
        "gpus": job.spec.gpu_count,
        "at": time_or_none(job.expected_start_s),
    }


def _power(world: World) -> Shape | None:
    """Kilowatts of the nodes in use, each with its full draw, and of all; None if not known."""
    draws = _fixed_of(world.topology).power_w
    if not len(draws) or not draws.all():
        return None
    used = int(draws[np.array(world.table.pod_count) > 0].sum())
    return {"used_kw": used / 1_000, "total_kw": int(draws.sum()) / 1_000}
