"""Shapes of what the service answers, as plain dicts.

No key is certain: a client may be newer or older than the service it talks to.
Times are RFC 3339 texts in UTC or null; `revision` grows with every change.
"""

from collections.abc import Mapping
from typing import Literal, NotRequired, TypedDict

Body = Mapping[str, object]
"""A request body that can be written as JSON."""


Verb = Literal["hold", "release", "suspend", "resume", "requeue"]
"""What can be asked of a job."""


class FieldError(TypedDict):
    """One wrong field of a request; `path` as in `roles[0].gpus`, empty for the whole body."""

    path: str
    message: str


class Rule(TypedDict, total=False):
    group: str
    within: str
    mode: str


class Evicting(TypedDict, total=False):
    """How a job leaves: what it becomes then, how far it is, and why."""

    then: str
    step: str
    deadline: str | None
    why: str


class Saved(TypedDict, total=False):
    step: int
    uri: str
    at: str


class Job(TypedDict, total=False):
    namespace: str
    name: str
    uid: str
    revision: int
    state: str
    reason: str | None
    message: str | None
    queue: str
    priority: int
    attempt: int
    minimum: int
    members: int
    running: int
    gpus: int
    preemptible: bool
    if_never_fits: str
    submitted_at: str | None
    bound_at: str | None
    started_at: str | None
    finished_at: str | None
    expected_start: str | None
    held: bool
    mismatch: str
    evicting: Evicting | None
    recovering: dict[str, object] | None
    crashes: int
    saved: Saved | None
    rules_broken: list[Rule]
    node_type: str | None
    gpus_per_pod: int | None
    never: bool
    spec: dict[str, object]


class Pod(TypedDict, total=False):
    """One member of a gang; `job` is `namespace/name`, `domains` maps each level to a name."""

    namespace: str
    job: str
    name: str
    role: str
    index: int
    node: str
    gpus: list[int]
    ranks: list[int]
    state: str
    uid: str
    attempt: int
    exit_code: int | None
    domains: dict[str, str | None]
    revision: int


class Claim(TypedDict, total=False):
    """GPUs of a node that are kept for a gang's member, or for people."""

    uid: str
    why: str
    job: str | None
    reservation: str | None
    pool: str | None
    node: str
    gpus: list[int]
    starts_at: str | None
    until: str | None
    role: str
    index: int
    revision: int


class Reservation(TypedDict, total=False):
    """A maintenance window."""

    name: str
    nodes: list[str]
    starts_at: str
    ends_at: str
    why: str
    state: str
    claimed: int
    revision: int


class Checkpoint(TypedDict, total=False):
    """What a job has saved."""

    step: int
    uri: str
    tier: str | None
    nodes: list[str]
    lost_nodes: list[str]
    exists: bool
    request_id: str | None
    at: str
    revision: int


class Delivery(TypedDict, total=False):
    """A message to a hook."""

    id: str
    kind: str
    namespace: str
    job: str
    uid: str
    url: str
    state: str
    attempts: int
    created_at: str
    due_at: str | None
    asked_at: str | None
    done_at: str | None
    request_id: str | None
    status: int | None
    error: str


class Cordon(TypedDict, total=False):
    reason: str | None
    by: str | None
    at: str | None


class Taint(TypedDict, total=False):
    key: str
    value: str
    effect: str


class Node(TypedDict, total=False):
    name: str
    type: str
    gpu: str | None
    gpus: int
    gpus_free: int
    cpus: float
    memory_gib: float
    health: str
    why: str
    since: str | None
    faults: list[dict[str, object]]
    lemon: bool
    quarantined_until: str | None
    mismatch: str
    fenced: bool
    cordoned: Cordon | None
    draining: dict[str, object] | None
    domains: dict[str, str | None]
    labels: dict[str, str]
    taints: list[Taint]
    pods: int
    revision: int


class Queue(TypedDict, total=False):
    name: str
    parent: str | None
    quota_gpus: int | None
    limit_gpus: int | None
    quota_by_model: dict[str, int]
    limit_by_model: dict[str, int]
    weight: float
    max_priority: int | None
    max_pending: int | None
    namespaces: list[str] | None
    closed: bool
    used_gpus: int
    used_by_model: dict[str, int]
    borrowed_gpus: int | None
    lent_gpus: int | None
    share: float
    pending: int
    running: int
    revision: int


class Usage(TypedDict, total=False):
    """What one owner used of one GPU model in a month."""

    month: str
    queue: str | None
    namespace: str | None
    job: str | None
    uid: str | None
    gpu: str
    gpu_seconds: float
    gpu_hours: float


class Domain(TypedDict, total=False):
    """One domain of a level; a rack also says its power in kilowatts where it is known."""

    level: str
    name: str
    parent: str | None
    nodes: int
    nodes_free: int
    gpus: int
    gpus_free: int
    jobs: int
    health: dict[str, int]
    power_kw: float | None
    power_used_kw: float | None


class TreeDomain(TypedDict, total=False):
    level: str
    name: str
    nodes: int
    nodes_free: int
    gpus: int
    gpus_free: int
    children: list["TreeDomain"]


