"""When a gang could start: pods are released in the order in which they are expected to end."""

from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.cluster.nodes import Held
from scheduler.cluster.trial import Trial
from scheduler.cluster.world import World
from scheduler.model.job import JobSpec
from scheduler.model.lifecycle import JobState, PodState
from scheduler.model.placement import Placement
from scheduler.model.plan import JobRecord, PodRecord
from scheduler.order.use import least_use
from scheduler.place.fits import Fit
from scheduler.place.search import place


@dataclass(frozen=True, slots=True)
class Ending:
    """Pods of one job that are expected to end together.

    Attributes:
        at_s: Unix seconds; None = nobody knows: the job said nothing, or runs longer than it said.
    """

    job: JobRecord
    pods: tuple[PodRecord, ...]
    at_s: float | None


@dataclass(frozen=True, slots=True)
class Forecast:
    """Where and when a gang could start.

    Attributes:
        starts_s: Unix seconds; None when some job that is waited for has no known end.
        waited_for: Jobs on the GPUs of the placement, the last to end first.
    """

    placement: Placement
    starts_s: float | None
    waited_for: tuple[JobRecord, ...]


def expected_end_s(job: JobRecord, now_s: float) -> float | None:
    """When a job that has GPUs says it ends; None when it never said, or should have ended."""
    if job.spec.duration_s is None:
        return None
    began = job.since_s
    end = (now_s if began is None else began) + job.spec.duration_s
    return end if end > now_s else None


def ending_of(job: JobRecord, pods: Sequence[PodRecord], now_s: float) -> list[Ending]:
    """What a job's live pods will do: those on their way out are expected to be gone at once."""
    leaving = tuple(p for p in pods if p.state is PodState.TERMINATING)
    staying = tuple(p for p in pods if p.state is not PodState.TERMINATING)
    out = [Ending(job, leaving, now_s)] if leaving else []
    if staying:
        at_s = now_s if job.state is JobState.EVICTING else expected_end_s(job, now_s)
        out.append(Ending(job, staying, at_s))
    return out


def forecast(
    world: World,
    spec: JobSpec,
    endings: Sequence[Ending],
    *,
    also_unknown: bool,
    by_s: float = 0.0,
) -> Forecast | None:
    """The earliest start: more free GPUs never make a gang fit less, so few ends are looked at.

    The trial is left as it was; what other claims keep in it stays kept.

    Args:
        also_unknown: Should known ends not suffice, count on unknown ones too: jobs that run
            longer than they said first, then those that have run longest.
        by_s: Should it suffice to wait for who ends by then, count on all of them: the place is
            the best of what they leave.

    Returns:
        None when the ends looked at do not make room.
    """
    known = sorted(
        (e for e in endings if e.at_s is not None), key=lambda e: (e.at_s or 0.0, e.job.uid)
    )
    found = _earliest(world, spec, known, by_s)
    if found is not None or not also_unknown:
        return found
    unknown = sorted((e for e in endings if e.at_s is None), key=_likely_first)
    return _earliest(world, spec, [*known, *unknown], 0.0) if unknown else None


def _likely_first(ending: Ending) -> tuple[bool, float, str]:
    job = ending.job
    return (job.spec.duration_s is None, job.since_s or 0.0, job.uid)


def _earliest(world: World, spec: JobSpec, row: Sequence[Ending], by_s: float) -> Forecast | None:
    mark = world.trial.mark()
    try:
        gone = _Prefix(world.trial, [_held(world, ending) for ending in row])
        fit = Fit(world.trial, spec)
        low = high = _at_least(world, spec, row)
        step = 1
        gone.move_to(high)
        # Mostly as soon as there are enough GPUs: from there on in steps that grow, then halving.
        while not fit.now():
            if high == len(row):
                return None
            low, high, step = high + 1, min(len(row), high + step), 2 * step
            gone.move_to(high)
        while low < high:
            middle = (low + high) // 2
            gone.move_to(middle)
            if fit.now():
                high = middle
            else:
                low = middle + 1
        while high < len(row) and (at_s := row[high].at_s) is not None and at_s <= by_s:
            high += 1
        gone.move_to(high)
        placement = place(world.trial, spec)
    finally:
        world.trial.roll_back(mark)
    if not isinstance(placement, Placement):
        return None
    return _forecast(world, placement, row[:high])


def _at_least(world: World, spec: JobSpec, row: Sequence[Ending]) -> int:
    """How many of these must have ended before there are as many GPUs as the gang needs at least.

    GPUs that it could not have for another reason are counted too.
    """
    sizes = [sizes.world for sizes in spec.all_sizes()]
    need = min(sizes) if sizes else least_use(spec).gpu_count
    have = sum(mask.bit_count() for mask in world.table.free)
    for count, ending in enumerate(row):
        if have >= need:
            return count
        have += sum(pod.gpu_mask.bit_count() for pod in ending.pods)
    return len(row)


def _held(world: World, ending: Ending) -> list[Held]:
    on_map = (p for p in ending.pods if p.node in world.topology.node_index)
    return [world.held_by(pod) for pod in on_map]


def _forecast(world: World, placement: Placement, gone: Sequence[Ending]) -> Forecast:
    taken: dict[int, int] = {}
    for pod in placement.pods:
        taken[pod.node_index] = taken.get(pod.node_index, 0) | pod.gpu_mask
    index = world.topology.node_index
    on_it = [
        ending
        for ending in gone
        if any(taken.get(index.get(pod.node, -1), 0) & pod.gpu_mask for pod in ending.pods)
    ]
    # Where no pod is in the way, it waits for CPUs, memory or the like: for the last that ended.
    on_it = on_it or list(gone[-1:])
    starts_s: float | None = 0.0
    for ending in on_it:
        known = None not in (ending.at_s, starts_s)
        starts_s = max(starts_s or 0.0, ending.at_s or 0.0) if known else None
    waited = {ending.job.uid: ending.job for ending in reversed(on_it)}
    return Forecast(placement, starts_s, tuple(waited.values()))


class _Prefix:
    """Pods of which the first so many groups have left, for any number asked for."""

    def __init__(self, trial: Trial, groups: list[list[Held]]) -> None:
        self._trial = trial
        self._groups = groups
        self._count = 0

    def move_to(self, count: int) -> None:
        """Let the first `count` groups be gone, and all others be there."""
        for group in self._groups[self._count : count]:
            for held in group:
                self._trial.release(held)
        for group in self._groups[count : self._count][::-1]:
            for held in group:
                self._trial.hold(held)
        self._count = count
