"""Every set of candidates that could be cheaper, up to a number of looks."""

from collections.abc import Callable
from dataclasses import dataclass

from scheduler.preempt.taken import Taken, cost_of
from scheduler.preempt.victims import Unit


@dataclass(slots=True)
class Proof:
    """Looks at every set that could be cheaper than the best so far, up to a number of looks.

    Attributes:
        limit: Cost of the best set so far.
    """

    fits: Callable[[], bool]
    taken: Taken
    units: list[Unit]
    limit: float
    steps_left: int
    best: list[Unit] | None = None

    def run(self) -> None:
        self._from(0)

    def _from(self, position: int) -> None:
        """Sets with what is taken now and any of the units from a position on."""
        cost = cost_of(self.taken.units)
        if cost >= self.limit or self.steps_left <= 0:
            return
        self.steps_left -= 1
        if self.fits():
            self.best, self.limit = list(self.taken.units), cost
            return
        if position == len(self.units) or not self._could_fit(position):
            return
        unit = self.units[position]
        if self.taken.add(unit):
            self._from(position + 1)
            self.taken.drop(unit)
        self._from(position + 1)

    def _could_fit(self, position: int) -> bool:
        """Whether it would fit if all the rest left too, allowed or not."""
        self.steps_left -= 1
        rest = self.units[position:]
        for unit in rest:
            self.taken.add(unit, free=True)
        answer = self.fits()
        for unit in reversed(rest):
            self.taken.drop(unit)
        return answer