class LevelDetail(TypedDict, total=False):
    name: str
    domains: int


class Topology(TypedDict, total=False):
    """The cluster; `levels` outermost first, the last is the nodes; `tree` ends above them."""

    cluster: str
    levels: list[str]
    scale_up: str
    levels_detail: list[LevelDetail]
    nodes: int
    gpus: int
    tree: list[TreeDomain]
    revision: int


FieldDiff = TypedDict(
    "FieldDiff", {"field": str, "from": str | None, "to": str | None}, total=False
)


class NodeDiff(TypedDict, total=False):
    node: str
    change: str
    fields: list[FieldDiff]


class Imported(TypedDict, total=False):
    format: str
    created: int
    updated: int
    unchanged: int
    removed: int
    kept: int
    warnings: list[str]
    cluster_changes: list[FieldDiff]
    changes: list[NodeDiff]
    changes_left_out: int
    revision: int


class Subject(TypedDict, total=False):
    kind: str
    namespace: str | None
    name: str
    uid: str | None


class BatchItem(TypedDict, total=False):
    """What became of one entry of a batch: a job, or what is wrong with it."""

    status: int
    job: Job
    errors: list[FieldError]


class BatchResult(TypedDict):
    """`items` in the order of the jobs sent, `deleted` in that of those to end."""

    items: list[BatchItem]
    deleted: list[BatchItem]


class Event(TypedDict, total=False):
    revision: int
    at: str | None
    kind: str
    subject: Subject
    message: str | None
    body: dict[str, object]


class Span(TypedDict, total=False):
    """Domains of one level that the groups of an axis touch: the most, and the mean.

    `one`: groups that lie in a single domain. `least_possible`: the fewest that one could be in.
    """

    max: int
    mean: float
    one: int
    least_possible: int | None


class Group(TypedDict, total=False):
    count: int
    size: int
    spans: dict[str, Span]
    rail_true: bool | None
    rail_true_groups: int
    bytes_per_step: float | None
    seconds: float | None
    exposed_s: float | None
    bottleneck: str | None


class Placement(TypedDict, total=False):
    job: str
    attempt: int
    revision: int
    search: str
    gap: float | None
    regret: float | None
    inter_node_s: float | None
    exposed_s: float | None
    assumed: bool | None
    cost_table: str
    node_type: str | None
    gpus_per_pod: int | None
    pods: list[Pod]
    groups: dict[str, Group]


class Lacks(TypedDict, total=False):
    nodes: int
    gpus: int


class Nearest(TypedDict, total=False):
    level: str
    domain: str
    lacks: Lacks


class Holder(TypedDict, total=False):
    """A job that holds what is missing; `hidden` or `more` jobs where `job` is null."""

    job: str | None
    gpus: int
    expected_end: str | None
    hidden: int
    more: int


class RuleChange(TypedDict, total=False):
    role: str | None
    before: Rule
    after: Rule


class LimitChange(TypedDict, total=False):
    queue: str
    limit_gpus: int
    model: str | None


class Change(TypedDict, total=False):
    """Something after which a job would fit; which fields it has depends on its `kind`."""

    kind: str
    message: str
    verified: bool
    job: str | None
    jobs: list[str]
    hidden: int
    gpus: int
    expected_end: str | None
    nodes: list[str]
    rules: list[RuleChange]
    role: str | None
    dp: int | None
    min: int | None
    queues: list[LimitChange]
    others_first: int


class Verdict(TypedDict, total=False):
    """Whether a job fits: `when` is `now`, `not_now` or `never`; a dry run adds its `placement`."""

    fits: bool
    when: str
    code: str | None
    rule: Rule | None
    message: str | None
    nearest: Nearest | None
    set_aside: dict[str, int]
    holders: list[Holder]
    expected_start: str | None
    changes: list[Change]
    changes_bounded: bool
    ahead: int
    fitting: int
    wanted: int
    search: str
    domains: dict[str, int]
    rules_broken: list[Rule]
    placement: NotRequired[Placement]


class DomainNames(TypedDict, total=False):
    count: int
    names: list[str]


class WhatIfPlace(TypedDict, total=False):
    pods: int
    gpus: int
    node_type: str | None
    domains: dict[str, DomainNames]


class WhatIfJob(TypedDict, total=False):
    """What would become of a job; `effect` and `gpus` only of one that is there already."""

    job: str
    effect: str
    state: str | None
    reason: str | None
    message: str
    never: bool
    expected_start: str | None
    gpus: int
    placement: WhatIfPlace | None


class WhatIfGpus(TypedDict, total=False):
    total: int
    used: int
    free: int


class WhatIf(TypedDict, total=False):
    """What would happen; `effects` counts all jobs affected, `affected` names those shown."""

    revision: int
    cycles: int
    settled: bool
    jobs: list[WhatIfJob]
    effects: dict[str, int]
    affected: list[WhatIfJob]
    hidden: int
    gpus_before: WhatIfGpus
    gpus_after: WhatIfGpus
