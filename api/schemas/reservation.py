"""Maintenance windows, and what is claimed of nodes."""

from typing import Annotated, Literal

from pydantic import Field

from api.schemas.common import (
    GivenTime,
    LevelName,
    Line,
    Name,
    Page,
    Sentence,
    Strict,
    Time,
)
from api.schemas.job import NODES_MAX

ClaimWhyName = Literal["reservation", "preemption", "recovery", "spare", "pool", "maintenance"]
WindowStateName = Literal["planned", "active", "over"]


class DomainBody(Strict):
    """A domain of a level, as in `{"level": "rack", "domain": "r01"}`."""

    level: LevelName
    domain: Line


class NodeSetBody(Strict):
    """A named set of the inventory, as in `{"kind": "power", "name": "shelf-3"}`."""

    kind: Line
    name: Line


class ReservationBody(Strict):
    """Nodes that people are to have for themselves for a time.

    Exactly one of `nodes` (names or hostlists such as `n[001-004]`), `within` and `set` says which.
    It starts now when `starts_at` is left out.
    """

    name: Name
    nodes: Annotated[list[Line], Field(max_length=NODES_MAX)] = []
    within: DomainBody | None = None
    set: NodeSetBody | None = None
    starts_at: GivenTime | None = None
    ends_at: GivenTime
    why: Sentence = ""


class Reservation(Strict):
    """A maintenance window as it stands.

    `claimed` of its `nodes` are kept for it already; the others are as soon as the scheduler has
    seen it and no gang has them claimed.
    """

    name: str
    nodes: list[str]
    starts_at: Time
    ends_at: Time
    why: str
    state: WindowStateName
    claimed: int
    revision: int


class ReservationPage(Page[Reservation]):
    """Maintenance windows by name."""


class Claim(Strict):
    """GPUs of a node that are kept, from `starts_at` on (null = now) until `until` (null = open).

    For a gang (`job`), whose member `role`/`index` starts there, for people (`reservation`), or for
    whichever gang in recovery needs it in a domain (`pool`, as in `leaf/l1`). What is kept as a
    spare or in a pool may be used meanwhile by jobs that can leave at once. Of a gang that the
    caller may not see, `job` is null and `uid` empty.
    """

    uid: str
    why: ClaimWhyName
    job: str | None
    reservation: str | None
    pool: str | None
    node: str
    gpus: list[int]
    starts_at: Time | None
    until: Time | None
    role: str
    index: int
    revision: int


class ClaimPage(Page[Claim]):
    """Claims by uid."""
