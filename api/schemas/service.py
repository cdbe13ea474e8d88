"""The service itself: policy, health, the clock of tests."""

from typing import Annotated, Literal

from pydantic import Field

from api.schemas.common import Name, Priority, SomeSeconds, Strict, Time


class PolicyBody(Strict):
    """What operators tune while the service runs; sent and shown as a whole.

    `priorities` are names for priorities, which jobs give as `priority_class`.
    """

    suspect_after_s: SomeSeconds
    lost_after_s: SomeSeconds
    breaker_share: Annotated[float, Field(ge=0, le=1)]
    reserve_after_s: SomeSeconds
    order: Literal["fair_share", "shortest_first"]
    ageing: Annotated[float, Field(gt=0, le=1_000)]
    assumed_duration_s: SomeSeconds
    min_run_s: Annotated[float, Field(ge=0)]
    spare_evicted_s: Annotated[float, Field(ge=0)]
    restart_cost_s: Annotated[float, Field(ge=0)]
    evict_share: Annotated[float, Field(ge=0, le=1)]
    priorities: Annotated[dict[Name, Priority], Field(max_length=100)]
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
