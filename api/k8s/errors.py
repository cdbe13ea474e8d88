"""Bad news as `Status` objects, the only form in which `kubectl` understands it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from api.store.errors import StoreError

REASONS: Mapping[int, str] = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "Conflict",
    410: "Expired",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    421: "BadRequest",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}

CAUSES_MAX = 50
"""Causes told in one answer."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One thing that is wrong with one field.

    Attributes:
        field: Its path in the object, `spec.tasks[0].replicas`; "" for the whole.
        reason: `FieldValueInvalid`, `FieldValueRequired`, `FieldManagerConflict` and so on.
    """

    field: str
    message: str
    reason: str = "FieldValueInvalid"


class StatusError(StoreError):
    """An answer that is not a success.

    Attributes:
        code: HTTP status.
        reason: In the words of Kubernetes; that of the code by default.
        details: `name`, `group`, `kind` (the plural), `uid`, as far as they are known.
    """

    def __init__(
        self,
        code: int,
        message: str,
        *,
        reason: str | None = None,
        details: Mapping[str, object] | None = None,
        causes: Iterable[Cause] = (),
        retry_after_s: int | None = None,
    ) -> None:
        self.code = code
        self.message = message
        self.reason = REASONS.get(code, "") if reason is None else reason
        self.details = dict(details or {})
        self.causes = tuple(causes)
        self.retry_after_s = retry_after_s
        super().__init__(message)

    def status(self) -> dict[str, Any]:
        """The body of the answer."""
        details = dict(self.details)
        if self.causes:
            shown = self.causes[:CAUSES_MAX]
            details["causes"] = [
                {"reason": c.reason, "message": c.message, "field": c.field} for c in shown
            ]
        if self.retry_after_s is not None:
            details["retryAfterSeconds"] = self.retry_after_s
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "details": details,
            "code": self.code,
        }


def bad_request(message: str) -> StatusError:
    return StatusError(400, message)


def not_found(resource: str, name: str) -> StatusError:
    """There is no such object.

    Args:
        resource: `plural.group`, or the plural alone of the core group.
    """
    return StatusError(404, f'{resource} "{name}" not found', details=_details(resource, name))


def already_exists(resource: str, name: str, why: str = "") -> StatusError:
    message = f'{resource} "{name}" already exists' + (f": {why}" if why else "")
    return StatusError(409, message, reason="AlreadyExists", details=_details(resource, name))


def conflict(resource: str, name: str, why: str) -> StatusError:
    """The object has moved on, or its state does not allow what was asked."""
    message = f'Operation cannot be fulfilled on {resource} "{name}": {why}'
    return StatusError(409, message, details=_details(resource, name))


def invalid(kind: str, group: str, name: str, causes: Sequence[Cause]) -> StatusError:
    """Fields of an object that are not as they should be; `kind` as in `Job`."""
    full = f"{kind}.{group}" if group else kind
    told = "; ".join(f"{c.field}: {c.message}" if c.field else c.message for c in causes[:5])
    return StatusError(
        422,
        f'{full} "{name}" is invalid: {told}',
        details={"name": name, "group": group, "kind": kind},
        causes=causes,
    )


def _details(resource: str, name: str) -> dict[str, object]:
    plural, _, group = resource.partition(".")
    found: dict[str, object] = {"name": name, "kind": plural}
    return found | ({"group": group} if group else {})
