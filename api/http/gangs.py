"""One job more closely: where it is, why it waits, what happened to it."""

from typing import Annotated, Literal

from fastapi import Query, Response
from fastapi.responses import PlainTextResponse

from api.http import examples, shapes
from api.http.answers import Json, answers
from api.http.placement_formats import hostfile, torchrun
from api.http.placement_view import Laid, laid, placement
from api.http.routing import Limit, NamePath, RevisionCursor, Since, make_router
from api.http.service import Served, Service
from api.http.verdicts import NOT_PLACED, explain, no_fit
from api.schemas.event import EventPage
from api.schemas.placement import Placement, Verdict
from api.store.errors import Gone
from api.store.events import list_events
from api.store.jobs import get_job
from api.store.pods import pods_of
from api.store.topology import load_topology
from scheduler.errors import Problem, StateError
from scheduler.model.lifecycle import FINAL, LIVE_POD, JobState, Reason
from scheduler.model.placement import NoFit
from scheduler.place.admit import dry_run

router = make_router("jobs")

ASKED_ANEW = frozenset({None, Reason.ROOM, Reason.RULE})
"""Reasons to wait that the placement core gives; what it says may be newer than the job's row."""

Format = Annotated[
    Literal["json", "hostfile", "torchrun"],
    Query(description="`hostfile`: `node slots=k` in rank order; `torchrun`: environments."),
]


@router.get(
    "/v1/namespaces/{namespace}/jobs/{name}/placement",
    summary="Where a job's pods and ranks are",
    responses=answers(
        Placement,
        examples.PLACEMENT,
        404,
        409,
        422,
        says="The placement.",
        also=examples.PLACEMENT_ALSO,
    ),
)
def read_placement(
    service: Served, namespace: NamePath, name: NamePath, format: Format = "json"
) -> Response:
    """The rank map and how the groups of each axis lie; 409 while the job has no place."""
    found = _laid(service, namespace, name)
    if format == "hostfile":
        return PlainTextResponse(hostfile(found))
    return Json(torchrun(found) if format == "torchrun" else placement(found))


@router.get(
    "/v1/namespaces/{namespace}/jobs/{name}/explain",
    summary="Why a job waits",
    responses=answers(Verdict, examples.VERDICT, 404, says="What the scheduler says now."),
)
def explain_job(service: Served, namespace: NamePath, name: NamePath) -> Json:
    """The rule that binds, the nearest domain and what it lacks; `fits` once it is placed."""
    job = get_job(service.database, namespace, name)
    if job.state is JobState.PENDING and job.reason in ASKED_ANEW:
        found = service.reader.ask(lambda world: dry_run(world, job.spec))
        if isinstance(found, NoFit):
            return Json(no_fit(found))
    return Json(explain(job))


@router.get(
    "/v1/namespaces/{namespace}/jobs/{name}/events",
    summary="What happened to a job",
    responses=answers(EventPage, examples.EVENTS, 400, 404, 422, says="Events, oldest first."),
)
def list_job_events(
    service: Served,
    namespace: NamePath,
    name: NamePath,
    since: Since = 0,
    limit: Limit = 500,
    cursor: RevisionCursor = None,
) -> Json:
    """Events of the newest job of that name, its pods' included, as far back as they are kept."""
    job = get_job(service.database, namespace, name)
    start = max(since, job.age - 1) if cursor is None else int(cursor)
    try:
        found = list_events(service.database, start, limit, job_uid=job.uid)
    except Gone as error:
        found = list_events(service.database, error.oldest, limit, job_uid=job.uid)
    return Json(shapes.page(found, shapes.event))


def _laid(service: Service, namespace: str, name: str) -> Laid:
    job = get_job(service.database, namespace, name)
    pods = [] if job.state in NOT_PLACED else list(pods_of(service.database, job.uid))
    if job.state not in FINAL:
        # Beside the pods that are there may be some that left and have not been replaced.
        pods = [pod for pod in pods if pod.state in LIVE_POD]
    if not pods:
        raise StateError(
            Problem("state", f"job '{namespace}/{name}' is {job.state} and has no place")
        )
    return laid(job, pods, load_topology(service.database).topology)
