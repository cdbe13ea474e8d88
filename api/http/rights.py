"""The right that each call of `/v1`, the page and the webhooks needs.

A route that is not here is refused to all who are asked who they are; a test walks the routes.
Where a path names a namespace or a node, the caller has to be one of theirs.
"""

from api.auth import Right
from api.auth.table import KNOWN, Table

_JOB = "/v1/namespaces/{namespace}/jobs/{name}"
_POD = "/v1/namespaces/{namespace}/pods/{name}"
_NODE = "/v1/nodes/{name}"
_SET = "/v1/sets/{kind}/{name:path}"

_PUBLIC = (
    "GET /",
    "GET /dashboard/{name}",
    "GET /docs",
    "GET /openapi.json",
    "GET /healthz",
    "GET /readyz",
    "POST /login",
    "POST /logout",
)

_READ = (
    "GET /v1/jobs",
    f"GET {_JOB}",
    f"GET {_JOB}/placement",
    f"GET {_JOB}/events",
    f"GET {_JOB}/explain",
    f"GET {_JOB}/checkpoints",
    "POST /v1/whatif",
    "GET /v1/pods",
    f"GET {_POD}/logs",
    "GET /v1/nodes",
    f"GET {_NODE}",
    f"GET {_NODE}/faults",
    f"GET {_NODE}/faults/{{id}}",
    "GET /v1/faults",
    "GET /v1/spares",
    "GET /v1/topology",
    "GET /v1/domains",
    "GET /v1/racks",
    "GET /v1/overview",
    "GET /v1/map",
    "GET /v1/series",
    "GET /v1/inventory",
    "GET /v1/queues",
    "GET /v1/queues/{name}",
    "GET /v1/usage",
    "GET /v1/reservations",
    "GET /v1/reservations/{name}",
    "GET /v1/claims",
    "GET /v1/hooks/deliveries",
    "GET /v1/hooks/deliveries/{id}",
    "GET /v1/events",
    "GET /v1/watch",
    "GET /v1/policy",
    "GET /v1/scheduler/breaker",
    "GET /metrics",
)

# Whose jobs bodies name is checked by the routes.
_SUBMIT = (
    "POST /v1/jobs",
    "POST /v1/jobs:batch",
    f"PATCH {_JOB}",
    f"DELETE {_JOB}",
    f"POST {_JOB}/hold",
    f"POST {_JOB}/release",
    f"POST {_JOB}/suspend",
    f"POST {_JOB}/resume",
    f"POST {_JOB}/requeue",
    f"POST {_JOB}/checkpoints",
    "POST /v1/hooks/deliveries/{id}/retry",
    # Volcano's webhooks: a review tells of an object that somebody wants to make.
    "POST /jobs/mutate",
    "POST /jobs/validate",
    "POST /cronjobs/validate",
    "POST /podgroups/mutate",
    "POST /podgroups/validate",
    "POST /queues/mutate",
    "POST /queues/validate",
    "POST /pods/mutate",
    "POST /pods/validate",
    "POST /hypernodes/validate",
    "POST /jobflows/validate",
)

_OPERATE = (
    f"POST {_NODE}/cordon",
    f"POST {_NODE}/uncordon",
    f"POST {_NODE}/drain",
    f"POST {_NODE}/undrain",
    f"POST {_NODE}/fence",
    f"DELETE {_NODE}/faults/{{id}}",
    f"POST {_SET}/faults",
    f"POST {_SET}/drain",
    f"POST {_SET}/undrain",
    "POST /v1/scheduler/breaker/reset",
    "POST /v1/scheduler/pause",
    "POST /v1/scheduler/resume",
    "POST /v1/queues",
    "PUT /v1/queues/{name}",
    "PATCH /v1/queues/{name}",
    "DELETE /v1/queues/{name}",
    "POST /v1/reservations",
    "DELETE /v1/reservations/{name}",
    # Schedulers that ask these send, and are told of, whole clusters.
    "POST /extender/volcano/onSessionOpen",
    "POST /extender/volcano/onSessionClose",
    "POST /extender/volcano/predicate",
    "POST /extender/volcano/prioritize",
    "POST /extender/volcano/preemptable",
    "POST /extender/volcano/reclaimable",
    "POST /extender/volcano/queueOverused",
    "POST /extender/volcano/jobEnqueueable",
    "POST /extender/volcano/jobEnqueued",
    "POST /extender/volcano/jobReady",
    "POST /extender/volcano/allocateFunc",
    "POST /extender/volcano/deallocateFunc",
    "POST /extender/kube/filter",
    "POST /extender/kube/prioritize",
)

_ADMIN = (
    "POST /v1/inventory",
    "PUT /v1/policy",
    "GET /v1/audit",
    "POST /v1/test/clock",
)

_REPORT = (
    f"POST {_NODE}/heartbeat",
    f"POST {_NODE}/logs/{{id}}",
)

TABLE = Table(
    (
        ((Right.PUBLIC,), _PUBLIC),
        (KNOWN, ("GET /v1/whoami",)),
        ((Right.READ,), _READ),
        ((Right.SUBMIT,), _SUBMIT),
        ((Right.OPERATE,), _OPERATE),
        ((Right.ADMIN,), _ADMIN),
        ((Right.REPORT,), _REPORT),
        # Machines tell of their own faults, people of any.
        ((Right.OPERATE, Right.REPORT), (f"POST {_NODE}/faults",)),
        # Who may tell of a pod depends on whether its node has an agent; the route knows that.
        ((Right.SUBMIT, Right.OPERATE, Right.REPORT), (f"POST {_POD}/status",)),
    ),
    node_of_query=("/v1/pods",),
    everybodys=("/metrics",),
)
