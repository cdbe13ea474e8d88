"""Events: everything that happened, each with a revision of its own."""

from pydantic import JsonValue

from api.schemas.common import Page, Strict, Time


class Subject(Strict):
    """What an event is about."""

    kind: str
    namespace: str
    name: str
    uid: str


class Event(Strict):
    """One thing that happened; `kind` is `subject.what`, as in `job.bound`."""

    revision: int
    at: Time
    kind: str
    subject: Subject
    message: str
    body: dict[str, JsonValue]


class EventPage(Page[Event]):
    """Events, oldest first."""
