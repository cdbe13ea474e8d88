"""What makes a Volcano job one that its webhook takes: new ones and changes."""

from collections.abc import Iterator, Mapping, Sequence

from api.k8s.volcano import words
from api.k8s.volcano.depends import order_problems
from api.k8s.volcano.kinds_job import NUMA_POLICIES, PLUGINS
from api.k8s.volcano.plugin_arguments import argument
from api.k8s.volcano.pod_rules import (
    number_at,
    template_problems,
    text_at,
    texts,
    tree,
    trees,
    whole_cpus,
)
from api.k8s.volcano.policy_rules import policy_problems
from api.k8s.volcano.quantity import parse_duration
from api.k8s.volcano.shape import Tree, shown
from api.k8s.volcano.site import ROOT, Site
from scheduler.errors import Problem

CHANGEABLE = ("minAvailable", "priorityClassName")
CHANGEABLE_OF_TASK = ("replicas", "minAvailable")


def create_problems(job: Tree, site: Site) -> Iterator[Problem]:
    """What is wrong with a new job whose fields are of the right kinds and defaulted."""
    name, spec = text_at(tree(job, "metadata"), "name"), tree(job, "spec")
    tasks = trees(spec, "tasks")
    if not tasks:
        yield Problem("spec.tasks", "is required; a job has at least one task")
        return
    missing = _missing_master(spec, tasks)
    if missing is not None:
        yield missing
        return
    yield from topology_problems(spec, "spec")
    yield from _task_list_problems(name, tasks)
    if not words.is_qualified(name):
        yield Problem("metadata.name", words.wrong(name, words.QUALIFIED))
    yield from _sum_problems(spec, tasks)
    yield from policy_problems(trees(spec, "policies"), "spec.policies")
    for plugin in tree(spec, "plugins"):
        if plugin not in PLUGINS:
            allowed = ", ".join(PLUGINS)
            yield Problem("spec.plugins", f"no plugin '{plugin[:60]}'; allowed are {allowed}")
    yield from _volume_problems(trees(spec, "volumes"))
    yield from queue_problems(text_at(spec, "queue"), site)
    if any("dependsOn" in task for task in tasks):
        yield from order_problems(tasks)
    if "runningEstimate" in spec:
        yield from _duration_problems(spec)


def _duration_problems(spec: Tree) -> Iterator[Problem]:
    try:
        parse_duration(text_at(spec, "runningEstimate"))
    except ValueError as error:
        yield Problem("spec.runningEstimate", str(error))


def _missing_master(spec: Tree, tasks: Sequence[Tree]) -> Problem | None:
    """The plugin mpi needs its master task."""
    if "mpi" not in tree(spec, "plugins"):
        return None
    master = argument(texts(tree(spec, "plugins"), "mpi"), "master", "master")
    if any(task.get("name") == master for task in tasks):
        return None
    return Problem("spec.plugins.mpi", f"its master is task '{master[:60]}', which is not there")


def topology_problems(holder: Tree, path: str) -> Iterator[Problem]:
    """A tier is named or numbered, not both."""
    found = tree(holder, "networkTopology")
    if found.get("highestTierAllowed") is not None and text_at(found, "highestTierName"):
        yield Problem(
            f"{path}.networkTopology.highestTierName",
            "is given with highestTierAllowed; give one of them",
        )


def _task_list_problems(job_name: str, tasks: Sequence[Tree]) -> Iterator[Problem]:
    seen: dict[str, int] = {}
    for index, task in enumerate(tasks):
        path, name = f"spec.tasks[{index}]", text_at(task, "name")
        if name in seen:
            message = f"'{name}' is the name of spec.tasks[{seen[name]}] too"
            yield Problem(f"{path}.name", message)
            return
        seen[name] = index
        yield from _task_problems(task, path)
        pod = f"{job_name}-{name}-{index}"
        if not words.is_qualified(pod):
            yield Problem(f"{path}.name", f"its pods would be '{pod}': {words.QUALIFIED}")


def _task_problems(task: Tree, path: str) -> Iterator[Problem]:
    replicas, least = number_at(task, "replicas"), number_at(task, "minAvailable")
    if least > replicas:
        yield Problem(f"{path}.minAvailable", f"found {least}; at most replicas, {replicas}")
    yield from policy_problems(trees(task, "policies"), f"{path}.policies")
    yield from template_problems(tree(task, "template"), f"{path}.template")
    yield from _numa_problems(task, path)
    yield from partition_problems(task, path)


def _numa_problems(task: Tree, path: str) -> Iterator[Problem]:
    policy = text_at(task, "topologyPolicy")
    if policy and policy not in NUMA_POLICIES:
        allowed = ", ".join(NUMA_POLICIES)
        yield Problem(f"{path}.topologyPolicy", f"found {shown(policy)}; allowed are {allowed}")
    if policy in ("", "none"):
        return
    spec = tree(tree(task, "template"), "spec")
    for field in ("initContainers", "containers"):
        for index, container in enumerate(trees(spec, field)):
            if not whole_cpus(container):
                yield Problem(
                    f"{path}.template.spec.{field}[{index}].resources.requests.cpu",
                    f"must be a whole number above 0, as topologyPolicy is {policy}",
                )


