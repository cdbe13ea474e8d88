"""A job and its pods as Volcano shows them: phases, counts, conditions; of its group too."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from api.k8s.meta import time_text
from api.k8s.volcano.life import Life
from api.k8s.volcano.pod_rules import number_at, text_at, tree, trees
from api.k8s.volcano.shape import Tree
from api.store.views import JobView, PodView
from scheduler.model.lifecycle import FINAL, JobState, PodState

POD_PHASES: Mapping[PodState, str] = {
    PodState.BOUND: "Pending",
    PodState.RUNNING: "Running",
    PodState.LOST: "Unknown",
    PodState.SUCCEEDED: "Succeeded",
    PodState.FAILED: "Failed",
}
"""Of pods that Kubernetes would still show, those on their way out apart."""

_ENDINGS = {
    "CompleteJob": ("Completing", "Completed"),
    "TerminateJob": ("Terminating", "Terminated"),
    "FailJob": ("Terminating", "Failed"),
}
"""Phases of jobs that were cancelled by an action, while they leave and when they have left."""

_LINE = (JobState.PENDING, JobState.RESERVED, JobState.BOUND)


def phase_of(view: JobView, life: Life) -> str:
    """The phase of a job."""
    leaving, left = _ENDINGS.get(life.action, ("Terminating", "Terminated"))
    if view.state in FINAL:
        return _final_phase(view, leaving, left, life)
    if view.state is JobState.SUSPENDED:
        return "Restarting" if life.action == "ResumeJob" else "Aborted"
    then = view.evict.then if view.evict is not None else None
    if view.cancelling or life.action in _ENDINGS:
        return leaving
    if then is JobState.SUSPENDED or life.action == "AbortJob":
        return "Aborting"
    if view.state is JobState.EVICTING:
        return "Restarting" if then is JobState.PENDING else leaving
    if life.action.startswith("Restart") and life.attempt == view.attempt and view.live:
        return "Restarting"
    return "Pending" if view.state in _LINE else "Running"


def _final_phase(view: JobView, leaving: str, left: str, life: Life) -> str:
    if life.action in _ENDINGS:
        return leaving if view.live else left
    if view.state is JobState.CANCELLED:
        return leaving if view.live else left
    return "Completed" if view.state is JobState.SUCCEEDED else "Failed"


def job_status(view: JobView, spec: Tree, life: Life, pods: Sequence[PodView]) -> Tree:
    """The status of a job."""
    phase = phase_of(view, life)
    retries = max(0, view.attempt - 1, life.retries)
    message = life.why if life.action and life.why else view.message
    status: Tree = {
        "state": {
            "phase": phase,
            "lastTransitionTime": time_text(_changed_s(view, life)),
        }
        | ({"reason": str(view.reason or life.action)} if view.reason or life.action else {})
        | ({"message": message} if message else {}),
        "minAvailable": number_at(spec, "minAvailable"),
        "conditions": _conditions(view, life, phase),
        **_counts(view, pods),
        "taskStatusCount": _by_task(pods),
    }
    if retries:
        status |= {"retryCount": retries, "version": retries}
    plugins = sorted(tree(spec, "plugins"))
    if plugins:
        status["controlledResources"] = {f"plugin-{name}": name for name in plugins}
    if view.state in FINAL and view.finished_at is not None:
        ran = view.finished_at - (view.started_at or view.submitted_at)
        status["runningDuration"] = f"{max(0.0, ran):.3f}s"
    return status


def _changed_s(view: JobView, life: Life) -> float:
    """When the phase began, as far as it is known."""
    if view.state in FINAL and view.finished_at is not None:
        return view.finished_at
    since = view.submitted_at if view.state in _LINE else view.started_at or view.bound_at or 0.0
    return max(since, life.at_s if life.action else 0.0, view.submitted_at)


def _conditions(view: JobView, life: Life, phase: str) -> list[Tree]:
    """One for each phase there was, oldest first; the last is the present one."""
    passed = [("Pending", view.submitted_at)]
    if view.started_at is not None:
        passed.append(("Running", view.started_at))
    found = [(name, at) for name, at in passed if name != phase]
    found.append((phase, _changed_s(view, life)))
    return [{"status": name, "lastTransitionTime": time_text(at)} for name, at in found]


def _counts(view: JobView, pods: Sequence[PodView]) -> Tree:
    """Pods by phase; members that are still to come are pending."""
    phases = Counter(POD_PHASES[pod.state] for pod in pods if pod.state in POD_PHASES)
    terminating = sum(pod.state is PodState.TERMINATING for pod in pods)
    pending = phases["Pending"]
    if view.state not in FINAL | {JobState.SUSPENDED, JobState.EVICTING}:
        pending += max(0, view.members - sum(phases.values()) - terminating)
    counts = {
        "pending": pending,
        "running": phases["Running"],
        "succeeded": phases["Succeeded"],
        "failed": phases["Failed"],
        "terminating": terminating,
        "unknown": phases["Unknown"],
    }
    return {name: count for name, count in counts.items() if count}


def _by_task(pods: Iterable[PodView]) -> Tree:
    found: dict[str, Counter[str]] = {}
    for pod in pods:
        if pod.state in POD_PHASES:
            found.setdefault(pod.role, Counter())[POD_PHASES[pod.state]] += 1
    return {task: {"phase": dict(sorted(phases.items()))} for task, phases in found.items()}


# -- groups ---------------------------------------------------------------------------------------


def group_name(view: JobView) -> str:
    """The name of a job's pod group."""
    return f"{view.name}-{view.uid}"


