"""Events: what happened, in the order of revisions."""

from api.http import examples, shapes
from api.http.answers import Json, answers
from api.http.routing import Limit, RevisionCursor, Since, make_router
from api.http.service import Served
from api.schemas.event import EventPage
from api.store.events import list_events

router = make_router("events")


@router.get(
    "/v1/events",
    summary="List events",
    responses=answers(EventPage, examples.EVENTS, 400, 410, 422, says="Events, oldest first."),
)
def list_all_events(
    service: Served, since: Since = 0, limit: Limit = 500, cursor: RevisionCursor = None
) -> Json:
    """Events after a revision; 410 when some of them are no longer kept, 400 when it lies ahead."""
    start = since if cursor is None else int(cursor)
    return Json(shapes.page(list_events(service.database, start, limit), shapes.event))
