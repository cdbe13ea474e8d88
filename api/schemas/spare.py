"""What is kept spare for recovery, and what would be enough."""

from api.schemas.common import Strict


class SparePool(Strict):
    """A domain in which the policy keeps nodes for gangs in recovery.

    `wanted` of its `nodes` are to be kept and `kept` are, `lent` of them used meanwhile by jobs
    that can leave at once; `free` more are wholly free now; `need` would be enough.
    """

    level: str
    domain: str
    nodes: int
    wanted: int
    kept: int
    lent: int
    free: int
    need: int


class SpareLevel(Strict):
    """What a pool in each domain of a level would need, by the largest of them."""

    level: str
    domains: int
    nodes: int
    need: int


class Spares(Strict):
    """How many spares find a free node in 99 of 100 faults, from the faults that were observed.

    `faults` of single machines within `span_s` seconds on `nodes` nodes give `faults_per_node_day`;
    `repair_s` is the mean of the `repairs` that are over, or assumed where there is none. How many
    are away at a time is Poisson-distributed, mean nodes x faults_per_node_day x repair_s / 86,400;
    `need` is the 99th percentile for the whole cluster. `claimed` nodes are kept for single jobs,
    `lent` of them used meanwhile by others that can leave at once.
    """

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
