"""How much of the time gangs make progress that lasts, and what the scheduler costs of it.

A gang saves every `save_s` seconds of running. When a member is lost, what it did since it saved
last is lost, and it makes progress again `start_s` after its members start anew: stopping, loading
and warming up. The bound is the same with the same losses, but every member has its new place in
the moment it was lost, whatever is free. What lies between is the scheduler's: waiting for a node,
and moving members that did not have to move.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from scheduler.cluster.world import World
from scheduler.model.ids import JobId
from scheduler.model.lifecycle import JobState, PodState
from scheduler.model.plan import JobRecord, Plan
from scheduler.policy import Policy
from scheduler.sim.workload import Submission


@dataclass(slots=True)
class Life:
    """One gang's.

    Attributes:
        hits: Seconds of the clock at which it lost members.
        runs: (from, until) of its runs; the last one may be open (until None).
    """

    hits: list[float] = field(default_factory=list)
    runs: list[tuple[float, float | None]] = field(default_factory=list)

    def begins(self, now_s: float) -> None:
        if not self.runs or self.runs[-1][1] is not None:
            self.runs.append((now_s, None))

    def ends(self, now_s: float) -> None:
        if self.runs and self.runs[-1][1] is None:
            self.runs[-1] = (self.runs[-1][0], now_s)


class Goodput:
    """Observes a simulation and keeps the lives of its gangs.

    Attributes:
        placed_again: Members that started anew elsewhere.
    """

    def __init__(self) -> None:
        self.lives: dict[JobId, Life] = {}
        self.placed_again = 0
        self._nodes: dict[str, str] = {}

    def submitted(self, job: JobRecord, submission: Submission, now_s: float) -> None:
        self.lives[job.uid] = Life()

    def before(self, world: World, policy: Policy, plan: Plan, now_s: float) -> None:
        hit = {m.uid for m in plan.pod_moves if m.state is PodState.LOST}
        again = {pod.uid: pod for pod in plan.pods}
        for node in sorted(world.gone):
            for uid, pod in world.on_node.get(node, {}).items():
                # A pod that is placed anew in the cycle in which it was lost is not shown as lost.
                new = again.get(uid)
                if uid in hit or (new is not None and pod.state is not PodState.LOST):
                    self._hit(pod.job, now_s)
        for uid, pod in again.items():
            self.placed_again += self._nodes.get(uid, pod.node) != pod.node
            self._nodes[uid] = pod.node

    def _hit(self, job: JobId, now_s: float) -> None:
        life = self.lives[job]
        if not life.hits or life.hits[-1] != now_s:
            life.hits.append(now_s)
        life.ends(now_s)

    def after(self, world: World, plan: Plan, now_s: float) -> None:
        for move in plan.job_moves:
            life = self.lives.get(move.uid)
            if life is None:
                continue
            if move.state is JobState.RUNNING:
                life.begins(now_s)
            else:
                life.ends(now_s)

    def ended(self, job: JobRecord, state: JobState, now_s: float) -> None:
        self.lives[job.uid].ends(now_s)


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of the time of all gangs together, 0 to 1.

    Attributes:
        useful: Progress that lasts.
        bound: The same, had every lost member had its place at once.
        redone: Work since the last save that was lost.
        down: Neither: waiting, starting, loading.
    """

    useful: float
    bound: float
    redone: float
    down: float
    hits: int

    @property
    def gap(self) -> float:
        """What the scheduler costs."""
        return self.bound - self.useful


def shares_of(
    lives: Iterable[Life], from_s: float, until_s: float, start_s: float, save_s: float
) -> Shares:
    """What became of the time between two moments (seconds of the clock).

    Args:
        start_s: From when members start anew until the gang makes progress.
        save_s: Between saves.
    """
    all_lives, span = list(lives), until_s - from_s
    useful = sum(_useful(life.runs, until_s, save_s) for life in all_lives)
    ran = sum((until_s if e is None else min(e, until_s)) - b for x in all_lives for b, e in x.runs)
    bound = 0.0
    for life in all_lives:
        first = life.runs[0][0] if life.runs else until_s
        bound += _useful(ideal_runs(first, life.hits, start_s), until_s, save_s)
    total = span * len(all_lives)
    hits = sum(len(life.hits) for life in all_lives)
    return Shares(useful / total, bound / total, (ran - useful) / total, 1 - ran / total, hits)


def ideal_runs(
    first_s: float, hits: Sequence[float], start_s: float
) -> list[tuple[float, float | None]]:
    """Runs of a gang whose lost members start anew in the moment they are lost."""
    out: list[tuple[float, float | None]] = []
    began = first_s
    for hit in sorted(hits):
        if hit > began:
            out.append((began, hit))
        began = max(began, hit + start_s) if hit >= began - start_s else began
    return [*out, (began, None)]


def _useful(runs: Sequence[tuple[float, float | None]], until_s: float, save_s: float) -> float:
    """Seconds of progress that last: up to the last save of a run that was cut short."""
    total = 0.0
    for began, ended in runs:
        if ended is None or ended > until_s:
            total += max(0.0, until_s - began)
        else:
            total += (ended - began) // save_s * save_s
    return total
