"""Queues: a tree of tenants' lines."""

from typing import Annotated

from pydantic import Field, StringConstraints

from api.schemas.common import LINE_PATTERN, Name, Page, Priority, Strict
from scheduler.model.queue import WEIGHT_MIN

Gpus = Annotated[int, Field(ge=0, le=10**9)]
Weight = Annotated[float, Field(ge=WEIGHT_MIN, le=1e6)]
Namespaces = Annotated[list[Name], Field(max_length=1_000)]
Model = Annotated[str, StringConstraints(pattern=LINE_PATTERN, min_length=1, max_length=253)]
GpusByModel = Annotated[dict[Model, Gpus], Field(max_length=64)]
Jobs = Annotated[int, Field(ge=0, le=10**9)]


class QueueBody(Strict):
    """A queue to make. What holds for a queue holds for it and all queues below it together.

    `quota_gpus` are guaranteed, `limit_gpus` never exceeded; null = none. `quota_by_model` and
    `limit_by_model` say the same of one GPU model each. What of its quota a queue does not use is
    lent to others, by `weight`, and taken back when it is needed. `namespaces` may use it; none
    named = all. `max_pending` jobs may wait in it. `closed`: it takes no jobs and starts none.
    """

    name: Name
    parent: Name | None = None
    quota_gpus: Gpus | None = None
    limit_gpus: Gpus | None = None
    quota_by_model: GpusByModel = {}
    limit_by_model: GpusByModel = {}
    weight: Weight = 1.0
    max_priority: Priority | None = None
    max_pending: Jobs | None = None
    namespaces: Namespaces = []
    closed: bool = False


class QueuePut(Strict):
    """All that is stated of a queue; what is left out takes its default. See `QueueBody`.

    `name`, if given, is the one in the path: a queue cannot be renamed.
    """

    name: Name | None = None
    parent: Name | None = None
    quota_gpus: Gpus | None = None
    limit_gpus: Gpus | None = None
    quota_by_model: GpusByModel = {}
    limit_by_model: GpusByModel = {}
    weight: Weight = 1.0
    max_priority: Priority | None = None
    max_pending: Jobs | None = None
    namespaces: Namespaces = []
    closed: bool = False


class QueuePatch(Strict):
    """Fields of a queue to change; those that are left out stay, null takes a limit away.

    `name`, if given, is the one in the path: a queue cannot be renamed.
    """

    name: Name | None = None
    parent: Name | None = None
    quota_gpus: Gpus | None = None
    limit_gpus: Gpus | None = None
    quota_by_model: GpusByModel = {}
    limit_by_model: GpusByModel = {}
    weight: Weight = 1.0
    max_priority: Priority | None = None
    max_pending: Jobs | None = None
    namespaces: Namespaces = []
    closed: bool = False


class Queue(Strict):
    """A queue as it stands; what it uses and who is in it with those of the queues below it.

    `borrowed_gpus` are in use beyond its quota, `lent_gpus` are of its quota and not in use; both
    null without a quota. `share` is its dominant share of GPUs, CPUs and memory, by weight: the
    queue with the smaller one goes first. `pending` jobs wait for a place, `running` ones have one.
    """

    name: str
    parent: str | None
    quota_gpus: int | None
    limit_gpus: int | None
    quota_by_model: dict[str, int]
    limit_by_model: dict[str, int]
    weight: float
    max_priority: int | None
    max_pending: int | None
    namespaces: list[str]
    closed: bool
    used_gpus: int
    used_by_model: dict[str, int]
    borrowed_gpus: int | None
    lent_gpus: int | None
    share: float
    pending: int
    running: int
    revision: int


class QueuePage(Page[Queue]):
    """Queues by name."""
