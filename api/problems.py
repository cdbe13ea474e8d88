"""Every kind of bad news and its HTTP status, in one table, and the document that tells of it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from scheduler.errors import Problem, SchedulerError

MEDIA_TYPE = "application/problem+json"

SHOWN_MAX = 50
"""Problems listed in one answer; a body with more is better corrected in steps."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of bad news.

    Attributes:
        slug: Last part of the document's `type`, stable for programs.
        title: The same for people; equal for all problems of a kind.
    """

    status: int
    slug: str
    title: str


INTERNAL = Kind(500, "internal", "The service failed; the request may be right")

KINDS: Mapping[str, Kind] = {
    # Read from the request.
    "MalformedBody": Kind(400, "malformed-body", "The body cannot be read"),
    "InvalidFields": Kind(422, "invalid-fields", "Fields of the request are invalid"),
    "BodyTooLarge": Kind(413, "body-too-large", "The body is too large"),
    "WrongMediaType": Kind(415, "wrong-media-type", "The body has the wrong content type"),
    "ForeignHost": Kind(421, "foreign-host", "The request was meant for another host"),
    "ForeignOrigin": Kind(403, "foreign-origin", "The request was sent by a page of another site"),
    "BadRequest": Kind(400, "bad-request", "The request cannot be read"),
    # Said of the caller.
    "Unauthenticated": Kind(401, "unauthenticated", "The service does not know who you are"),
    "Forbidden": Kind(403, "forbidden", "You may not do this"),
    "KeysUnavailable": Kind(503, "keys-unavailable", "Nobody can be known now; try again"),
    "AuditBehind": Kind(503, "audit-behind", "What is done could not be written down; try again"),
    "TooFast": Kind(429, "too-fast", "The caller asks too often; try again later"),
    # Said by the core.
    "NeverFits": Kind(422, "never-fits", "The job can never be placed on this cluster"),
    "JobError": Kind(422, "invalid-job", "The job contradicts itself or the cluster"),
    "InventoryError": Kind(422, "invalid-inventory", "The inventory cannot be taken"),
    "PolicyError": Kind(422, "invalid-policy", "The policy is out of range"),
    "QueueError": Kind(422, "invalid-queue", "The queue contradicts itself or its tree"),
    "StateError": Kind(409, "wrong-state", "The object's state does not allow it"),
    "SchedulerError": Kind(422, "invalid", "The request is invalid"),
    # Said by the store.
    "NotFound": Kind(404, "not-found", "There is no such thing"),
    "QueueFull": Kind(429, "queue-full", "The queue takes no more jobs for now; try again later"),
    "Conflict": Kind(409, "conflict", "The request contradicts what is there"),
    "Gone": Kind(410, "gone", "So far back is no longer kept"),
    "FutureRevision": Kind(400, "future-revision", "The revision lies ahead"),
    "BadCursor": Kind(422, "bad-cursor", "The cursor is not one of this service"),
    "Deposed": Kind(503, "no-leader", "Another process has taken over; try again"),
    "LedgerRefused": Kind(409, "ledger-refused", "The ledger refused to give something twice"),
    "OperationalError": Kind(
        503, "database-unavailable", "The database does not answer; try again"
    ),
    "DatabaseSilent": Kind(503, "database-silent", "The database has fallen silent; try again"),
    "TimeoutError": Kind(503, "busy", "The service is too busy; try again"),
    "DataError": Kind(400, "unstorable", "A value that the database cannot hold"),
    "TooSlow": Kind(503, "too-slow", "The reader does not keep up; come back"),
    "TooManyWatchers": Kind(503, "too-many-watchers", "Too many watch already; try again"),
    # Said by the router.
    "NoSuchPath": Kind(404, "no-such-path", "There is no such path"),
    "WrongMethod": Kind(405, "wrong-method", "The path does not have this method"),
}
"""By the name of the exception's class, as the layers above are not imported here."""


SAME = {
    "DatabaseError": "OperationalError",
    "InterfaceError": "OperationalError",
}
"""Other words of drivers for a database that is away, read-only, full or corrupt."""

FAULTS = frozenset({"IntegrityError", "NotSupportedError", "ProgrammingError"})
"""Kinds of DatabaseError that are faults of ours."""


def kind_of(error: BaseException) -> Kind:
    """The row of the error's class, or of the nearest class that it is made from."""
    for name in (cls.__name__ for cls in type(error).__mro__):
        if name in FAULTS:
            return INTERNAL
        row = KINDS.get(SAME.get(name, name))
        if row is not None:
            return row
    return INTERNAL


def problems_of(error: BaseException) -> tuple[Problem, ...]:
    """What is wrong, field by field, as far as the error says."""
    if isinstance(error, SchedulerError):
        return error.problems
    path, message = getattr(error, "path", None), getattr(error, "message", None)
    if isinstance(path, str) and isinstance(message, str):
        return (Problem(path, message),)
    # Of a driver's error its own words, without the statement.
    told = str(getattr(error, "orig", None) or error).strip()
    return (Problem("", told.partition("\n")[0] or type(error).__name__),)


def document(kind: Kind, problems: Iterable[Problem], detail: str = "") -> dict[str, object]:
    """An RFC 9457 problem document.

    Args:
        detail: A sentence for people; made of the first problem when left out.
    """
    found = tuple(problems)
    errors = [{"path": p.path, "message": p.message} for p in found[:SHOWN_MAX]]
    if len(found) > SHOWN_MAX:
        errors.append({"path": "", "message": f"and {len(found) - SHOWN_MAX} more"})
    if not detail and found:
        first = found[0]
        detail = f"{first.path}: {first.message}" if first.path else first.message
    return {
        "type": f"urn:podyard:problem:{kind.slug}",
        "title": kind.title,
        "status": kind.status,
        "detail": detail,
        "errors": errors,
    }


def document_of(error: BaseException) -> dict[str, object]:
    """The document of an error; one that has no row tells nothing of itself."""
    kind = kind_of(error)
    if kind is INTERNAL:
        return document(INTERNAL, (), "this is a fault of the service; its log has the details")
    return document(kind, problems_of(error))
