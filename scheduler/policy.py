"""Every tunable of the scheduler: unit, range, default and why."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from math import isfinite

from scheduler.errors import Problem, SchedulerError

QUEUE_ORDERS = ("fair_share", "shortest_first")

RUN_TIMES_MAX = 1_000.0
"""Of waits that are stated in run times: with this many, nobody is promised a place in practice."""

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
        reserve_after_run_times: Under `fair_share`, the wait in a gang's own declared run times
            (`reserve_after_s` where it declares none) after which a place is promised to it; 0 to
            1,000. 0 = at once, which keeps more GPUs idle for it and all others waiting longer.
        start_by_run_times: In the same unit, the wait at which the start that is promised lies at
            the earliest; `reserve_after_run_times` to 1,000. Until then what ends in time goes on
            starting there, so the larger, the fewer GPUs are idle and the later is who never finds
            room by chance.
        reserve_run_s_max: Run times beyond this count as so many seconds in both; above 0. Bounds
            what a small gang that runs for days may wait for a promise.
        reserve_at_once_share: A gang that needs at least this share of the GPUs of its model waits
            for neither: so many are not free by chance. 0 to 1.
        order: Who goes first: `fair_share` or `shortest_first`.
        ageing: Under `shortest_first`, the seconds of run time that a job moves forward by for each
            second it waits; above 0. Nobody submitted more than its own run time / `ageing` after
            it goes before it. The smaller, the shorter the mean wait and the longer the longest.
        assumed_duration_s: Under `shortest_first`, the run time of jobs that state none; above 0.
        min_run_s: A gang that has run for less is not made to leave for another; at least 0. 0 by
            default: priorities then hold from the first second.
        spare_evicted_s: How long each time counts that a gang had to leave for another; at least 0.
            While three count it is spared: so no gang is driven out again and again, and none of
            higher priority waits because of one eviction that was a moment ago.
        restart_cost_s: What leaving costs beside lost work: so many seconds of the GPUs that leave,
            for stopping, loading and warming up; at least 0. Makes one old gang cheaper than ten
            that have just begun.
        evict_share: Share of all GPUs that may be leaving for other gangs at a time; 0 to 1, 0 = no
            gang ever leaves for another.
        breaker_window_s: Nodes that failed within so many seconds count as failing at once; above
            0.
        breaker_reset_s: Unix seconds; nodes that failed before are no reason to stop automatic
            eviction. 0 = none was looked at yet.
        crash_loop_s: A member that ends so soon after its start, the third time in a row and in the
            same way, is not started again; at least 0.
        spare_pool: Level -> nodes that are kept free in each of its domains for gangs in recovery.
        lend_spares: Gangs that can be made to leave at once use spares of others until these need
            them.
        lemon_faults, lemon_factor, lemon_window_s: A node with so many faults (at least 1), and so
            many times as many (above 0) as a node has on average, within so many seconds (above 0),
            is a lemon.
        quarantine_s: A node that fails again and again is kept out of use for so long, doubled each
            time; at least 0, 0 = not at all.
        flap_count, flap_window_s: Times (at least 2) that it must have been lost within so many
            seconds (above 0) for that.
        escalate_nodes: So many bad nodes in one scale-up domain of several nodes drain all of it;
            at least 0, 0 = never.
        priorities: Names that jobs may give instead of a number, and what they stand for when a job
            is submitted; later changes do not reach jobs that are there.
        never_preempt: Those of these names whose jobs make nobody leave; they go first all the
            same.
        paused: Nothing new is placed.
    """

    suspect_after_s: float = 30.0
    lost_after_s: float = 300.0
    breaker_share: float = 0.2
    reserve_after_s: float = 600.0
    reserve_after_run_times: float = 1.0
    start_by_run_times: float = 3.0
    reserve_run_s_max: float = 21_600.0
    reserve_at_once_share: float = 0.1
    order: str = "fair_share"
    ageing: float = 0.2
    assumed_duration_s: float = 86_400.0
    min_run_s: float = 0.0
    spare_evicted_s: float = 300.0
    restart_cost_s: float = 300.0
    evict_share: float = 1.0
    breaker_window_s: float = 600.0
    breaker_reset_s: float = 0.0
    crash_loop_s: float = 300.0
    spare_pool: Mapping[str, int] = field(default_factory=dict)
    lend_spares: bool = True
    lemon_faults: int = 3
    lemon_factor: float = 5.0
    lemon_window_s: float = 2_592_000.0
    quarantine_s: float = 3_600.0
    flap_count: int = 3
    flap_window_s: float = 3_600.0
    escalate_nodes: int = 3
    priorities: Mapping[str, int] = field(default_factory=dict)
    never_preempt: tuple[str, ...] = ()
    paused: bool = False

    def __post_init__(self) -> None:
        problems = [
            Problem(name, f"found {value}; it must be a finite number of seconds above 0")
            for name in (
                "suspect_after_s",
                "lost_after_s",
                "reserve_after_s",
                "reserve_run_s_max",
                "assumed_duration_s",
                "breaker_window_s",
                "lemon_window_s",
                "flap_window_s",
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
            for name in (
                "min_run_s",
                "spare_evicted_s",
                "restart_cost_s",
                "breaker_reset_s",
                "crash_loop_s",
                "quarantine_s",
            )
            if not (isfinite(value := getattr(self, name)) and value >= 0)
        ]
        problems += [
            Problem(name, f"found {share}; it must lie in 0 to 1")
            for name in ("breaker_share", "evict_share", "reserve_at_once_share")
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
        known = ", ".join(sorted(self.priorities)) or "none: priorities has no names"
        problems += [
            Problem(f"never_preempt[{at}]", f"there is no priority '{name}'; allowed are {known}")
            for at, name in enumerate(self.never_preempt)
            if name not in self.priorities
        ]
        problems += _of_reservations(self)
        problems += _of_faults(self)
        if problems:
            raise PolicyError(problems)

    def lost_after_of(self, own_s: float | None) -> float:
        """Silence after which a job's members count as lost; nobody is before it is suspect.

        Args:
            own_s: `failure.lost_after_s` of the job.
        """
        return self.lost_after_s if own_s is None else max(own_s, self.suspect_after_s)


def _of_reservations(policy: Policy) -> list[Problem]:
    """What is wrong with the tunables about when a place is promised."""
    after, by = policy.reserve_after_run_times, policy.start_by_run_times
    if not 0.0 <= after <= RUN_TIMES_MAX:
        said = f"found {after}; it must lie in 0 to {RUN_TIMES_MAX:g}"
        return [Problem("reserve_after_run_times", said)]
    if not after <= by <= RUN_TIMES_MAX:
        least = f"reserve_after_run_times, {after:g}"
        said = f"found {by}; it must lie in {least}, to {RUN_TIMES_MAX:g}"
        return [Problem("start_by_run_times", said)]
    return []


def _of_faults(policy: Policy) -> list[Problem]:
    """What is wrong with the tunables about nodes that fail."""
    out = [
        Problem(name, f"found {value!r}; it must be a whole number, at least {least}")
        for name, least in (("lemon_faults", 1), ("flap_count", 2), ("escalate_nodes", 0))
        if (value := getattr(policy, name)) < least
    ]
    if not (isfinite(policy.lemon_factor) and policy.lemon_factor > 0):
        out.append(Problem("lemon_factor", f"found {policy.lemon_factor}; it must be above 0"))
    out += [
        Problem(f"spare_pool.{level}", f"found {count!r}; it must be a whole number, at least 0")
        for level, count in policy.spare_pool.items()
        if type(count) is not int or count < 0
    ]
    return out


POLICY_FIELDS = tuple(f.name for f in fields(Policy))
