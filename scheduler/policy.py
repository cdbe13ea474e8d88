"""Every tunable of the scheduler: unit, range, default and why."""

from dataclasses import dataclass, fields
from math import isfinite

from scheduler.errors import Problem, SchedulerError

QUEUE_ORDERS = ("fair_share", "shortest_first")


class PolicyError(SchedulerError):
    """A tunable outside its range."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What an operator may change while the service runs.

    Attributes:
        suspect_after_s: Silence of an agent after which its node takes no new work; above 0.
        lost_after_s: Silence after which the ranks on it count as lost; at least `suspect_after_s`.
        breaker_share: Share of nodes failing at once that stops automatic eviction; 0 to 1.
        reserve_after_s: Wait after which a gang whose start is unknown gets a reservation.
        order: Who goes first: `fair_share` or `shortest_first`.
        paused: Nothing new is placed.
    """

    suspect_after_s: float = 30.0
    lost_after_s: float = 300.0
    breaker_share: float = 0.2
    reserve_after_s: float = 600.0
    order: str = "fair_share"
    paused: bool = False

    def __post_init__(self) -> None:
        problems = [
            Problem(name, f"found {value}; it must be a finite number of seconds above 0")
            for name in ("suspect_after_s", "lost_after_s", "reserve_after_s")
            if not (isfinite(value := getattr(self, name)) and value > 0)
        ]
        if not problems and self.lost_after_s < self.suspect_after_s:
            problems.append(
                Problem(
                    "lost_after_s",
                    f"found {self.lost_after_s:g} s; it must be at least suspect_after_s,"
                    f" {self.suspect_after_s:g} s",
                )
            )
        if not 0.0 <= self.breaker_share <= 1.0:
            problems.append(
                Problem("breaker_share", f"found {self.breaker_share}; it must lie in 0 to 1")
            )
        if self.order not in QUEUE_ORDERS:
            problems.append(
                Problem("order", f"found '{self.order}'; allowed are {', '.join(QUEUE_ORDERS)}")
            )
        if problems:
            raise PolicyError(problems)


POLICY_FIELDS = tuple(f.name for f in fields(Policy))
