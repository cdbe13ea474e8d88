"""A Volcano job as a gang: the request of `/v1/jobs` that means the same."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil

from api.k8s.volcano.failing import failure_of
from api.k8s.volcano.placing import one_per_node, where_of
from api.k8s.volcano.pod_rules import (
    number_at,
    requests_of,
    text_at,
    tree,
    trees,
)
from api.k8s.volcano.quantity import parse_duration
from api.k8s.volcano.running import running_of
from api.k8s.volcano.shape import Tree
from api.k8s.volcano.tiers import Tiers, tier_problem, within_of
from api.schemas.common import SECONDS_MAX
from scheduler.errors import JobError, Problem
from scheduler.model.job import JOB_GROUP
from scheduler.place.admit import PARALLEL_GROUPS

GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")
"""What nodes offer as GPUs; of which model a node's type says."""

UNCOUNTED = ("ephemeral-storage", "storage")
"""Resources that nodes of an inventory do not count."""

PREEMPTABLE = "volcano.sh/preemptable"
GIB = 1_024**3


@dataclass(slots=True)
class Gang:
    """What becomes of a Volcano job.

    Attributes:
        body: As `/v1/jobs` takes it.
        warnings: What of the job is taken and not acted on.
    """

    body: Tree
    warnings: list[str] = field(default_factory=list)


def gang_of(
    job: Tree, tiers: Tiers, priorities: Mapping[str, int], *, with_images: bool = False
) -> Gang:
    """The gang of a job that keeps Volcano's rules and is defaulted.

    Args:
        priorities: Names of the policy.
        with_images: Whether the service runs images.

    Raises:
        JobError: If it asks for what cannot be said of a gang.
    """
    meta, spec = tree(job, "metadata"), tree(job, "spec")
    # A task without pods waits for a change that gives it some.
    tasks = [task for task in trees(spec, "tasks") if number_at(task, "replicas")]
    where = where_of(trees(spec, "tasks"))
    problems = [*where.problems, *_problems(spec, tiers, priorities)]
    if not tasks:
        problems.append(Problem("spec.tasks", "have no replicas; a gang has at least one pod"))
    if problems:
        raise JobError(problems)
    failure, warnings = failure_of(spec)
    least = minimums(spec, tasks, priorities)
    body: Tree = {
        "name": text_at(meta, "name"),
        "namespace": text_at(meta, "namespace") or "default",
        "queue": text_at(spec, "queue"),
        "roles": [_role(spec, task, least[text_at(task, "name")], tiers) for task in tasks],
        "topology": _rules(spec, tiers, JOB_GROUP),
        "labels": where.labels,
        "tolerations": where.tolerations,
        "failure": failure,
        "if_never_fits": "wait",
    }
    if where.nodes is not None:
        body["nodes"] = where.nodes
    priority = priority_of(spec, tasks)
    if priority:
        body["priority_class"] = priority
    if text_at(tree(meta, "annotations"), PREEMPTABLE).lower() == "false":
        body["preemptible"] = False
    if all(text_at(_pod_spec(task), "preemptionPolicy") == "Never" for task in tasks):
        body["preempts"] = False
    estimate = text_at(spec, "runningEstimate")
    if estimate and 0 < parse_duration(estimate) <= SECONDS_MAX:
        body["duration_s"] = parse_duration(estimate)
    running = running_of(spec, tasks, with_images=with_images)
    if running.run:
        body["run"] = running.run
    told = [*where.warnings, *warnings, *running.warnings, *_notes(spec, tasks)]
    return Gang(body, told)


def _pod_spec(task: Tree) -> Tree:
    return tree(tree(task, "template"), "spec")


# -- how many -------------------------------------------------------------------------------------


def minimums(spec: Tree, tasks: Sequence[Tree], priorities: Mapping[str, int]) -> dict[str, int]:
    """Pods of each task that have to run together; at least one of each.

    As Volcano counts them: if the job needs fewer than its tasks together, the first so many by the
    priority of tasks; else what each task needs, and then more of them, in that order.
    """
    names = [text_at(task, "name") for task in tasks]
    order = sorted(
        range(len(tasks)), key=lambda i: (-_task_priority(spec, tasks[i], priorities), i)
    )
    own = {n: number_at(t, "minAvailable") for n, t in zip(names, tasks, strict=True)}
    wanted = number_at(spec, "minAvailable")
    found = own if wanted >= sum(own.values()) else dict.fromkeys(names, 0)
    left = wanted - sum(found.values())
    for index in order:
        name, replicas = names[index], number_at(tasks[index], "replicas")
        more = max(0, min(left, replicas - found[name]))
        found[name] += more
        left -= more
    return {
        name: _whole(task, max(1, found[name])) for name, task in zip(names, tasks, strict=True)
    }


def _whole(task: Tree, least: int) -> int:
    """Up to whole parts, where the task has some."""
    size = number_at(tree(task, "partitionPolicy"), "partitionSize")
    return ceil(least / size) * size if size else least


def _task_priority(spec: Tree, task: Tree, priorities: Mapping[str, int]) -> int:
    name = text_at(_pod_spec(task), "priorityClassName")
    return priorities.get(name or text_at(spec, "priorityClassName"), 0)


