"""One session of a Volcano scheduler: its snapshot, and where Podyard would put each gang of it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from api.k8s.extender.cluster import Amount, Topologies, amount_of, trial_of
from api.k8s.extender.reading import Tree, number_at, pick, text_at, tree_at
from api.k8s.volcano.kinds_job import POD_SPEC
from api.k8s.volcano.placing import where_of
from api.k8s.volcano.pod_rules import tree as plain_tree
from api.k8s.volcano.shape import filled, shape_problems
from api.k8s.volcano.tiers import Tiers, within_of
from scheduler.cluster.trial import Trial
from scheduler.model.job import JOB_GROUP, JobSpec, Mode, Role, Rule, Toleration
from scheduler.model.node import TaintEffect
from scheduler.model.placement import Placement
from scheduler.place.search import place
from scheduler.topology.tree import Topology

PENDING = 1
READY = frozenset({2, 8, 16, 32, 128})
"""Allocated, binding, bound, running, succeeded."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Where the waiting tasks of one job go.

    Attributes:
        nodes: Task uid -> node.
        why: Why there is no place; "" where there is.
    """

    nodes: Mapping[str, str] = field(default_factory=dict)
    why: str = ""


@dataclass(slots=True)
class Session:
    """A snapshot, and the plans made on it so far; each takes its room from those after it."""

    topology: Topology
    trial: Trial
    jobs: Mapping[str, Tree]
    queues: Mapping[str, Tree]
    plans: dict[str, Plan] = field(default_factory=dict)

    def plan(self, job_uid: str) -> Plan | None:
        """Where a job goes; None if the snapshot has none of that name."""
        known = self.plans.get(job_uid)
        if known is None and job_uid in self.jobs:
            known = self.plans[job_uid] = self._made(self.jobs[job_uid])
        return known

    def _made(self, job: Tree) -> Plan:
        gang = gang_of(job, self.topology)
        if not gang.tasks:
            return Plan()
        why = ""
        for spec in gang.specs():
            for nodes in near(gang.there, spec.rules, self.topology):
                if nodes and spec.nodes:
                    nodes = tuple(name for name in nodes if name in spec.nodes)
                    if not nodes:
                        continue
                found = place(self.trial, replace(spec, nodes=nodes) if nodes else spec)
                if isinstance(found, Placement):
                    self.trial.hold_places(found.pods)
                    return Plan(_by_task(gang, found, self.topology))
                why = found.message  # that of the smallest gang in the widest place, the last
        return Plan(why=why)


def open_session(body: Tree, topologies: Topologies) -> Session:
    """The session of a snapshot.

    Raises:
        MalformedRequest: If its nodes make no cluster.
    """
    nodes = [node for node in tree_at(body, "Nodes").values() if isinstance(node, Mapping)]
    objects = [found for node in nodes if isinstance(found := pick(node, "Node"), Mapping)]
    topology = topologies.of(objects)
    idle = {text_at(node, "Name"): amount_of(tree_at(node, "Idle")) for node in nodes}
    jobs = {str(uid): job for uid, job in tree_at(body, "Jobs").items() if isinstance(job, Mapping)}
    queues = {str(uid): q for uid, q in tree_at(body, "Queues").items() if isinstance(q, Mapping)}
    return Session(topology, trial_of(topology, idle), jobs, queues)


# -- gangs ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class ForeignGang:
    """The waiting tasks of a job.

    Attributes:
        spec: With all of them.
        tasks: Role -> uids, in the order of their names.
        least: Role -> so many of them have to start together.
        there: Nodes of its tasks that run already.
    """

    spec: JobSpec
    tasks: dict[str, list[str]]
    least: dict[str, int]
    there: tuple[str, ...] = ()

    def specs(self) -> list[JobSpec]:
        """All members, or else the fewest that may start."""
        smaller = tuple(
            replace(role, replicas=self.least[role.name], min=self.least[role.name])
            for role in self.spec.roles
            if self.least[role.name]
        )
        fewer = replace(self.spec, roles=smaller)
        return [self.spec] if not smaller or fewer == self.spec else [self.spec, fewer]


def gang_of(job: Tree, topology: Topology) -> ForeignGang:
    """The gang of a job's tasks that wait."""
    tasks = [t for t in tree_at(job, "Tasks").values() if isinstance(t, Mapping)]
    waiting = [t for t in tasks if number_at(t, "Status") == PENDING]
    waiting.sort(key=lambda t: (_padded(text_at(t, "Name")), text_at(t, "UID")))
    roles: dict[str, tuple[Amount, list[str]]] = {}
    for task in waiting:
        amount = amount_of(tree_at(task, "Resreq"))
        name = _role_name(roles, text_at(task, "TaskRole") or "pod", amount)
        roles.setdefault(name, (amount, []))[1].append(text_at(task, "UID"))
    least = _least(job, tasks, {name: len(uids) for name, (_, uids) in roles.items()})
    spec = JobSpec(
        name=text_at(job, "Name") or "gang",
        roles=tuple(
            Role(name, len(uids), len(uids), amount.gpus, amount.resources)
            for name, (amount, uids) in roles.items()
        ),
        rules=_rules(job, topology),
    )
    pods = [p for t in waiting if isinstance(p := pick(t, "Pod"), Mapping)]
    there = {text_at(t, "NodeName") for t in tasks if int(number_at(t, "Status")) in READY}
    uids = {name: found for name, (_, found) in roles.items()}
    return ForeignGang(with_where(spec, pods), uids, least, tuple(sorted(there - {""})))


