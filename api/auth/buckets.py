"""How often somebody may ask: a bucket of allowances each, in memory, of this process alone."""

from collections import OrderedDict
from dataclasses import dataclass
from math import ceil

from scheduler.errors import Problem, SchedulerError

KNOWN_MAX = 20_000
"""Callers remembered; whoever was away longest begins anew with a full bucket."""


class TooFast(SchedulerError):
    """Somebody asks more often than they may.

    Attributes:
        retry_after_s: When to ask again, at least 1.
    """

    def __init__(self, name: str, rate_per_s: float, wait_s: float) -> None:
        self.retry_after_s = max(1, ceil(wait_s))
        super().__init__(
            Problem(
                "",
                f"'{name}' may ask {rate_per_s:g} times a second; again in {self.retry_after_s} s",
            )
        )


@dataclass(slots=True)
class _Bucket:
    left: float
    at_s: float


class Buckets:
    """Allowances of all callers.

    Args:
        rate_per_s: Requests that come back each second; 0 = no limit.
        burst: Requests that somebody may send at once.
    """

    def __init__(self, rate_per_s: float, burst: int) -> None:
        self._rate_per_s, self._burst = rate_per_s, float(burst)
        self._known: OrderedDict[str, _Bucket] = OrderedDict()

    def take(self, name: str, now_s: float) -> None:
        """Count one request of somebody.

        Args:
            now_s: By a clock that never goes back.

        Raises:
            TooFast: If their bucket is empty.
        """
        if not self._rate_per_s:
            return
        bucket = self._known.get(name)
        if bucket is None:
            bucket = self._known[name] = _Bucket(self._burst, now_s)
            if len(self._known) > KNOWN_MAX:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(name)
            gained = (now_s - bucket.at_s) * self._rate_per_s
            bucket.left, bucket.at_s = min(self._burst, bucket.left + gained), now_s
        if bucket.left < 1:
            raise TooFast(name, self._rate_per_s, (1 - bucket.left) / self._rate_per_s)
        bucket.left -= 1
