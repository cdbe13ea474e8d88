"""The scheduler's answer to a case beside the optimum."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from scheduler.cluster.world import World
from scheduler.model.placement import NoFit, Placement
from scheduler.place.search import place
from tests.oracle.cases import Case, CaseNode, random_case, world_of
from tests.oracle.exact import (
    Optimum,
    Problem,
    Spread,
    best_of_case,
    keeps_rules,
    problems,
    spread_of,
)
from tests.oracle.seconds import EQUAL, TooMany, least_seconds, seconds_between


class Fault(StrEnum):
    """What is wrong with an answer."""

    VERDICT = "verdict"
    """It fits and was refused, or does not fit and was placed."""
    BROKEN = "broken"
    """A required rule is not kept, or something is taken that is not free."""
    FEWER = "fewer"
    """Fewer members than could have had a place."""


@dataclass(frozen=True, slots=True)
class Audit:
    """One case judged.

    Attributes:
        optimum: None when nothing fits.
        spread: Of the answer; None without a placement.
        seconds: Predicted for the answer; None for roles, or without a placement.
        least_s: The least there is; None where it is not known or the spread is not the optimum.
    """

    case: Case
    answer: Placement | NoFit
    optimum: Optimum | None
    fault: Fault | None = None
    spread: Spread | None = None
    seconds: float | None = None
    least_s: float | None = None

    @property
    def spreads_least(self) -> bool:
        """Whether no layout spreads less."""
        return self.optimum is not None and self.spread == self.optimum.spread

    @property
    def over_optimum(self) -> float | None:
        """Predicted seconds over the least there are; None where they were not judged."""
        if self.seconds is None or self.least_s is None:
            return None
        if self.seconds <= self.least_s:
            return 1.0
        return self.seconds / self.least_s if self.least_s else float("inf")

    def line(self) -> str:
        """What happened, for a failure message."""
        best = "nothing fits" if self.optimum is None else f"best spread {self.optimum.spread}"
        ours = "refused" if isinstance(self.answer, NoFit) else f"placed, spread {self.spread}"
        said = f"seed {self.case.seed} ({self.answer.search}): {self.fault or ''} {ours}; {best}"
        over = self.over_optimum
        return said if over is None else f"{said}; {self.seconds:.6g} s, {over:.4f} x the least"


def audit(case: Case) -> Audit:
    """Place the gang, and say how good the answer is."""
    world = world_of(case)
    answer = place(world.trial, case.spec)
    found = best_of_case(case)
    optimum = found[0] if found else None
    if isinstance(answer, NoFit) or optimum is None:
        wrong = isinstance(answer, Placement) or optimum is not None
        return Audit(case, answer, optimum, Fault.VERDICT if wrong else None)
    nodes = nodes_by_index(case, world)
    problem = problem_of(case, answer, nodes)
    if problem is None:
        return Audit(case, answer, optimum, Fault.BROKEN)
    domains = [path_of(case, nodes[pod.node_index]) for pod in answer.pods]
    wrong = takes_too_much(problem, answer, nodes) or uses_dead_rails(case, answer, nodes)
    if wrong or not keeps_rules(problem, domains):
        return Audit(case, answer, optimum, Fault.BROKEN)
    if problem.pods - len(answer.pods) > optimum.key[0]:
        return Audit(case, answer, optimum, Fault.FEWER)
    spread = spread_of(problem, domains)
    seconds = seconds_of(case, world, problem, answer)
    least_s = None
    if seconds is not None and spread == optimum.spread:
        least_s = least_of(case, world, found, seconds)
    return Audit(case, answer, optimum, None, spread, seconds, least_s)


def audit_seed(seed: int) -> Audit:
    return audit(random_case(seed))


def seconds_of(case: Case, world: World, problem: Problem, answer: Placement) -> float | None:
    """Predicted for the answer; None for a job of roles."""
    if case.spec.parallelism is None:
        return None
    indices = [pod.node_index for pod in answer.pods]
    masks = [pod.gpu_mask for pod in answer.pods]
    return seconds_between(case, problem, world.topology, indices, masks)


def least_of(case: Case, world: World, optima: Sequence[Optimum], found_s: float) -> float | None:
    """The least predicted seconds on any node type; None where there are too many layouts."""
    topology = world.topology
    try:
        return min(least_seconds(case, o.problem, o.spread, topology, found_s) for o in optima)
    except TooMany:
        return None


def problem_of(case: Case, answer: Placement, nodes: Sequence[CaseNode]) -> Problem | None:
    """The problem of the type that the answer's nodes are of; None if they are of several."""
    kinds = {nodes[pod.node_index].kind.name for pod in answer.pods}
    return next((p for p in problems(case) if {p.kind.name} == kinds), None)


