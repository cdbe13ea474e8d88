"""Who may do what: every call of every face, written down by hand, for people to read.

The first mark is that of callers who see all namespaces, the second that of callers who are bound
to the namespace `alpha` and call on it, or on none: v viewer, s submitter, o operator, a admin, g
agent (of the node that the call names); `-` may not. This was not made from the code's own table.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from api.auth import Role

ROLES = dict(zip("vsoag", Role, strict=True))

V1 = """
GET    /                                                    vsoag vsoa
GET    /dashboard/main.js                                   vsoag vsoa
GET    /docs                                                vsoag vsoa
GET    /openapi.json                                        vsoag vsoa
GET    /healthz                                             vsoag vsoa
GET    /readyz                                              vsoag vsoa
POST   /login                                               vsoag vsoa
POST   /logout                                              vsoag vsoa
GET    /v1/whoami                                           vsoag vsoa
GET    /metrics                                             vsoa- ----

GET    /v1/jobs                                             vsoa- vsoa
POST   /v1/jobs                                             -soa- -soa
POST   /v1/jobs:batch                                       -soa- -soa
POST   /v1/whatif                                           vsoa- vsoa
GET    /v1/namespaces/alpha/jobs/none                       vsoa- vsoa
PATCH  /v1/namespaces/alpha/jobs/none                       -soa- -soa
DELETE /v1/namespaces/alpha/jobs/none                       -soa- -soa
POST   /v1/namespaces/alpha/jobs/none/hold                  -soa- -soa
POST   /v1/namespaces/alpha/jobs/none/release               -soa- -soa
POST   /v1/namespaces/alpha/jobs/none/suspend               -soa- -soa
POST   /v1/namespaces/alpha/jobs/none/resume                -soa- -soa
POST   /v1/namespaces/alpha/jobs/none/requeue               -soa- -soa
POST   /v1/namespaces/alpha/jobs/none/checkpoints           -soa- -soa
GET    /v1/namespaces/alpha/jobs/none/checkpoints           vsoa- vsoa
GET    /v1/namespaces/alpha/jobs/none/placement             vsoa- vsoa
GET    /v1/namespaces/alpha/jobs/none/events                vsoa- vsoa
GET    /v1/namespaces/alpha/jobs/none/explain               vsoa- vsoa
GET    /v1/pods                                             vsoa- vsoa
GET    /v1/pods?node=a1                                     vsoag vsoa
GET    /v1/namespaces/alpha/pods/none/logs                  vsoa- vsoa
POST   /v1/namespaces/alpha/pods/none/status                -soag -soa

GET    /v1/nodes                                            vsoa- vsoa
GET    /v1/nodes/a1                                         vsoag vsoa
GET    /v1/nodes/a1/faults                                  vsoag vsoa
GET    /v1/nodes/a1/faults/1                                vsoag vsoa
POST   /v1/nodes/a1/faults                                  --oag ----
DELETE /v1/nodes/a1/faults/1                                --oa- ----
POST   /v1/nodes/a1/heartbeat                               ---ag ----
POST   /v1/nodes/a1/logs/1                                  ---ag ----
POST   /v1/nodes/a1/cordon                                  --oa- ----
POST   /v1/nodes/a1/uncordon                                --oa- ----
POST   /v1/nodes/a1/drain                                   --oa- ----
POST   /v1/nodes/a1/undrain                                 --oa- ----
POST   /v1/nodes/a1/fence                                   --oa- ----
POST   /v1/sets/rack/none/faults                            --oa- ----
POST   /v1/sets/rack/none/drain                             --oa- ----
POST   /v1/sets/rack/none/undrain                           --oa- ----
GET    /v1/faults                                           vsoa- vsoa
GET    /v1/spares                                           vsoa- vsoa
GET    /v1/topology                                         vsoa- vsoa
GET    /v1/domains                                          vsoa- vsoa
GET    /v1/racks                                            vsoa- vsoa
GET    /v1/overview                                         vsoa- vsoa
GET    /v1/map                                              vsoa- vsoa
GET    /v1/series                                           vsoa- vsoa
GET    /v1/inventory                                        vsoa- vsoa
POST   /v1/inventory                                        ---a- ----

GET    /v1/queues                                           vsoa- vsoa
POST   /v1/queues                                           --oa- ----
GET    /v1/queues/none                                      vsoa- vsoa
PUT    /v1/queues/none                                      --oa- ----
PATCH  /v1/queues/none                                      --oa- ----
DELETE /v1/queues/none                                      --oa- ----
GET    /v1/usage                                            vsoa- vsoa
GET    /v1/claims                                           vsoa- vsoa
GET    /v1/reservations                                     vsoa- vsoa
POST   /v1/reservations                                     --oa- ----
GET    /v1/reservations/none                                vsoa- vsoa
DELETE /v1/reservations/none                                --oa- ----
GET    /v1/hooks/deliveries                                 vsoa- vsoa
GET    /v1/hooks/deliveries/none                            vsoa- vsoa
POST   /v1/hooks/deliveries/none/retry                      -soa- -soa
GET    /v1/events                                           vsoa- vsoa
GET    /v1/watch                                            vsoa- vsoa
GET    /v1/policy                                           vsoa- vsoa
PUT    /v1/policy                                           ---a- ----
POST   /v1/scheduler/pause                                  --oa- ----
POST   /v1/scheduler/resume                                 --oa- ----
GET    /v1/scheduler/breaker                                vsoa- vsoa
POST   /v1/scheduler/breaker/reset                          --oa- ----
GET    /v1/audit                                            ---a- ----
POST   /v1/test/clock                                       ---a- ----

