"""What one cycle read and what it decided."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from operator import attrgetter

from scheduler.model.claim import Claim
from scheduler.model.ids import ClaimId, JobId, NodeId, PodId
from scheduler.model.job import JobSpec, Rule
from scheduler.model.lifecycle import LIVE_POD, JobState, PodState, Reason
from scheduler.model.placement import NoFit
from scheduler.model.resources import NOTHING, Resources


@dataclass(frozen=True, slots=True)
class PodRecord:
    """A pod as the ledger has it.

    Attributes:
        uid: Stays the same through restarts of the pod.
        index: Counts within the role.
        attempt: The pod's own; grows when that pod starts anew. First life: 1.
        first_rank: First of its consecutive ranks.
    """

    uid: PodId
    job: JobId
    name: str
    role: str
    index: int
    node: NodeId
    gpu_mask: int
    first_rank: int
    state: PodState
    attempt: int = 1
    resources: Resources = NOTHING
    exit_code: int | None = None

    @property
    def is_live(self) -> bool:
        return self.state in LIVE_POD


class EvictStep(StrEnum):
    """How far an eviction has come."""

    ASKED = "asked"
    """The checkpoint hook is to be asked; until it was, the eviction can be withdrawn."""
    SAVING = "saving"
    """The job saves its state."""
    TERMINATING = "terminating"
    """Its pods were told to stop."""


@dataclass(frozen=True, slots=True)
class Eviction:
    """A gang, or some members of it, on the way out.

    Attributes:
        then: What the gang becomes when its pods have stopped: pending, suspended, cancelled or
            failed; for members above the minimum, the state it stays in.
        deadline_s: Unix seconds at which the next step is taken anyway; None = no limit.
        why: In words, for people.
        for_job: The gang that gets the place; None when nobody does.
        request_id: Of the request to save that its checkpoint hook gets; "" when none is asked.
        asked_s: Unix seconds when a cycle knew that the hook is being asked; None = not yet, so the
            eviction can be withdrawn.
    """

    then: JobState
    step: EvictStep
    deadline_s: float | None = None
    why: str = ""
    for_job: JobId | None = None
    request_id: str = ""
    asked_s: float | None = None


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job as the ledger has it, without its pods.

    Attributes:
        age: Revision of its submission; orders jobs of equal priority.
        attempt: One life of the gang on one placement; 0 before the first.
        gpus_per_pod: Of the current placement of a parallel job; 0 before.
        broken: Rules that its pods do not keep on the present map.
        submitted_s, bound_s, started_s: Unix seconds of its submission, of its present binding and
            of when its minimum first ran there; None while it has none.
        saved_s: Unix seconds of the last checkpoint that was acknowledged; None = none.
        could_start_s: When a cycle first found a place for it that it did not take, out of
            patience; None while there was none.
        expected_start_s: Forecast of its start; None while none is known.
        held: It may not start until it is released.
        evict: How it leaves, while it does.
        evicted_s: Unix seconds up to which its evictions for other gangs count; None = it never
            had to leave for one. Each moves this on, and from some number on it is spared
            (`preempt.victims`).
        hold_until_s: Unix seconds until when it holds what is left of it, while it is recovering.
        crashes: Its own, not those of the machines; they count against `max_restarts`.
        not_before_s: Unix seconds before which it, or the member that crashed, does not start anew.
        crash_streak, last_crash: So many crashes in a row went the same way, and which.
        goes_first: It gave up all that it held after a fault: it is first in line among equals.
        lost_since_s: Unix seconds when it lost the first of the members that it still lacks.
        pod_count: Of the attempt of a parallel job that may have several sizes, while it has its
            place or waits for it after a crash; else 0.
    """

    uid: JobId
    spec: JobSpec
    state: JobState
    age: int
    reason: Reason | None = None
    message: str = ""
    attempt: int = 0
    gpus_per_pod: int = 0
    node_type: str = ""
    broken: tuple[Rule, ...] = ()
    submitted_s: float = 0.0
    bound_s: float | None = None
    started_s: float | None = None
    saved_s: float | None = None
    could_start_s: float | None = None
    expected_start_s: float | None = None
    held: bool = False
    evict: Eviction | None = None
    evicted_s: float | None = None
    hold_until_s: float | None = None
    crashes: int = 0
    not_before_s: float | None = None
    crash_streak: int = 0
    last_crash: str = ""
    goes_first: bool = False
    lost_since_s: float | None = None
    pod_count: int = 0

    @property
    def since_s(self) -> float | None:
        """When its present run began: when its minimum first ran, else when it was bound."""
        return self.started_s if self.started_s is not None else self.bound_s


_VALUES_OF = attrgetter(*(f.name for f in fields(JobRecord)))
_PLACE_OF = {f.name: place for place, f in enumerate(fields(JobRecord))}


def job_with(job: JobRecord, changes: Mapping[str, object]) -> JobRecord:
    """The job with some fields changed, by name: as `replace`, in half the time.

    A cycle that tells ten thousand waiting gangs why they wait spends most of its time here.
    """
    values = list(_VALUES_OF(job))
    for name, value in changes.items():
        values[_PLACE_OF[name]] = value
    return JobRecord(*values)


