"""One workload under several policies, each on an empty copy of the same cluster."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from scheduler.cluster.world import World
from scheduler.cycle import run_cycle
from scheduler.errors import Problem
from scheduler.model.plan import JobRecord
from scheduler.model.queue import DEFAULT_QUEUE, QueueRecord
from scheduler.policy import Policy
from scheduler.sim.engine import Decide, Engine, Observer
from scheduler.sim.measures import Measures, Summary
from scheduler.sim.peers.cycle import Discipline, OwnPlacer, PeerCycle
from scheduler.sim.peers.kueue import Kueue
from scheduler.sim.peers.placer import NodePlacer
from scheduler.sim.peers.plain import AnyFit, FirstFit
from scheduler.sim.peers.slurm import Slurm
from scheduler.sim.peers.volcano import Volcano
from scheduler.sim.workload import Submission, WorkloadError
from scheduler.topology.tree import Topology

POLICIES: Mapping[str, str] = {
    "podyard": "the real cycle, fair share",
    "podyard-shortest": "the real cycle, shortest first",
    "slurm": "Slurm's topology/tree with EASY backfill",
    "kueue": "Kueue's topology-aware BestFit, whoever fits goes",
    "volcano": "Volcano's hypernode tiers, whoever fits goes",
    "fifo": "first come, first served on the first free nodes",
    "random": "any free nodes, whoever fits goes",
    "sjf": "Podyard's places, shortest true run time first, whoever fits goes",
}
"""Name -> what it is."""

Progress = Callable[[int, int], None]
"""Told how many of how many jobs have ended."""


@dataclass(frozen=True, slots=True)
class Levels:
    """The levels of a fabric that peers and measures ask about.

    Attributes:
        switches: Those that are switches, outermost first: what Slurm is told.
        domains: All above the node, outermost first: what Kueue and Volcano are told.
        spread: The one whose domains are counted.
    """

    switches: tuple[str, ...]
    domains: tuple[str, ...]
    spread: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """One policy's run.

    Attributes:
        steps: Cycles.
    """

    policy: str
    measures: Measures
    summary: Summary
    steps: int


def check_policies(names: Sequence[str]) -> None:
    """Refuse names that are no policy. Raises WorkloadError."""
    unknown = [name for name in names if name not in POLICIES]
    if unknown or not names:
        found = f"no policy '{unknown[0]}'" if unknown else "no policy named"
        raise WorkloadError(Problem("policy", f"{found}; there are {', '.join(POLICIES)}"))


def decider(name: str, levels: Levels, jobs: Sequence[Submission], seed: int) -> Decide:
    """Whoever decides under a name of `POLICIES`."""
    if name in {"podyard", "podyard-shortest"}:
        return run_cycle
    if name == "sjf":
        return PeerCycle(OwnPlacer(), Discipline.GREEDY, _true_run_s(jobs))
    if name == "slurm":
        return PeerCycle(NodePlacer(Slurm(levels.switches)), Discipline.EASY)
    if name == "kueue":
        return PeerCycle(NodePlacer(Kueue(levels.domains)), Discipline.GREEDY)
    if name == "volcano":
        return PeerCycle(NodePlacer(Volcano(levels.domains)), Discipline.GREEDY)
    if name == "fifo":
        return PeerCycle(NodePlacer(FirstFit()), Discipline.STRICT)
    return PeerCycle(NodePlacer(AnyFit(seed)), Discipline.GREEDY)


def _true_run_s(jobs: Sequence[Submission]) -> Callable[[JobRecord], float]:
    """What no scheduler knows: run times by the position in the uid."""
    return lambda job: jobs[int(job.uid[1:])].run_s


def simulate(
    name: str,
    topology: Topology,
    jobs: Sequence[Submission],
    *,
    levels: Levels,
    seed: int,
    prepare: Callable[[Engine], None] | None = None,
    progress: Progress | None = None,
) -> Outcome:
    """Run a workload to its end under one policy.

    Args:
        prepare: Called before the first job, e.g. to let faults happen.
    """
    measures = Measures(topology, levels.spread)
    observers: list[Observer] = [measures]
    if progress is not None:
        observers.append(_Counter(len(jobs), progress))
    world = World(topology)
    names = sorted({job.spec.queue for job in jobs} - {DEFAULT_QUEUE})
    world.set_queues(QueueRecord(name) for name in names)
    order = "shortest_first" if name == "podyard-shortest" else "fair_share"
    engine = Engine(
        world,
        Policy(order=order),
        decide=decider(name, levels, jobs, seed),
        observers=observers,
        start_s=0.0,
    )
    engine.load(jobs)
    if prepare is not None:
        prepare(engine)
    engine.run()
    return Outcome(name, measures, measures.summary(), engine.stats.steps)


class _Counter:
    """An observer that counts jobs that ended."""

    def __init__(self, total: int, progress: Progress) -> None:
        self._total = total
        self._progress = progress
        self._count = 0

    def submitted(self, *_: object) -> None:
        """Not counted."""

    def before(self, *_: object) -> None:
        """Not counted."""

    def after(self, *_: object) -> None:
        """Not counted."""

    def ended(self, *_: object) -> None:
        self._count += 1
        self._progress(self._count, self._total)
