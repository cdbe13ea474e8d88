"""What the pods of a Volcano job run, and what its plugins put into their environment.

Plugins name pods by DNS names that a service of Kubernetes makes; here they name nodes, which are
known when a pod starts, so that the values have names in them that are filled in then.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from api.k8s.volcano.plugin_arguments import argument, flag_argument, number_argument
from api.k8s.volcano.pod_rules import number_at, text_at, texts, tree, trees
from api.k8s.volcano.shape import Tree

PROCESSES = "PODYARD_PROCESSES"
"""A container is one process for its pod, however many GPUs that has."""

PYTORCH_PORT, TENSORFLOW_PORT = 23_456, 2_222

Env = dict[str, str]


@dataclass(slots=True)
class Running:
    """What pods run.

    Attributes:
        run: As `/v1/jobs` takes it; empty where there is nothing to say.
        warnings: What of it is left out.
    """

    run: Tree
    warnings: list[str]


def running_of(spec: Tree, tasks: Sequence[Tree], *, with_images: bool) -> Running:
    """Command, image and environment of the first container of each task, plugins included."""
    plugins, warnings = tree(spec, "plugins"), list[str]()
    roles: Tree = {}
    for task in tasks:
        name = text_at(task, "name")
        containers = trees(tree(tree(task, "template"), "spec"), "containers")
        first = containers[0] if containers else {}
        if len(containers) > 1:
            warnings.append(f"task '{name}': only the first container is run")
        command = [*texts(first, "command"), *texts(first, "args")]
        own_env = _plugin_env(plugins, task, tasks) | _own_env(first)
        own: Tree = {"env": own_env}
        if any("valueFrom" in entry for entry in trees(first, "env")):
            warnings.append(f"task '{name}': env that comes from fields or secrets is not set")
        if texts(first, "command"):
            own["command"] = command
            own["env"] = {PROCESSES: "pod"} | own_env
            if with_images and text_at(first, "image"):
                own["image"] = text_at(first, "image")
        own |= _after(task, tasks)
        roles[name] = {key: value for key, value in own.items() if value}
    if not with_images:
        warnings.append(
            "images are kept and not run: this service has no launcher (PODYARD_LAUNCHER)"
        )
    said = {name: run for name, run in roles.items() if run}
    return Running({"roles": said} if said else {}, warnings)


def _after(task: Tree, tasks: Sequence[Tree]) -> Tree:
    """The tasks that have to run before: so many of their pods as have to run together."""
    sizes = {
        text_at(t, "name"): max(1, min(number_at(t, "minAvailable"), number_at(t, "replicas")))
        for t in tasks
    }
    depends = tree(task, "dependsOn")
    names = [name for name in texts(depends, "name") if name in sizes]
    if not names:
        return {}
    found: Tree = {"after": {name: sizes[name] for name in names}}
    is_any = text_at(depends, "iteration") == "any" and len(names) > 1
    return found | ({"after_any": True} if is_any else {})


def _own_env(container: Tree) -> Env:
    return {
        text_at(entry, "name"): text_at(entry, "value")
        for entry in trees(container, "env")
        if "valueFrom" not in entry
    }


def _plugin_env(plugins: Tree, task: Tree, tasks: Sequence[Tree]) -> Env:
    """What the plugins of a job give to the pods of one task."""
    found: Env = {}
    if "env" in plugins:
        found |= {"VC_TASK_INDEX": "$(pod.index)", "VK_TASK_INDEX": "$(pod.index)"}
    if "svc" in plugins and flag_argument(texts(plugins, "svc"), "inject-hosts-env", default=True):
        found |= dict(_hosts(tasks))
    if "pytorch" in plugins:
        found |= _pytorch(texts(plugins, "pytorch"), task, tasks)
    if "tensorflow" in plugins:
        found |= _tensorflow(texts(plugins, "tensorflow"), task, tasks)
    if "mpi" in plugins:
        found |= _mpi(texts(plugins, "mpi"), task)
    return found


def _hosts(tasks: Sequence[Tree]) -> Iterator[tuple[str, str]]:
    for task in tasks:
        name = text_at(task, "name")
        word = name.upper().replace("-", "_")
        yield f"VC_{word}_HOSTS", f"$(hosts.{name})"
        yield f"VC_{word}_NUM", f"$(count.{name})"


def _pytorch(arguments: Sequence[str], task: Tree, tasks: Sequence[Tree]) -> Env:
    master = argument(arguments, "master", "master")
    worker = argument(arguments, "worker", "worker")
    name = text_at(task, "name")
    if name not in (master, worker):
        return {}
    sizes = {text_at(t, "name"): number_at(t, "replicas") for t in tasks}
    masters = sizes.get(master, 0)
    return {
        "MASTER_ADDR": f"$(hosts.{master})",
        "MASTER_PORT": str(number_argument(arguments, "port", PYTORCH_PORT)),
        "WORLD_SIZE": str(masters + sizes.get(worker, 0)),
        "RANK": "$(pod.index)" if name == master else f"$(pod.index+{masters})",
    }


def _tensorflow(arguments: Sequence[str], task: Tree, tasks: Sequence[Tree]) -> Env:
    port = number_argument(arguments, "port", TENSORFLOW_PORT)
    kinds = {
        kind: argument(arguments, kind, kind) for kind in ("ps", "worker", "chief", "evaluator")
    }
    names = {text_at(t, "name") for t in tasks}
    own = next((k for k, of in kinds.items() if of == text_at(task, "name")), "")
    if not own:
        return {}
    cluster = ", ".join(
        f"{json.dumps(kind)}: $(peers.{of}:{port})" for kind, of in kinds.items() if of in names
    )
    about = f'{{"type": {json.dumps(own)}, "index": $(pod.index)}}'
    return {"TF_CONFIG": f'{{"cluster": {{{cluster}}}, "task": {about}}}'}


def _mpi(arguments: Sequence[str], task: Tree) -> Env:
    if text_at(task, "name") != argument(arguments, "master", "master"):
        return {}
    worker = argument(arguments, "worker", "worker")
    return {"MPI_HOST": f"$(hosts.{worker})"}
