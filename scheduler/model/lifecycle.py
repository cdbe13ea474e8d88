"""The states of jobs and pods, and every move that is legal, in one table.

| state      | holds GPUs         | after a crash of the service                                   |
|------------|--------------------|----------------------------------------------------------------|
| pending    | none               | durable; waits on with its age, its patience and being held    |
| reserved   | none; its claims   | durable with its claims; they become pods when all is free     |
|            | keep some          |                                                                |
| bound      | its pods'          | durable; pods are started by whoever runs their nodes          |
| running    | its pods'          | durable; pods run on without the service. Members on the way   |
|            |                    | out stay so: `evict` is a part of the row                      |
| recovering | what is left, and  | durable with its limit; the clock stood still                  |
|            | claims for the rest|                                                                |
| evicting   | until pods stop    | durable with its step. asked: asked again, at least once;      |
|            |                    | saving: waits on until its deadline; terminating: its pods are |
|            |                    | told again by whoever runs them. For whom it leaves is in the  |
|            |                    | row, so that it can still be withdrawn                         |
| suspended  | none               | durable; stays until it is resumed                             |
| succeeded, failed, cancelled | none | final                                                      |

A plan tells only where a job ends up, so the table has the moves that one cycle can make in a row:
a gang that has left may start again or get its claims in the very same plan.
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
_ENDS = frozenset({_J.FAILED, _J.CANCELLED})
_IN_LINE = frozenset({_J.PENDING, _J.RESERVED, _J.BOUND, _J.SUSPENDED})
"""Where a gang may be at the end of a cycle once it stands in line again."""

JOB_MOVES: Mapping[JobState, frozenset[JobState]] = {
    _J.PENDING: _IN_LINE - {_J.PENDING} | _ENDS,
    _J.RESERVED: _IN_LINE - {_J.RESERVED} | _ENDS,
    _J.BOUND: frozenset({_J.RUNNING, _J.RECOVERING, _J.EVICTING, _J.SUCCEEDED})
    | _IN_LINE - {_J.BOUND}
    | _ENDS,
    _J.RUNNING: frozenset({_J.RECOVERING, _J.EVICTING, _J.SUCCEEDED}) | _IN_LINE | _ENDS,
    _J.RECOVERING: frozenset({_J.RUNNING, _J.EVICTING, _J.SUCCEEDED}) | _IN_LINE | _ENDS,
    _J.EVICTING: frozenset({_J.RUNNING, _J.SUCCEEDED}) | _IN_LINE | _ENDS,
    _J.SUSPENDED: _IN_LINE - {_J.SUSPENDED} | _ENDS,
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
    # A member that had ended well starts anew when its whole gang does, or has stopped for good if
    # the gang has no place for it then. No report makes it so.
    _P.SUCCEEDED: frozenset({_P.BOUND, _P.STOPPED}),
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
