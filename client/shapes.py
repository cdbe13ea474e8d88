"""Shapes of what the service answers, as plain dicts.

No key is certain: a client may be newer or older than the service it talks to.
Times are RFC 3339 texts in UTC or null; `revision` grows with every change.
"""

from collections.abc import Mapping
from typing import NotRequired, TypedDict

Body = Mapping[str, object]
"""A request body that can be written as JSON."""


class FieldError(TypedDict):
    """One wrong field of a request; `path` as in `roles[0].gpus`, empty for the whole body."""

    path: str
    message: str


class Rule(TypedDict, total=False):
    group: str
    within: str
    mode: str


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
    weight: float
    max_priority: int | None
    namespaces: list[str] | None
    used_gpus: int
    pending: int
    revision: int


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

    `one`: groups that lie in a single domain.
    """

    max: int
    mean: float
    one: int


class Group(TypedDict, total=False):
    count: int
    size: int
    spans: dict[str, Span]
    rail_true: bool | None
    rail_true_groups: int


class Placement(TypedDict, total=False):
    job: str
    attempt: int
    revision: int
    search: str
    regret: float | None
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
    job: str
    gpus: int
    expected_end: str | None


class Change(TypedDict, total=False):
    kind: str
    job: str
    verified: bool


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
    fitting: int
    wanted: int
    search: str
    placement: NotRequired[Placement]
