"""The fields of a Volcano job, as its definition has them, and the names of what it allows."""

from api.k8s.volcano.shape import (
    INT64_MAX,
    Shape,
    amount,
    array,
    flag,
    integer,
    mapping,
    open_record,
    record,
    text,
)
from api.k8s.volcano.words import LABEL

SUBDOMAIN_PATTERN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
LABEL_PATTERN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
DURATION_PATTERN = r"[-+]?([0-9]*\.?[0-9]+(ns|us|µs|μs|ms|s|m|h))+|0"

DEFAULT_QUEUE = "default"
DEFAULT_MAX_RETRY = 3

EVENTS = (
    "*",
    "PodPending",
    "PodRunning",
    "PodFailed",
    "PodEvicted",
    "Unknown",
    "TaskCompleted",
    "OutOfSync",
    "CommandIssued",
    "JobUpdated",
    "TaskFailed",
)
POLICY_EVENTS = tuple(e for e in EVENTS if e not in {"OutOfSync", "CommandIssued", "PodRunning"})
ACTIONS = (
    "AbortJob",
    "RestartJob",
    "RestartTask",
    "RestartPod",
    "RestartPartition",
    "TerminateJob",
    "CompleteJob",
    "ResumeJob",
)
PLUGINS = ("ssh", "env", "svc", "tensorflow", "mpi", "pytorch", "hcclrank", "ray")
NUMA_POLICIES = ("none", "best-effort", "restricted", "single-numa-node")


def subdomain(says: str = "", default: str | None = None) -> Shape:
    return text(most=253, pattern=SUBDOMAIN_PATTERN, default=default, says=says)


def duration(says: str = "") -> Shape:
    return text(most=64, pattern=DURATION_PATTERN, says=says)


AMOUNTS = mapping(amount())

_ENV = open_record({"name": text(), "value": text()})
_CONTAINER = open_record(
    {
        "name": text(),
        "image": text(),
        "command": array(text()),
        "args": array(text()),
        "workingDir": text(),
        "env": array(_ENV),
        "resources": open_record({"requests": AMOUNTS, "limits": AMOUNTS}),
        "volumeMounts": array(open_record({"name": text(), "mountPath": text()})),
        "ports": array(
            open_record(
                {
                    "containerPort": integer(),
                    "hostPort": integer(),
                    "name": text(),
                    "protocol": text(),
                }
            )
        ),
    }
)
_EXPRESSION = open_record({"key": text(), "operator": text(), "values": array(text())})
_TERM = open_record(
    {"matchExpressions": array(_EXPRESSION), "matchFields": array(_EXPRESSION)},
)
_POD_TERM = open_record(
    {
        "topologyKey": text(),
        "labelSelector": open_record(
            {"matchLabels": mapping(text()), "matchExpressions": array(_EXPRESSION)}
        ),
    }
)
_POD_AFFINITY = open_record(
    {
        "requiredDuringSchedulingIgnoredDuringExecution": array(_POD_TERM),
        "preferredDuringSchedulingIgnoredDuringExecution": array(open_record({})),
    }
)
_AFFINITY = open_record(
    {
        "nodeAffinity": open_record(
            {
                "requiredDuringSchedulingIgnoredDuringExecution": open_record(
                    {"nodeSelectorTerms": array(_TERM)}
                ),
                "preferredDuringSchedulingIgnoredDuringExecution": array(open_record({})),
            }
        ),
        "podAffinity": _POD_AFFINITY,
        "podAntiAffinity": _POD_AFFINITY,
    }
)
_TOLERATION = open_record(
    {
        "key": text(),
        "operator": text(),
        "value": text(),
        "effect": text(),
        "tolerationSeconds": integer(least=-INT64_MAX, most=INT64_MAX),
    }
)
POD_META = open_record({"labels": mapping(text()), "annotations": mapping(text())})
POD_SPEC = open_record(
    {
        "containers": array(_CONTAINER),
        "initContainers": array(_CONTAINER),
        "restartPolicy": text(),
        "nodeSelector": mapping(text()),
        "nodeName": text(),
        "tolerations": array(_TOLERATION),
        "affinity": _AFFINITY,
        "topologySpreadConstraints": array(open_record({"whenUnsatisfiable": text()})),
        "priorityClassName": text(),
        "preemptionPolicy": text(),
        "schedulerName": text(),
        "hostNetwork": flag(),
        "dnsPolicy": text(),
        "activeDeadlineSeconds": integer(least=1, most=INT64_MAX),
        "volumes": array(open_record({"name": text()})),
        "overhead": AMOUNTS,
    },
    says="Of a pod, as in core/v1; fields that are not listed are kept as they are.",
)
POD_TEMPLATE = open_record({"metadata": POD_META, "spec": POD_SPEC})

