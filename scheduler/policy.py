"""Every tunable of the scheduler: unit, range, default and why."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from math import isfinite

from scheduler.errors import Problem, SchedulerError

QUEUE_ORDERS = ("fair_share", "shortest_first")

AGEING_MAX = 1_000.0
"""With this much, run time hardly counts any more: it is first come, first served."""

PRIORITY_MAX = 1_000_000_000
"""Of a job's priority, either way."""


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
        ageing: Under `shortest_first`, the seconds of run time that a job moves forward by for each
            second it waits; above 0. Nobody submitted more than its own run time / `ageing` after
            it goes before it. The smaller, the shorter the mean wait and the longer the longest.
        assumed_duration_s: Under `shortest_first`, the run time of jobs that state none; above 0.
        min_run_s: A gang that has run for less is not made to leave for another; at least 0. 0 by
            default: priorities then hold from the first second.
        spare_evicted_s: For so long after it, or members of it, had to leave for another gang, a
            job is spared; at least 0. Keeps two gangs from driving out a third again and again.
        restart_cost_s: What leaving costs beside lost work: so many seconds of the GPUs that leave,
            for stopping, loading and warming up; at least 0. Makes one old gang cheaper than ten
            that have just begun.
        evict_share: Share of all GPUs that may be leaving for other gangs at a time; 0 to 1, 0 = no
            gang ever leaves for another.
        priorities: Names that jobs may give instead of a number, and what they stand for when a job
            is submitted; later changes do not reach jobs that are there.
        paused: Nothing new is placed.
    """

    suspect_after_s: float = 30.0
    lost_after_s: float = 300.0
    breaker_share: float = 0.2
    reserve_after_s: float = 600.0
    order: str = "fair_share"
    ageing: float = 0.2
    assumed_duration_s: float = 86_400.0
    min_run_s: float = 0.0
    spare_evicted_s: float = 300.0
    restart_cost_s: float = 300.0
    evict_share: float = 1.0
    priorities: Mapping[str, int] = field(default_factory=dict)
    paused: bool = False

    def __post_init__(self) -> None:
        problems = [
            Problem(name, f"found {value}; it must be a finite number of seconds above 0")
            for name in (
                "suspect_after_s",
                "lost_after_s",
                "reserve_after_s",
                "assumed_duration_s",
            )
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
        problems += [
            Problem(name, f"found {value}; it must be a finite number of seconds, at least 0")
            for name in ("min_run_s", "spare_evicted_s", "restart_cost_s")
            if not (isfinite(value := getattr(self, name)) and value >= 0)
        ]
        problems += [
            Problem(name, f"found {share}; it must lie in 0 to 1")
            for name in ("breaker_share", "evict_share")
            if not 0.0 <= (share := getattr(self, name)) <= 1.0
        ]
        if not (isfinite(self.ageing) and 0.0 < self.ageing <= AGEING_MAX):
            problems.append(
                Problem(
                    "ageing", f"found {self.ageing}; it must be above 0 and at most {AGEING_MAX:g}"
                )
            )
        if self.order not in QUEUE_ORDERS:
            problems.append(
                Problem("order", f"found '{self.order}'; allowed are {', '.join(QUEUE_ORDERS)}")
            )
        problems += [
            Problem(
                f"priorities.{name}",
                f"found {value!r}; it must be a whole number of {-PRIORITY_MAX} to {PRIORITY_MAX}",
            )
            for name, value in self.priorities.items()
            if type(value) is not int or abs(value) > PRIORITY_MAX
        ]
        if problems:
            raise PolicyError(problems)


POLICY_FIELDS = tuple(f.name for f in fields(Policy))
