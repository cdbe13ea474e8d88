"""What answers about faults and drains look like, as the client reads them."""

from typing import TypedDict

from client.shapes import Node, WhatIfJob


class FaultOfSet(TypedDict, total=False):
    kind: str
    name: str


class Fault(TypedDict, total=False):
    """A fault of a node, open until it is cleared."""

    id: int
    node: str
    code: str
    action: str
    at: str
    message: str
    gpus: list[int]
    rail: int | None
    set: FaultOfSet | None
    reported_by: str
    reported_at: str
    cleared_at: str | None
    cleared_by: str


class Leaving(TypedDict, total=False):
    job: str
    pods: list[str]
    gpus: int
    nodes: list[str]
    saves_first: bool


class Drained(TypedDict, total=False):
    """What a drain moves."""

    dry_run: bool
    deadline: str | None
    nodes: list[Node]
    leaving: list[Leaving]
    hidden: int
    moves: list[WhatIfJob]
    settled: bool


class HeldBack(TypedDict, total=False):
    jobs: int
    gpus: int


class Breaker(TypedDict, total=False):
    """Whether lost members are moved, and if not, why and until when."""

    state: str
    failing: int
    nodes: int
    share: float
    limit: float
    window_s: float
    since: str | None
    closes_at: str | None
    reset_at: str | None
    failed: list[str]
    held: HeldBack
    revision: int


class SparePool(TypedDict, total=False):
    """Nodes kept free in one domain for gangs in recovery, and how many would be enough."""

    level: str
    domain: str
    nodes: int
    wanted: int
    kept: int
    lent: int
    free: int
    need: int


class SpareLevel(TypedDict, total=False):
    level: str
    domains: int
    nodes: int
    need: int


class Spares(TypedDict, total=False):
    """What is kept for recovery, and what would be enough."""

    nodes: int
    faults: int
    span_s: float
    faults_per_node_day: float
    repairs: int
    repair_s: float
    is_assumed: bool
    need: int
    claimed: int
    lent: int
    levels: list[SpareLevel]
    pools: list[SparePool]
    revision: int
