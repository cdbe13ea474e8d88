"""core/v1 Pod as an object: what is known of a member of a gang, in the words of Kubernetes."""

from typing import Any

from api.k8s.kinds import NAME, Column, Kind, Obj, Subresource
from api.k8s.meta import metadata_of, time_text
from api.k8s.schema import ANYTHING, BOOLEAN, INTEGER, TEXT, TEXTS, object_schema
from api.store.look import PlacedPod
from api.store.objects import ObjectRow
from scheduler.model.lifecycle import LIVE_POD, PodState
from scheduler.model.resources import indices_of

GROUP_KEYS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
QUEUE_KEY = "scheduling.volcano.sh/queue-name"
JOB_KEY = "podyard.io/job-uid"
"""Annotation of a waiting pod that says which job it is of."""

_CONTAINER = {
    "type": "object",
    "x-kubernetes-preserve-unknown-fields": True,
    "required": ["name"],
    "properties": {
        "name": TEXT,
        "image": TEXT,
        "command": {"type": "array", "items": TEXT},
        "args": {"type": "array", "items": TEXT},
        "env": {"type": "array", "items": ANYTHING},
        "resources": {
            "type": "object",
            "properties": {
                "limits": ANYTHING,
                "requests": ANYTHING,
                "claims": {"type": "array", "items": ANYTHING},
            },
        },
    },
}

KIND = Kind(
    "",
    "v1",
    "pods",
    "pod",
    "Pod",
    object_schema(
        "Pod is a member of a gang, on one node. One that is made by itself is a gang of one, or "
        "joins the gang that its annotation scheduling.k8s.io/group-name names.",
        {
            "spec": {
                "type": "object",
                "description": "What it asks for.",
                "x-kubernetes-preserve-unknown-fields": True,
                "required": ["containers"],
                "properties": {
                    "containers": {
                        "type": "array",
                        "description": "Their requests together are what it asks for.",
                        "items": _CONTAINER,
                    },
                    "nodeName": TEXT,
                    "nodeSelector": TEXTS,
                    "priorityClassName": TEXT,
                    "schedulerName": TEXT,
                    "restartPolicy": TEXT,
                    "terminationGracePeriodSeconds": INTEGER,
                    "hostNetwork": BOOLEAN,
                    "tolerations": {"type": "array", "items": ANYTHING},
                },
            },
            "status": ANYTHING | {"description": "Phase, and where it is."},
        },
        ("spec",),
    ),
    short_names=("po",),
    categories=("all",),
    subresources=(
        Subresource("eviction", ("create",), "Eviction", "policy", "v1"),
        Subresource("binding", ("create",), "Binding", "", "v1"),
        Subresource("log", ("get",)),
        Subresource("status", ("get", "patch", "update")),
    ),
    columns=(
        NAME,
        Column("Ready", description="Containers that are ready, of all."),
        Column("Status", description="Phase, or why it is in it."),
        Column("Restarts", type="integer", description="Attempts after the first."),
        Column("Age"),
        Column("IP", priority=1),
        Column("Node", priority=1),
        Column("Nominated Node", priority=1),
        Column("Readiness Gates", priority=1),
    ),
    strategic=True,
    selectable=(
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
)

PHASES = {
    PodState.BOUND: "Pending",
    PodState.RUNNING: "Running",
    PodState.TERMINATING: "Running",
    PodState.LOST: "Running",
    PodState.SUCCEEDED: "Succeeded",
    PodState.FAILED: "Failed",
}
"""Pods in another state have left, and are not shown."""


def placed_object(pod: PlacedPod, row: ObjectRow | None, *, image: str = "") -> Obj:
    """A pod that has a place, or has ended there.

    Args:
        row: What is stored of it; one that was made by itself has its name and manifest there.
    """
    view = pod.view
    is_own = row is not None and "spec" in row.body
    name = row.name if row is not None and is_own else view.name
    base = row.uid if row is not None and is_own else view.uid
    owner = {
        "apiVersion": "podyard.io/v1",
        "kind": "Job",
        "name": view.job,
        "uid": view.job_uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    leaves = view.state is PodState.TERMINATING
    metadata = metadata_of(
        KIND,
        name=name,
        namespace=view.namespace,
        uid=uid_of(base, view.attempt),
        revision=view.revision,
        created_s=pod.at,
        row=row,
        labels={
            "podyard.io/job": view.job[:63],
            "podyard.io/role": view.role,
            "podyard.io/index": str(view.index),
        },
        owners=[owner],
        deleted_s=(pod.evicted_at or pod.at) if leaves else None,
    )
    spec = dict(row.body["spec"]) if row is not None and is_own else _spec(pod, image)
    spec["nodeName"] = view.node
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": spec,
        "status": _status(pod, spec),
    }


def waiting_object(row: ObjectRow, *, attempt: int, revision: int, message: str) -> Obj:
    """A pod that was made by itself and waits for its gang to get a place.

    Args:
        attempt: The one that is to come.
        revision: Of what it waits for.
    """
    why: Obj = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata_of(
            KIND,
            name=row.name,
            namespace=row.namespace,
            uid=uid_of(row.uid, attempt),
            revision=revision,
            created_s=row.created_at,
            row=row,
        ),
        "spec": dict(row.body["spec"]),
        "status": {
            "phase": "Pending",
            "conditions": [why | ({"message": message} if message else {})],
            "qosClass": "BestEffort",
        },
    }


