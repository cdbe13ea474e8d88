"""Gangs and worlds, made to measure for a test."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from scheduler.cluster.world import World
from scheduler.cycle import run_cycle
from scheduler.model.ids import JobId, NodeId, PodId
from scheduler.model.job import JobSpec, Mode, ParallelSizes, Parts, Role, Rule
from scheduler.model.lifecycle import JobState, PodState
from scheduler.model.placement import NoFit, Placement
from scheduler.model.plan import Fact, FactKind, JobRecord, Plan, PodRecord
from scheduler.model.resources import full_mask
from scheduler.parallel.groups import groups_of
from scheduler.place.kept import Member, broken_rules
from scheduler.place.search import place
from scheduler.policy import Policy
from scheduler.sim.apply import apply as apply
from scheduler.topology.tree import Topology


def gang(tp: int = 1, pp: int = 1, dp: int = 1, *rules: Rule, **fields: object) -> JobSpec:
    """A parallel job; `ep`, `cp`, `etp`, `order` go to its sizes, all else to the job."""
    sizes = {key: fields.pop(key) for key in ("ep", "cp", "etp", "order") if key in fields}
    parallelism = ParallelSizes(tp=tp, pp=pp, dp=dp, **sizes)  # type: ignore[arg-type]  # by name
    spec = JobSpec(name="j", parallelism=parallelism, rules=rules)
    return replace(spec, **fields)  # type: ignore[arg-type]  # by name


def role(name: str = "m", replicas: int = 1, gpus: int = 8, **fields: object) -> Role:
    """A role that needs all its members unless `min` says otherwise."""
    given: dict[str, object] = {"min": replicas, **fields}
    return Role(name=name, gpus=gpus, replicas=replicas, **given)  # type: ignore[arg-type]  # by name


def role_gang(*roles: Role, **fields: object) -> JobSpec:
    return replace(JobSpec(name="j", roles=roles), **fields)  # type: ignore[arg-type]  # by name


def parts(size: int, count: int, least: int | None = None, *rules: Rule) -> Parts:
    return Parts(size, count, count if least is None else least, rules)


def required(group: str, within: str) -> Rule:
    return Rule(group, within, Mode.REQUIRED)


def preferred(group: str, within: str) -> Rule:
    return Rule(group, within, Mode.PREFERRED)


def occupy(world: World, node: str, mask: int | None = None, job: str = "other") -> None:
    """Somebody else's pod on a node: all of its GPUs, or those of a mask."""
    index = world.topology.node_index[node]
    taken = full_mask(world.topology.types[index].gpus) if mask is None else mask
    uid = PodId(f"{job}-{node}-{taken}")
    world.put_pod(PodRecord(uid, JobId(job), uid, "", 0, NodeId(node), taken, 0, PodState.RUNNING))


def nodes_of(topology: Topology, placement: Placement) -> list[str]:
    """Node of each pod, in the placement's order."""
    return [topology.nodes[pod.node_index].name for pod in placement.pods]


def count_by(topology: Topology, placement: Placement, level: str) -> dict[str, int]:
    """Pods in each domain of a level."""
    depth = topology.level_index[level]
    names = topology.levels[depth].names
    return dict(Counter(names[topology.place[depth][pod.node_index]] for pod in placement.pods))


def spans(
    topology: Topology, spec: JobSpec, placement: Placement, axis: str, level: str
) -> list[int]:
    """Domains of a level that each group of an axis touches."""
    assert spec.parallelism is not None
    depth = topology.level_index[level]
    of_pod = [topology.place[depth][pod.node_index] for pod in placement.pods]
    groups = groups_of(spec.parallelism)[axis] // placement.gpus_per_pod
    return [len({of_pod[pod] for pod in group}) for group in groups.tolist()]


def broken(world: World, spec: JobSpec, placement: Placement) -> tuple[Rule, ...]:
    """Stated rules that a placement does not keep."""
    members = [Member(pod.role, pod.index, pod.node_index) for pod in placement.pods]
    return broken_rules(spec, world.topology, members, placement.gpus_per_pod)


def placed(world: World, spec: JobSpec) -> Placement:
    """The placement of a gang that fits."""
    found = place(world.trial, spec)
    assert isinstance(found, Placement), found
    return found


def refused(world: World, spec: JobSpec) -> NoFit:
    found = place(world.trial, spec)
    assert isinstance(found, NoFit), found
    return found


def submit(
    world: World, spec: JobSpec, name: str, age: int | None = None, priority: int = 0
) -> JobId:
    """A pending job in the world."""
    uid = JobId(name)
    named = replace(spec, name=name, priority=priority)
    world.put_job(
        JobRecord(uid, named, JobState.PENDING, len(world.jobs) + 1 if age is None else age)
    )
    return uid


def cycle(world: World, policy: Policy | None = None, now_s: float = 0.0) -> Plan:
    """One cycle, its plan applied to the world as a commit would, and checked as a store would."""
    plan = run_cycle(world, policy or Policy(), now_s)
    apply(world, plan, now_s)
    return plan


def report(world: World, pod: PodRecord, state: PodState, exit_code: int | None = None) -> None:
    """A node's word on one pod, to be taken account of in the next cycle."""
    number = len(world.facts) + 1
    world.facts.append(
        Fact(number, number, FactKind.REPORT, pod.job, pod.uid, pod.attempt, state, exit_code)
    )


def report_all(world: World, job: JobId, state: PodState, exit_code: int | None = None) -> None:
    for pod in world.live_pods(job):
        report(world, pod, state, exit_code)


def cancel(world: World, job: JobId) -> None:
    tell(world, FactKind.CANCEL, job)


def tell(world: World, kind: FactKind, job: JobId, request_id: str = "") -> None:
    """What somebody wants of a job, to be taken account of in the next cycle."""
    number = len(world.facts) + 1
    world.facts.append(Fact(number, number, kind, job, request_id=request_id))


def job_nodes(world: World, job: JobId) -> list[str]:
    """Nodes of the live pods, by role and index."""
    return [pod.node for pod in world.live_pods(job)]


def free_gpus(world: World, names: Iterable[str]) -> list[int]:
    return [world.table.free[world.topology.node_index[name]].bit_count() for name in names]
