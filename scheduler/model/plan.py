"""What one cycle read and what it decided."""

from dataclasses import dataclass
from enum import StrEnum

from scheduler.model.ids import JobId, NodeId, PodId
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


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job as the ledger has it, without its pods.

    Attributes:
        age: Revision of its submission; orders jobs of equal priority.
        attempt: One life of the gang on one placement; 0 before the first.
        gpus_per_pod: Of the current placement of a parallel job; 0 before.
        broken: Rules that its pods do not keep on the present map.
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


class FactKind(StrEnum):
    CANCEL = "cancel"
    REPORT = "report"
    RESIZE = "resize"
    """The job is to have other members than before; its spec says which."""


@dataclass(frozen=True, slots=True)
class Fact:
    """What a caller or an agent says happened.

    Attributes:
        id: Grows with time; facts are applied in this order.
        revision: The revision its transaction took.
        pod, attempt, pod_state, exit_code: Of a report.
    """

    id: int
    revision: int
    kind: FactKind
    job: JobId
    pod: PodId | None = None
    attempt: int = 0
    pod_state: PodState | None = None
    exit_code: int | None = None


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
        verdict: Why it does not fit; None when it does or when that is not the cause.
        broken: Rules that its pods do not keep on the present map; shown as `rules_broken`.
    """

    uid: JobId
    state: JobState
    reason: Reason | None
    message: str
    attempt: int
    gpus_per_pod: int = 0
    node_type: str = ""
    search: str = "exact"
    verdict: NoFit | None = None
    broken: tuple[Rule, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """All that one cycle decided, on the snapshot of `revision`.

    Attributes:
        facts_done: Facts this plan takes account of, whether or not they changed anything.
        pods: New pods, all in state bound. Those of one job are written all or none.
    """

    revision: int
    facts_done: tuple[int, ...] = ()
    job_moves: tuple[JobMove, ...] = ()
    pods: tuple[PodRecord, ...] = ()
    pod_moves: tuple[PodMove, ...] = ()

    def is_empty(self) -> bool:
        return not (self.facts_done or self.job_moves or self.pods or self.pod_moves)
