"""Pods of Volcano jobs as their controller would have made them: labels, template, owner."""

from collections.abc import Mapping, Sequence

from api.k8s.kinds import Obj
from api.k8s.volcano.pod_rules import number_at, text_at, tree, trees
from api.k8s.volcano.shape import Tree
from api.store.look import Look
from api.store.objects import ObjectRow
from api.store.views import PodView

JOBS = "jobs.batch.volcano.sh"
_PREFIX = "volcano.sh/"
GROUP = "scheduling.k8s.io/group-name"


def volcano_rows(look: Look, pods: Sequence[PodView]) -> Mapping[str, ObjectRow]:
    """What is stored of the Volcano jobs among the jobs of these pods, by the job's uid."""
    uids = sorted({pod.job_uid for pod in pods})
    return {str(row.job_uid): row for row in look.objects(JOBS, job_uids=uids)} if uids else {}


def dress(obj: Obj, pod: PodView, job: ObjectRow) -> None:
    """Give a pod what its task's template and its job say."""
    spec = tree(job.body, "spec")
    task = next((t for t in trees(spec, "tasks") if t.get("name") == pod.role), {})
    template = tree(task, "template")
    meta = obj["metadata"]
    about = {
        "task-index": str(pod.index),
        "task-spec": pod.role,
        "job-name": pod.job,
        "queue-name": text_at(spec, "queue"),
    }
    labels = about | {"job-namespace": pod.namespace} | _partition(task, pod)
    notes = about | {
        "template-uid": f"{pod.job}-{pod.role}",
        "job-version": str(max(0, pod.attempt - 1)),
        "job-retry-count": str(max(0, pod.attempt - 1)),
    }
    of_template = tree(template, "metadata")
    meta["labels"] = _texts(of_template, "labels") | _prefixed(labels) | (meta.get("labels") or {})
    meta["annotations"] = (
        _texts(of_template, "annotations")
        | _prefixed(notes)
        | {GROUP: f"{pod.job}-{pod.job_uid}"}
        | (meta.get("annotations") or {})
    )
    meta.setdefault("ownerReferences", []).append(
        {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "name": pod.job,
            "uid": pod.job_uid,
            "controller": False,
        }
    )
    _fill_spec(obj, pod, spec, tree(template, "spec"))


def _fill_spec(obj: Obj, pod: PodView, spec: Tree, template: Tree) -> None:
    containers = trees(template, "containers")
    if not containers:
        return
    made = template | {"nodeName": pod.node, "hostname": pod.name, "subdomain": pod.job}
    made.setdefault("schedulerName", spec.get("schedulerName", "volcano"))
    if text_at(spec, "priorityClassName"):
        made.setdefault("priorityClassName", spec["priorityClassName"])
    obj["spec"] = made
    states = obj["status"].get("containerStatuses") or []
    if states:
        obj["status"]["containerStatuses"] = [
            states[0] | {"name": c.get("name", ""), "image": c.get("image", "")} for c in containers
        ]


def _partition(task: Tree, pod: PodView) -> dict[str, str]:
    size = number_at(tree(task, "partitionPolicy"), "partitionSize")
    return {"partition-id": str(pod.index // size)} if size else {}


def _prefixed(values: Mapping[str, str]) -> dict[str, str]:
    return {f"{_PREFIX}{name}": value for name, value in values.items()}


def _texts(meta: Tree, name: str) -> dict[str, str]:
    return {key: str(value) for key, value in tree(meta, name).items()}
