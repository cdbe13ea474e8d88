"""Queues: the lines of tenants, in a tree."""

from collections.abc import Mapping
from dataclasses import dataclass, field

DEFAULT_QUEUE = "default"
"""The queue of jobs that name none; it is always there."""

DEPTH_MAX = 32
"""Queues from a root down; deeper trees than any organisation's are a mistake."""


@dataclass(frozen=True, slots=True)
class Use:
    """What a job holds, or wants, of what queues are accountable for.

    Attributes:
        gpus: By GPU model; "" for GPUs of any model. Every number is above 0.
        cpu_milli, memory_mib: As in `Resources`.
    """

    gpus: Mapping[str, int] = field(default_factory=dict)
    cpu_milli: int = 0
    memory_mib: int = 0

    @property
    def gpu_count(self) -> int:
        return sum(self.gpus.values())


WEIGHT_MIN = 1e-6
"""A share divided by less would be more than a number holds."""


@dataclass(frozen=True, slots=True)
class QueueRecord:
    """A queue as the ledger has it. What holds for a queue holds for all queues below it together.

    Attributes:
        parent: Name of the queue above; None for a root.
        quota_gpus: GPUs it may count on; 0 = none, all it uses is borrowed; None = never said, so
            nothing is owed to it and nothing is reclaimed from it on that account.
        limit_gpus: GPUs it may never exceed; None = no limit.
        quota_by_model, limit_by_model: The same for one GPU model each.
        weight: Its part of what is lent, against its siblings'; at least `WEIGHT_MIN`.
        max_priority: Highest priority a job of it may have; None = any.
        max_pending: Jobs that may wait in it at once; None = any number.
        namespaces: Namespaces whose jobs may use it; empty = all.
        closed: It takes no new jobs.
    """

    name: str
    parent: str | None = None
    quota_gpus: int | None = None
    limit_gpus: int | None = None
    quota_by_model: Mapping[str, int] = field(default_factory=dict)
    limit_by_model: Mapping[str, int] = field(default_factory=dict)
    weight: float = 1.0
    max_priority: int | None = None
    max_pending: int | None = None
    namespaces: tuple[str, ...] = ()
    closed: bool = False
