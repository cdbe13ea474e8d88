"""How well running gangs lie: worked out once for each gang in each place, a few at a time."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from api.http.placement_laid import Laid, laid
from api.http.placement_price import predicted
from api.http.service import Service
from api.pace import Pace
from api.store.engine import Database
from api.store.errors import NotFound
from api.store.jobs import get_job
from api.store.pods import pods_of
from api.store.topology import load_topology
from scheduler.cluster.world import World
from scheduler.cost.spans import least_possible
from scheduler.model.ids import JobId
from scheduler.model.lifecycle import LIVE_POD, JobState

BATCH = 25
"""Gangs worked out at a time: each takes some milliseconds, large ones about ten."""

Key = tuple[int, float | None]
"""Attempt and time of the binding: a gang has one place as long as both stay."""


@dataclass(frozen=True, slots=True)
class Place:
    """How one gang lies.

    Attributes:
        regret: As the placement has it; None where that is not known.
        spread: By level, domains it lies in over the fewest it could.
    """

    regret: float | None
    spread: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Sum:
    """Mean and worst over the gangs for which it is known."""

    mean: float
    max: float


class Quality:
    """Keeps what was worked out for gangs that still lie as they did."""

    def __init__(self) -> None:
        self._known: dict[JobId, tuple[Key, Place]] = {}

    @property
    def known(self) -> int:
        return len(self._known)

    def look(self, service: Service, rest: Callable[[float], object]) -> float:
        """Work out some that are new, forget those that are gone.

        Args:
            rest: Waits for so many seconds; between two gangs.

        Returns:
            Seconds of work.
        """
        began, pace = time.monotonic(), Pace(rest)
        there = service.reader.ask_if_free(_placed)
        if there is None:
            return 0.0
        self._known = {u: k for u, k in self._known.items() if there.get(u, ((), ""))[0] == k[0]}
        new = [uid for uid in there if uid not in self._known]
        read_s = time.monotonic() - began
        for uid in pace.through(new[:BATCH]):
            place = _place(service, there[uid][1])
            if place is not None:
                self._known[uid] = (there[uid][0], place)
        return read_s + pace.worked_s

    def regret(self) -> Sum | None:
        return _sum(place.regret for _, place in self._known.values())

    def spread(self) -> dict[str, Sum]:
        """By level."""
        levels = sorted({level for _, place in self._known.values() for level in place.spread})
        sums = {
            level: _sum(place.spread.get(level) for _, place in self._known.values())
            for level in levels
        }
        return {level: found for level, found in sums.items() if found is not None}


def _placed(world: World) -> dict[JobId, tuple[Key, str]]:
    states = {JobState.BOUND, JobState.RUNNING}
    jobs = (world.jobs[uid] for uid in world.holding)
    return {
        job.uid: ((job.attempt, job.bound_s), f"{job.spec.namespace}/{job.spec.name}")
        for job in sorted(jobs, key=lambda job: job.age)
        if job.state in states and job.spec.gpu_count > 1
    }


def _place(service: Service, full_name: str) -> Place | None:
    namespace, _, name = full_name.partition("/")
    of = _laid(service.database, namespace, name)
    if of is None or any(pod.node not in of.topology.node_index for pod in of.pods):
        return None
    return Place(service.regrets.regret(of, predicted(of)), _spread(of))


def _laid(database: Database, namespace: str, name: str) -> Laid | None:
    try:
        job = get_job(database, namespace, name)
    except NotFound:
        return None
    pods = [pod for pod in pods_of(database, job.uid) if pod.state in LIVE_POD]
    return laid(job, pods, load_topology(database).topology) if pods else None


def _spread(of: Laid) -> dict[str, float]:
    """Of gangs of equal pods with GPUs; there the fewest domains are known."""
    counts = {pod.gpu_mask.bit_count() for pod in of.pods}
    if len(counts) != 1 or counts == {0}:
        return {}
    topology, gpus = of.topology, counts.pop()
    nodes = [topology.node_index[pod.node] for pod in of.pods]
    kind = topology.types[nodes[0]]
    return {
        level.name: len({topology.place[depth][node] for node in nodes})
        / least_possible(topology, kind, gpus, depth, len(of.pods))
        for depth, level in enumerate(topology.levels[:-1])
    }


def _sum(values: Iterable[float | None]) -> Sum | None:
    known = [value for value in values if value is not None]
    return Sum(sum(known) / len(known), max(known)) if known else None
