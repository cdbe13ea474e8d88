"""Why a job has no place, who holds what it lacks, and what would make it fit."""

from typing import Literal

from pydantic import Field

from api.schemas.common import Strict, Time
from api.schemas.job import BrokenRule, ReasonName
from api.schemas.placement import Placement


class VerdictRule(Strict):
    """The rule that binds."""

    group: str
    within: str
    mode: Literal["required", "preferred"]


class Lacks(Strict):
    nodes: int
    gpus: int


class Nearest(Strict):
    """The domain that comes closest and what it lacks; nameless for the whole cluster."""

    level: str
    domain: str
    lacks: Lacks


class Holder(Strict):
    """Who holds GPUs of the nearest domain that the gang could use.

    A job; or, with `job` null, `hidden` jobs that the caller may not see, or `more` past the end of
    the list. `expected_end`: as declared; null when nothing was, or when it overstays.
    """

    job: str | None
    gpus: int
    expected_end: Time | None = None
    hidden: int = 0
    more: int = 0


class RuleChange(Strict):
    """A rule as it is and as it would be; `role` is whose it is, unless it is the job's own."""

    role: str | None = None
    before: VerdictRule
    after: VerdictRule


class LimitChange(Strict):
    """A limit of a queue as it would be, in GPUs; of one GPU model where it is."""

    queue: str
    limit_gpus: int
    model: str | None = None


class Change(Strict):
    """Something after which the job would fit now; the engine has placed it so (`verified`).

    `finish`: these `jobs` end, all of them by `expected_end` where that is known. `uncordon`:
    these `nodes`. `finish_and_uncordon`: both. `relax`: these `rules`. `shrink`: `dp`, or the `min`
    of a `role`. `preempt`: these `jobs` of lower priority leave. `limit`: of these `queues`. `job`
    is the job when there is one alone; `hidden` counts jobs that the caller may not see; `gpus` are
    those of all of them. `others_first` gangs before it in line would take the room, so that it
    would still wait. `message` says it in words.
    """

    kind: Literal[
        "finish", "uncordon", "finish_and_uncordon", "relax", "shrink", "preempt", "limit"
    ]
    message: str
    verified: bool
    job: str | None = None
    jobs: list[str] = []
    hidden: int = 0
    gpus: int = 0
    expected_end: Time | None = None
    nodes: list[str] = []
    rules: list[RuleChange] = []
    role: str | None = None
    dp: int | None = None
    min: int | None = None
    queues: list[LimitChange] = []
    others_first: int = 0


class Verdict(Strict):
    """Whether a job fits, and if not, why.

    `fitting` of `wanted` members would find a place. `set_aside` counts nodes that were not looked
    at, by reason. `expected_start`: the forecast of the scheduler, or else from when it would fit
    if running jobs end as declared and nothing else starts. `changes`: the cheapest of each kind,
    each verified; `changes_bounded`: the search for them was cut. `ahead` gangs are before it in
    line; room that a change makes may be theirs first. Of a job in its place, `domains` counts
    those its pods are in, by level, and `rules_broken` are those that do not hold there.
    """

    fits: bool
    when: Literal["now", "not_now", "never"]
    code: ReasonName | None
    rule: VerdictRule | None
    message: str
    nearest: Nearest | None
    set_aside: dict[str, int]
    holders: list[Holder]
    expected_start: Time | None
    changes: list[Change]
    changes_bounded: bool
    ahead: int
    fitting: int
    wanted: int
    search: Literal["exact", "bounded"]
    domains: dict[str, int]
    rules_broken: list[BrokenRule]


class DryRun(Verdict):
    """The answer of a dry run: the verdict, and the placement where it fits."""

    placement: Placement | None = Field(default=None)
