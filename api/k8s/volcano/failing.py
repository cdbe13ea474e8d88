"""What becomes of a job when a pod fails: policies the core knows, and those that are watched."""

from collections.abc import Sequence

from api.k8s.volcano.pod_rules import number_at, text_at, tree, trees
from api.k8s.volcano.policy_rules import ANY, events_of
from api.k8s.volcano.shape import Tree

RESTARTS_MAX = 1_000_000
"""Restarts without a limit of its own: what a pod's restartPolicy promises."""

RESTARTS = ("RestartJob", "RestartTask", "RestartPod", "RestartPartition")
FAILED = "PodFailed"


def policies_of(spec: Tree) -> list[Tree]:
    """Policies of all tasks, then those of the job: the order in which they count."""
    of_tasks = [p for task in trees(spec, "tasks") for p in trees(task, "policies")]
    return [*of_tasks, *trees(spec, "policies")]


def failure_of(spec: Tree) -> tuple[Tree, list[str]]:
    """The job's `failure`, and what is told about it.

    A job whose failures are answered by an action that is not a restart, after a time, or by exit
    code is kept going by the core until the lifecycle has acted.
    """
    policies = policies_of(spec)
    retries = max(0, number_at(spec, "maxRetry") - 1)
    failing = [p for p in policies if FAILED in events_of(p) or ANY in events_of(p)]
    watched = [p for p in failing if "timeout" in p or text_at(p, "action") not in RESTARTS]
    watched += [p for p in policies if p.get("exitCode") is not None]
    if watched:
        return {"scope": "pod", "max_restarts": RESTARTS_MAX}, _words(policies)
    actions = [text_at(p, "action") for p in failing]
    if actions:
        scope = "pod" if set(actions) == {"RestartPod"} else "gang"
        return {"scope": scope, "max_restarts": retries}, _words(policies)
    if restarts_in_place(trees(spec, "tasks")):
        return {"scope": "pod", "max_restarts": RESTARTS_MAX}, _words(policies)
    return {"scope": "gang", "max_restarts": 0}, _words(policies)


def restarts_in_place(tasks: Sequence[Tree]) -> bool:
    """Whether pods that fail are started again where they are: restartPolicy is not Never."""
    specs = [tree(tree(task, "template"), "spec") for task in tasks]
    return any(text_at(spec, "restartPolicy") != "Never" for spec in specs)


def _words(policies: Sequence[Tree]) -> list[str]:
    actions = {text_at(policy, "action") for policy in policies}
    partly = sorted(actions & {"RestartTask", "RestartPartition"})
    if not partly:
        return []
    return [f"{', '.join(partly)} restarts the whole gang: ranks are started together"]
