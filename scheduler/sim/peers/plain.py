"""The two that know no fabric: the first nodes that are free, and any."""

import random
from collections.abc import Sequence

from scheduler.cluster.view import View
from scheduler.model.job import JobSpec


class FirstFit:
    """The first free nodes in the order of the node list."""

    name = "fifo"

    def choose(self, view: View, count: int, spec: JobSpec) -> Sequence[int] | None:
        out = [node for node, slots in enumerate(view.slots) if slots][:count]
        return out if len(out) == count else None


class AnyFit:
    """Free nodes by chance, the same for a job of the same name and the same seed."""

    name = "random"

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def choose(self, view: View, count: int, spec: JobSpec) -> Sequence[int] | None:
        free = [node for node, slots in enumerate(view.slots) if slots]
        if len(free) < count:
            return None
        return random.Random(f"{self.seed}-{spec.name}").sample(free, count)
