"""Events of a job's pods in Volcano's words, and the policies that answer them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from api.k8s.volcano.failing import FAILED, RESTARTS, failure_of
from api.k8s.volcano.gang import deciding_task
from api.k8s.volcano.kinds_job import DEFAULT_MAX_RETRY
from api.k8s.volcano.pod_rules import number_at, text_at, tree, trees
from api.k8s.volcano.policy_rules import ANY, events_of
from api.k8s.volcano.quantity import parse_duration
from api.k8s.volcano.shape import Tree
from api.store.views import EventView, JobView, PodView
from scheduler.model.lifecycle import JobState, PodState

EVICTED, PENDING, COMPLETED, TASK_FAILED, UNKNOWN = (
    "PodEvicted",
    "PodPending",
    "TaskCompleted",
    "TaskFailed",
    "Unknown",
)
DEFAULT_RETRIES = DEFAULT_MAX_RETRY
"""Restarts of a task's containers that count as its failure, where it states none."""


@dataclass(frozen=True, slots=True)
class Signal:
    """Something that happened.

    Attributes:
        pod, task: "" where it is about the whole job.
    """

    event: str
    task: str = ""
    pod: str = ""
    exit_code: int | None = None


def task_named(spec: Tree, name: str) -> Tree:
    return next((t for t in trees(spec, "tasks") if t.get("name") == name), {})


def signals_of(
    spec: Tree, view: JobView, pods: Sequence[PodView], event: EventView
) -> Iterator[Signal]:
    """What one event of the store means to a job."""
    if event.kind == "job.recovering":
        yield Signal(UNKNOWN)
    pod = next((p for p in pods if p.uid == event.uid), None)
    if event.kind != "pod.reported" or pod is None:
        return
    state, code = event.body.get("state"), event.body.get("exit_code")
    if state == PodState.FAILED:
        yield Signal(FAILED, pod.role, pod.name, code if isinstance(code, int) else None)
    elif state == PodState.STOPPED and view.state is not JobState.EVICTING:
        yield Signal(EVICTED, pod.role, pod.name)
    elif state == PodState.SUCCEEDED and _is_done(spec, pods, pod):
        yield Signal(COMPLETED, pod.role, pod.name)
    elif state == PodState.RUNNING and _restarts(spec, pods, pod.role):
        yield Signal(TASK_FAILED, pod.role, pod.name)


def _is_done(spec: Tree, pods: Sequence[PodView], last: PodView) -> bool:
    """Whether all pods of a task have succeeded; the one whose report came last is among them."""
    done = {p.uid for p in pods if p.role == last.role and p.state is PodState.SUCCEEDED}
    return len(done | {last.uid}) >= number_at(task_named(spec, last.role), "replicas")


def _restarts(spec: Tree, pods: Sequence[PodView], task: str) -> bool:
    """Whether pods of a task started anew as often as it allows."""
    most = number_at(task_named(spec, task), "maxRetry") or DEFAULT_RETRIES
    live = (PodState.RUNNING, PodState.BOUND)
    count = sum(p.attempt - 1 for p in pods if p.role == task and p.state in live)
    return 0 <= most <= count


@dataclass(frozen=True, slots=True)
class Answer:
    """What a policy wants done, and after how many seconds."""

    action: str
    after_s: float = 0.0


def answer_to(spec: Tree, signal: Signal) -> Answer | None:
    """What the first policy that a signal meets says; None where the core sees to it already."""
    task = task_named(spec, signal.task)
    for policy in [*trees(task, "policies"), *trees(spec, "policies")]:
        events = events_of(policy)
        code = policy.get("exitCode")
        if signal.event in events or ANY in events or (code and code == signal.exit_code):
            if signal.event == PENDING and "timeout" not in policy:
                continue
            return None if is_core(spec, policy, signal) else _answer(policy)
    return None


def _answer(policy: Tree) -> Answer:
    after_s = parse_duration(text_at(policy, "timeout")) if "timeout" in policy else 0.0
    return Answer(text_at(policy, "action"), max(0.0, after_s))


def is_core(spec: Tree, policy: Tree, signal: Signal) -> bool:
    """Whether the scheduler itself does what a policy says."""
    action = text_at(policy, "action")
    if "timeout" in policy:
        return False
    if signal.event in (EVICTED, UNKNOWN):
        return action in RESTARTS
    if signal.event == COMPLETED:
        return action == "CompleteJob" and signal.task == deciding_task(spec)
    return signal.event == FAILED and action in RESTARTS and _restarts_itself(spec)


def _restarts_itself(spec: Tree) -> bool:
    failure, _ = failure_of(spec)
    return number_at(failure, "max_restarts") < number_at(spec, "maxRetry")


def is_watched(spec: Tree) -> bool:
    """Whether anything about a job is done beside what the scheduler does."""
    if "minSuccess" in spec or "ttlSecondsAfterFinished" in spec:
        return True
    tasks = [text_at(task, "name") for task in trees(spec, "tasks")]
    return any(_is_lively(spec, task) for task in tasks)


def _is_lively(spec: Tree, task: str) -> bool:
    policies = [*trees(task_named(spec, task), "policies"), *trees(spec, "policies")]
    for policy in policies:
        if policy.get("exitCode") is not None:
            return True
        for event in _meant(events_of(policy)):
            if not is_core(spec, policy, Signal(event, task)):
                return True
    return False


def _meant(events: Sequence[str]) -> Sequence[str]:
    every = (FAILED, EVICTED, COMPLETED, TASK_FAILED, UNKNOWN)
    return every if ANY in events else events


def key_of(signal: Signal, action: str) -> str:
    """Under which a delayed action is noted."""
    return f"{signal.pod} {signal.event} {action}"


def still_due(
    due: Mapping[str, float], event: EventView, pods: Sequence[PodView]
) -> dict[str, float]:
    """Delayed actions that an event does not call off."""
    pod = next((p for p in pods if p.uid == event.uid), None)
    if event.kind != "pod.reported" or pod is None:
        return dict(due)
    called_off = {PENDING}
    if event.body.get("state") == PodState.RUNNING:
        called_off |= {FAILED, EVICTED}
    return {
        key: at
        for key, at in due.items()
        if not (key.split(" ")[0] in (pod.name, "") and key.split(" ")[1] in called_off)
    }


def pending_limit(spec: Tree) -> Answer | None:
    """The policy about pods that wait for too long."""
    for task in trees(spec, "tasks"):
        found = answer_to(spec, Signal(PENDING, text_at(task, "name")))
        if found is not None:
            return found
    return None


def has_min_success(spec: Tree, pods: Sequence[PodView]) -> bool:
    """Whether so many pods have succeeded as the job needs."""
    wanted = number_at(spec, "minSuccess")
    return 0 < wanted <= sum(p.state is PodState.SUCCEEDED for p in pods)


def spec_of(body: Mapping[str, object]) -> Tree:
    return tree(body, "spec")
