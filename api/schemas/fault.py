"""Faults of nodes, drains and fences, of one node or of every node of a set."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from api.schemas.common import (
    Count,
    GivenTime,
    Page,
    Seconds,
    Sentence,
    Strict,
    Time,
)
from api.schemas.node import Node
from api.schemas.whatif import WhatIfEffect
from scheduler.model.resources import MAX_GPUS_PER_NODE

FaultActionName = Literal["note", "restart_job", "drain_reset", "replace"]

CODE_PATTERN = r"^[a-z][a-z0-9_]{0,62}$"
CodeName = Annotated[str, StringConstraints(pattern=CODE_PATTERN)]

XID_MAX = 9_999
"""Above every number that a driver has used."""

GpuIndex = Annotated[int, Field(ge=0, lt=MAX_GPUS_PER_NODE)]
RailIndex = Annotated[int, Field(ge=0, lt=MAX_GPUS_PER_NODE)]


class FaultBody(Strict):
    """What went wrong on a node.

    `code` is one of the table on the page of faults, or is left out where `xid`, the number of a
    GPU driver's Xid, says it. `gpus` are indices on the node, none = the node as a whole; `rail` is
    for codes that are about one. `at` is when it happened, now if left out.
    """

    code: CodeName | None = None
    xid: Annotated[int, Field(ge=1, le=XID_MAX)] | None = None
    message: Sentence = ""
    gpus: Annotated[list[GpuIndex], Field(max_length=MAX_GPUS_PER_NODE)] = []
    rail: RailIndex | None = None
    at: GivenTime | None = None


class FaultOfSet(Strict):
    """The set that a fault was reported of, as in `{"kind": "rack", "name": "r01"}`."""

    kind: str
    name: str


class Fault(Strict):
    """A fault of a node, open until it is `cleared_at`.

    `action` is what its code asks for: `note` it, `restart_job` that ran on these GPUs, empty the
    node, reset and test it (`drain_reset`), or `replace` what ran there at once.
    """

    id: int
    node: str
    code: str
    action: FaultActionName
    at: Time
    message: str
    gpus: list[int]
    rail: int | None
    set: FaultOfSet | None
    reported_by: str
    reported_at: Time
    cleared_at: Time | None
    cleared_by: str


class FaultPage(Page[Fault]):
    """Faults, oldest first."""


class FaultsOfSet(Strict):
    """One fault for each node of the set; `created` of them are new."""

    items: list[Fault]
    created: int


class DrainBody(Strict):
    """How the pods of a node are to leave.

    They leave for another place as soon as there is one, after their job has saved where it has a
    hook for that. After `deadline_s` seconds they leave whether or not there is one; 0 = at once,
    left out = never by force.
    """

    deadline_s: Seconds | None = None
    reason: Sentence = ""


class FenceBody(Strict):
    """Why it is known that nothing runs on the node any more."""

    reason: Sentence = ""


class Leaving(Strict):
    """What a job has on the nodes: `pods` of its `members`, with so many GPUs."""

    job: str
    pods: list[str]
    gpus: int
    nodes: list[str]
    saves_first: bool


class Drained(Strict):
    """The nodes after a drain was asked for, and what it moves.

    `leaving` is what is on them now, of jobs that the caller may see; `hidden` counts the others.
    `moves` is what the scheduler would make of it at this moment if the deadline had passed, on a
    copy of the cluster where pods stop at once; it is worked out for `dry_run` alone. `settled`:
    false when the copy went on changing.
    """

    dry_run: bool
    deadline: Time | None
    nodes: list[Node]
    leaving: list[Leaving]
    hidden: Count
    moves: list[WhatIfEffect]
    settled: bool


class Undrained(Strict):
    """The nodes after the drain was withdrawn."""

    nodes: list[Node]


class HeldBack(Strict):
    """Gangs that are in recovery and not moved, as the breaker is open; those of all tenants."""

    jobs: Count
    gpus: Count


class Breaker(Strict):
    """The circuit breaker: `open` while more failed at once than is believed.

    `failing` of `nodes` nodes failed within `window_s` seconds and since `reset_at`, `failed` are
    the first of them by name; more than `limit`, a share of all, opens it. `since` is the failure
    that was one too many; at `closes_at` so many count no more that it closes by itself. Meanwhile
    nothing is moved, and the clocks of the `held` gangs stand still.
    """

    state: Literal["open", "closed"]
    failing: Count
    nodes: Count
    share: float
    limit: float
    window_s: float
    since: Time | None
    closes_at: Time | None
    reset_at: Time | None
    failed: list[str]
    held: HeldBack
    revision: int


class BreakerReset(Strict):
    """The breaker after it was reset: nodes that failed before `reset_at` do not count any more."""

    reset_at: Time
