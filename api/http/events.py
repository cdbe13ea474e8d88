"""Events: what happened, in the order of revisions."""

from functools import partial

from api.auth.seen import namespaces_read
from api.http import examples, shapes
from api.http.answers import Json, answers
from api.http.routing import Called, Limit, NameFilter, RevisionCursor, Served, Since, make_router
from api.http.watch import JobNameFilter, KindsFilter, kinds_of
from api.schemas.event import EventPage
from api.store.events import list_events

router = make_router("events")


@router.get(
    "/v1/events",
    summary="List events",
    responses=answers(EventPage, examples.EVENTS, 400, 410, 422, says="Events, oldest first."),
)
def list_all_events(
    service: Served,
    caller: Called,
    since: Since = 0,
    kind: KindsFilter = None,
    namespace: NameFilter = None,
    job: JobNameFilter = None,
    limit: Limit = 500,
    cursor: RevisionCursor = None,
) -> Json:
    """Events after a revision; 410 when some of them are no longer kept, 400 when it lies ahead.

    Whoever has read the last page goes on after its `revision`, and misses nothing.
    """
    start = since if cursor is None else int(cursor)
    found = list_events(
        service.database,
        start,
        limit,
        kinds=kinds_of(kind),
        namespace=namespace,
        job=job,
        namespaces=namespaces_read(caller, namespace),
    )
    return Json(shapes.page(found, partial(shapes.event, names=caller.namespaces)))
