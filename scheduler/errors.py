"""Bad news of two kinds: somebody's mistake and our bug; expected outcomes are values."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with an input.

    Attributes:
        path: Where, as in `roles[0].parts.min` or `nodes[3].rack`; empty for the whole input.
        message: What was asked, what was found and what is allowed.
    """

    path: str
    message: str


class SchedulerError(Exception):
    """Somebody's mistake, raised before anything changes."""

    def __init__(self, problems: Problem | Iterable[Problem]) -> None:
        self.problems = (problems,) if isinstance(problems, Problem) else tuple(problems)
        super().__init__(
            "; ".join(f"{p.path}: {p.message}" if p.path else p.message for p in self.problems)
        )


class InventoryError(SchedulerError):
    """An inventory that cannot be read or contradicts itself beyond one domain."""


class JobError(SchedulerError):
    """A job whose fields contradict each other or the cluster's levels."""


class QueueError(SchedulerError):
    """A queue that contradicts itself or the tree it is to be part of."""


class StateError(SchedulerError):
    """A move that the state table does not have."""


class InvariantError(Exception):
    """Our bug: something that the code relies on does not hold."""


def invariant(condition: object, message: str) -> None:
    """Check what the code relies on; stays on in production.

    Raises:
        InvariantError: If `condition` is false.
    """
    if not condition:
        raise InvariantError(message)
