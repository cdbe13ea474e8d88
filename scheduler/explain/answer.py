"""The answer to a gang that does not fit: who holds what it lacks, and what would make it fit."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from scheduler.model.ids import JobId, NodeId
from scheduler.model.job import Rule
from scheduler.model.placement import NoFit
from scheduler.model.plan import JobRecord

Visible = Callable[[JobRecord], bool]
"""Whether whoever asks may see a job; of the others only numbers are told."""


def all_visible(_job: JobRecord) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class JobRef:
    """A job by its names."""

    uid: JobId
    namespace: str
    name: str

    @property
    def full_name(self) -> str:
        return f"{self.namespace}/{self.name}"


def ref_of(job: JobRecord) -> JobRef:
    return JobRef(job.uid, job.spec.namespace, job.spec.name)


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds GPUs that the gang could use: one job, or several that are told as numbers.

    Attributes:
        job: None for jobs that the caller may not see, and for those past the end of the list.
        jobs: How many it stands for; 1 with `job`.
        gpus: What they hold in the nearest domain, on nodes that the gang could use.
        ends_s: Unix seconds when it has run as long as it declared; None when it declared nothing
            or runs longer already.
    """

    job: JobRef | None
    jobs: int
    gpus: int
    ends_s: float | None = None
    is_hidden: bool = False


class ChangeKind(StrEnum):
    FINISH = "finish"
    """These jobs end."""
    UNCORDON = "uncordon"
    """These nodes take new pods again."""
    FINISH_AND_UNCORDON = "finish_and_uncordon"
    RELAX = "relax"
    """Rules of the gang ask for less."""
    SHRINK = "shrink"
    """The gang is smaller."""
    PREEMPT = "preempt"
    """These jobs, of lower priority and preemptible, leave."""
    LIMIT = "limit"
    """Its queue, or queues above it, may use more."""


@dataclass(frozen=True, slots=True)
class RuleChange:
    """A rule as it is and as it would be; `role` owns it unless it is the job's own."""

    before: Rule
    after: Rule
    role: str = ""


@dataclass(frozen=True, slots=True)
class Raise:
    """A queue's limit or quota as it would be.

    Attributes:
        model: The GPU model that it is of; "" for GPUs of any.
    """

    queue: str
    gpus: int
    model: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """Something that would make the gang fit now; the engine has placed it so.

    Attributes:
        jobs: Those that would end or leave, as far as the caller may see them.
        hidden: How many more there are.
        gpus: What all of them hold.
        ends_s: Unix seconds when all of them have run as long as they declared; None when that is
            not known of one.
        nodes: Those to uncordon.
        rules: Rules that change.
        role: Of a gang of roles, the one that shrinks.
        size: The new `dp`, or the role's new `min`.
        raises: Queues that would have to allow more.
        others_first: Gangs before it in line that would take the room, so that it would still not
            start; 0 when it would start in the next cycle.
    """

    kind: ChangeKind
    jobs: tuple[JobRef, ...] = ()
    hidden: int = 0
    gpus: int = 0
    ends_s: float | None = None
    nodes: tuple[NodeId, ...] = ()
    rules: tuple[RuleChange, ...] = ()
    role: str = ""
    size: int | None = None
    raises: tuple[Raise, ...] = ()
    others_first: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """All that is known of why a gang does not fit.

    Attributes:
        holders: Those whose end is known first, soonest first; then those with most GPUs.
        expected_start_s: Unix seconds from when it would fit if the running jobs end as declared
            and nothing else starts; None when that is not known.
        changes: Each verified; the cheapest of every kind. Those of which others in line would take
            the room come last.
        bounded: The search for changes was cut; there may be others, or cheaper ones.
        ahead: Gangs that are before it in line: room that a change makes may be theirs first.
    """

    verdict: NoFit
    holders: tuple[Holder, ...] = ()
    expected_start_s: float | None = None
    changes: tuple[Change, ...] = ()
    bounded: bool = False
    ahead: int = 0