def partition_problems(task: Tree, path: str) -> Iterator[Problem]:
    """Parts hold all pods of the task."""
    if not isinstance(task.get("partitionPolicy"), dict):
        return
    parts, where = tree(task, "partitionPolicy"), f"{path}.partitionPolicy"
    count, size = number_at(parts, "totalPartitions"), number_at(parts, "partitionSize")
    replicas = number_at(task, "replicas")
    for field, value in (("totalPartitions", count), ("partitionSize", size)):
        if value <= 0:
            yield Problem(f"{where}.{field}", f"found {value}; it must be at least 1")
    if count > 0 and size > 0 and replicas != count * size:
        yield Problem(
            f"{path}.replicas",
            f"found {replicas}; totalPartitions x partitionSize is {count} x {size} = "
            f"{count * size}",
        )
    least = number_at(parts, "minPartitions")
    wanted = task.get("minAvailable")
    if least > 0 and wanted is not None and wanted != least * size:
        yield Problem(
            f"{path}.minAvailable",
            f"found {wanted}; minPartitions x partitionSize is {least} x {size} = {least * size}",
        )
    yield from topology_problems(parts, where)


def _sum_problems(spec: Tree, tasks: Sequence[Tree]) -> Iterator[Problem]:
    least, total = number_at(spec, "minAvailable"), sum(number_at(t, "replicas") for t in tasks)
    if least < 0:
        yield Problem("spec.minAvailable", f"found {least}; it must be at least 0")
    if least > total:
        yield Problem("spec.minAvailable", f"found {least}; the tasks have {total} replicas in all")


def _volume_problems(volumes: Sequence[Tree]) -> Iterator[Problem]:
    """The first problem of the list alone."""
    seen: set[str] = set()
    for index, volume in enumerate(volumes):
        path = f"spec.volumes[{index}]"
        at, claim = text_at(volume, "mountPath"), text_at(volume, "volumeClaimName")
        has_spec = isinstance(volume.get("volumeClaim"), dict)
        if not at:
            yield Problem(f"{path}.mountPath", "is required")
        elif at in seen:
            yield Problem(f"{path}.mountPath", f"'{at[:60]}' comes twice")
        elif not has_spec and not claim:
            yield Problem(path, "give volumeClaim or volumeClaimName")
        elif has_spec and claim:
            yield Problem(path, "gives both volumeClaim and volumeClaimName; give one of them")
        elif claim and not words.is_subdomain(claim):
            yield Problem(f"{path}.volumeClaimName", words.wrong(claim, words.SUBDOMAIN))
        else:
            seen.add(at)
            continue
        return


def queue_problems(name: str, site: Site, path: str = "spec.queue") -> Iterator[Problem]:
    """A job's queue is there, open, and has none below it."""
    queue = site.queues.get(name)
    if queue is None:
        yield Problem(path, f"there is no queue '{name[:60]}'")
    elif name == ROOT:
        yield Problem(path, "'root' takes no jobs; choose a queue below it")
    elif queue.state != "Open":
        yield Problem(path, f"queue '{name}' is {queue.state}; only an open one takes jobs")
    elif site.children(name):
        below = site.children(name)[0].name
        yield Problem(path, f"queue '{name}' has queues below it, such as '{below}'; choose one")


# -- changes --------------------------------------------------------------------------------------


def update_problems(old: Tree, new: Tree) -> Iterator[Problem]:
    """The first thing wrong with a change of a job, if any."""
    yield from _first(_changes(tree(old, "spec"), tree(new, "spec")))


def _first(problems: Iterator[Problem]) -> Iterator[Problem]:
    found = next(problems, None)
    if found is not None:
        yield found


def _changes(old: Tree, new: Tree) -> Iterator[Problem]:
    before, after = trees(old, "tasks"), trees(new, "tasks")
    for index, task in enumerate(after):
        path, replicas = f"spec.tasks[{index}]", number_at(task, "replicas")
        if replicas < 0:
            yield Problem(f"{path}.replicas", f"found {replicas}; it must be at least 0")
        least = task.get("minAvailable")
        if least is not None and not 0 <= number_at(task, "minAvailable") <= replicas:
            yield Problem(f"{path}.minAvailable", f"found {least}; it lies in 0 to {replicas}")
        yield from partition_problems(task, path)
    yield from _sum_problems(new, after)
    yield from topology_problems(new, "spec")
    if len(before) != len(after):
        yield Problem("spec.tasks", f"found {len(after)}; the number of tasks is {len(before)}")
        return
    yield from _fixed_problems(old, new)


def _fixed_problems(old: Tree, new: Tree) -> Iterator[Problem]:
    """Fields that cannot change."""
    pairs = zip(trees(old, "tasks"), trees(new, "tasks"), strict=True)
    for index, (before, after) in enumerate(pairs):
        for field in _differing(before, after, CHANGEABLE_OF_TASK):
            yield Problem(f"spec.tasks[{index}].{field}", _fixed(CHANGEABLE_OF_TASK))
    left, right = _plain(old), _plain(new)
    for field in _differing(left, right, (*CHANGEABLE, "tasks")):
        yield Problem(f"spec.{field}", _fixed((*CHANGEABLE, "tasks[*].replicas")))


def _plain(spec: Tree) -> Tree:
    """A spec without the names that the controller gives to claims it makes."""
    volumes = [
        {k: v for k, v in volume.items() if k != "volumeClaimName" or "volumeClaim" not in volume}
        for volume in trees(spec, "volumes")
    ]
    return spec | ({"volumes": volumes} if "volumes" in spec else {})


def _differing(
    before: Mapping[str, object], after: Mapping[str, object], free: Sequence[str]
) -> list[str]:
    names = sorted({*before, *after} - set(free))
    return [name for name in names if (before.get(name) or None) != (after.get(name) or None)]


def _fixed(free: Sequence[str]) -> str:
    return f"cannot be changed; what can be is {', '.join(free)}"