def priority_of(spec: Tree, tasks: Sequence[Tree]) -> str:
    """The job's priority class, or else the one that all its tasks name; "" = none."""
    named = text_at(spec, "priorityClassName")
    of_tasks = {text_at(_pod_spec(t), "priorityClassName") for t in tasks}
    return named or (next(iter(of_tasks)) if len(of_tasks) == 1 else "")


# -- what each is ---------------------------------------------------------------------------------


def _role(spec: Tree, task: Tree, least: int, tiers: Tiers) -> Tree:
    template = tree(task, "template")
    pod = tree(template, "spec")
    requests = requests_of(pod)
    gpus = sum((requests.get(name, Fraction(0)) for name in GPU_RESOURCES), Fraction(0))
    role: Tree = {
        "name": text_at(task, "name"),
        "replicas": number_at(task, "replicas"),
        "gpus": ceil(gpus),
        "cpu": float(requests.get("cpu", Fraction(0))),
        "memory": float(requests.get("memory", Fraction(0)) / GIB),
        "resources": {
            name: ceil(number)
            for name, number in sorted(requests.items())
            if name not in ("cpu", "memory", *GPU_RESOURCES, *UNCOUNTED) and number > 0
        },
        "one_per_node": one_per_node(pod, tree(tree(template, "metadata"), "labels")),
    }
    parts = tree(task, "partitionPolicy")
    if parts:
        size = number_at(parts, "partitionSize")
        rules = [{k: v for k, v in r.items() if k != "group"} for r in _rules(parts, tiers, "")]
        count = number_at(parts, "totalPartitions")
        role["parts"] = {"size": size, "count": count, "min": least // size, "topology": rules}
    else:
        role["min"] = least
    if text_at(task, "name") == deciding_task(spec):
        role["decides"] = True
    return role


def deciding_task(spec: Tree) -> str:
    """The one task whose completion completes the job; "" where none or several do."""
    found = [
        text_at(task, "name")
        for task in trees(spec, "tasks")
        if any(
            text_at(policy, "action") == "CompleteJob"
            and (text_at(policy, "event") == "TaskCompleted" or "TaskCompleted" in _events(policy))
            and "timeout" not in policy
            for policy in trees(task, "policies")
        )
    ]
    return found[0] if len(found) == 1 else ""


def _events(policy: Tree) -> Iterable[object]:
    found = policy.get("events")
    return found if isinstance(found, list) else ()


def _rules(holder: Tree, tiers: Tiers, group: str) -> list[Tree]:
    within = within_of(tree(holder, "networkTopology"), tiers)
    if within is None:
        return []
    return [{"group": group, "within": within.level, "mode": within.mode}]


# -- what is wrong, what is left out --------------------------------------------------------------


def _problems(spec: Tree, tiers: Tiers, priorities: Mapping[str, int]) -> Iterable[Problem]:
    problem = tier_problem(tree(spec, "networkTopology"), tiers, "spec")
    if problem:
        yield problem
    named = text_at(spec, "priorityClassName")
    if named and named not in priorities:
        yield Problem("spec.priorityClassName", _no_priority(named, priorities))
    for index, task in enumerate(trees(spec, "tasks")):
        path = f"spec.tasks[{index}]"
        parts = tree(task, "partitionPolicy")
        problem = tier_problem(tree(parts, "networkTopology"), tiers, f"{path}.partitionPolicy")
        if problem:
            yield problem
        if text_at(task, "name") in PARALLEL_GROUPS:
            words = ", ".join(PARALLEL_GROUPS)
            yield Problem(f"{path}.name", f"these name groups of ranks: {words}; choose another")
        pod = _pod_spec(task)
        own = text_at(pod, "priorityClassName")
        if own and own not in priorities:
            where = f"{path}.template.spec.priorityClassName"
            yield Problem(where, _no_priority(own, priorities))
        gpus = [requests_of(pod).get(name, Fraction(0)) for name in GPU_RESOURCES]
        if sum(1 for count in gpus if count) > 1:
            where = f"{path}.template.spec.containers"
            yield Problem(where, "ask for GPUs of two makes; a pod has one")


def _no_priority(name: str, priorities: Mapping[str, int]) -> str:
    allowed = ", ".join(sorted(priorities)) or "none: /v1/policy names no priorities"
    return f"found '{name[:60]}'; allowed are {allowed}"


def _notes(spec: Tree, tasks: Sequence[Tree]) -> Iterable[str]:
    if trees(spec, "volumes"):
        yield "spec.volumes are kept and not mounted: nodes mount what their pods need"
    for task in tasks:
        name = text_at(task, "name")
        if "dependsOn" in task:
            yield f"task '{name}': its place is taken with the gang's; its pods start after others"
        if text_at(task, "topologyPolicy") not in ("", "none"):
            yield f"task '{name}': topologyPolicy is kept and not acted on"
        skipped = [n for n in requests_of(_pod_spec(task)) if n in UNCOUNTED]
        if skipped:
            yield f"task '{name}': {', '.join(skipped)} is not counted"
    for plugin in ("hcclrank", "ray"):
        if plugin in tree(spec, "plugins"):
            yield f"plugin '{plugin}' is taken and sets nothing"
