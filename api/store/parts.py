"""A plan by owner: what it says of each job and each maintenance window."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from api.schemas.spec import load_eviction
from api.store.rows import AnyRow
from scheduler.model.claim import Claim
from scheduler.model.lifecycle import PodState
from scheduler.model.plan import JobMove, PodMove, PodRecord


@dataclass(frozen=True, slots=True)
class PodNow:
    """A pod as the database has it."""

    job: str
    node: str
    state: PodState
    exit_code: int | None
    gpu_mask: int
    bound_at: float | None = None


@dataclass(frozen=True, slots=True)
class ClaimNow:
    """A claim as the database has it."""

    claim: Claim
    gone: bool

    @property
    def owner(self) -> str:
        return owner_of(self.claim)


@dataclass(slots=True)
class Part:
    """What a plan says of one job, or of one maintenance window.

    Attributes:
        row: The job, or the window, as the database has it; None if its record is gone.
        window: Name of the window; None for a job.
        facts: Ids of facts that are taken account of.
        claims_gone: Uids of claims that end and had not ended yet.
    """

    row: AnyRow | None = None
    window: str | None = None
    move: JobMove | None = None
    pods: list[PodRecord] = field(default_factory=list)
    pod_moves: list[PodMove] = field(default_factory=list)
    facts: list[int] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    claims_gone: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Kept:
    """The plan by job and window, in its order.

    Attributes:
        parts: By uid of the job or key of the window, without the dropped ones.
        now: Pods that move or start anew, as the database has them.
        claims_now: Claims that change or end, as the database has them.
        dropped: Uids of jobs and keys of windows left out.
        has_open_facts: Whether any fact, of whatever job, had not been taken account of before.
    """

    parts: Mapping[str, Part]
    now: Mapping[str, PodNow]
    claims_now: Mapping[str, ClaimNow]
    dropped: frozenset[str]
    has_open_facts: bool = True


def window_key(name: str) -> str:
    """What stands for a window where jobs go by their uids, which have no space."""
    return f"window {name}"


def is_pool(part: Part) -> bool:
    """Whether a part is about the pool of a domain, as `leaf/l1`; names of windows have no `/`."""
    return part.window is not None and "/" in part.window


def owner_of(claim: Claim) -> str:
    """Uid of the claim's job, or the key of its window or pool."""
    return window_key(claim.window) if claim.job is None else claim.job


def new_claimant(part: Part) -> str | None:
    """For whom a job begins to leave by this plan; None if it does not, or for nobody."""
    if part.move is None or part.move.evict is None or part.row is None:
        return None
    old = load_eviction(part.row._mapping["evict"])
    claimant = part.move.evict.for_job
    return None if old is not None and old.for_job == claimant else claimant
