"""What reads of the store return: frozen values that hold no connection.

All times are Unix seconds (UTC); None = has not happened.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Generic, TypeVar

from api.store.changes import NO_CHANGES, Changes
from api.store.job_recovery import NOTHING_LEFT, Recovery
from scheduler.model.job import JobSpec, Rule
from scheduler.model.lifecycle import JobState, PodState, Reason
from scheduler.model.node import Health, Taint
from scheduler.model.plan import Eviction
from scheduler.model.queue import QueueRecord
from scheduler.model.resources import Resources
from scheduler.model.standing import PLAIN, NodeStanding, aside_of

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """One page of a list.

    Attributes:
        revision: Of the whole store when the page was read.
        next: Opaque cursor of the next page; None on the last.
    """

    items: tuple[Item, ...]
    revision: int
    next: str | None = None


@dataclass(frozen=True, slots=True)
class Saved:
    """A checkpoint that a job told of."""

    step: int
    uri: str
    at: float


@dataclass(frozen=True, slots=True)
class JobView:
    """A job as it stands.

    Attributes:
        attempt: One life of the gang on one placement; 0 before the first.
        gpus_per_pod: Of the placement, or as asked, or as the largest node type of the cluster
            suggests; 0 for roles.
        node_type: Of the placement; "" before.
        search: `exact` or `bounded`: how the last decision was found.
        gap: Of a bounded one, the most by which another place could be faster, as a share of this
            one's seconds; None where that is not known.
        age: Revision of the submission.
        body: The request as validated, defaults in.
        verdict: The last `NoFit` as plain values: never, code, message, rule {group, within, mode}
            or None, nearest {level, domain, lacks_nodes, lacks_gpus} or None, fitting, wanted,
            set_aside {reason: nodes}, search. None when it fits or was not looked at.
        minimum, members: Pods that must run together; pods wanted.
        gpus: Of all members.
        running: Pods in state running.
        broken: Rules that its pods do not keep on the present map.
        live: Pods that hold their GPUs.
        cancelling: A cancel was asked for and the leader has yet to act on it.
        spec_revision: Of the last change of what was asked for; `age` before the first.
        saved: The last checkpoint that it told of.
        expected_start_at: Forecast of its start; None while none is known.
        held: It may not start until it is released, or was asked not to.
        evict: How it leaves, while it does.
        recovery: What faults and crashes have left of it.
        lost: Pods on nodes that are lost.
        mismatch: What an audit found wrong with its books, so that it is held; "" = nothing.
    """

    uid: str
    namespace: str
    name: str
    queue: str
    priority: int
    state: JobState
    reason: Reason | None
    message: str
    attempt: int
    gpus_per_pod: int
    node_type: str
    search: str
    gap: float | None
    revision: int
    age: int
    submitted_at: float
    bound_at: float | None
    started_at: float | None
    finished_at: float | None
    body: dict[str, object]
    spec: JobSpec
    verdict: dict[str, object] | None
    minimum: int
    members: int
    gpus: int
    running: int
    broken: tuple[Rule, ...] = ()
    live: int = 0
    cancelling: bool = False
    spec_revision: int = 0
    saved: Saved | None = None
    expected_start_at: float | None = None
    held: bool = False
    evict: Eviction | None = None
    recovery: Recovery = NOTHING_LEFT
    lost: int = 0
    mismatch: str = ""


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod as it stands.

    Attributes:
        job: Name of its job (without the namespace).
        role: "" for the pods of a parallel job.
        index: Counts within the role.
        gpu_mask: Bit i = GPU i; the k-th set bit has rank `first_rank + k`.
        attempt: The pod's own.
    """

    uid: str
    job_uid: str
    namespace: str
    job: str
    name: str
    role: str
    index: int
    node: str
    gpu_mask: int
    first_rank: int
    state: PodState
    attempt: int
    exit_code: int | None
    resources: Resources
    revision: int


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node as it stands.

    Attributes:
        gpu: Model; "" without GPUs.
        cordon: {"reason": str, "by": str, "at": float} or None.
        drain: {"deadline": float | None, "at": float, "reason": str, "by": str, "done": bool} or
            None; done: no pod is left.
        places: Effective place at every level but `node`; None where it has none.
        pods: Live ones.
        cpu_milli, memory_mib: Capacity; 0 = not known.
        standing: The same as the core has it, with what is known beside: faults, why, since when.
    """

    name: str
    type: str
    gpu: str
    gpus: int
    gpus_free: int
    gpu_mask_used: int
    health: Health
    cordon: dict[str, object] | None
    drain: dict[str, object] | None
    places: dict[str, str | None]
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    pods: int
    cpu_milli: int
    memory_mib: int
    revision: int
    standing: NodeStanding = PLAIN

    @property
    def is_usable(self) -> bool:
        """Takes new pods: healthy, not cordoned, not draining, not in quarantine."""
        return aside_of(self.standing, -inf) is None


@dataclass(frozen=True, slots=True)
class NodeUsage:
    """What of one node is in use; cheap enough to read for the whole cluster at once.

    Attributes:
        gpu_mask_all, gpu_mask_used: Bit i = GPU i.
        aside: Why it takes no new pods: `cordoned`, `draining` or its health; None = usable.
    """

    name: str
    gpu_mask_all: int
    gpu_mask_used: int
    pods: int
    health: Health
    aside: str | None


@dataclass(frozen=True, slots=True)
class QueueView:
    """A queue as it stands; all that it uses and who is in it with the queues below it.

    Attributes:
        queue: As it was stated.
        used_gpus: Held by live pods of its jobs.
        used_by_model: The same by GPU model, models without any left out.
        borrowed_gpus, lent_gpus: In use beyond its quota; of its quota not in use, so that others
            may have them. None without a quota.
        share: Dominant share / weight, as the order of the line compares it.
        pending: Jobs that wait for a place.
        running: Jobs with live pods.
    """

    queue: QueueRecord
    used_gpus: int
    used_by_model: Mapping[str, int]
    borrowed_gpus: int | None
    lent_gpus: int | None
    share: float
    pending: int
    running: int
    revision: int

    @property
    def name(self) -> str:
        return self.queue.name


@dataclass(frozen=True, slots=True)
class EventView:
    """One thing that happened.

    Attributes:
        kind: `subject.what`, e.g. `job.bound`, `pod.reported`, `node.cordoned`.
    """

    revision: int
    at: float
    kind: str
    subject_kind: str
    namespace: str
    name: str
    uid: str
    message: str
    body: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """A caller's promise that equal keys mean one job.

    Attributes:
        caller: Who; "" while there are no tokens.
        body_hash: Of the request body; another body under the same key is a conflict.
    """

    caller: str
    namespace: str
    key: str
    body_hash: str


@dataclass(frozen=True, slots=True)
class Submission:
    """One job to submit.

    Attributes:
        body: The request as validated, defaults in.
        ground: What it was checked against, see `ground.py`; None = nothing.
    """

    spec: JobSpec
    body: Mapping[str, object]
    idempotency: IdempotencyKey | None = None
    ground: tuple[int, int, int, int] | None = None


@dataclass(frozen=True, slots=True)
class ImportResult:
    """What an import changed; counts of nodes.

    Attributes:
        removed: Nodes that are gone, with prune.
        kept: Nodes that prune or a changed type would have taken from live pods and that stayed.
        revision: After the import; unchanged if nothing changed.
        changes: The same node by node and field by field, as far as it is told.
    """

    created: int
    updated: int
    unchanged: int
    removed: int
    kept: int
    warnings: tuple[str, ...]
    revision: int
    changes: Changes = NO_CHANGES


@dataclass(frozen=True, slots=True)
class Committed:
    """What became of a plan.

    Attributes:
        revision: Of the store after it.
        dropped: Jobs left out because something newer than the plan touched them or their nodes.
        changed: Whether anything was written.
        events: How many of each kind were written, e.g. {"job.bound": 3}.
        deliveries: How many messages to hooks were written.
    """

    revision: int
    dropped: tuple[str, ...] = ()
    changed: bool = False
    events: Mapping[str, int] = field(default_factory=dict)
    deliveries: int = 0
