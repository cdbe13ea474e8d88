"""Defaults of a Volcano job, as its webhook writes them: one list of JSON patch operations."""

from typing import cast

from api.k8s.volcano.kinds_job import DEFAULT_MAX_RETRY, DEFAULT_QUEUE
from api.k8s.volcano.patch import Operation, apply_patch
from api.k8s.volcano.pod_rules import number_at, text_at, tree, trees
from api.k8s.volcano.shape import Tree

DISTRIBUTED = ("tensorflow", "mpi", "pytorch", "ray")
"""Plugins whose pods find each other by name, which the plugin `svc` sees to."""


def job_defaults(job: Tree, scheduler: str) -> list[Operation]:
    """What is to be changed in a job whose fields are of the right kinds."""
    spec = tree(job, "spec")
    made: list[Operation] = []
    if not isinstance(job.get("spec"), dict):
        made.append(_add("/spec", {}))
    if not text_at(spec, "queue"):
        made.append(_add("/spec/queue", DEFAULT_QUEUE))
    if not text_at(spec, "schedulerName"):
        made.append(_add("/spec/schedulerName", scheduler))
    if not number_at(spec, "maxRetry"):
        made.append(_add("/spec/maxRetry", DEFAULT_MAX_RETRY))
    tasks = [_task(task, index) for index, task in enumerate(trees(spec, "tasks"))]
    if tasks != spec.get("tasks", []):
        made.append({"op": "replace", "path": "/spec/tasks", "value": tasks})
    if not number_at(spec, "minAvailable"):
        total = sum(number_at(task, "minAvailable") for task in tasks)
        made.append(_add("/spec/minAvailable", total))
    if isinstance(spec.get("plugins"), dict):
        plugins = dict(tree(spec, "plugins"))
        if any(name in plugins for name in DISTRIBUTED):
            plugins.setdefault("svc", [])
        if "mpi" in plugins:
            plugins.setdefault("ssh", [])
        made.append({"op": "replace", "path": "/spec/plugins", "value": plugins})
    return made


def defaulted_job(job: Tree, scheduler: str = "volcano") -> Tree:
    """The job with its defaults in."""
    return cast(Tree, apply_patch(job, job_defaults(job, scheduler)))


def _task(task: Tree, index: int) -> Tree:
    made = dict(task)
    if not text_at(task, "name"):
        made["name"] = f"default{index}"
    spec = tree(tree(task, "template"), "spec")
    if spec.get("hostNetwork") is True and not text_at(spec, "dnsPolicy"):
        dns = {"dnsPolicy": "ClusterFirstWithHostNet"}
        made["template"] = tree(task, "template") | {"spec": spec | dns}
    if task.get("minAvailable") is None:
        parts = tree(task, "partitionPolicy")
        least = number_at(parts, "minPartitions") * number_at(parts, "partitionSize")
        made["minAvailable"] = least or number_at(task, "replicas")
    if not number_at(task, "maxRetry"):
        made["maxRetry"] = DEFAULT_MAX_RETRY
    return made


def _add(path: str, value: object) -> Operation:
    return {"op": "add", "path": path, "value": value}