def nodes_by_index(case: Case, world: World) -> list[CaseNode]:
    """The case's nodes as the scheduler numbers them."""
    by_name = {node.name: node for node in case.nodes}
    return [by_name[record.name] for record in world.topology.nodes]


def path_of(case: Case, node: CaseNode) -> tuple[str | None, ...]:
    return (*(node.places.get(level) for level in case.levels[:-1]), node.name)


def takes_too_much(problem: Problem, answer: Placement, nodes: Sequence[CaseNode]) -> bool:
    """Whether a pod takes GPUs in use, too few of them, or a node takes too many pods."""
    room = {name: bin.room // len(bin.nodes) for bin in problem.bins for name in bin.nodes}
    taken = Counter({node.name: node.used for node in nodes})
    for pod in answer.pods:
        name = nodes[pod.node_index].name
        overlap = taken[name] & pod.gpu_mask
        room[name] = room.get(name, 0) - 1
        if overlap or pod.gpu_mask.bit_count() != problem.gpus or room[name] < 0:
            return True
        taken[name] |= pod.gpu_mask
    return False


def uses_dead_rails(case: Case, answer: Placement, nodes: Sequence[CaseNode]) -> bool:
    """Whether a gang that must not has a GPU next to a dead rail, though it talks between nodes."""
    if not case.spec.rails_required or len(answer.pods) == 1:
        return False
    return any(nodes[pod.node_index].dead_rails & pod.gpu_mask for pod in answer.pods)


@dataclass(frozen=True, slots=True)
class Tally:
    """Many cases in figures.

    Attributes:
        faults: Cases with a wrong verdict or a broken answer.
        ruled: Cases that fit and have a preferred rule.
        wider: Of these, those that spread more than need be.
        timed: Cases of more than one node whose least predicted seconds are known.
        slower: Of these, those more than 1 % above the least.
        unjudged: Cases with too many layouts to know the least.
    """

    cases: int
    fitting: int
    faults: tuple[Audit, ...]
    ruled: int
    wider: tuple[Audit, ...]
    timed: int
    slower: tuple[Audit, ...]
    unjudged: int

    @property
    def optimal_spread_share(self) -> float:
        return 1.0 - len(self.wider) / max(1, self.ruled)

    @property
    def optimal_time_share(self) -> float:
        return 1.0 - len(self.slower) / max(1, self.timed)

    @property
    def worst_over_optimum(self) -> float:
        """The largest predicted seconds over the least; 1.0 without a slower case."""
        return max((a.over_optimum or 1.0 for a in self.slower), default=1.0)

    @property
    def unsaid(self) -> tuple[Audit, ...]:
        """Wider or slower, though the answer does not say so."""
        return tuple(a for a in (*self.wider, *self.slower) if not is_said(a))

    def __str__(self) -> str:
        return (
            f"{self.cases} cases, {self.fitting} fit: {len(self.faults)} wrong; "
            f"spread optimal in {self.ruled - len(self.wider)} of {self.ruled} with preferred "
            f"rules ({self.optimal_spread_share:.2%}); predicted time optimal in "
            f"{self.timed - len(self.slower)} of {self.timed} ({self.optimal_time_share:.2%}), "
            f"worst {self.worst_over_optimum:.4f} x; {len(self.unsaid)} not said in the answer; "
            f"{self.unjudged} with too many layouts to judge"
        )


NEAR = 1.05
"""Slower than this an answer must tell how far off it may be, not only that it may."""


def is_said(found: Audit) -> bool:
    """Whether an answer that is not the optimum says so, with a gap that is no less than it is."""
    answer, over = found.answer, found.over_optimum
    if not isinstance(answer, Placement) or answer.search != "bounded":
        return False
    if over is None or over <= EQUAL:
        return True  # it is wider; a gap tells of seconds
    if answer.gap is None:
        return over <= NEAR
    return answer.gap >= 1.0 - 1.0 / over - 1e-9


def tally(audits: Sequence[Audit]) -> Tally:
    ruled = [a for a in audits if a.fault is None and a.spread]
    timed = [a for a in audits if a.over_optimum is not None and (a.seconds or a.least_s)]
    return Tally(
        cases=len(audits),
        fitting=sum(a.optimum is not None for a in audits),
        faults=tuple(a for a in audits if a.fault is not None),
        ruled=len(ruled),
        wider=tuple(a for a in ruled if not a.spreads_least),
        timed=len(timed),
        slower=tuple(a for a in timed if (a.over_optimum or 1.0) > EQUAL),
        unjudged=sum(
            a.seconds is not None and a.spreads_least and a.least_s is None for a in audits
        ),
    )
