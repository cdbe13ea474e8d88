"""What dashboards poll: the cluster at a glance, and the map for drawing."""

from functools import partial
from typing import Annotated

from fastapi import Header, Query, Response
from starlette.concurrency import run_in_threadpool

from api.auth.seen import Names
from api.http import example_polling as examples
from api.http import shapes
from api.http.answers import Documented, answers
from api.http.glance import MESSAGE_SHOWN
from api.http.glimpse import answer_headers, is_match
from api.http.largest import largest_of
from api.http.routing import REVISION_MAX, Called, Served, make_router
from api.http.service import Service
from api.http.sight import Answer
from api.schemas.polling import MapDrawing, Overview
from api.store.happenings import newest_faults, open_faults
from api.store.jobs import count_jobs
from api.store.queue_views import queue_summaries

router = make_router("cluster")

QUEUES_SHOWN = 100
FAULTS_SHOWN = 5

NOT_MODIFIED: Documented = {
    304: {"description": "Nothing changed since the answer with that ETag.", "content": {}}
}

IfNoneMatch = Annotated[
    str | None,
    Header(
        alias="If-None-Match",
        max_length=1_000,
        description="The `ETag` of the answer at hand; 304 without a body while it is still so.",
    ),
]
AcceptEncoding = Annotated[
    str | None, Header(alias="Accept-Encoding", description="Answers are sent with gzip if named.")
]


@router.get(
    "/v1/overview",
    summary="The cluster at a glance",
    responses=answers(Overview, examples.OVERVIEW, says="Totals.", also=NOT_MODIFIED),
)
async def read_overview(
    service: Served, caller: Called, match: IfNoneMatch = None, encoding: AcceptEncoding = None
) -> Response:
    """Capacity, use, health, queues, what gangs wait for, what would fit; of the newest revision.

    Small whatever the size of the cluster, and made to be polled: an answer is made once a change
    for all who ask. On a cluster of 1,000 nodes and more it may be up to a second old. Numbers
    count everybody's jobs; who is bound to namespaces is told the names of theirs.
    """
    names = caller.namespaces
    answer = service.sight.overview_at_hand(names)
    if answer is None:
        answer = await run_in_threadpool(_overview, service, names)
    return _sent(answer, match, encoding)


@router.get(
    "/v1/map",
    summary="The map for drawing",
    responses=answers(
        MapDrawing, examples.MAP, 400, says="The map, or what changed.", also=NOT_MODIFIED
    ),
)
async def read_map(
    service: Served,
    caller: Called,
    since: Annotated[
        int | None,
        Query(
            ge=0,
            le=REVISION_MAX,
            description="`revision` of the answer at hand: only what changed after it.",
        ),
    ] = None,
    match: IfNoneMatch = None,
    encoding: AcceptEncoding = None,
) -> Response:
    """Every node, what of it is in use and by whom, compactly; some 60 bytes a node, 15 with gzip.

    With `since`, the nodes and jobs that changed; the whole map, `since` null, where that is too
    far back, or the map itself is new. Names of levels, types and nodes are told with the whole
    map alone. Up to a second old on a large cluster, as the overview.
    """
    names = caller.namespaces
    answer = service.sight.map_at_hand(since, names)
    if answer is None:
        answer = await run_in_threadpool(service.sight.map, since, names)
    return _sent(answer, match, encoding)


def overview(service: Service) -> shapes.Shape:
    """The overview as values, for whoever in this process wants a part of it."""
    return service.sight.shape(partial(_stored, service))


def _overview(service: Service, names: Names) -> Answer:
    return service.sight.overview(partial(_stored, service), partial(_present, service), names)


def _stored(service: Service, names: Names) -> shapes.Shape:
    """What the database has for the overview; of those bound to namespaces what is theirs alone."""
    queues = _queues(service, names)
    return queues if names is not None else queues | _of_all(service)


def _of_all(service: Service) -> shapes.Shape:
    return {
        "faults": {
            "open": open_faults(service.database),
            "newest": [
                {
                    "id": fault.id,
                    "node": fault.node,
                    "code": fault.code,
                    "action": fault.action,
                    "at": shapes.rfc3339(fault.at),
                    "message": fault.message[:MESSAGE_SHOWN],
                }
                for fault in newest_faults(service.database, FAULTS_SHOWN)
            ],
        },
        "jobs": {str(state): n for state, n in sorted(count_jobs(service.database).items())},
        "largest_gangs": largest_of(service),
    }


def _queues(service: Service, names: Names) -> shapes.Shape:
    return {
        "queues": [
            {
                "name": found.queue.name,
                "quota_gpus": found.queue.quota_gpus,
                "limit_gpus": found.queue.limit_gpus,
                "used_gpus": found.used_gpus,
                "pending": found.pending,
            }
            for found in queue_summaries(service.database, limit=QUEUES_SHOWN, names=names)
        ],
    }


def _present(service: Service) -> shapes.Shape:
    """How the scheduler does; of the process that decides, which may be another one."""
    runner = service.runner
    if runner is None or not runner.is_leading:
        return {"scheduler": None}
    stats = runner.stats
    return {
        "scheduler": {
            "ready": runner.is_ready,
            "cycles": stats.cycles,
            "lag_revisions": max(0, service.database.notifier.known - stats.revision),
            "decide_s": round(stats.decide_s, 6),
            "commit_s": round(stats.commit_s, 6),
        }
    }


def _sent(answer: Answer, match: str | None, encoding: str | None) -> Response:
    headers = answer_headers(answer)
    if match is not None and is_match(answer.etag, match):
        return Response(None, 304, headers=headers)
    if answer.packed is not None and encoding is not None and "gzip" in encoding:
        headers["Content-Encoding"] = "gzip"
        return Response(answer.packed, headers=headers, media_type="application/json")
    return Response(answer.text, headers=headers, media_type="application/json")
