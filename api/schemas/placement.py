"""Where a job is, and how its groups lie."""

from typing import Literal

from api.schemas.common import Strict


class Span(Strict):
    """Domains of one level that the groups of an axis touch.

    `one`: groups that lie in a single domain. `least_possible`: the fewest domains that one such
    group could lie in on the empty cluster; null for roles.
    """

    max: int
    mean: float
    one: int
    least_possible: int | None


class Group(Strict):
    """How the groups of one axis (or the job, or a role) lie, and what their talk costs.

    `rail_true`: every group has the same GPU indices on every node it touches;
    `rail_true_groups` counts those that do. For an axis: `bytes_per_step` that each rank sends in
    a training step, the `seconds` that takes its slowest group, `exposed_s` of it that computation
    does not hide, and the `bottleneck`: `scale_up`, `rail` or `nic` (the node's own), the level
    whose uplinks bind, or `latency`. For a role of several members with GPUs: the same of the ring
    that they form, as replicas of one model would.
    """

    count: int
    size: int
    spans: dict[str, Span]
    rail_true: bool
    rail_true_groups: int
    bytes_per_step: float | None
    seconds: float | None
    exposed_s: float | None
    bottleneck: str | None


class PlacedPod(Strict):
    """Where one pod is; `domains` are those of its node."""

    name: str
    role: str
    index: int
    node: str
    gpus: list[int]
    ranks: list[int]
    domains: dict[str, str | None]


class Placement(Strict):
    """Where the pods of a job are; the axes of size 1 are left out of `groups`.

    `search` is `bounded` when the search was cut before every choice was seen; `gap` is then the
    most by which another place could be faster, as a share of this one's time, where that is known.
    `inter_node_s`: what all axes but tp are predicted to take between nodes in a
    training step; `exposed_s`: what no axis hides behind computation. `assumed`: both rest on
    defaults, as `model` says nothing or not all. `regret`: `inter_node_s` here over that of the
    best place on the empty cluster; 1.0 when nothing leaves a node. `cost_table`: version of the
    constants behind all this. Null while a pod is missing and for roles without GPUs; of other
    roles the ring of their members is priced, which is always `assumed`.
    """

    job: str
    attempt: int
    revision: int
    search: Literal["exact", "bounded"]
    gap: float | None
    regret: float | None
    inter_node_s: float | None
    exposed_s: float | None
    assumed: bool | None
    cost_table: str
    node_type: str | None
    gpus_per_pod: int | None
    pods: list[PlacedPod]
    groups: dict[str, Group]
