"""How a node stands: its machine's health, its faults, and what people want of it.

The world holds what *is*; every cycle acts on it. Nothing here is an order: a node that is lost
makes its pods lost in the next cycle because it is lost, whoever found that out and when.
"""

from dataclasses import dataclass
from enum import StrEnum

from scheduler.model.node import Health


class FaultAction(StrEnum):
    """What a kind of fault asks for."""

    NOTE = "note"
    """Recorded; it counts for the node's record and may be a price, but nothing moves."""
    RESTART_JOB = "restart_job"
    """The machine is fit; what ran on these GPUs has to start anew."""
    DRAIN_RESET = "drain_reset"
    """The node is emptied, reset and tested before it is used again."""
    REPLACE = "replace"
    """The machine is no use; what ran there goes elsewhere now."""


@dataclass(frozen=True, slots=True)
class Drain:
    """A node that its pods are to leave.

    Attributes:
        deadline_s: Unix seconds after which they leave whether or not there is a place for them;
            None = they never do without one.
        why, by: In words, and who asked.
    """

    deadline_s: float | None = None
    why: str = ""
    by: str = ""


@dataclass(frozen=True, slots=True)
class NodeFault:
    """An open fault of a node.

    Attributes:
        id: Grows with time.
        code: Of `scheduler.recover.codes`.
        at_s: Unix seconds at which it happened.
        gpus: GPU indices that it is about; empty = the whole node.
        rail: The rail that it is about.
        set_kind, set_name: Of the set that it was reported for, such as a rack; "" = the node.
    """

    id: int
    code: str
    at_s: float
    action: FaultAction
    detail: str = ""
    gpus: tuple[int, ...] = ()
    rail: int | None = None
    set_kind: str = ""
    set_name: str = ""


@dataclass(frozen=True, slots=True)
class NodeStanding:
    """All that is known of a node beside the inventory.

    Attributes:
        since_s: Unix seconds from when it has this health.
        why: Of its health, in words.
        has_agent: An agent runs there, or did: pods have stopped only when it says so.
        fenced: Its pods are known to be gone: the machine is, or an operator or its agent said so.
        dead_rails: Mask of rails that open faults have taken.
        faults: Open ones, oldest first.
        lemon: It has far more faults than its like; large gangs keep off it.
        quarantined_until_s: Unix seconds until when it is kept out of use, for failing too often.
        mismatch: Its books contradict each other, in words; it takes nothing new until they agree.
        silent_s: It is lost because its agent was silent, for so long as far as that counted; None
            = for another reason, and whatever ran there is gone.
    """

    health: Health = Health.HEALTHY
    since_s: float = 0.0
    why: str = ""
    cordoned: bool = False
    drain: Drain | None = None
    has_agent: bool = False
    fenced: bool = False
    dead_rails: int = 0
    faults: tuple[NodeFault, ...] = ()
    lemon: bool = False
    quarantined_until_s: float | None = None
    silent_s: float | None = None
    mismatch: str = ""

    @property
    def is_gone(self) -> bool:
        """Whether nothing can be expected of what runs there."""
        return self.health in GONE


GONE = frozenset({Health.LOST, Health.OUT})
"""Health in which a node's pods count as lost."""

PLAIN = NodeStanding()
"""A node of which nothing is known but what the inventory says."""


def aside_of(standing: NodeStanding, now_s: float) -> str | None:
    """Why a node takes no new pods at `now_s` (Unix seconds); None when it does.

    The machine's health comes first, then what people want, then its books, then quarantine.
    """
    if standing.health is not Health.HEALTHY:
        return standing.health.value
    if standing.drain is not None:
        return "draining"
    if standing.cordoned:
        return "cordoned"
    if standing.mismatch:
        return "mismatch"
    until_s = standing.quarantined_until_s
    return "quarantined" if until_s is not None and until_s > now_s else None


def standing_of_word(aside: str | None) -> NodeStanding:
    """The standing that `aside_of` says this word for; any other word is a cordon's reason."""
    if aside is None:
        return PLAIN
    if aside in {health.value for health in Health if health is not Health.HEALTHY}:
        return NodeStanding(health=Health(aside))
    if aside == "draining":
        return NodeStanding(drain=Drain())
    if aside == "mismatch":
        return NodeStanding(mismatch=aside)
    return NodeStanding(cordoned=True, why="" if aside == "cordoned" else aside)
