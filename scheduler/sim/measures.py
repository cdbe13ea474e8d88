"""What a simulation is judged by: waits, spread, use, fragments, fairness, starvation."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import eq

from scheduler.cluster.world import World
from scheduler.model.ids import JobId, PodId
from scheduler.model.lifecycle import LIVE_POD, JobState
from scheduler.model.plan import JobRecord, Plan
from scheduler.model.resources import full_mask
from scheduler.policy import Policy
from scheduler.sim.engine import EPOCH_S
from scheduler.sim.workload import Submission
from scheduler.topology.tree import Topology

WARM_UP_SHARE = 0.2
"""Of the time until the last submission: what starts or waits before it is not counted, since the
cluster is empty at first."""

SHORT_S = 10.0
"""Run time below which a slowdown is counted as if the job ran so long. Source: the bounded
slowdown of Feitelson et al., "Theory and Practice in Parallel Job Scheduling", JSSPP 1997."""

STARVED_RUNS = 10.0
"""A job starves when it waits longer than so many of the longest run times."""


@dataclass(slots=True)
class Told:
    """What became of one job; times in seconds from the start of the simulation.

    Attributes:
        started_s: When it was first bound; None = never.
        domains, fewest: Domains of the level of interest that it lies in, and that the empty
            cluster would have needed.
        nodes: It lies on.
        evictions: Times it left before its end.
    """

    uid: JobId
    queue: str
    gpus: int
    at_s: float
    run_s: float
    started_s: float | None = None
    ended_s: float | None = None
    state: JobState = JobState.PENDING
    nodes: int = 0
    domains: int = 0
    fewest: int = 1
    evictions: int = 0

    @property
    def wait_s(self) -> float:
        """From submission to the first binding; infinite without one."""
        return math.inf if self.started_s is None else self.started_s - self.at_s

    @property
    def slowdown(self) -> float:
        """Time from submission to end over run time, both bounded below; 1 is the best."""
        if self.ended_s is None or self.state is not JobState.SUCCEEDED:
            return math.inf
        return max(1.0, (self.ended_s - self.at_s) / max(self.run_s, SHORT_S))


@dataclass(slots=True)
class Sample:
    """The cluster at one moment.

    Attributes:
        fragmented: 1 - the most free nodes of one domain / what it could be with so many free; 0
            when none is free.
    """

    at_s: float
    held_gpus: int
    waiting: int
    fragmented: float


@dataclass(frozen=True, slots=True)
class Summary:
    """The figures of one run; see `docs/simulate.md` for their definitions.

    Attributes:
        spread: Mean of domains / fewest over gangs of two nodes and more.
        single_share: Of the gangs of two nodes and more that one domain could hold, those that
            lie in one.
        utilisation, fragmentation: 0 to 1, over the time between warm-up and last submission.
        fairness: Jain's index over queues of GPU-seconds had / asked for; 1 is even.
        starved: Jobs that waited longer than `STARVED_RUNS` longest run times or never started.
        longest_wait_runs: The longest wait over the longest run time.
    """

    jobs: int
    ended: int
    wait_mean_s: float
    wait_p50_s: float
    wait_p99_s: float
    wait_max_s: float
    slowdown_mean: float
    slowdown_p99: float
    spread: float
    single_share: float
    utilisation: float
    fragmentation: float
    fairness: float
    starved: int
    longest_wait_runs: float
    evictions: int


@dataclass(slots=True)
class Measures:
    """An observer that keeps what a summary and its plots are made of.

    Attributes:
        level: The level whose domains are counted.
        jobs, samples: In order of submission and of time.
    """

    topology: Topology
    level: str
    jobs: dict[JobId, Told] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    _gpus: dict[PodId, int] = field(default_factory=dict)
    _held: int = 0
    _by_queue: dict[str, float] = field(default_factory=dict)
    _holding: dict[str, int] = field(default_factory=dict)
    _queue_of: dict[PodId, str] = field(default_factory=dict)
    _last_s: float = 0.0
    _area: list[tuple[float, int]] = field(default_factory=list)
    _had: dict[str, float] = field(default_factory=dict)
    _sample_due: bool = False
    _full: list[int] = field(default_factory=list)

    def submitted(self, job: JobRecord, submission: Submission, now_s: float) -> None:
        spec = job.spec
        self.jobs[job.uid] = Told(
            job.uid, spec.queue, spec.gpu_count, now_s - EPOCH_S, submission.run_s
        )
        self._count_to(now_s - EPOCH_S)
        # What is had after the last submission is only the rest of what everybody gets in the end.
        self._had = dict(self._by_queue)
        self._sample_due = True

    def before(self, world: World, policy: Policy, plan: Plan, now_s: float) -> None:
        self._count_to(now_s - EPOCH_S)

    def _count_to(self, at_s: float) -> None:
        for queue, held in self._holding.items():
            self._by_queue[queue] = self._by_queue.get(queue, 0.0) + held * (at_s - self._last_s)
        self._last_s = at_s

    def after(self, world: World, plan: Plan, now_s: float) -> None:
        if plan.is_empty():
            return
        at_s = now_s - EPOCH_S
        for move in plan.pod_moves:
            if move.state not in LIVE_POD:
                self._leave(move.uid)
        for pod in plan.pods:
            self._leave(pod.uid)
            gpus, queue = pod.gpu_mask.bit_count(), self.jobs[pod.job].queue
            self._gpus[pod.uid], self._queue_of[pod.uid] = gpus, queue
            self._held += gpus
            self._holding[queue] = self._holding.get(queue, 0) + gpus
        for uid in dict.fromkeys(pod.job for pod in plan.pods):
            self._started(world, plan, uid, at_s)
        for job_move in plan.job_moves:
            told = self.jobs[job_move.uid]
            left = told.state in {JobState.BOUND, JobState.RUNNING}
            if left and job_move.state in {JobState.PENDING, JobState.EVICTING}:
                told.evictions += 1
            told.state = job_move.state
        self._area.append((at_s, self._held))
        if not self._sample_due:
            return
        self._sample_due = False
        waiting = sum(job.state is JobState.PENDING for job in world.jobs.values())
        self.samples.append(Sample(at_s, self._held, waiting, self._fragmented(world)))

    def ended(self, job: JobRecord, state: JobState, now_s: float) -> None:
        told = self.jobs[job.uid]
        told.ended_s, told.state = now_s - EPOCH_S, state

    def _leave(self, uid: PodId) -> None:
        gpus = self._gpus.pop(uid, 0)
        self._held -= gpus
        queue = self._queue_of.pop(uid, None)
        if queue is not None:
            self._holding[queue] -= gpus

    def _started(self, world: World, plan: Plan, uid: JobId, at_s: float) -> None:
        told = self.jobs[uid]
        if told.started_s is not None:
            return
        told.started_s = at_s
        place = self.topology.place[self.topology.level_index[self.level]]
        nodes = {self.topology.node_index[p.node] for p in plan.pods if p.job == uid}
        told.nodes = len(nodes)
        told.domains = len({place[node] for node in nodes})
        told.fewest = fewest(self.topology, self.level, len(nodes))

    def _fragmented(self, world: World) -> float:
        level = self.topology.levels[self.topology.level_index[self.level]]
        if not self._full:
            self._full = [full_mask(kind.gpus) for kind in self.topology.types]
        whole = list(map(eq, world.table.free, self._full))
        counts = [sum(whole[lo:hi]) for lo, hi in zip(level.node_lo, level.node_hi, strict=True)]
        size = max(hi - lo for lo, hi in zip(level.node_lo, level.node_hi, strict=True))
        possible = min(sum(counts), size)
        return 1.0 - max(counts) / possible if possible else 0.0

    # -- figures ----------------------------------------------------------------------------------

    def waits_by_gpus(self, edges: Sequence[int]) -> dict[str, list[float]]:
        """Waits in ascending order of jobs by size, those of the warm-up left out.

        Args:
            edges: The most GPUs of each class but the last, ascending; each a key of its own, as
                in '9-64', whether it has jobs or not.
        """
        lows, highs = [1, *(edge + 1 for edge in edges)], [*map(str, edges), ""]
        labels = [f"{low}-{high}" for low, high in zip(lows, highs, strict=True)]
        found: dict[str, list[float]] = {label: [] for label in labels}
        for told in self._counted():
            found[labels[bisect_left(edges, told.gpus)]].append(told.wait_s)
        return {label: sorted(waits) for label, waits in found.items()}

    def _counted(self) -> list[Told]:
        """Jobs that came after the warm-up."""
        warm_s = self._last_submitted_s() * WARM_UP_SHARE
        return [told for told in self.jobs.values() if told.at_s >= warm_s]

    def _last_submitted_s(self) -> float:
        return max((told.at_s for told in self.jobs.values()), default=0.0)

    def summary(self) -> Summary:
        """The figures of the run; the jobs of the warm-up are left out."""
        last_s = self._last_submitted_s()
        warm_s = last_s * WARM_UP_SHARE
        counted = self._counted()
        waits = sorted(told.wait_s for told in counted)
        slowdowns = sorted(told.slowdown for told in counted if told.state is JobState.SUCCEEDED)
        gangs = [t for t in counted if t.nodes > 1 and t.started_s is not None]
        fitting = [t for t in gangs if t.fewest == 1]
        longest_s = max((told.run_s for told in counted), default=1.0)
        return Summary(
            jobs=len(counted),
            ended=sum(told.ended_s is not None for told in counted),
            wait_mean_s=mean([w for w in waits if w < math.inf]),
            wait_p50_s=percentile(waits, 0.50),
            wait_p99_s=percentile(waits, 0.99),
            wait_max_s=waits[-1] if waits else 0.0,
            slowdown_mean=mean(slowdowns),
            slowdown_p99=percentile(slowdowns, 0.99),
            spread=mean([t.domains / t.fewest for t in gangs]) if gangs else 1.0,
            single_share=mean([float(t.domains == 1) for t in fitting]) if fitting else 1.0,
            utilisation=self._utilisation(warm_s, last_s),
            fragmentation=mean([s.fragmented for s in self.samples if warm_s <= s.at_s <= last_s]),
            fairness=self._fairness(),
            starved=sum(w > STARVED_RUNS * longest_s for w in waits),
            longest_wait_runs=(waits[-1] if waits else 0.0) / longest_s,
            evictions=sum(told.evictions for told in counted),
        )

    def _utilisation(self, from_s: float, to_s: float) -> float:
        gpus = sum(kind.gpus for kind in self.topology.types)
        area = 0.0
        for (at_s, held), (next_s, _) in zip(self._area, [*self._area[1:], (to_s, 0)], strict=True):
            area += held * max(0.0, min(next_s, to_s) - max(at_s, from_s))
        return area / (gpus * (to_s - from_s)) if to_s > from_s else 0.0

    def _fairness(self) -> float:
        wished: dict[str, float] = {}
        for told in self.jobs.values():
            wished[told.queue] = wished.get(told.queue, 0.0) + told.gpus * told.run_s
        return jain([self._had.get(q, 0.0) / w for q, w in sorted(wished.items()) if w])


def fewest(topology: Topology, level: str, nodes: int) -> int:
    """Domains of a level that so many nodes need at least when all is free."""
    found = topology.levels[topology.level_index[level]]
    sizes = sorted(
        (hi - lo for lo, hi in zip(found.node_lo, found.node_hi, strict=True)), reverse=True
    )
    count = 0
    while nodes > 0 and count < len(sizes):
        nodes -= sizes[count]
        count += 1
    return max(count, 1)


def mean(values: Sequence[float]) -> float:
    """0.0 for none."""
    return sum(values) / len(values) if values else 0.0


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value at or below which a share of them lie, of values in ascending order; 0 for none."""
    if not ordered:
        return 0.0
    return ordered[min(len(ordered) - 1, max(0, math.ceil(len(ordered) * share) - 1))]


def jain(shares: Sequence[float]) -> float:
    """(sum x)^2 / (n sum x^2): 1 when all have the same, 1 / n when one has all.

    Source: Jain, Chiu and Hawe, "A Quantitative Measure of Fairness and Discrimination", DEC
    Research Report TR-301, 1984.
    """
    squares = sum(x * x for x in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 1.0
