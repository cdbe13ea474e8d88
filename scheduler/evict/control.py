"""What people may ask of a job, and what becomes of it in each state: one table for all pairs."""

from collections.abc import Mapping
from enum import StrEnum

from scheduler.model.lifecycle import JobState
from scheduler.model.plan import FactKind


class Effect(StrEnum):
    """What a fact about a job does to it."""

    NOTHING = "nothing"
    """It is so already, or cannot be: the fact is done and changes nothing."""
    END = "end"
    """It is cancelled; its pods hold nothing from now on, its claims end."""
    MARK_HELD = "mark_held"
    """It does not start, or not again, until it is released; a place it waits for is given up."""
    MARK_FREE = "mark_free"
    """It may start again."""
    SUSPEND = "suspend"
    """It holds nothing, so it is suspended at once; a place it waits for is given up."""
    LEAVE_SUSPENDED = "leave_suspended"
    """Its pods are told to stop; then it is suspended."""
    LEAVE_PENDING = "leave_pending"
    """Its pods are told to stop; then it waits in line with its age."""
    LINE_UP = "line_up"
    """It waits in line with its age."""
    STOP_SURPLUS = "stop_surplus"
    """Members that it has too many stop; it may be complete with those it has."""
    PLAN_ANEW = "plan_anew"
    """Its claims were for other members than it is to have: it goes back in line."""


_J, _E = JobState, Effect
_ENDED: dict[JobState, Effect] = {
    _J.SUCCEEDED: _E.NOTHING,
    _J.FAILED: _E.NOTHING,
    _J.CANCELLED: _E.NOTHING,
}

CONTROL: Mapping[FactKind, Mapping[JobState, Effect]] = {
    FactKind.CANCEL: dict.fromkeys(JobState, _E.END) | _ENDED,
    FactKind.HOLD: dict.fromkeys(JobState, _E.MARK_HELD) | _ENDED,
    FactKind.RELEASE: dict.fromkeys(JobState, _E.MARK_FREE) | _ENDED,
    FactKind.SUSPEND: {
        _J.PENDING: _E.SUSPEND,
        _J.RESERVED: _E.SUSPEND,
        _J.BOUND: _E.LEAVE_SUSPENDED,
        _J.RUNNING: _E.LEAVE_SUSPENDED,
        _J.RECOVERING: _E.LEAVE_SUSPENDED,
        _J.EVICTING: _E.LEAVE_SUSPENDED,
        _J.SUSPENDED: _E.NOTHING,
        **_ENDED,
    },
    FactKind.RESUME: {
        _J.PENDING: _E.NOTHING,
        _J.RESERVED: _E.NOTHING,
        _J.BOUND: _E.NOTHING,
        _J.RUNNING: _E.NOTHING,
        _J.RECOVERING: _E.NOTHING,
        _J.EVICTING: _E.LEAVE_PENDING,
        _J.SUSPENDED: _E.LINE_UP,
        **_ENDED,
    },
    FactKind.REQUEUE: {
        _J.PENDING: _E.NOTHING,
        _J.RESERVED: _E.NOTHING,
        _J.BOUND: _E.LEAVE_PENDING,
        _J.RUNNING: _E.LEAVE_PENDING,
        _J.RECOVERING: _E.LEAVE_PENDING,
        _J.EVICTING: _E.LEAVE_PENDING,
        _J.SUSPENDED: _E.NOTHING,
        **_ENDED,
    },
    FactKind.RESIZE: {
        _J.PENDING: _E.NOTHING,
        _J.RESERVED: _E.PLAN_ANEW,
        _J.BOUND: _E.STOP_SURPLUS,
        _J.RUNNING: _E.STOP_SURPLUS,
        _J.RECOVERING: _E.STOP_SURPLUS,
        # All its pods are on the way out; its new members count when it is placed again.
        _J.EVICTING: _E.NOTHING,
        _J.SUSPENDED: _E.NOTHING,
        **_ENDED,
    },
}
"""Every fact but reports and faults, which are about pods, and those of the checkpoint handshake.
A gang that leaves since its time is up or its owner cancels it goes on to that end, whatever is
asked of it meanwhile (`leaves_for_good`)."""


def effect_of(kind: FactKind, state: JobState) -> Effect:
    """What a fact does to a job in this state; `kind` is not a report."""
    return CONTROL[kind][state]


def leaves_for_good(then: JobState) -> bool:
    """Whether an eviction with this end is not to be turned into another by its owner."""
    return then in {JobState.FAILED, JobState.CANCELLED}
