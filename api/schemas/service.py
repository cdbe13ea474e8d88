"""The service itself: policy, health, the clock of tests."""

from typing import Annotated, Literal

from pydantic import Field

from api.schemas.common import Name, Priority, SomeSeconds, Strict, Time


class PolicyBody(Strict):
    """What operators tune while the service runs; sent and shown as a whole.

    `priorities` are names for priorities, which jobs give as `priority_class`. Jobs of those that
    `never_preempt` names make nobody leave.
    """

    suspect_after_s: SomeSeconds
    lost_after_s: SomeSeconds
    breaker_share: Annotated[float, Field(ge=0, le=1)]
    reserve_after_s: SomeSeconds
    reserve_after_run_times: Annotated[float, Field(ge=0, le=1_000)]
    start_by_run_times: Annotated[float, Field(ge=0, le=1_000)]
    reserve_run_s_max: SomeSeconds
    reserve_at_once_share: Annotated[float, Field(ge=0, le=1)]
    order: Literal["fair_share", "shortest_first"]
    ageing: Annotated[float, Field(gt=0, le=1_000)]
    assumed_duration_s: SomeSeconds
    min_run_s: Annotated[float, Field(ge=0)]
    spare_evicted_s: Annotated[float, Field(ge=0)]
    restart_cost_s: Annotated[float, Field(ge=0)]
    evict_share: Annotated[float, Field(ge=0, le=1)]
    breaker_window_s: SomeSeconds
    breaker_reset_s: Annotated[float, Field(ge=0)]
    crash_loop_s: Annotated[float, Field(ge=0)]
    spare_pool: Annotated[dict[Name, Annotated[int, Field(ge=0)]], Field(max_length=20)]
    lend_spares: bool
    lemon_faults: Annotated[int, Field(ge=1)]
    lemon_factor: Annotated[float, Field(gt=0)]
    lemon_window_s: SomeSeconds
    quarantine_s: Annotated[float, Field(ge=0)]
    flap_count: Annotated[int, Field(ge=2)]
    flap_window_s: SomeSeconds
    escalate_nodes: Annotated[int, Field(ge=0)]
    priorities: Annotated[dict[Name, Priority], Field(max_length=100)]
    never_preempt: Annotated[list[Name], Field(max_length=100)]
    paused: bool


class Paused(Strict):
    """Whether new gangs are kept waiting."""

    paused: bool


class ClockBody(Strict):
    """How far the manual clock is to move."""

    advance_s: Annotated[float, Field(ge=0, le=1e9)]


class ClockTime(Strict):
    """What time it is now."""

    now: Time


class Live(Strict):
    """The process answers."""

    status: Literal["ok"]


class Ready(Strict):
    """Whether the service takes requests; `checks` says what it is about, `ok` or what is wrong."""

    status: Literal["ready", "not_ready"]
    checks: dict[str, str]
