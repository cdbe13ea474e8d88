"""The states of jobs and pods, and every move that is legal, in one table.

| state      | holds GPUs      | after a crash of the service                               |
|------------|-----------------|------------------------------------------------------------|
| pending    | none            | durable; waits on, with its age                             |
| reserved   | a claim         | durable with its claim                                      |
| bound      | its pods'       | durable; pods are started by whoever runs their nodes       |
| running    | its pods'       | durable; pods run on without the service                    |
| recovering | what is left    | durable with its limit; the clock stood still               |
| evicting   | until pods stop | durable with its step; asked again, at least once           |
| suspended  | none            | durable                                                     |
| succeeded, failed, cancelled | none | final                                            |
"""

from collections.abc import Mapping
from enum import StrEnum

from scheduler.errors import Problem, StateError


class JobState(StrEnum):
    PENDING = "pending"
    RESERVED = "reserved"
    BOUND = "bound"
    RUNNING = "running"
    RECOVERING = "recovering"
    EVICTING = "evicting"
    SUSPENDED = "suspended"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Reason(StrEnum):
    """Why a job is pending."""

    ROOM = "room"
    RULE = "rule"
    QUOTA = "quota"
    LIMIT = "limit"
    PATIENCE = "patience"
    RESERVATION = "reservation"
    BACKOFF = "backoff"
    BREAKER = "breaker"
    PAUSED = "paused"
    CLOSED = "closed"


class PodState(StrEnum):
    BOUND = "bound"
    RUNNING = "running"
    TERMINATING = "terminating"
    LOST = "lost"
    STOPPED = "stopped"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


_J = JobState
JOB_MOVES: Mapping[JobState, frozenset[JobState]] = {
    _J.PENDING: frozenset({_J.RESERVED, _J.BOUND, _J.SUSPENDED, _J.FAILED, _J.CANCELLED}),
    _J.RESERVED: frozenset({_J.PENDING, _J.BOUND, _J.SUSPENDED, _J.FAILED, _J.CANCELLED}),
    _J.BOUND: frozenset(
        {_J.RUNNING, _J.RECOVERING, _J.EVICTING, _J.PENDING, _J.SUCCEEDED, _J.FAILED, _J.CANCELLED}
    ),
    _J.RUNNING: frozenset(
        {_J.BOUND, _J.RECOVERING, _J.EVICTING, _J.PENDING, _J.SUCCEEDED, _J.FAILED, _J.CANCELLED}
    ),
    _J.RECOVERING: frozenset(
        {_J.BOUND, _J.RUNNING, _J.EVICTING, _J.PENDING, _J.SUCCEEDED, _J.FAILED, _J.CANCELLED}
    ),
    _J.EVICTING: frozenset(
        {_J.RUNNING, _J.PENDING, _J.SUSPENDED, _J.SUCCEEDED, _J.FAILED, _J.CANCELLED}
    ),
    _J.SUSPENDED: frozenset({_J.PENDING, _J.FAILED, _J.CANCELLED}),
    _J.SUCCEEDED: frozenset(),
    _J.FAILED: frozenset(),
    _J.CANCELLED: frozenset(),
}

_P = PodState
POD_MOVES: Mapping[PodState, frozenset[PodState]] = {
    _P.BOUND: frozenset(
        {_P.RUNNING, _P.TERMINATING, _P.LOST, _P.STOPPED, _P.SUCCEEDED, _P.FAILED, _P.CANCELLED}
    ),
    _P.RUNNING: frozenset(
        {_P.TERMINATING, _P.LOST, _P.STOPPED, _P.SUCCEEDED, _P.FAILED, _P.CANCELLED}
    ),
    _P.TERMINATING: frozenset({_P.LOST, _P.STOPPED, _P.SUCCEEDED, _P.FAILED, _P.CANCELLED}),
    _P.LOST: frozenset(
        {_P.RUNNING, _P.TERMINATING, _P.STOPPED, _P.SUCCEEDED, _P.FAILED, _P.CANCELLED}
    ),
    _P.STOPPED: frozenset({_P.BOUND}),
    _P.SUCCEEDED: frozenset(),
    _P.FAILED: frozenset({_P.BOUND}),
    _P.CANCELLED: frozenset(),
}

FINAL = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED})
"""A job in one of these never changes state again."""

LIVE_POD = frozenset({PodState.BOUND, PodState.RUNNING, PodState.TERMINATING, PodState.LOST})
"""A pod in one of these holds its GPUs."""

REPORTED = frozenset({PodState.RUNNING, PodState.STOPPED, PodState.SUCCEEDED, PodState.FAILED})
"""What a node may say of a pod; the other states are decided here."""


def check_job_move(name: str, old: JobState, new: JobState) -> None:
    """Refuse a move that the table does not have.

    Raises:
        StateError: With the states that would be allowed.
    """
    if new not in JOB_MOVES[old]:
        allowed = ", ".join(sorted(JOB_MOVES[old])) or "nothing: it has ended"
        raise StateError(
            Problem(
                "state",
                f"job '{name}' is {old} and cannot become {new};"
                f" from {old} it may become {allowed}",
            )
        )


def check_pod_move(name: str, old: PodState, new: PodState) -> None:
    """Refuse a move that the table does not have.

    Raises:
        StateError: With the states that would be allowed.
    """
    if new not in POD_MOVES[old]:
        allowed = ", ".join(sorted(POD_MOVES[old])) or "nothing: it has ended"
        raise StateError(
            Problem(
                "state",
                f"pod '{name}' is {old} and cannot become {new};"
                f" from {old} it may become {allowed}",
            )
        )
