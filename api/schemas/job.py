"""Jobs: what is submitted and what is shown."""

from typing import Annotated, Literal

from pydantic import Discriminator, Field, StringConstraints, Tag

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
Weight = Annotated[float, Field(ge=1e-6, le=1e6)]
AxisOrder = Annotated[str, StringConstraints(pattern=ORDER_PATTERN)]


class DpSizes(Strict):
    """Values of dp that the job may start with; the largest that fits then is taken."""

    sizes: Annotated[list[Size], Field(min_length=1, max_length=16)]


def _kind_of_dp(value: object) -> str:
    return "[object]" if isinstance(value, dict | DpSizes) else "[number]"


DpSize = Annotated[
    Annotated[Size, Tag("[number]")] | Annotated[DpSizes, Tag("[object]")],
    Discriminator(_kind_of_dp),
]


class Parallelism(Strict):
    """Sizes of the parallel axes; the world is tp x cp x pp x dp.

    With several sizes of `dp` each attempt of the gang takes the largest that fits when it starts.
    `etp` x `ep` x `pp` divides the world; `etp` is 1 with experts (`ep` above 1), else `tp`.
    `order` begins with the axis that changes fastest; an axis of size 1 may be left out.
    """

    tp: Size = 1
    cp: Size = 1
    pp: Size = 1
    dp: DpSize = 1
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
    """The model that is trained; gives the score real bytes.

    `params` are those of the whole model, all experts included. `seq` counts tokens, `micro_batch`
    and `global_batch` sequences. `top_k` of `experts` take each token; every layer has experts, or
    none has. `dtype` is that of the activations.
    """

    params: Annotated[float, Field(gt=0, le=1e18)]
    layers: Size
    hidden: Size
    seq: Annotated[int, Field(ge=1, le=10**9)]
    micro_batch: Size = 1
    global_batch: Annotated[int, Field(ge=1, le=10**9)] | None = None
    experts: Size = 1
    top_k: Size = 1
    dtype: Literal["bf16", "fp16", "fp8", "fp32"] = "bf16"


class AxisWeights(Strict):
    """Factors on the bytes that axes carry in a step, for the score alone.

    Without a `model` a weight is the axis's bytes themselves, in GB sent per rank. Axes that are
    not named keep what the model, or the default, gives.
    """

    tp: Weight | None = None
    cp: Weight | None = None
    ep: Weight | None = None
    dp: Weight | None = None
    pp: Weight | None = None


class FailureBody(Strict):
    """What restarts when a pod is lost, and how often the job's own crashes are forgiven.

    A job without this section is not started again after a crash of its own; with it, ten times
    unless it says otherwise. What machines do to a job is never counted.

    `lost_after_s` is how long the agent of a node has to be silent until the job's pods there count
    as lost and start elsewhere; by default as the policy says, and never less than its
    `suspect_after_s`.

    With `fence: strict` its pods end by themselves before they could be running twice: when their
    node has not reached the service for nearly `lost_after_s`.
    """

    scope: Literal["gang", "pod", "pod_else_gang"] = "gang"
    max_restarts: Count = 10
    backoff_s: Seconds = 10.0
    hold_s: Seconds = 600.0
    lost_after_s: SomeSeconds | None = None
    fence: Literal["none", "strict"] = "none"


class CheckpointBody(Strict):
    """How often the job saves, where to, and whom to ask before it has to leave.

    The `hook` is told of all that happens to the job; when it has to leave, it has `grace_s` from
    being asked on until the pods are told to stop.
    """

    interval_s: SomeSeconds | None = None
    uri: Uri | None = None
    grace_s: Seconds = 120.0
    hook: Uri | None = None


HookEventName = Literal["placement.bound", "job.evicting", "job.restarting", "job.finished"]


class HookBody(Strict):
    """Who is to be told of a job: of these events, or of all when none is named."""

    url: Uri
    events: Annotated[list[HookEventName], Field(max_length=8)] = []


ImageName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9/][A-Za-z0-9._:/@+-]{0,499}$", max_length=500)
]
"""Never begins with a dash: it becomes a word of the launcher's command line."""


class RoleRun(Strict):
    """What the members of one role run: what is given here counts, beside the `env` of all.

    They start when so many members of other roles run as `after` says, by role; with `after_any`,
    when that is so of one of them. Their places are taken with those of the gang.
    """

    command: Annotated[list[Text], Field(max_length=1_000)] | None = None
    image: ImageName | None = None
    env: Annotated[dict[EnvName, Text], Field(max_length=1_000)] | None = None
    after: Annotated[dict[Name, Size], Field(max_length=ROLES_MAX)] | None = None
    after_any: bool | None = None


