"""One job more closely: where it is, what happened to it."""

from functools import partial
from typing import Annotated, Literal

from fastapi import Query, Response
from fastapi.responses import PlainTextResponse

from api.http import examples, shapes
from api.http.answers import Json, answers
from api.http.example_launch import placement_also
from api.http.placement_formats import FORMATS, TEXTS
from api.http.placement_laid import Laid, laid
from api.http.placement_view import placement
from api.http.routing import Called, Limit, NamePath, RevisionCursor, Served, Since, make_router
from api.http.service import Service
from api.http.verdicts import NOT_PLACED
from api.schemas.event import EventPage
from api.schemas.placement import Placement
from api.store.errors import Gone
from api.store.events import list_events
from api.store.jobs import get_job
from api.store.pods import pods_of
from api.store.standing import dead_rails_of, open_faults
from api.store.topology import load_topology
from scheduler.errors import Problem, StateError
from scheduler.model.lifecycle import FINAL, LIVE_POD

router = make_router("jobs")

Format = Annotated[
    Literal["json", "torchrun", "hostfile", "rankfile", "slurm", "megatron", "nccl"],
    Query(
        description="`torchrun`: an environment for each pod and rank; `hostfile` and `rankfile`: "
        "as Open MPI reads them; `slurm`: hostlist and `SLURM_HOSTFILE`; `megatron`: arguments; "
        "`nccl`: rails, and which groups cross what."
    ),
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
        also=placement_also(examples.PLACEMENT),
    ),
)
def read_placement(
    service: Served, namespace: NamePath, name: NamePath, format: Format = "json"
) -> Response:
    """The rank map and how the groups of each axis lie; 409 while the job has no place."""
    found = _laid(service, namespace, name)
    if format == "json":
        return Json(placement(service, found))
    value = FORMATS[format](found)
    return PlainTextResponse(value) if format in TEXTS else Json(value)


@router.get(
    "/v1/namespaces/{namespace}/jobs/{name}/events",
    summary="What happened to a job",
    responses=answers(EventPage, examples.EVENTS, 400, 404, 422, says="Events, oldest first."),
)
def list_job_events(
    service: Served,
    caller: Called,
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
    return Json(shapes.page(found, partial(shapes.event, names=caller.namespaces)))


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
    with service.database.read() as connection:
        faulty = open_faults(connection, sorted({pod.node for pod in pods}))
    lost = {node: rails for node, these in faulty.items() if (rails := dead_rails_of(these))}
    return laid(job, pods, load_topology(service.database).topology, lost)