POST   /jobs/validate                                       -soa- -soa
POST   /jobs/mutate                                         -soa- -soa
POST   /cronjobs/validate                                   -soa- -soa
POST   /podgroups/mutate                                    -soa- -soa
POST   /podgroups/validate                                  -soa- -soa
POST   /queues/mutate                                       -soa- -soa
POST   /queues/validate                                     -soa- -soa
POST   /pods/mutate                                         -soa- -soa
POST   /pods/validate                                       -soa- -soa
POST   /hypernodes/validate                                 -soa- -soa
POST   /jobflows/validate                                   -soa- -soa
POST   /extender/volcano/onSessionOpen                      --oa- ----
POST   /extender/volcano/onSessionClose                     --oa- ----
POST   /extender/volcano/predicate                          --oa- ----
POST   /extender/volcano/prioritize                         --oa- ----
POST   /extender/volcano/preemptable                        --oa- ----
POST   /extender/volcano/reclaimable                        --oa- ----
POST   /extender/volcano/queueOverused                      --oa- ----
POST   /extender/volcano/jobEnqueueable                     --oa- ----
POST   /extender/volcano/jobEnqueued                        --oa- ----
POST   /extender/volcano/jobReady                           --oa- ----
POST   /extender/volcano/allocateFunc                       --oa- ----
POST   /extender/volcano/deallocateFunc                     --oa- ----
POST   /extender/kube/filter                                --oa- ----
POST   /extender/kube/prioritize                            --oa- ----
"""

KUBERNETES = """
pods                                    read    vsoa- vsoa
pods                                    write   -soa- -soa
pods/log                                read    vsoa- vsoa
pods/eviction                           write   -soa- -soa
pods/binding                            write   --oa- --oa
pods/status                             read    vsoa- vsoa
pods/status                             write   --oa- --oa
events                                  read    vsoa- vsoa
configmaps                              read    vsoa- vsoa
configmaps                              write   -soa- -soa
secrets                                 read    -soa- -soa
secrets                                 write   -soa- -soa
serviceaccounts                         read    vsoa- vsoa
serviceaccounts                         write   -soa- -soa
services                                read    vsoa- vsoa
services                                write   -soa- -soa
jobs.podyard.io                         read    vsoa- vsoa
jobs.podyard.io                         write   -soa- -soa
jobs.podyard.io/status                  read    vsoa- vsoa
jobs.batch.volcano.sh                   read    vsoa- vsoa
jobs.batch.volcano.sh                   write   -soa- -soa
jobs.batch.volcano.sh/status            read    vsoa- vsoa
jobs.batch.volcano.sh/status            write   --oa- --oa
podgroups.scheduling.volcano.sh         read    vsoa- vsoa
podgroups.scheduling.volcano.sh         write   -soa- -soa
commands.bus.volcano.sh                 read    vsoa- vsoa
commands.bus.volcano.sh                 write   -soa- -soa
nodes                                   read    vsoa- vsoa
nodes                                   write   --oa- ----
nodes/status                            read    vsoa- vsoa
nodes/status                            write   --oa- ----
namespaces                              read    vsoa- vsoa
namespaces                              write   --oa- ----
queues.scheduling.volcano.sh            read    vsoa- vsoa
queues.scheduling.volcano.sh            write   --oa- ----
queues.scheduling.volcano.sh/status     read    vsoa- vsoa
queues.scheduling.volcano.sh/status     write   --oa- ----
hypernodes.topology.volcano.sh          read    vsoa- vsoa
hypernodes.topology.volcano.sh          write   ---a- ----
hypernodes.topology.volcano.sh/status   read    vsoa- vsoa
hypernodes.topology.volcano.sh/status   write   ---a- ----
priorityclasses.scheduling.k8s.io       read    vsoa- vsoa
priorityclasses.scheduling.k8s.io       write   ---a- ----
selfsubjectaccessreviews.authorization.k8s.io   write   vsoag vsoa
selfsubjectrulesreviews.authorization.k8s.io    write   vsoag vsoa
selfsubjectreviews.authentication.k8s.io        write   vsoag vsoa
"""
"""Reads: get, list and watch; writes: all other verbs that a kind has."""


@dataclass(frozen=True)
class Row:
    """Attributes:
    all, bound: Roles that may, of callers who see all namespaces and of those bound to `alpha`.
    """

    what: str
    verb: str
    all: frozenset[Role]
    bound: frozenset[Role]


def rows(text: str, *, verb_first: bool) -> Iterator[Row]:
    """The lines of a table."""
    for line in filter(None, map(str.strip, text.splitlines())):
        one, other, all_, bound = line.split()
        verb, what = (one, other) if verb_first else (other, one)
        yield Row(what, verb, _roles(all_), _roles(bound))


def _roles(marks: str) -> frozenset[Role]:
    return frozenset(ROLES[mark] for mark in marks if mark != "-")
