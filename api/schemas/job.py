"""Jobs: what is submitted and what is shown."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from api.schemas.common import (
    ORDER_PATTERN,
    SIZE_MAX,
    Count,
    EnvName,
    Labels,
    LevelName,
    Line,
    ModeName,
    Name,
    Page,
    Priority,
    Seconds,
    Size,
    SomeSeconds,
    Strict,
    Text,
    Time,
    Uri,
)
from scheduler.model.resources import MAX_GPUS_PER_NODE

ROLES_MAX = 1_000
NODES_MAX = 10_000

JobStateName = Literal[
    "pending",
    "reserved",
    "bound",
    "running",
    "recovering",
    "evicting",
    "suspended",
    "succeeded",
    "failed",
    "cancelled",
]
ReasonName = Literal[
    "room",
    "rule",
    "quota",
    "limit",
    "patience",
    "reservation",
    "backoff",
    "breaker",
    "paused",
    "closed",
]
EffectName = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
GpuCount = Annotated[int, Field(ge=0, le=MAX_GPUS_PER_NODE)]
Cores = Annotated[float, Field(ge=0, le=SIZE_MAX)]
GibiBytes = Annotated[float, Field(ge=0, le=SIZE_MAX)]
Counted = Annotated[dict[Line, Annotated[int, Field(ge=0, le=10**12)]], Field(max_length=64)]
AxisOrder = Annotated[str, StringConstraints(pattern=ORDER_PATTERN)]


class Parallelism(Strict):
    """Sizes of the parallel axes; the world is tp x cp x pp x dp.

    `etp` x `ep` x `pp` divides the world; `etp` is 1 with experts (`ep` above 1), else `tp`.
    `order` begins with the axis that changes fastest; an axis of size 1 may be left out.
    """

    tp: Size = 1
    cp: Size = 1
    pp: Size = 1
    dp: Size = 1
    ep: Size = 1
    etp: Size | None = None
    order: AxisOrder = "tp-cp-ep-dp-pp"


class JobRule(Strict):
    """Every group of this kind (`tp cp pp dp ep job`, a role) lies in one domain of the level."""

    group: Name
    within: LevelName
    mode: ModeName = "required"


class RoleRule(Strict):
    """The members of the role lie in one domain of the level; `group` is the role, if given."""

    group: Name | None = None
    within: LevelName
    mode: ModeName = "required"


class PartRule(Strict):
    """The members of each part, by itself, lie in one domain of the level."""

    within: LevelName
    mode: ModeName = "required"


class PartsBody(Strict):
    """A role cut into equal parts, each started whole or not at all.

    Part k is members k x `size` and on; `size` x `count` = the role's `replicas`. `min` parts must
    run together, by default all.
    """

    size: Size
    count: Size
    min: Size | None = None
    topology: Annotated[list[PartRule], Field(max_length=64)] = []


class RoleBody(Strict):
    """Equal members of a job.

    `min` members must run together, by default all; with `parts` it is `parts.min` x `parts.size`.
    `gpus`, `cpu` (cores), `memory` (GiB) and `resources` are those of one member. With `ring`,
    member i talks to i + 1, the last to the first. The job has succeeded when all have, or when
    the role with `decides` has.
    """

    name: Name
    replicas: Size
    min: Size | None = None
    gpus: GpuCount = 0
    cpu: Cores = 0.0
    memory: GibiBytes = 0.0
    resources: Counted = {}
    one_per_node: bool = False
    topology: Annotated[list[RoleRule], Field(max_length=64)] = []
    parts: PartsBody | None = None
    ring: bool = False
    decides: bool = False


class TolerationBody(Strict):
    """As in Kubernetes: no key with `Exists` tolerates every taint; no effect, every effect."""

    key: Line | None = None
    operator: Literal["Equal", "Exists"] = "Equal"
    value: Line = ""
    effect: EffectName | None = None


class ModelBody(Strict):
    """The model that is trained; gives the score real bytes."""

    params: Annotated[float, Field(gt=0, le=1e18)]
    layers: Size
    hidden: Size
    seq: Annotated[int, Field(ge=1, le=10**9)]
    micro_batch: Size = 1
    global_batch: Annotated[int, Field(ge=1, le=10**9)] | None = None


class FailureBody(Strict):
    """What restarts when a pod is lost, and how often the job's own crashes are forgiven."""

    scope: Literal["gang", "pod", "pod_else_gang"] = "gang"
    max_restarts: Count = 0
    backoff_s: Seconds = 10.0
    hold_s: Seconds = 600.0


class CheckpointBody(Strict):
    """How often the job saves, where to, and whom to ask before it has to leave."""

    interval_s: SomeSeconds | None = None
    uri: Uri | None = None
    grace_s: Seconds = 120.0
    hook: Uri | None = None


class RunBody(Strict):
    """What the pods run; handed to whoever starts them, never read here."""

    command: Annotated[list[Text], Field(max_length=1_000)] = []
    env: Annotated[dict[EnvName, Text], Field(max_length=1_000)] = {}


class JobBody(Strict):
    """A job to submit: a gang by its parallel sizes or by roles, and its rules.

    Exactly one of `parallelism` and `roles` is given. `labels`, `tolerations` and `nodes` (names
    or hostlists such as `n[001-004]`) say where its pods may run.
    """

    name: Name
    namespace: Name = "default"
    queue: Name = "default"
    priority: Priority = 0
    gpu: Line | None = None
    parallelism: Parallelism | None = None
    gpus_per_pod: Annotated[int, Field(ge=1, le=MAX_GPUS_PER_NODE)] | None = None
    cpus_per_pod: Cores | None = None
    memory_gib_per_pod: GibiBytes | None = None
    resources_per_pod: Counted | None = None
    roles: Annotated[list[RoleBody], Field(max_length=ROLES_MAX)] = []
    topology: Annotated[list[JobRule], Field(max_length=64)] = []
    labels: Labels = {}
    tolerations: Annotated[list[TolerationBody], Field(max_length=64)] = []
    nodes: Annotated[list[Line], Field(max_length=NODES_MAX)] = []
    model: ModelBody | None = None
    rails: ModeName = "preferred"
    patience_s: Seconds | None = None
    duration_s: SomeSeconds | None = None
    time_limit_s: SomeSeconds | None = None
    preemptible: bool = True
    if_never_fits: Literal["refuse", "wait"] = "refuse"
    spares: Annotated[int, Field(ge=0, le=10_000)] = 0
    failure: FailureBody = FailureBody()
    checkpoint: CheckpointBody | None = None
    run: RunBody | None = None


class BrokenRule(Strict):
    """A rule that the job's pods do not keep on the present map."""

    group: str
    within: str


class Job(Strict):
    """A job as it stands.

    `minimum`, `members` and `running` count pods: those that must run together, those wanted,
    those that run. `gpus` are those of all members. `never`: not even the empty cluster, healthy
    and uncordoned, could take it as the map is now. `spec` is the request with its defaults.
    """

    namespace: str
    name: str
    uid: str
    revision: int
    state: JobStateName
    reason: ReasonName | None
    message: str
    queue: str
    priority: int
    attempt: int
    minimum: int
    members: int
    running: int
    gpus: int
    preemptible: bool
    if_never_fits: Literal["refuse", "wait"]
    submitted_at: Time
    bound_at: Time | None
    started_at: Time | None
    finished_at: Time | None
    expected_start: Time | None
    rules_broken: list[BrokenRule]
    node_type: str | None
    gpus_per_pod: int | None
    never: bool
    spec: JobBody


class JobPage(Page[Job]):
    """Jobs in the order of their submission."""
