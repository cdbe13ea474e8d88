"""Lines of waiting gangs, kept sorted job by job."""

from abc import ABC, abstractmethod
from bisect import bisect_left, insort
from collections.abc import Mapping
from typing import TypeAlias

from scheduler.model.ids import JobId
from scheduler.model.lifecycle import JobState
from scheduler.model.plan import JobRecord

IN_LINE = frozenset({JobState.PENDING, JobState.RESERVED, JobState.RECOVERING})
"""States of gangs that wait for a place; a gang in recovery does so for what it lost."""

Class: TypeAlias = tuple[int, int]
"""Priority, negated; 0 for a gang in recovery, or that gave up its place after a fault, else 1.
Smaller goes first, whatever its queue."""

Entry: TypeAlias = tuple[int, int, float, int, JobId]
"""The class in two, what the policy orders by, the age, the uid."""

Lines: TypeAlias = dict[Class, dict[str, list[Entry]]]


def is_in_line(job: JobRecord) -> bool:
    """Whether a cycle is to find it a place. Holding back a gang that has one does not count."""
    return job.state in IN_LINE and (not job.held or job.state is JobState.RECOVERING)


def goes_before(job: JobRecord) -> bool:
    """Whether it goes before all others of its priority, since it lost its place to a fault."""
    return job.state is JobState.RECOVERING or job.goes_first


class Waiting(ABC):
    """Lines of gangs by class and queue.

    Each line is sorted; a gang's place changes only with the gang itself. Lines of a class of their
    own are what keeps them cheap: who is submitted last goes to the end.

    Attributes:
        lines: Class -> name of the line -> places in it; none of them is empty.
    """

    def __init__(self) -> None:
        self.lines: Lines = {}
        self._at: dict[JobId, tuple[str, Entry]] = {}

    def __len__(self) -> int:
        return len(self._at)

    def put(self, job: JobRecord) -> None:
        """Learn of a job's standing: its place in line, or that it has none."""
        wanted = (self.line_of(job), self.entry(job)) if is_in_line(job) else None
        known = self._at.get(job.uid)
        if wanted == known:
            return
        if known is not None:
            self._take_out(job.uid, *known)
        if wanted is not None:
            name, entry = self._at[job.uid] = wanted
            insort(self.lines.setdefault(entry[:2], {}).setdefault(name, []), entry)

    def overlaid(self, changed: Mapping[JobId, JobRecord]) -> Lines:
        """The lines as they would be with these jobs changed; the lines themselves stay.

        Lines that no change touches are given as they are: not to be edited. A line may be empty.
        """
        if not changed:
            return self.lines
        out = {kind: dict(by_name) for kind, by_name in self.lines.items()}
        own: set[tuple[Class, str]] = set()

        def line(name: str, kind: Class) -> list[Entry]:
            by_name = out.setdefault(kind, {})
            if (kind, name) not in own:
                own.add((kind, name))
                by_name[name] = list(by_name.get(name, ()))
            return by_name[name]

        for uid, job in changed.items():
            wanted = (self.line_of(job), self.entry(job)) if is_in_line(job) else None
            known = self._at.get(uid)
            if wanted == known:
                continue
            if known is not None:
                entries = line(known[0], known[1][:2])
                del entries[bisect_left(entries, known[1])]
            if wanted is not None:
                insort(line(wanted[0], wanted[1][:2]), wanted[1])
        return out

    @abstractmethod
    def line_of(self, job: JobRecord) -> str:
        """The name of the line that the job stands in."""

    @abstractmethod
    def entry(self, job: JobRecord) -> Entry:
        """Where in its line it stands."""

    def _take_out(self, uid: JobId, name: str, entry: Entry) -> None:
        by_name = self.lines[entry[:2]]
        entries = by_name[name]
        del entries[bisect_left(entries, entry)]
        del self._at[uid]
        if not entries:
            del by_name[name]
            if not by_name:
                del self.lines[entry[:2]]


class ByQueue(Waiting):
    """Priority, then age, in each queue."""

    def line_of(self, job: JobRecord) -> str:
        return job.spec.queue

    def entry(self, job: JobRecord) -> Entry:
        return (-job.spec.priority, 0 if goes_before(job) else 1, 0.0, job.age, job.uid)


class ByDuration(Waiting):
    """All queues in one line: priority, then expected run time with ageing.

    A gang that waits moves forward by `ageing` seconds of run time for each second. All move alike,
    so the order of any two never changes; it is the order of *due times*: submission + expected run
    time / ageing. Nobody submitted after that time goes before the gang: that is how long it can
    be overtaken at most.

    Attributes:
        ageing: Above 0.
        assumed_s: Expected run time of a gang that states neither duration nor limit; above 0.
    """

    def __init__(self, ageing: float, assumed_s: float) -> None:
        super().__init__()
        self.ageing = ageing
        self.assumed_s = assumed_s

    def line_of(self, job: JobRecord) -> str:
        return ""

    def entry(self, job: JobRecord) -> Entry:
        due = due_s(job, self.ageing, self.assumed_s)
        return (-job.spec.priority, 0 if goes_before(job) else 1, due, job.age, job.uid)


def due_s(job: JobRecord, ageing: float, assumed_s: float) -> float:
    """Unix seconds from when on nobody who comes later goes before a gang; see `ByDuration`."""
    return job.submitted_s + expected_s(job, assumed_s) / ageing


def expected_s(job: JobRecord, assumed_s: float) -> float:
    """Declared duration, else the time limit, else what is assumed; in seconds."""
    spec = job.spec
    if spec.duration_s is not None:
        return spec.duration_s
    return spec.time_limit_s if spec.time_limit_s is not None else assumed_s
