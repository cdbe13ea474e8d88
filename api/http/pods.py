"""Pods: list them, and take what their nodes report."""

from functools import partial
from typing import Annotated

from fastapi import Depends, Query

from api.auth import ANYBODY, Caller, Right, Role, check
from api.auth.seen import Names, may_report, namespaces_read
from api.http import example_bodies, examples, shapes
from api.http.answers import Json, answers, takes
from api.http.body import json_body
from api.http.routing import (
    Called,
    Cursor,
    Limit,
    LineFilter,
    NameFilter,
    NamePath,
    Served,
    make_router,
)
from api.schemas.common import LINE_PATTERN
from api.schemas.pod import Pod, PodPage, StatusBody
from api.store.pods import list_pods, report_pod
from api.store.topology import load_topology
from scheduler.model.lifecycle import PodState

router = make_router("pods")

JobFilter = Annotated[
    str | None,
    Query(max_length=127, pattern=LINE_PATTERN, description="`name` or `namespace/name`."),
]


@router.get(
    "/v1/pods",
    summary="List pods",
    responses=answers(PodPage, examples.PODS, 422, says="Pods by age of their job and index."),
)
def list_all_pods(
    service: Served,
    caller: Called,
    namespace: NameFilter = None,
    job: JobFilter = None,
    node: LineFilter = None,
    limit: Limit = 500,
    cursor: Cursor = None,
) -> Json:
    """Pods, those that have ended too, of all jobs whose record has not been deleted."""
    if job is not None and "/" in job:
        in_job, _, job = job.partition("/")
        if namespace not in (None, in_job):
            job = ""  # no job is in two namespaces
        namespace = in_job
    found = list_pods(
        service.database,
        namespaces=_shown(caller, namespace, node),
        namespace=namespace,
        job=job,
        node=node,
        limit=limit,
        cursor=cursor,
    )
    topology = load_topology(service.database).topology
    return Json(shapes.page(found, lambda view: shapes.pod(view, topology)))


@router.post(
    "/v1/namespaces/{namespace}/pods/{name}/status",
    summary="Report what became of a pod",
    responses=answers(
        Pod, examples.POD, 400, 404, 409, 413, 415, 422, says="The pod; the leader acts on it soon."
    ),
    openapi_extra=takes(StatusBody, example_bodies.STATUS_BODIES),
)
def report_status(
    service: Served,
    caller: Called,
    namespace: NamePath,
    name: NamePath,
    body: Annotated[StatusBody, Depends(json_body(StatusBody))],
) -> Json:
    """Take a node's report; a repeat of it does nothing, one of another life of the pod is 409.

    An agent reports of pods on its nodes. Who submits reports of their own pods where no agent
    does: it would be believed and the GPUs given on.
    """
    pod = report_pod(
        service.database,
        namespace,
        name,
        attempt=body.attempt,
        state=PodState(body.state),
        exit_code=body.exit_code,
        uid=body.uid,
        now_s=service.clock.now_s(),
        may=None if caller is ANYBODY else partial(may_report, caller),
    )
    return Json(shapes.pod(pod, load_topology(service.database).topology))


def _shown(caller: Caller, namespace: str | None, node: str | None) -> Names:
    """Namespaces whose pods are listed; an agent sees all pods of a node of its own."""
    if caller.role is Role.AGENT:
        check(caller, Right.READ, node=node)
        return None
    return namespaces_read(caller, namespace)
