"""The paths of Volcano's webhook manager: what each is about, and which rules answer there."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from api.k8s.volcano.job_defaults import job_defaults
from api.k8s.volcano.job_rules import create_problems, update_problems
from api.k8s.volcano.kinds_job import JOB_SPEC
from api.k8s.volcano.kinds_other import (
    CRON_SPEC,
    FLOW_SPEC,
    GROUP_SPEC,
    HYPERNODE_SPEC,
    POD_OBJECT_SPEC,
    QUEUE_SPEC,
)
from api.k8s.volcano.other_rules import (
    cron_problems,
    flow_problems,
    group_defaults,
    group_problems,
    hypernode_problems,
    pod_problems,
)
from api.k8s.volcano.patch import Operation
from api.k8s.volcano.pod_rules import text_at, tree
from api.k8s.volcano.queue_rules import delete_problems, queue_defaults, queue_problems
from api.k8s.volcano.shape import Shape, Tree, mapping, open_record, text
from api.k8s.volcano.site import Site
from scheduler.errors import Problem


@dataclass(frozen=True, slots=True)
class Asked:
    """One question of an API server.

    Attributes:
        object, old: Of the right kinds; empty where the operation has none.
    """

    operation: str
    name: str
    namespace: str
    object: Tree
    old: Tree


Check = Callable[[Asked, Site], Iterable[Problem]]
Mutate = Callable[[Asked, Site], Sequence[Operation]]


@dataclass(frozen=True, slots=True)
class Hook:
    """One path.

    Attributes:
        name: Of the webhook, as Volcano registers it.
        resource: group, version and plural.
        shape: Of the objects; what is of other kinds is refused before any rule looks.
        check: None on a path that mutates.
    """

    path: str
    name: str
    resource: tuple[str, str, str]
    operations: tuple[str, ...]
    shape: Shape
    check: Check | None = None
    mutate: Mutate | None = None


_META = open_record(
    {
        "name": text(),
        "generateName": text(),
        "namespace": text(),
        "labels": mapping(text()),
        "annotations": mapping(text()),
    }
)


def _object(spec: Shape) -> Shape:
    status = open_record({"state": text()})
    return open_record({"metadata": _META, "spec": spec, "status": status})


def _check_job(asked: Asked, site: Site) -> Iterable[Problem]:
    if asked.operation == "UPDATE":
        return update_problems(asked.old, asked.object)
    return create_problems(_named(asked), site)


def _named(asked: Asked) -> Tree:
    """The object with the name that it has or will be given."""
    meta = tree(asked.object, "metadata")
    if text_at(meta, "name"):
        return asked.object
    prefix = text_at(meta, "generateName")
    name = asked.name or (f"{prefix}00000" if prefix else "")
    return asked.object | {"metadata": meta | {"name": name}}


def _check_queue(asked: Asked, site: Site) -> Iterable[Problem]:
    if asked.operation == "DELETE":
        return delete_problems(asked.name, site)
    old = asked.old if asked.operation == "UPDATE" else None
    return queue_problems(_named(asked), old, site)


def _mutate_group(asked: Asked, site: Site) -> Sequence[Operation]:
    namespace = asked.namespace or text_at(tree(asked.object, "metadata"), "namespace")
    return group_defaults(asked.object, site, namespace)


_JOBS = ("batch.volcano.sh", "v1alpha1", "jobs")
_CRONS = ("batch.volcano.sh", "v1alpha1", "cronjobs")
_GROUPS = ("scheduling.volcano.sh", "v1beta1", "podgroups")
_QUEUES = ("scheduling.volcano.sh", "v1beta1", "queues")
_HYPERNODES = ("topology.volcano.sh", "v1alpha1", "hypernodes")
_FLOWS = ("flow.volcano.sh", "v1alpha1", "jobflows")
_PODS = ("", "v1", "pods")
_NEW, _WRITE = ("CREATE",), ("CREATE", "UPDATE")

HOOKS: Mapping[str, Hook] = {
    hook.path: hook
    for hook in (
        Hook(
            "/jobs/mutate",
            "mutatejob.volcano.sh",
            _JOBS,
            _NEW,
            _object(JOB_SPEC),
            mutate=lambda asked, site: job_defaults(asked.object, site.schedulers[0]),
        ),
        Hook(
            "/jobs/validate",
            "validatejob.volcano.sh",
            _JOBS,
            _WRITE,
            _object(JOB_SPEC),
            check=_check_job,
        ),
        Hook(
            "/cronjobs/validate",
            "validatecronjob.volcano.sh",
            _CRONS,
            _WRITE,
            _object(CRON_SPEC),
            check=lambda asked, site: cron_problems(_named(asked), site),
        ),
        Hook(
            "/podgroups/mutate",
            "mutatepodgroup.volcano.sh",
            _GROUPS,
            _NEW,
            _object(GROUP_SPEC),
            mutate=_mutate_group,
        ),
        Hook(
            "/podgroups/validate",
            "validatepodgroup.volcano.sh",
            _GROUPS,
            _NEW,
            _object(GROUP_SPEC),
            check=lambda asked, site: group_problems(asked.object, site),
        ),
        Hook(
            "/queues/mutate",
            "mutatequeue.volcano.sh",
            _QUEUES,
            _NEW,
            _object(QUEUE_SPEC),
            mutate=lambda asked, _: queue_defaults(asked.object),
        ),
        Hook(
            "/queues/validate",
            "validatequeue.volcano.sh",
            _QUEUES,
            ("CREATE", "UPDATE", "DELETE"),
            _object(QUEUE_SPEC),
            check=_check_queue,
        ),
        Hook(
            "/pods/mutate",
            "mutatepod.volcano.sh",
            _PODS,
            _NEW,
            _object(POD_OBJECT_SPEC),
            mutate=lambda *_: [],
        ),
        Hook(
            "/pods/validate",
            "validatepod.volcano.sh",
            _PODS,
            _NEW,
            _object(POD_OBJECT_SPEC),
            check=lambda asked, site: pod_problems(asked.object, site),
        ),
        Hook(
            "/hypernodes/validate",
            "validatehypernode.volcano.sh",
            _HYPERNODES,
            _WRITE,
            _object(HYPERNODE_SPEC),
            check=lambda asked, _: hypernode_problems(asked.object),
        ),
        Hook(
            "/jobflows/validate",
            "validatejobflow.volcano.sh",
            _FLOWS,
            _WRITE,
            _object(FLOW_SPEC),
            check=lambda asked, _: flow_problems(asked.object),
        ),
    )
}
