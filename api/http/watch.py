"""The watch: events as they happen, each once and in order, for as long as anybody listens."""

from collections.abc import Callable
from typing import Annotated

from fastapi import Header, Query, Response
from starlette.concurrency import run_in_threadpool

from api.auth.seen import namespaces_read
from api.http import examples
from api.http.answers import problem_answer, text_answer
from api.http.routing import REVISION_MAX, Called, NameFilter, Served, make_router
from api.http.service import Service
from api.http.sse import MEDIA_TYPE, EventStream
from api.schemas.common import NAME_PATTERN
from api.store.events import check_since, job_uids
from api.store.views import EventView

router = make_router("events")

STREAM_S_MAX = 24 * 3600.0
"""No stream is longer; whoever comes back after it misses nothing."""

KINDS_PATTERN = r"^[a-z_]+(\.[a-z_]+)?(,[a-z_]+(\.[a-z_]+)?){0,31}$"

KindsFilter = Annotated[
    str | None,
    Query(
        pattern=KINDS_PATTERN,
        max_length=1_000,
        description="Kinds, `job.bound`, or subjects, `job`; several with commas between them.",
    ),
]
JobNameFilter = Annotated[
    str | None,
    Query(
        pattern=NAME_PATTERN,
        description="Events of jobs of this name and of their pods; best with `namespace`.",
    ),
]
StreamSeconds = Annotated[
    float,
    Query(
        ge=0, le=STREAM_S_MAX, allow_inf_nan=False, description="Longest stream; it ends cleanly."
    ),
]
PaceSeconds = Annotated[
    float,
    Query(
        ge=0,
        le=60,
        allow_inf_nan=False,
        description="Send at most once in so many seconds, together what happened meanwhile.",
    ),
]
LastEventId = Annotated[
    str | None,
    Header(
        alias="Last-Event-ID",
        pattern=r"^[0-9]{1,18}$",
        description="As browsers send it when they come back; counts more than `since`.",
    ),
]


@router.get(
    "/v1/watch",
    summary="Watch events",
    response_class=Response,
    responses=text_answer(
        MEDIA_TYPE, examples.STREAM, "Server-sent events without end; comments are heartbeats."
    )
    | {status: problem_answer(status) for status in (400, 410, 422, 503)},
)
async def watch_events(
    service: Served,
    caller: Called,
    since: Annotated[
        int | None,
        Query(
            ge=0,
            le=REVISION_MAX,
            description="Begin after this revision; without it, with what happens from now on.",
        ),
    ] = None,
    kind: KindsFilter = None,
    namespace: NameFilter = None,
    job: JobNameFilter = None,
    timeout_s: StreamSeconds = STREAM_S_MAX,
    pace_s: PaceSeconds = 0.0,
    last_event_id: LastEventId = None,
) -> Response:
    """Every event after a revision once, in order, as it happens; its revision is its id.

    A stream that ends, for whatever reason, is taken up without a gap with the last id seen. It
    ends with an event of the kind `error` that holds a problem document when its reader does not
    keep up, or begins where the history is being forgotten. 410 when some of the events asked for
    are no longer kept, 400 when the revision lies ahead.
    """
    names = namespaces_read(caller, namespace)
    service.feed.check_room()
    asked = since if last_event_id is None else int(last_event_id)
    start = await run_in_threadpool(check_since, service.database, asked)
    wanted = await _wanted(service, kinds_of(kind), namespace, job)
    stream = service.feed.follow(start, wanted, timeout_s, pace_s, names)
    return EventStream(stream, service.feed.closing)


def kinds_of(kind: str | None) -> tuple[str, ...]:
    """Kinds and subjects of a filter."""
    return tuple(kind.split(",")) if kind else ()


async def _wanted(
    service: Service, kinds: tuple[str, ...], namespace: str | None, job: str | None
) -> Callable[[EventView], bool] | None:
    """The filter as a question, None where everything is wanted."""
    if not (kinds or namespace or job):
        return None
    of_job = None
    if job is not None:
        uids = await run_in_threadpool(job_uids, service.database, namespace, job)
        of_job = _OfJob(job, set(uids))

    def wanted(event: EventView) -> bool:
        # The job first: it learns from events that are not wanted for another reason.
        return (
            (namespace is None or event.namespace == namespace)
            and (of_job is None or of_job(event))
            and (not kinds or event.kind in kinds or event.subject_kind in kinds)
        )

    return wanted


class _OfJob:
    """Whether an event is of a job of this name or of one of its pods."""

    def __init__(self, name: str, uids: set[str]) -> None:
        self._name = name
        self._uids = uids

    def __call__(self, event: EventView) -> bool:
        if event.subject_kind == "job":
            if event.name != self._name:
                return False
            self._uids.add(event.uid)
            return True
        # A pod's uid is its job's, a dash and more.
        return any(event.uid.startswith(f"{uid}-") for uid in self._uids)