def near(
    there: tuple[str, ...], rules: tuple[Rule, ...], topology: Topology
) -> Iterator[tuple[str, ...]]:
    """Where members may join those that run: the nearest domain first; () = anywhere.

    A required rule of the gang holds for both together.
    """
    nodes = [topology.node_index[name] for name in there if name in topology.node_index]
    bound = {rule.within for rule in rules if rule.mode is Mode.REQUIRED}
    for depth in range(len(topology.levels) - 2, -1, -1) if nodes else ():
        level, places = topology.levels[depth], topology.place[depth]
        domains = {places[node] for node in nodes}
        if len(domains) == 1 and not level.is_blank(places[nodes[0]]):
            (domain,) = domains
            inside = range(level.node_lo[domain], level.node_hi[domain])
            yield tuple(topology.nodes[node].name for node in inside)
            if level.name in bound:
                return
    yield ()


def _padded(name: str) -> tuple[str, int]:
    """Names in the order of the number at their end."""
    head, _, tail = name.rpartition("-")
    return (head, int(tail)) if tail.isdecimal() and len(tail) < 10 else (name, 0)


def _role_name(roles: Mapping[str, tuple[Amount, list[str]]], name: str, amount: Amount) -> str:
    """A role of its own for pods that ask for something else than others of the same task."""
    count, found = 1, name
    while found in roles and roles[found][0] != amount:
        count += 1
        found = f"{name}-{count}"
    return found


def _least(job: Tree, tasks: list[Tree], waiting: Mapping[str, int]) -> dict[str, int]:
    """How many of the waiting tasks of each role have to start, so that the job is ready."""
    ready = sum(int(number_at(t, "Status")) in READY for t in tasks)
    left = max(1, int(number_at(job, "MinAvailable")) - ready)
    of_task = tree_at(job, "TaskMinAvailable")
    found: dict[str, int] = {}
    for role, count in waiting.items():
        found[role] = min(count, left, int(number_at(of_task, role)) if role in of_task else count)
        left -= found[role]
    for role, count in waiting.items():
        more = min(left, count - found[role])
        found[role] += more
        left -= more
    return found


def _rules(job: Tree, topology: Topology) -> tuple[Rule, ...]:
    found = tree_at(job, "NetworkTopology")
    asked = {
        name: value
        for name in ("mode", "highestTierAllowed", "highestTierName")
        if (value := pick(found, name)) is not None
    }
    return rules_of(asked, topology)


def rules_of(asked: dict[str, object], topology: Topology) -> tuple[Rule, ...]:
    """The rule of a network topology; a tier that is unknown here is the scheduler's own affair."""
    try:
        within = within_of(asked, Tiers(topology.level_names))
    except ValueError:
        return ()
    return () if within is None else (Rule(JOB_GROUP, within.level, Mode(within.mode)),)


def with_where(spec: JobSpec, pods: list[Tree]) -> JobSpec:
    """The gang with what its pods ask of nodes, as far as that can be said of a gang."""
    tasks: list[dict[str, object]] = []
    for pod in pods:
        found = plain_tree(dict(pod), "spec")
        if not any(shape_problems(POD_SPEC, found, "")):
            # Nulls count as left out, and what reads a spec knows none.
            template: dict[str, object] = {"spec": filled(POD_SPEC, found)}
            if not tasks or tasks[-1]["template"] != template:
                tasks.append({"template": template})
    where = where_of(tasks)
    return replace(
        spec,
        labels=dict(where.labels),
        nodes=tuple(where.nodes or ()),
        tolerations=tuple(
            Toleration(
                key=None if item.get("key") is None else str(item["key"]),
                exists=item["operator"] == "Exists",
                value=str(item["value"]),
                effect=TaintEffect(str(item["effect"])) if item.get("effect") else None,
            )
            for item in where.tolerations
        ),
    )


def _by_task(gang: ForeignGang, found: Placement, topology: Topology) -> dict[str, str]:
    return {
        gang.tasks[pod.role][pod.index]: topology.nodes[pod.node_index].name for pod in found.pods
    }


def ready_count(job: Tree) -> int:
    """Tasks of a job that have a place, or are done."""
    tasks = tree_at(job, "Tasks").values()
    return sum(int(number_at(task, "Status")) in READY for task in tasks)