class FactKind(StrEnum):
    CANCEL = "cancel"
    REPORT = "report"
    RESIZE = "resize"
    """The job is to have other members than before; its spec says which."""
    HOLD = "hold"
    """It may not start; one that has started runs on."""
    RELEASE = "release"
    SUSPEND = "suspend"
    """Its pods are to leave, and it does not come back before it is resumed."""
    RESUME = "resume"
    REQUEUE = "requeue"
    """Its pods are to leave; it waits in line with its age."""
    ASKED = "asked"
    """Its checkpoint hook is being asked to save: from now on the time that it has counts."""
    SAVING = "saving"
    """The hook said that it saves, and will tell when it has."""
    CHECKPOINT = "checkpoint"
    """It has saved, in answer to that request."""
    FAULT = "fault"
    """A fault of its node after which this pod (`pod`, `attempt`) has to start anew, though the
    node itself is fit; one for each live pod on the GPUs that it is about."""


@dataclass(frozen=True, slots=True)
class Fact:
    """What a caller or an agent says happened.

    Attributes:
        id: Grows with time; facts are applied in this order.
        revision: The revision its transaction took.
        pod, attempt, pod_state, exit_code: Of a report; pod and attempt of a fault.
        request_id: Of the request to save that an ASKED, SAVING or CHECKPOINT is about.
    """

    id: int
    revision: int
    kind: FactKind
    job: JobId
    pod: PodId | None = None
    attempt: int = 0
    pod_state: PodState | None = None
    exit_code: int | None = None
    request_id: str = ""


@dataclass(frozen=True, slots=True)
class PodMove:
    """A pod that changes state; leaving `LIVE_POD` frees its GPUs.

    Attributes:
        surplus: It leaves because its job is to have fewer members.
    """

    uid: PodId
    state: PodState
    exit_code: int | None = None
    surplus: bool = False


@dataclass(frozen=True, slots=True)
class JobMove:
    """A job's new standing. The same state with another reason or verdict is a move too.

    Attributes:
        attempt: The job's attempt from now on.
        gap: Of a bounded search, as `Placement` has it.
        verdict: Why it does not fit; None when it does or when that is not the cause.
        broken: Rules that its pods do not keep on the present map; shown as `rules_broken`.
        could_start_s to pod_count: As in `JobRecord`, from now on.
    """

    uid: JobId
    state: JobState
    reason: Reason | None
    message: str
    attempt: int
    gpus_per_pod: int = 0
    node_type: str = ""
    search: str = "exact"
    gap: float | None = None
    verdict: NoFit | None = None
    broken: tuple[Rule, ...] = ()
    could_start_s: float | None = None
    expected_start_s: float | None = None
    held: bool = False
    evict: Eviction | None = None
    evicted_s: float | None = None
    hold_until_s: float | None = None
    crashes: int = 0
    not_before_s: float | None = None
    crash_streak: int = 0
    last_crash: str = ""
    goes_first: bool = False
    lost_since_s: float | None = None
    pod_count: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """All that one cycle decided, on the snapshot of `revision`.

    Attributes:
        facts_done: Facts this plan takes account of, whether or not they changed anything.
        pods: New pods, all in state bound. Those of one job are written all or none. One may have
            the uid of a pod that is live: that pod starts anew with the next attempt, there or
            elsewhere. All such pods let go of their GPUs before the first new one takes any, so
            two may change places.
        claims: New claims, or known ones with another time. Those of one job are written all or
            none, with that job's other moves and with the evictions made for it.
        claims_gone: Claims that end, those that become pods included.
        wake_at_s: Unix seconds at which the next cycle is due though nothing happens; None = never.
    """

    revision: int
    facts_done: tuple[int, ...] = ()
    job_moves: tuple[JobMove, ...] = ()
    pods: tuple[PodRecord, ...] = ()
    pod_moves: tuple[PodMove, ...] = ()
    claims: tuple[Claim, ...] = ()
    claims_gone: tuple[ClaimId, ...] = ()
    wake_at_s: float | None = None

    def is_empty(self) -> bool:
        return not (
            self.facts_done
            or self.job_moves
            or self.pods
            or self.pod_moves
            or self.claims
            or self.claims_gone
        )


def moved_job(job: JobRecord, move: JobMove, now_s: float) -> JobRecord:
    """The job after a move that is committed at `now_s`, in Unix seconds."""
    bound_s, started_s = job.bound_s, job.started_s
    if move.state in {JobState.PENDING, JobState.RESERVED, JobState.SUSPENDED}:
        bound_s = started_s = None
    elif move.attempt != job.attempt:
        bound_s, started_s = now_s, None
    if move.state is JobState.RUNNING and started_s is None:
        started_s = now_s
    changes = {
        "state": move.state,
        "reason": move.reason,
        "message": move.message,
        "attempt": move.attempt,
        "gpus_per_pod": move.gpus_per_pod,
        "node_type": move.node_type,
        "broken": move.broken,
        "bound_s": bound_s,
        "started_s": started_s,
        "could_start_s": move.could_start_s,
        "expected_start_s": move.expected_start_s,
        "held": move.held,
        "evict": move.evict,
        "evicted_s": move.evicted_s,
        "hold_until_s": move.hold_until_s,
        "crashes": move.crashes,
        "not_before_s": move.not_before_s,
        "crash_streak": move.crash_streak,
        "last_crash": move.last_crash,
        "goes_first": move.goes_first,
        "lost_since_s": move.lost_since_s,
        "pod_count": move.pod_count,
    }
    return job_with(job, changes)
