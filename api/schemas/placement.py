"""Where a job is, how its groups lie, and why it is not placed."""

from typing import Literal

from pydantic import Field

from api.schemas.common import Strict, Time
from api.schemas.job import ReasonName


class Span(Strict):
    """Domains of one level that the groups of an axis touch.

    `one`: groups that lie in a single domain.
    """

    max: int
    mean: float
    one: int


class Group(Strict):
    """How the groups of one axis (or the job, or a role) lie.

    `rail_true`: every group has the same GPU indices on every node it touches;
    `rail_true_groups` counts those that do.
    """

    count: int
    size: int
    spans: dict[str, Span]
    rail_true: bool
    rail_true_groups: int


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

    `search` is `bounded` when the search was cut before every choice was seen.
    """

    job: str
    attempt: int
    revision: int
    search: Literal["exact", "bounded"]
    regret: float | None
    node_type: str | None
    gpus_per_pod: int | None
    pods: list[PlacedPod]
    groups: dict[str, Group]


class TorchNode(Strict):
    """One pod as `torchrun` starts it: `torchrun --nnodes --nproc-per-node --node-rank ...`."""

    pod: str
    node: str
    node_rank: int
    gpus: list[int]
    ranks: list[int]


class TorchRank(Strict):
    """One process with its environment; `cuda` is the GPU index on the node."""

    rank: int
    node: str
    gpu: int
    env: dict[str, str]


class Torchrun(Strict):
    """A rank map for PyTorch; `master_addr` is the node of rank 0."""

    job: str
    nnodes: int
    nproc_per_node: int
    master_addr: str
    master_port: int
    nodes: list[TorchNode]
    ranks: list[TorchRank]


class VerdictRule(Strict):
    """The rule that binds."""

    group: str
    within: str
    mode: Literal["required", "preferred"]


class Lacks(Strict):
    nodes: int
    gpus: int


class Nearest(Strict):
    """The domain that comes closest and what it lacks; nameless for the whole cluster."""

    level: str
    domain: str
    lacks: Lacks


class Holder(Strict):
    """A job that holds what is missing."""

    job: str
    gpus: int
    expected_end: Time | None


class Change(Strict):
    """A change after which it would fit."""

    kind: str
    job: str
    verified: bool


class Verdict(Strict):
    """Whether a job fits, and if not, why.

    `fitting` of `wanted` members would find a place. `set_aside` counts nodes that were not looked
    at, by reason.
    """

    fits: bool
    when: Literal["now", "not_now", "never"]
    code: ReasonName | None
    rule: VerdictRule | None
    message: str
    nearest: Nearest | None
    set_aside: dict[str, int]
    holders: list[Holder]
    expected_start: Time | None
    changes: list[Change]
    fitting: int
    wanted: int
    search: Literal["exact", "bounded"]


class DryRun(Verdict):
    """The answer of a dry run: the verdict, and the placement where it fits."""

    placement: Placement | None = Field(default=None)
