"""GPUs kept for a gang that is not bound there, or for people: one kind of record for all uses."""

from dataclasses import dataclass
from enum import StrEnum

from scheduler.model.ids import ClaimId, JobId, NodeId
from scheduler.model.resources import NOTHING, Resources


class ClaimWhy(StrEnum):
    """What a claim is for."""

    RESERVATION = "reservation"
    """Where a gang at the head of the line will start; shorter work may run there until then."""
    PREEMPTION = "preemption"
    """Where a gang starts as soon as its victims have left."""
    RECOVERY = "recovery"
    """Where the rest of a gang in recovery stays, or its lost members will go."""
    SPARE = "spare"
    """A node kept for a gang's recovery."""
    POOL = "pool"
    """A node kept in a domain for whichever gang in recovery needs it."""
    MAINTENANCE = "maintenance"
    """A window in which people work on the node."""


MAKING_ROOM = frozenset({ClaimWhy.PREEMPTION, ClaimWhy.RECOVERY})
"""Claims on a place that others are made to leave."""

LENT = frozenset({ClaimWhy.SPARE, ClaimWhy.POOL})
"""Claims on what gangs may use meanwhile that can be made to leave at once."""


@dataclass(frozen=True, slots=True)
class Claim:
    """GPUs of one node kept from `starts_s` on.

    No two claims share a GPU at one time; the schema refuses it. A claim may share GPUs with
    bindings that leave before they are needed; one for a spare or a pool also with those of gangs
    that can be made to leave at once.

    Attributes:
        uid: Of a member: the pod's uid; of a spare `<job>-spare-<number>`; of a window
            `window-<name>-<node>`; of a pool `pool-<node>`.
        job: Whose it is; None for a maintenance window and for a pool.
        window: Name of the maintenance window, or of the domain that a pool is of, as in
            `leaf/l1`; "" for a gang's claim.
        gpu_mask: Bit i = GPU i of the node; may be 0 for a member without GPUs.
        starts_s: Unix seconds from when the GPUs must be free; 0 = now.
        until_s: When the claim ends by itself; None = with its cause.
        role, index, first_rank, resources: Of the pod that will start there; not of spares and
            windows.
    """

    uid: ClaimId
    why: ClaimWhy
    node: NodeId
    gpu_mask: int
    job: JobId | None = None
    window: str = ""
    starts_s: float = 0.0
    until_s: float | None = None
    role: str = ""
    index: int = 0
    first_rank: int = 0
    resources: Resources = NOTHING


@dataclass(frozen=True, slots=True)
class Window:
    """A maintenance window: people have these nodes for themselves.

    Nothing starts there that would not have ended by `starts_s`; what runs on is not stopped.

    Attributes:
        nodes: Names; at least one.
        starts_s, ends_s: Unix seconds; `starts_s` < `ends_s`.
    """

    name: str
    nodes: tuple[NodeId, ...]
    starts_s: float
    ends_s: float
    why: str = ""
