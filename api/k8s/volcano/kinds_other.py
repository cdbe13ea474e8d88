"""The fields of Volcano's other kinds, as their definitions have them."""

from api.k8s.volcano.kinds_job import (
    AMOUNTS,
    JOB_SPEC,
    NETWORK_TOPOLOGY,
    POD_SPEC,
    subdomain,
)
from api.k8s.volcano.shape import (
    INT64_MAX,
    amount,
    array,
    flag,
    integer,
    mapping,
    open_record,
    record,
    text,
)

_SELECTOR = record(
    {
        "matchLabels": mapping(text()),
        "matchExpressions": array(
            record(
                {"key": text(), "operator": text(), "values": array(text())},
                required=("key", "operator"),
            )
        ),
    }
)

# -- scheduling.volcano.sh ------------------------------------------------------------------------

_SUB_GROUP = record(
    {
        "name": text(),
        "networkTopology": NETWORK_TOPOLOGY,
        "subGroupSize": integer(least=1, default=1),
        "minSubGroups": integer(least=0, default=0),
        "labelSelector": _SELECTOR,
        "matchLabelKeys": array(text()),
    }
)
GROUP_SPEC = record(
    {
        "minMember": integer(least=0, says="Pods that have to run together."),
        "minTaskMember": mapping(integer(least=0)),
        "queue": subdomain("The queue it waits in.", "default"),
        "priorityClassName": text(),
        "minResources": AMOUNTS,
        "networkTopology": NETWORK_TOPOLOGY,
        "subGroupPolicy": array(_SUB_GROUP, says="Pods that are placed in equal parts."),
    }
)
_CONDITION = record(
    {
        name: text()
        for name in ("type", "status", "transitionID", "lastTransitionTime", "reason", "message")
    }
)
GROUP_STATUS = record(
    {
        "phase": text(choice=("Pending", "Running", "Unknown", "Inqueue", "Completed")),
        "conditions": array(_CONDITION),
        "running": integer(least=0),
        "succeeded": integer(least=0),
        "failed": integer(least=0),
    }
)
_AFFINITY = record(
    {
        "requiredDuringSchedulingIgnoredDuringExecution": array(text()),
        "preferredDuringSchedulingIgnoredDuringExecution": array(text()),
    }
)
QUEUE_SPEC = record(
    {
        "weight": integer(least=1, most=65_535, default=1, says="Its part of what is lent."),
        "capability": mapping(amount(), says="What it never exceeds."),
        "deserved": mapping(amount(), says="What it may count on; the rest it borrows."),
        "guarantee": record({"resource": AMOUNTS}),
        "reclaimable": flag(says="Whether what it borrows may be taken back."),
        "parent": subdomain("The queue above; root where there is none."),
        "priority": integer(least=0),
        "type": text(),
        "dequeueStrategy": text(choice=("fifo", "traverse"), default="traverse"),
        "extendClusters": array(open_record({"name": text(), "weight": integer()})),
        "affinity": record({"nodeGroupAffinity": _AFFINITY, "nodeGroupAntiAffinity": _AFFINITY}),
    }
)
QUEUE_STATES = ("Open", "Closed", "Closing", "Unknown")
QUEUE_STATUS = record(
    {
        "state": text(says="One of " + ", ".join(QUEUE_STATES)),
        **{
            name: integer(least=0)
            for name in ("unknown", "pending", "running", "inqueue", "completed")
        },
        "reservation": record({"nodes": array(text()), "resource": AMOUNTS}),
        "allocated": AMOUNTS,
    }
)

# -- topology, bus --------------------------------------------------------------------------------

_MEMBER = record(
    {
        "type": text(choice=("Node", "HyperNode")),
        "selector": record(
            {
                "exactMatch": record({"name": text()}),
                "regexMatch": record({"pattern": text()}),
                "labelMatch": _SELECTOR,
            }
        ),
    },
    required=("type",),
)
HYPERNODE_SPEC = record(
    {
        "tier": integer(least=0, says="1 is the innermost level above a node."),
        "tierName": text(most=253, says="The level's name."),
        "members": array(_MEMBER, says="Nodes, or domains of the tier below."),
    },
    required=("tier",),
)
HYPERNODE_STATUS = record(
    {"nodeCount": integer(least=0, most=INT64_MAX), "conditions": array(open_record({}))}
)
OWNER = open_record(
    {
        "apiVersion": text(),
        "kind": text(),
        "name": text(),
        "uid": text(),
        "controller": flag(),
        "blockOwnerDeletion": flag(),
    }
)
COMMAND_FIELDS = {
    "action": text(says="AbortJob, ResumeJob, RestartJob, TerminateJob, CompleteJob, OpenQueue..."),
    "target": OWNER,
    "reason": text(),
    "message": text(),
}

# -- kinds that are checked but not run -----------------------------------------------------------

CRON_SPEC = record(
    {
        "schedule": text(),
        "timeZone": text(),
        "startingDeadlineSeconds": integer(least=0, most=INT64_MAX),
        "concurrencyPolicy": text(choice=("Allow", "Forbid", "Replace"), default="Allow"),
        "suspend": flag(default=False),
        "jobTemplate": open_record({"spec": JOB_SPEC}),
        "successfulJobsHistoryLimit": integer(least=0, default=3),
        "failedJobsHistoryLimit": integer(least=0, default=1),
    },
    required=("schedule",),
)
FLOW_SPEC = record(
    {
        "flows": array(
            open_record({"name": text(), "dependsOn": open_record({"targets": array(text())})})
        ),
        "jobRetainPolicy": text(choice=("retain", "delete")),
    }
)
POD_OBJECT_SPEC = POD_SPEC
