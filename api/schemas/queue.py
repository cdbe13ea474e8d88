"""Queues: a tree of tenants' lines."""

from typing import Annotated

from pydantic import Field

from api.schemas.common import Name, Page, Priority, Strict

Gpus = Annotated[int, Field(ge=0, le=10**9)]
Weight = Annotated[float, Field(gt=0, le=1e6)]
Namespaces = Annotated[list[Name], Field(max_length=1_000)]


class QueueBody(Strict):
    """A queue to make.

    `quota_gpus` are guaranteed, `limit_gpus` never exceeded; null = none. `namespaces` may use it;
    none named = all.
    """

    name: Name
    parent: Name | None = None
    quota_gpus: Gpus | None = None
    limit_gpus: Gpus | None = None
    weight: Weight = 1.0
    max_priority: Priority | None = None
    namespaces: Namespaces = []


class QueuePatch(Strict):
    """Fields of a queue to change; those that are left out stay, null takes a limit away."""

    parent: Name | None = None
    quota_gpus: Gpus | None = None
    limit_gpus: Gpus | None = None
    weight: Weight = 1.0
    max_priority: Priority | None = None
    namespaces: Namespaces = []


class Queue(Strict):
    """A queue as it stands; `used_gpus` and `pending` jobs with those of the queues below it."""

    name: str
    parent: str | None
    quota_gpus: int | None
    limit_gpus: int | None
    weight: float
    max_priority: int | None
    namespaces: list[str]
    used_gpus: int
    pending: int
    revision: int


class QueuePage(Page[Queue]):
    """Queues by name."""
