"""Errors of the services as `Status`."""

from collections.abc import Iterable

from api.k8s.errors import REASONS, Cause, StatusError
from api.problems import INTERNAL, kind_of, problems_of
from scheduler.errors import Problem

_REASONS = {"Gone": "Expired"}


def status_of(error: Exception) -> StatusError:
    """What an error is in the words of Kubernetes; one without a row tells nothing of itself."""
    if isinstance(error, StatusError):
        return error
    kind = kind_of(error)
    if kind is INTERNAL:
        return StatusError(
            500,
            "Internal error occurred: this is a fault of the service; its log has the details",
        )
    problems = problems_of(error)
    told = "; ".join(f"{p.path}: {p.message}" if p.path else p.message for p in problems[:10])
    reason = _REASONS.get(type(error).__name__, REASONS.get(kind.status, ""))
    return StatusError(
        kind.status,
        told or kind.title,
        reason=reason,
        causes=causes_of(problems),
        retry_after_s=1 if kind.status in {429, 503} else None,
    )


def causes_of(problems: Iterable[Problem], prefix: str = "") -> list[Cause]:
    """Problems as causes, their paths behind a prefix."""
    return [
        Cause(f"{prefix}{p.path}" if p.path else prefix.rstrip("."), p.message) for p in problems
    ]
