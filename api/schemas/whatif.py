"""What would happen if: jobs and changes that are only supposed."""

from typing import Annotated, Literal

from pydantic import Field

from api.schemas.common import (
    Count,
    Labels,
    LevelName,
    Line,
    Name,
    NodeName,
    Priority,
    Strict,
    Time,
)
from api.schemas.job import JobBody, JobStateName, ReasonName

JOBS_MAX = 100
CHANGES_MAX = 1_000
NODES_MAX = 20_000

ChangeKindName = Literal[
    "drain",
    "cordon",
    "uncordon",
    "lose_node",
    "lose_switch",
    "lose_set",
    "add_nodes",
    "remove_nodes",
    "quota",
    "finish",
    "cancel",
    "priority",
]

JobRefText = Annotated[str, Field(pattern=r"^([A-Za-z0-9._-]{1,63}/)?[A-Za-z0-9._-]{1,63}$")]
"""`NAMESPACE/NAME`, or the name of a job of the namespace `default`."""


class AddedNodes(Strict):
    """Nodes as an inventory has them: `places` maps each level to a domain's name."""

    names: Line
    type: Name
    places: dict[LevelName, NodeName | None] = {}
    labels: Labels = {}


class WhatIfChange(Strict):
    """One change; which fields it has depends on its `kind`.

    `drain cordon uncordon lose_node remove_nodes`: `nodes`, names or hostlists. `lose_switch`: the
    nodes of the `domain` of a `level`, or of a named `set` of a `set_kind`; `lose_set`: the latter.
    `add_nodes`: `add`. `quota`: `queue` with `quota_gpus`, `limit_gpus` or both. `finish cancel`:
    `job`. `priority`: `job` and `priority`. Nodes that are drained, lost or removed give up their
    pods; their gangs start anew elsewhere if there is room.
    """

    kind: ChangeKindName
    nodes: Annotated[list[Line], Field(max_length=NODES_MAX)] | None = None
    level: LevelName | None = None
    domain: NodeName | None = None
    set_kind: Line | None = None
    set: Line | None = None
    add: Annotated[list[AddedNodes], Field(max_length=NODES_MAX)] | None = None
    queue: Name | None = None
    quota_gpus: Count | None = None
    limit_gpus: Count | None = None
    job: JobRefText | None = None
    priority: Priority | None = None


class WhatIfBody(Strict):
    """Jobs to submit and changes to make, all at once, on a copy of the cluster."""

    jobs: Annotated[list[JobBody], Field(max_length=JOBS_MAX)] = []
    changes: Annotated[list[WhatIfChange], Field(max_length=CHANGES_MAX)] = []


class Spread(Strict):
    """Domains of one level that pods are in: how many, and the names of the first of them."""

    count: int
    names: list[str]


class WhatIfPlace(Strict):
    """Where a job's pods would be; `domains` by level, the nodes themselves included."""

    pods: int
    gpus: int
    node_type: str | None
    domains: dict[str, Spread]


class WhatIfJob(Strict):
    """What would become of one of the jobs that are supposed; `never`: not on any empty cluster."""

    job: str
    state: JobStateName
    reason: ReasonName | None
    message: str
    never: bool
    expected_start: Time | None
    placement: WhatIfPlace | None


class WhatIfEffect(Strict):
    """What would become of a job that is there already.

    `started`: it waited and gets a place. `stopped`: it loses its place and waits. `moved`: it
    starts anew in another, or some of it does. `recovering`: it lacks members and keeps the rest of
    its place for a time. `resized`: it has other members. `evicting`: it is asked to leave.
    `ended`: as supposed. `placement` is what it has afterwards; `gpus` what it had before.
    """

    job: str
    effect: Literal["started", "stopped", "recovering", "moved", "resized", "evicting", "ended"]
    state: JobStateName | None
    reason: ReasonName | None
    message: str
    gpus: int
    placement: WhatIfPlace | None


class WhatIfGpus(Strict):
    """GPUs of the cluster: all, those in use, those free on nodes that take new pods."""

    total: int
    used: int
    free: int


class WhatIf(Strict):
    """What would happen; nothing was written.

    `affected` are jobs the caller may see, oldest first, as far as the list goes; `effects` counts
    all there are, `hidden` those that the caller may not see. `settled`: false when the cluster
    was still changing after so many `cycles`. `revision`: of the cluster that was copied.
    """

    revision: int
    cycles: int
    settled: bool
    jobs: list[WhatIfJob]
    effects: dict[str, int]
    affected: list[WhatIfEffect]
    hidden: int
    gpus_before: WhatIfGpus
    gpus_after: WhatIfGpus
