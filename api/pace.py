"""Work in the background that gives way: a part at a time, with rests between."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

REST = 4.0
"""Times what a part took, before the next: requests and decisions go on as if nothing was done."""

Item = TypeVar("Item")


class Pace:
    """Rests after each part of a piece of work.

    Args:
        rest: Waits for so many seconds.

    Attributes:
        worked_s: Spent on the parts so far.
    """

    def __init__(self, rest: Callable[[float], object]) -> None:
        self._rest = rest
        self.worked_s = 0.0

    def through(self, parts: Iterable[Item]) -> Iterator[Item]:
        """The parts; making one and what is done with it is the work."""
        began = time.perf_counter()
        for part in parts:
            yield part
            took_s = time.perf_counter() - began
            self.worked_s += took_s
            self._rest(REST * took_s)
            began = time.perf_counter()
