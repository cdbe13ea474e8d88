"""The best that can be done with a case, by constraint programming and from first principles.

Nothing of the scheduler's search is used: pods, groups, room and rules are worked out anew here
from the words of the design. A pod goes into a *bin*: a node, or the nodes of one place that are
alike where a node holds at most one pod.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import gcd

from ortools.sat.python import cp_model

from scheduler.model.job import JobSpec, Mode, ParallelSizes, Role, Rule
from scheduler.model.node import NodeType
from tests.oracle.cases import Case, CaseNode

Groups = tuple[tuple[int, ...], ...]
"""Pods of each group of one kind."""

Spread = tuple[int, ...]
"""For each preferred rule: domains summed over its groups, at its level, then at each above."""


@dataclass(frozen=True, slots=True)
class Bin:
    """Room for pods.

    Attributes:
        domains: Domain at each level, `node` included; None where there is no place. The node of a
            bin of several nodes is None too: each of its pods has one by itself.
        room: Pods that fit.
        nodes: Names, one for each pod where each has its own.
        free, dead: Mask of the GPUs free and the rails dead on its nodes, where told apart.
    """

    domains: tuple[str | None, ...]
    room: int
    nodes: tuple[str, ...]
    free: int = 0
    dead: int = 0


@dataclass(frozen=True, slots=True)
class Problem:
    """A case on one node type.

    Attributes:
        pods: Pods wanted.
        least: Pods that must be placed; with `step`, in multiples of it.
        required, preferred: (index of the level, groups that belong in one domain of it).
    """

    kind: NodeType
    gpus: int
    pods: int
    least: int
    step: int
    bins: tuple[Bin, ...]
    required: tuple[tuple[int, Groups], ...]
    preferred: tuple[tuple[int, Groups], ...]


@dataclass(frozen=True, slots=True)
class Optimum:
    """The best of one case: as many pods as fit, then the least spread.

    Attributes:
        bin_of_pod: One layout that reaches it.
    """

    problem: Problem
    pods: int
    spread: Spread
    bin_of_pod: tuple[int, ...]

    @property
    def key(self) -> tuple[int, Spread]:
        """Smaller is better: pods that have no place, then the spread."""
        return self.problem.pods - self.pods, self.spread


def best_of_case(case: Case) -> list[Optimum]:
    """The optimum over all node types, of each type that reaches it; empty when nothing fits."""
    found = [best for problem in problems(case) if (best := solve(problem)) is not None]
    least = min((o.key for o in found), default=None)
    return [o for o in found if o.key == least]


def problems(case: Case) -> Iterator[Problem]:
    """One problem for each type that could hold the pods: all pods of a gang are on one."""
    for kind in sorted({node.kind.name: node.kind for node in case.nodes}.items()):
        problem = _problem(case, kind[1])
        if problem is not None:
            yield problem


def _problem(case: Case, kind: NodeType) -> Problem | None:
    spec = case.spec
    if spec.parallelism is None:
        return _role_problem(case, kind, spec.roles[0])
    sizes = spec.parallelism
    gpus = spec.gpus_per_pod or _gpus_per_pod(sizes, kind.gpus)
    if gpus > kind.gpus:
        return None
    pods = sizes.world // gpus
    rules = spec.rules
    if all(rule.group != "tp" for rule in rules):
        rules = (Rule("tp", "scale_up", Mode.REQUIRED), *rules)
    groups = {rule.group: pod_groups(sizes, gpus, rule.group) for rule in rules}
    return Problem(
        kind=kind,
        gpus=gpus,
        pods=pods,
        least=pods,
        step=1,
        bins=_bins(case, kind, gpus, spec.resources_per_pod.cpu_milli, alone=True, talks=pods > 1),
        required=_of_mode(case, kind, rules, groups, Mode.REQUIRED),
        preferred=_of_mode(case, kind, rules, groups, Mode.PREFERRED),
    )


def _role_problem(case: Case, kind: NodeType, role: Role) -> Problem | None:
    if role.gpus > kind.gpus:
        return None
    members = tuple(range(role.replicas))
    step = role.parts.size if role.parts is not None else 1
    whole = (members,)
    parts = tuple(members[i : i + step] for i in range(0, role.replicas, step))
    rules = (*case.spec.rules, *role.rules)
    if role.parts is not None:
        rules += role.parts.rules
    groups = {"job": whole, role.name: whole, "": parts}
    return Problem(
        kind=kind,
        gpus=role.gpus,
        pods=role.replicas,
        least=role.min,
        step=step,
        bins=_bins(case, kind, role.gpus, role.resources.cpu_milli, alone=role.one_per_node),
        required=_of_mode(case, kind, rules, groups, Mode.REQUIRED),
        preferred=_of_mode(case, kind, rules, groups, Mode.PREFERRED),
    )


def _of_mode(
    case: Case, kind: NodeType, rules: Sequence[Rule], groups: dict[str, Groups], mode: Mode
) -> tuple[tuple[int, Groups], ...]:
    out = []
    for rule in rules:
        if rule.mode is mode:
            name = rule.within
            if name == "scale_up":
                name = kind.scale_up or case.scale_up
            out.append((case.levels.index(name), groups[rule.group]))
    return tuple(out)


def _gpus_per_pod(sizes: ParallelSizes, node_gpus: int) -> int:
    """The largest number that divides the world and nests with the tp groups."""
    return max(
        g
        for g in range(1, node_gpus + 1)
        if sizes.world % g == 0 and (g % sizes.tp == 0 or sizes.tp % g == 0)
    )


@lru_cache(maxsize=4096)
def pod_groups(sizes: ParallelSizes, gpus: int, axis: str) -> Groups:
    """Pods of each group of an axis, as Megatron numbers ranks: fastest axis of the order first."""
    if axis == "job":
        return (tuple(range(sizes.world // gpus)),)
    grid = {"tp": sizes.tp, "cp": sizes.cp, "ep": 1, "dp": sizes.dp, "pp": sizes.pp}
    if axis == "ep":
        edp = sizes.world // (sizes.expert_tp * sizes.ep * sizes.pp)
        grid = {"tp": sizes.expert_tp, "cp": 1, "ep": sizes.ep, "dp": edp, "pp": sizes.pp}
    slow_first = sizes.order[::-1]
    members: dict[tuple[int, ...], set[int]] = {}
    for rank, at in enumerate(product(*(range(grid[a]) for a in slow_first))):
        others = tuple(i for a, i in zip(slow_first, at, strict=True) if a != axis)
        members.setdefault(others, set()).add(rank // gpus)
    return tuple(tuple(sorted(pods)) for pods in members.values())


def _bins(
    case: Case, kind: NodeType, gpus: int, cpu_milli: int, *, alone: bool, talks: bool = False
) -> tuple[Bin, ...]:
    """Room of every node.

    Args:
        alone: At most one pod to a node.
        talks: Pods talk between nodes, so that dead rails count.
    """
    alike: dict[tuple[str | None, ...], list[str]] = {}
    out = []
    for node in case.nodes:
        if talks and case.spec.rails_required and _live(node).bit_count() < gpus:
            continue
        room = _room(case.spec, node, kind, gpus, cpu_milli)
        above = tuple(node.places.get(level) for level in case.levels[:-1])
        if room and alone:
            alike.setdefault(above, []).append(node.name)
        elif room:
            out.append(Bin((*above, node.name), room, (node.name,)))
    out += [Bin((*above, None), len(names), tuple(names)) for above, names in alike.items()]
    return tuple(out)


def _live(node: CaseNode) -> int:
    """Free GPUs next to a rail that is not dead."""
    return node.free & ~node.dead_rails


def _room(spec: JobSpec, node: CaseNode, kind: NodeType, gpus: int, cpu_milli: int) -> int:
    """Pods that a node takes now."""
    if node.cordoned or node.kind.name != kind.name:
        return 0
    if spec.nodes and node.name not in spec.nodes:
        return 0
    room = (kind.gpus - node.used.bit_count()) // gpus
    if cpu_milli:
        room = min(room, (kind.capacity.cpu_milli - node.used_cpu_milli) // cpu_milli)
    return room


class _Model:
    """One CP-SAT model: which bin each of the first so many pods is in."""

    def __init__(self, problem: Problem, pods: int) -> None:
        self.problem = problem
        self.model = cp_model.CpModel()
        bins = range(len(problem.bins))
        self.put = [
            [self.model.new_bool_var(f"p{pod}b{b}") for b in bins] for pod in range(problem.pods)
        ]
        for b, room in enumerate(bin.room for bin in problem.bins):
            self.model.add(sum(row[b] for row in self.put) <= room)
        for level, groups in problem.required:
            for group in groups:
                self._together(level, tuple(pod for pod in group if pod < pods))
        for pod, row in enumerate(self.put):
            self.model.add(sum(row) == (1 if pod < pods else 0))

    def _together(self, level: int, group: tuple[int, ...]) -> None:
        """One domain for the group; what has no place at the level is in no domain."""
        if len(group) < 2:
            return
        by_domain = self._by_domain(level)
        chosen = {d: self.model.new_bool_var("") for d in by_domain if d is not None}
        self.model.add(sum(chosen.values()) <= 1)
        for pod in group:
            for domain, bins in by_domain.items():
                limit = 0 if domain is None else chosen[domain]
                self.model.add(sum(self.put[pod][b] for b in bins) <= limit)

    def _by_domain(self, level: int) -> dict[str | None, list[int]]:
        out: dict[str | None, list[int]] = {}
        for b, bin in enumerate(self.problem.bins):
            out.setdefault(bin.domains[level], []).append(b)
        return out

    def spread(self, level: int, groups: Groups) -> list[cp_model.IntVar]:
        """Variables whose sum is the domains that the groups touch at a level.

        A pod without a place there counts by itself.
        """
        out = []
        for group in groups:
            for domain, bins in self._by_domain(level).items():
                if domain is None:
                    out += [self.put[pod][b] for pod in group for b in bins]
                    continue
                touched = self.model.new_bool_var("")
                for pod in group:
                    self.model.add(sum(self.put[pod][b] for b in bins) <= touched)
                out.append(touched)
        return out


def solve(problem: Problem) -> Optimum | None:
    """As many pods as fit, then the least spread of the preferred rules in their order."""
    for pods in range(problem.pods, problem.least - 1, -problem.step):
        if sum(bin.room for bin in problem.bins) < pods:
            continue
        found = _solve(problem, pods)
        if found is not None:
            return found
    return None


def _solve(problem: Problem, pods: int) -> Optimum | None:
    model = _Model(problem, pods)
    # One objective: each term outweighs all later ones, for no term exceeds the pods of its groups.
    weight = 1
    variables: list[cp_model.IntVar] = []
    weights: list[int] = []
    for level, groups in reversed(problem.preferred):
        different = _once(groups, pods)
        for depth in range(level + 1):
            terms = model.spread(depth, different)
            variables += terms
            weights += [weight] * len(terms)
            weight *= sum(len(group) for group in different) + 1
    model.model.minimize(cp_model.LinearExpr.weighted_sum(variables, weights))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    status = solver.solve(model.model)
    if status == cp_model.INFEASIBLE:
        return None
    if status != cp_model.OPTIMAL:
        raise RuntimeError(f"the oracle found no proof: {solver.status_name(status)}")
    chosen = tuple(
        next(b for b, put in enumerate(row) if solver.boolean_value(put))
        for row in model.put[:pods]
    )
    domains = [problem.bins[b].domains for b in chosen]
    return Optimum(problem, pods, spread_of(problem, domains), chosen)


def _once(groups: Groups, pods: int) -> Groups:
    """Groups of several pods that have a place, each once where all come equally often."""
    present = [tuple(pod for pod in group if pod < pods) for group in groups]
    counts = Counter(group for group in present if len(group) > 1)
    least = gcd(*counts.values())
    return tuple(group for group, count in counts.items() for _ in range(count // least))


def spread_of(problem: Problem, domains: Sequence[tuple[str | None, ...]]) -> Spread:
    """Spread of a layout.

    Args:
        domains: Domain at each level of each placed pod, by index.
    """
    out = []
    for level, groups in problem.preferred:
        for depth in range(level, -1, -1):
            total = 0
            for group in groups:
                places = [domains[pod][depth] for pod in group if pod < len(domains)]
                total += len({p for p in places if p is not None}) + places.count(None)
            out.append(total)
    return tuple(out)


def keeps_rules(problem: Problem, domains: Sequence[tuple[str | None, ...]]) -> bool:
    """Whether a layout keeps every required rule."""
    for level, groups in problem.required:
        for group in groups:
            places = [domains[pod][level] for pod in group if pod < len(domains)]
            if len(places) > 1 and (None in places or len(set(places)) > 1):
                return False
    return True
