"""What the loop of the leader did, in plain numbers."""

from dataclasses import dataclass, field

from api.store.views import Committed

OUTCOMES = {
    "job.bound": "bound",
    "job.pending": "pending",
    "job.reserved": "reserved",
    "job.evicting": "evicted",
    "job.succeeded": "ended",
    "job.failed": "ended",
    "job.cancelled": "ended",
}
"""What the metrics call the events of a commit."""


@dataclass(slots=True)
class CycleStats:
    """What the runner did; plain numbers that metrics read.

    Attributes:
        cycles: Cycles run in this process.
        failures: Turns that ended in an exception.
        revision: Up to which the world has followed.
        follow_s, decide_s, commit_s: Of the last cycle.
        events: Written by commits, by kind, e.g. {"job.bound": 12}.
        dropped: Jobs left out of plans because something newer touched them.
    """

    cycles: int = 0
    failures: int = 0
    revision: int = 0
    follow_s: float = 0.0
    decide_s: float = 0.0
    commit_s: float = 0.0
    events: dict[str, int] = field(default_factory=dict)
    dropped: int = 0

    def add(self, done: Committed) -> None:
        self.dropped += len(done.dropped)
        for kind, count in done.events.items():
            self.events[kind] = self.events.get(kind, 0) + count