def group_spec(spec: Tree, view: JobView) -> Tree:
    """The spec of a job's pod group."""
    found: Tree = {
        "minMember": number_at(spec, "minAvailable"),
        "queue": view.queue,
        "minTaskMember": {role.name: role.min for role in view.spec.roles},
    }
    if text_at(spec, "priorityClassName"):
        found["priorityClassName"] = text_at(spec, "priorityClassName")
    if tree(spec, "networkTopology"):
        found["networkTopology"] = tree(spec, "networkTopology")
    resources = _least_resources(view)
    if resources:
        found["minResources"] = resources
    parts = [_sub_group(task) for task in trees(spec, "tasks") if tree(task, "partitionPolicy")]
    if parts:
        found["subGroupPolicy"] = parts
    return found


def _least_resources(view: JobView) -> Tree:
    cpu_milli = sum(role.min * role.resources.cpu_milli for role in view.spec.roles)
    memory_mib = sum(role.min * role.resources.memory_mib for role in view.spec.roles)
    gpus = sum(role.min * role.gpus for role in view.spec.roles)
    found: Tree = {"pods": str(view.minimum)}
    found |= {"cpu": f"{cpu_milli}m"} if cpu_milli else {}
    found |= {"memory": f"{memory_mib}Mi"} if memory_mib else {}
    return found | ({"nvidia.com/gpu": str(gpus)} if gpus else {})


def _sub_group(task: Tree) -> Tree:
    parts = tree(task, "partitionPolicy")
    found: Tree = {
        "name": text_at(task, "name"),
        "subGroupSize": number_at(parts, "partitionSize"),
        "minSubGroups": number_at(parts, "minPartitions"),
        "labelSelector": {"matchLabels": {"volcano.sh/task-spec": text_at(task, "name")}},
        "matchLabelKeys": ["volcano.sh/partition-id"],
    }
    if tree(parts, "networkTopology"):
        found["networkTopology"] = tree(parts, "networkTopology")
    return found


def group_status(view: JobView, pods: Sequence[PodView]) -> Tree:
    """The status of a job's pod group."""
    phases = Counter(POD_PHASES[pod.state] for pod in pods if pod.state in POD_PHASES)
    found: Tree = {"phase": _group_phase(view), "conditions": _group_conditions(view)}
    found |= {
        name.lower(): phases[name] for name in ("Running", "Succeeded", "Failed") if phases[name]
    }
    return found


def _group_phase(view: JobView) -> str:
    if view.state in FINAL:
        return "Completed"
    if view.state in (JobState.PENDING, JobState.RESERVED):
        return "Pending" if view.held else "Inqueue"
    if view.state is JobState.SUSPENDED:
        return "Pending"
    return "Unknown" if view.state is JobState.RECOVERING else "Running"


def _group_conditions(view: JobView) -> list[Tree]:
    if view.bound_at is not None:
        return [_condition(view, "Scheduled", view.bound_at, "the gang has its place", "")]
    if view.state is JobState.PENDING and view.message:
        reason = "NotEnoughResources"
        return [_condition(view, "Unschedulable", view.submitted_at, view.message, reason)]
    return []


def _condition(view: JobView, kind: str, at_s: float, message: str, reason: str) -> Tree:
    found: Tree = {
        "type": kind,
        "status": "True",
        "transitionID": view.uid,
        "lastTransitionTime": time_text(at_s),
        "message": message,
    }
    return found | ({"reason": reason} if reason else {})