NETWORK_TOPOLOGY = record(
    {
        "mode": text(
            choice=("hard", "soft"),
            default="hard",
            says="hard: no pod lies outside one domain of that tier. soft: as few as can be.",
        ),
        "highestTierAllowed": integer(
            least=0, says="The tier that holds all pods; 1 is the innermost level above a node."
        ),
        "highestTierName": text(most=253, says="The same by name: a level of the topology."),
    },
    says="How far apart in the network the pods may be.",
)
POLICY = record(
    {
        "action": text(says="What is done: " + ", ".join(ACTIONS)),
        "event": text(choice=EVENTS, says="On what it is done."),
        "events": array(text(choice=EVENTS)),
        "exitCode": integer(says="Instead of an event: a container ended with this code."),
        "timeout": duration("How long to wait before."),
    }
)
_DEPENDS_ON = record(
    {
        "name": array(text(), says="Tasks whose pods have to run before those of this one start."),
        "iteration": text(choice=("any", "all"), says="any: one of several tasks is enough."),
    }
)
_PARTITIONS = record(
    {
        "totalPartitions": integer(least=1),
        "partitionSize": integer(least=1),
        "minPartitions": integer(least=0, default=0),
        "networkTopology": NETWORK_TOPOLOGY,
    },
    required=("totalPartitions", "partitionSize"),
    says="The task's pods in equal parts, each started whole.",
)
TASK = record(
    {
        "name": text(most=63, pattern=LABEL_PATTERN, says=f"A name of {LABEL}."),
        "replicas": integer(least=0, says="Pods of the task."),
        "minAvailable": integer(least=0, says="Pods that have to run together."),
        "template": POD_TEMPLATE,
        "policies": array(POLICY),
        "topologyPolicy": text(choice=NUMA_POLICIES),
        "maxRetry": integer(least=-1),
        "dependsOn": _DEPENDS_ON,
        "partitionPolicy": _PARTITIONS,
    }
)
_VOLUME = record(
    {
        "mountPath": text(says="Where, inside every container; without a colon."),
        "volumeClaimName": text(),
        "volumeClaim": open_record({}),
    },
    required=("mountPath",),
)
JOB_SPEC = record(
    {
        "schedulerName": text(most=63),
        "minAvailable": integer(least=0, says="Pods that have to run together."),
        "volumes": array(_VOLUME),
        "tasks": array(TASK, least=1, says="Groups of equal pods."),
        "policies": array(POLICY, says="What is done on which event, for all tasks."),
        "plugins": mapping(array(text()), says="By name, with arguments."),
        "runningEstimate": duration("How long the job is expected to run."),
        "queue": subdomain("The queue it waits in.", DEFAULT_QUEUE),
        "maxRetry": integer(least=0, default=DEFAULT_MAX_RETRY, says="Restarts before it fails."),
        "ttlSecondsAfterFinished": integer(least=0, says="When its record is deleted."),
        "priorityClassName": subdomain("A priority class of the policy."),
        "minSuccess": integer(least=1, says="So many pods have to succeed."),
        "networkTopology": NETWORK_TOPOLOGY,
    },
    says="A gang of tasks, started together.",
)
_COUNTS = {
    name: integer(least=0)
    for name in ("pending", "running", "succeeded", "failed", "terminating", "unknown")
}
PHASES = (
    "Pending",
    "Aborting",
    "Aborted",
    "Running",
    "Restarting",
    "Completing",
    "Completed",
    "Terminating",
    "Terminated",
    "Failed",
)
JOB_STATUS = record(
    {
        "state": record(
            {
                "phase": text(choice=PHASES),
                "reason": text(),
                "message": text(),
                "lastTransitionTime": text(),
            }
        ),
        "minAvailable": integer(least=0),
        "taskStatusCount": mapping(record({"phase": mapping(integer(least=0))})),
        **_COUNTS,
        "version": integer(least=0),
        "retryCount": integer(least=0),
        "runningDuration": text(),
        "controlledResources": mapping(text()),
        "conditions": array(
            record({"status": text(choice=PHASES), "lastTransitionTime": text()}),
        ),
    }
)
