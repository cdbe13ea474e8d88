"""The circuit breaker: when too much fails at once, nothing is moved automatically.

A large share of nodes that fail together is more often a wrong report, a network or a service that
cannot hear than so many machines, and moving everything at once would make it worse.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import floor

from scheduler.model.standing import NodeStanding
from scheduler.policy import Policy


@dataclass(frozen=True, slots=True)
class Breaker:
    """What the circuit breaker says now.

    Attributes:
        failing: Nodes that failed within the window.
        nodes: Nodes in all.
        since_s: While it is open, Unix seconds of the failure that was one too many.
        closes_s: While it is open, Unix seconds from when so many of the failures count no more
            that it closes by itself.
    """

    failing: int
    nodes: int
    is_tripped: bool
    since_s: float | None = None
    closes_s: float | None = None

    @property
    def words(self) -> str:
        return (
            f"the circuit breaker is open: {self.failing} of {self.nodes} nodes failed at once;"
            " nothing is moved automatically"
        )


def breaker_of(gone: Iterable[NodeStanding], nodes: int, policy: Policy, now_s: float) -> Breaker:
    """Whether more than the set share of nodes failed within the window.

    Args:
        gone: Standings of the nodes that are lost or out.
        nodes: Nodes in all.
        now_s: Unix seconds.
    """
    after_s = max(now_s - policy.breaker_window_s, policy.breaker_reset_s)
    recent = sorted(standing.since_s for standing in gone if standing.since_s > after_s)
    allowed = floor(policy.breaker_share * nodes)
    if len(recent) <= allowed:
        return Breaker(len(recent), nodes, is_tripped=False)
    closes_s = recent[len(recent) - allowed - 1] + policy.breaker_window_s
    return Breaker(len(recent), nodes, True, recent[allowed], closes_s)