def uid_of(base: str, attempt: int) -> str:
    """Each attempt is another pod: who waits for one to leave sees it by its uid."""
    return base if attempt <= 1 else f"{base}-{attempt}"


def _spec(pod: PlacedPod, image: str) -> Obj:
    view = pod.view
    amounts: dict[str, Any] = {}
    if view.resources.cpu_milli:
        amounts["cpu"] = f"{view.resources.cpu_milli}m"
    if view.resources.memory_mib:
        amounts["memory"] = f"{view.resources.memory_mib}Mi"
    if view.gpu_mask:
        amounts["nvidia.com/gpu"] = str(view.gpu_mask.bit_count())
    amounts |= {name: str(count) for name, count in view.resources.other}
    container: Obj = {"name": "main", "image": image, "resources": {}}
    if amounts:
        container["resources"] = {"limits": amounts, "requests": dict(amounts)}
    if view.gpu_mask:
        devices = ",".join(map(str, indices_of(view.gpu_mask)))
        container["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": devices}]
    return {
        "containers": [container],
        "restartPolicy": "Never",
        "schedulerName": "podyard",
        "terminationGracePeriodSeconds": 30,
    }


def _status(pod: PlacedPod, spec: Obj) -> Obj:
    view = pod.view
    runs = view.state in {PodState.RUNNING, PodState.TERMINATING}
    started = time_text(pod.at)
    status: Obj = {
        "phase": PHASES[view.state],
        "startTime": started,
        "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": started},
            {"type": "Ready", "status": "True" if runs else "False"},
        ],
        "containerStatuses": [
            {
                "name": container.get("name", "main"),
                "image": container.get("image", ""),
                "imageID": "",
                "ready": runs,
                "restartCount": view.attempt - 1,
                "state": _container_state(pod),
            }
            for container in spec.get("containers") or []
        ],
        "qosClass": "BestEffort",
    }
    if view.state is PodState.LOST:
        status |= {"reason": "NodeLost", "message": "its node has not been heard for long"}
    return status


def _container_state(pod: PlacedPod) -> Obj:
    view = pod.view
    if view.state is PodState.BOUND:
        return {"waiting": {"reason": "ContainerCreating"}}
    if view.state in LIVE_POD:
        return {"running": {"startedAt": time_text(pod.at)}}
    ended = {
        "reason": "Completed" if view.state is PodState.SUCCEEDED else "Error",
        "exitCode": view.exit_code or 0,
    }
    return {"terminated": ended}


def status_word(obj: Obj) -> str:
    """The STATUS column, as `kubectl` shows it."""
    status = obj["status"]
    if status.get("reason"):
        return str(status["reason"])
    if "deletionTimestamp" in obj["metadata"]:
        return "Terminating"
    for container in status.get("containerStatuses", ()):
        state = container["state"]
        told = (state.get("waiting") or state.get("terminated") or {}).get("reason")
        if told:
            return str(told)
    return str(status["phase"])
