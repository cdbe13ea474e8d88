"""How long a gang that could start waits for a better place, and what would be better."""

from collections.abc import Hashable
from dataclasses import dataclass

from scheduler.backfill.words import domains, moment
from scheduler.cluster.world import WISHES_KEPT, World
from scheduler.model.job import JobSpec
from scheduler.model.placement import Placement
from scheduler.model.plan import JobRecord
from scheduler.place.kept import Member, broken_rules
from scheduler.place.search import place
from scheduler.topology.tree import Topology

PATIENCE_SHARE = 0.05
"""Of the declared duration: what a job waits for by default."""

PATIENCE_S_MAX = 600.0

ALIKE = 1.01
"""Predicted seconds within 1 % are equal, as everywhere in placement."""


@dataclass(frozen=True, slots=True)
class Worth:
    """How good a placement is, by what patience looks at.

    Attributes:
        broken: Preferred rules that it does not keep.
        predicted_s: Communication between nodes per step; None where nothing was compared.
        spread: Domains it touches at each level but the last, outermost first.
    """

    broken: int
    predicted_s: float | None
    spread: tuple[int, ...]


def patience_s(spec: JobSpec) -> float:
    """Seconds a gang waits for a better place from when it could first start."""
    if spec.patience_s is not None:
        return spec.patience_s
    if spec.duration_s is None:
        return 0.0
    return min(PATIENCE_S_MAX, PATIENCE_SHARE * spec.duration_s)


def patient_until_s(job: JobRecord, now_s: float) -> float:
    """Unix seconds at which its patience ends, should it first have been able to start now."""
    began = now_s if job.could_start_s is None else job.could_start_s
    return began + patience_s(job.spec)


def is_patient(job: JobRecord, now_s: float) -> bool:
    """Whether it has begun to wait for a better place and is still within its patience."""
    return job.could_start_s is not None and now_s < patient_until_s(job, now_s)


def worth(topology: Topology, spec: JobSpec, placement: Placement) -> Worth:
    """What a placement is worth."""
    members = [Member(pod.role, pod.index, pod.node_index) for pod in placement.pods]
    broken = broken_rules(spec, topology, members, placement.gpus_per_pod)
    nodes = [pod.node_index for pod in placement.pods]
    spread = tuple(len({row[node] for node in nodes}) for row in topology.place[:-1])
    return Worth(len(broken), placement.predicted_s, spread)


def best_worth(world: World, wish: Hashable, spec: JobSpec) -> Worth | None:
    """Of the gang's place on the empty cluster; None if there is none. Kept by wish."""
    if wish not in world.best:
        if len(world.best) >= WISHES_KEPT:
            world.best.clear()
        found = place(world.emptied(), spec)
        world.best[wish] = (
            worth(world.topology, spec, found) if isinstance(found, Placement) else None
        )
    known = world.best[wish]
    return known if isinstance(known, Worth) else None


def as_good(found: Worth, best: Worth) -> bool:
    """Whether a placement is as good as the best one could be."""
    if found.broken > best.broken:
        return False
    if found.predicted_s is not None and best.predicted_s is not None:
        return found.predicted_s <= best.predicted_s * ALIKE
    return all(a <= b for a, b in zip(found.spread, best.spread, strict=True))


def patience_message(
    topology: Topology, found: Worth, best: Worth, until_s: float, now_s: float
) -> str:
    """What it could have now, until when it waits, and for what."""
    until = moment(until_s, now_s)
    names = topology.level_names
    for depth, (has, could) in enumerate(zip(found.spread, best.spread, strict=True)):
        if has > could:
            return (
                f"could start now on {domains(has, names[depth])}; waits until {until} for {could}"
            )
    if found.broken > best.broken:
        return (
            f"could start now with {found.broken} preferred rules not kept; waits until {until}"
            f" for a place with {best.broken or 'none'}"
        )
    slower = (found.predicted_s or 0.0) / (best.predicted_s or 1.0)
    return (
        f"could start now where a step communicates {slower:.2f} times as long as in the best"
        f" place; waits until {until} for a better one"
    )