class RunBody(Strict):
    """What the pods run; handed to whoever starts them, never read here.

    An `image` is taken only where the service has a launcher to run it with (`PODYARD_LAUNCHER`).
    `roles` says what is different for members of a role. In the values of `env`, `$(pod.index)`,
    `$(pod.index+1)`, `$(pod.name)`, `$(pod.node)`, `$(count.ROLE)`, `$(hosts.ROLE)` (nodes of its
    members, by commas) and `$(peers.ROLE:PORT)` (the same as a JSON list with a port) are filled in
    when a pod starts.
    """

    command: Annotated[list[Text], Field(max_length=1_000)] = []
    image: ImageName | None = None
    env: Annotated[dict[EnvName, Text], Field(max_length=1_000)] = {}
    roles: Annotated[dict[Name, RoleRun], Field(max_length=ROLES_MAX)] | None = None


class JobBody(Strict):
    """A job to submit: a gang by its parallel sizes or by roles, and its rules.

    Exactly one of `parallelism` and `roles` is given. `labels`, `tolerations` and `nodes` (names
    or hostlists such as `n[001-004]`) say where its pods may run. With `exclusive` no other job has
    pods on its nodes. `segment` consecutive pods of a parallel job lie in one scale-up domain.
    `priority_class` is a name of `/v1/policy` for a priority. A job that is not `preemptible` is
    never made to leave for another; nobody is made to leave for one that does not `preempts`.
    """

    name: Name
    namespace: Name = "default"
    queue: Name = "default"
    priority: Priority = 0
    priority_class: Name | None = None
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
    axis_weights: AxisWeights | None = None
    rails: ModeName = "preferred"
    exclusive: bool = False
    segment: Size | None = None
    patience_s: Seconds | None = None
    duration_s: SomeSeconds | None = None
    time_limit_s: SomeSeconds | None = None
    preemptible: bool = True
    preempts: bool = True
    if_never_fits: Literal["refuse", "wait"] = "refuse"
    spares: Annotated[int, Field(ge=0, le=10_000)] = 0
    failure: FailureBody = FailureBody(max_restarts=0)
    checkpoint: CheckpointBody | None = None
    hooks: Annotated[list[HookBody], Field(max_length=8)] | None = None
    run: RunBody | None = None


class BrokenRule(Strict):
    """A rule that the job's pods do not keep on the present map."""

    group: str
    within: str


class Evicting(Strict):
    """How a job, or some of its members above the minimum, leaves.

    `then` is what the job becomes when they have stopped; at `deadline` the next step is taken
    anyway.
    """

    then: JobStateName
    step: Literal["asked", "saving", "terminating"]
    deadline: Time | None
    why: str


class Saved(Strict):
    """The last checkpoint that the job told of."""

    step: int
    uri: str
    at: Time


class Recovering(Strict):
    """What a job that lost members still waits for.

    Until `hold_until` it keeps the rest of its place; then it gives up all and waits first in line.
    Nothing of it starts before `not_before`, after a crash of its own. `lost` pods are on nodes
    that are lost, the first of them `since`. `goes_first`: it gave up all that it held.
    """

    since: Time | None
    hold_until: Time | None
    not_before: Time | None
    lost: int
    goes_first: bool


class Job(Strict):
    """A job as it stands.

    `minimum`, `members` and `running` count pods: those that must run together, those wanted,
    those that run. `gpus` are those of all members. `never`: not even the empty cluster, healthy
    and uncordoned, could take it as the map is now. `held`: it may not start until it is released.
    `mismatch`: what an audit found wrong with its books, so that it is held; "" = nothing.
    `expected_start` is a forecast, where there is one. `recovering` is null for one that has lost
    nothing. `crashes` are its own, not those of machines. `spec` is the request with its defaults.
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
    held: bool
    mismatch: str
    evicting: Evicting | None
    recovering: Recovering | None
    crashes: int
    saved: Saved | None
    rules_broken: list[BrokenRule]
    node_type: str | None
    gpus_per_pod: int | None
    never: bool
    spec: JobBody


class JobPage(Page[Job]):
    """Jobs in the order of their submission."""
