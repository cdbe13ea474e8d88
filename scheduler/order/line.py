"""Which gang goes next: the line of all that wait, in the order of the policy."""

from collections.abc import Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush, merge
from itertools import islice, repeat
from operator import itemgetter
from typing import TypeAlias

from scheduler.cluster.waiting import ByDuration, ByQueue, Entry, Lines, Waiting, is_in_line
from scheduler.cluster.world import World
from scheduler.model.ids import JobId
from scheduler.model.plan import JobRecord
from scheduler.order.shares import Shares
from scheduler.policy import Policy

SHORT_TURNS = 16
"""Turns of queues without any change of a share after which they are merged."""

MERGED_ONE_BY_ONE = 256
"""Gangs of queues of equal share that are merged as they are asked for. Most cycles have told
everybody something new by then; one that has not looks at all, and sorting the rest is faster."""


def line(
    jobs: Iterable[JobRecord], shares: Shares, policy: Policy, now_s: float
) -> Iterator[JobRecord]:
    """Gangs that wait and are not held, in the order in which they are to be tried.

    Highest priority first, whatever the queue; gangs in recovery before others of their priority.
    Then, by `fair_share`: the queue with the smallest `Shares.rank`, compared among siblings from
    the roots down, as of what was placed so far (each step looks at `shares` anew); then age; then
    uid. By `shortest_first`: due time, see `ByDuration`; then age; then uid.

    Args:
        now_s: Not looked at: ageing moves all gangs alike, so that it orders them the same at any
            time.
    """
    by_uid = {job.uid: job for job in jobs if is_in_line(job)}
    waiting = _new_waiting(policy)
    for job in by_uid.values():
        waiting.put(job)
    return _walk(waiting.lines, by_uid, shares)


def line_of(
    world: World,
    jobs: Mapping[JobId, JobRecord],
    changed: Mapping[JobId, JobRecord],
    shares: Shares,
    policy: Policy,
) -> Iterator[JobRecord]:
    """The same from lines that are kept sorted, so that a cycle need not look at every job.

    Args:
        jobs: Every unfinished job as the cycle has it; looked up when a gang's turn comes.
        changed: Those that differ from what the world was told. Who stands in line, and where, is
            settled with this call: later changes are not seen.
    """
    accounts = world.accounts
    if policy.order == "shortest_first":
        waiting: Waiting = accounts.by_duration(
            policy.ageing, policy.assumed_duration_s, world.jobs.values
        )
    else:
        waiting = accounts.waiting
    return _walk(waiting.overlaid(changed), jobs, shares)


def _new_waiting(policy: Policy) -> Waiting:
    if policy.order == "shortest_first":
        return ByDuration(policy.ageing, policy.assumed_duration_s)
    return ByQueue()


def _walk(lines: Lines, jobs: Mapping[JobId, JobRecord], shares: Shares) -> Iterator[JobRecord]:
    for kind in sorted(lines):
        of_kind = {name: entries for name, entries in lines[kind].items() if entries}
        if len(of_kind) == 1:
            (entries,) = of_kind.values()
            yield from (jobs[entry[-1]] for entry in entries)
        else:
            yield from (jobs[uid] for uid in _together(of_kind, shares))


def _together(lines: Mapping[str, list[Entry]], shares: Shares) -> Iterator[JobId]:
    """All of one class, from several queues; who is next is asked anew when a share changes.

    Gangs leave in turns: as long as no share changes, the same queue stays the next one until it
    has none left or a sibling of equal share has an older gang.
    """
    tree = _Tree(shares, {name: _Branch(name, lines[name]) for name in sorted(lines)})
    booked, seen = shares.booked, shares.version
    short_turns = 0
    while True:
        # Where queues of equal share take turns gang by gang, asking for each is slow; merging
        # them is slow to begin with.
        merging = short_turns > SHORT_TURNS
        short_turns = 0 if merging else short_turns + 1
        taken = dict[str, _Branch]()
        for entry, leaf in tree.merged() if merging else tree.turn():
            leaf.at += 1
            taken[leaf.name] = leaf
            yield entry[-1]
            if len(booked) != seen:
                short_turns = 0
                break
        if not taken:
            return
        for name in (*taken, *booked[seen:]):
            tree.refresh(name)
        seen = len(booked)


Key: TypeAlias = "tuple[tuple[float, float], Entry, int, _Branch]"
"""Rank, the gang that would be next, a number that no other key has, whose they are."""


class _Branch:
    """A queue with those below it that have anybody of a class in line.

    Attributes:
        entries, at: Its own line, and how far it was taken.
        end: The length of its line.
        heap: Keys of the queues below it; a key that is not its branch's own any more is stale.
        key: By which the queue above compares it; None when nobody is left.
    """

    __slots__ = ("above", "at", "end", "entries", "heap", "key", "name")

    def __init__(self, name: str, entries: list[Entry]) -> None:
        self.name = name
        self.entries = entries
        self.at = 0
        self.end = len(entries)
        self.above: _Branch | None = None
        self.heap: list[Key] = []
        self.key: Key | None = None

    def top(self) -> "Key | None":
        """The key of the queue below it that is next."""
        heap = self.heap
        while heap:
            key = heap[0]
            if key[3].key is key:
                return key
            heappop(heap)
        return None

    def next_entry(self) -> Entry | None:
        """The gang that is next: of its own line first, then of the queues below."""
        if self.at < self.end:
            return self.entries[self.at]
        key = self.top()
        return None if key is None else key[1]


class _Tree:
    """The queues that have anybody of one class in line, and all above them."""

    def __init__(self, shares: Shares, lines: Mapping[str, _Branch]) -> None:
        self._shares = shares
        self._root = _Branch("", [])
        self._branches = dict(lines)
        self._keys = 0
        for name in lines:
            self._join(name)
        for name in lines:
            self.refresh(name)

    def _join(self, name: str) -> None:
        below: _Branch | None = None
        for at in self._shares.accounts.chains.get(name, (name,)):
            branch = self._branches.get(at)
            if branch is None:
                branch = self._branches[at] = _Branch(at, [])
            if below is not None:
                below.above = branch
            if branch.above is not None:
                return
            below = branch
        if below is not None:
            below.above = self._root

    def refresh(self, name: str) -> None:
        """Compare a queue and those above it anew: what it uses or who is next in it changed."""
        branch = self._branches.get(name)
        if branch is None:
            # Nobody of this class waits there, but a queue above it may be compared.
            for at in self._shares.accounts.chains.get(name, ()):
                branch = self._branches.get(at)
                if branch is not None:
                    break
        while branch is not None and branch.above is not None:
            entry = branch.next_entry()
            if entry is None:
                branch.key = None
            else:
                self._keys += 1
                key = (self._shares.rank(branch.name), entry, self._keys, branch)
                if branch.key is None or branch.key[:2] != key[:2]:
                    branch.key = key
                    heappush(branch.above.heap, key)
            branch = branch.above

    def turn(self) -> Iterator[tuple[Entry, _Branch]]:
        """The gangs of the queue that is next, until one of an equal sibling is older."""
        branch, limit = self._root, None
        while branch.at >= branch.end:
            key = branch.top()
            if key is None:
                return
            other = min(branch.heap[1:3], default=None)
            # A stale key can only end a turn too early.
            if other is not None and other[0] <= key[0]:
                limit = other[1] if limit is None else min(limit, other[1])
            branch = key[3]
        entries = branch.entries
        yield entries[branch.at], branch
        while branch.at < branch.end and (limit is None or entries[branch.at] < limit):
            yield entries[branch.at], branch

    def merged(self) -> Iterator[tuple[Entry, _Branch]]:
        """All gangs that are left, as long as no share changes."""
        return self._merged(self._root)

    def _merged(self, branch: _Branch) -> Iterator[tuple[Entry, _Branch]]:
        for index in range(branch.at, branch.end):
            yield branch.entries[index], branch
        heap = [key for key in branch.heap if key[3].key is key]
        heapify(heap)
        while heap:
            key = heappop(heap)
            equal = [key[3]]
            while heap and heap[0][0] == key[0]:
                equal.append(heappop(heap)[3])
            if len(equal) == 1:
                yield from self._merged(equal[0])
            elif any(below.heap for below in equal):
                yield from merge(*map(self._merged, equal))
            else:
                yield from _by_age(equal)


def _left(line: _Branch) -> Iterator[tuple[Entry, _Branch]]:
    return zip(islice(line.entries, line.at, line.end), repeat(line), strict=False)


def _by_age(lines: list[_Branch]) -> Iterator[tuple[Entry, _Branch]]:
    """Gangs of queues without queues below them; what was taken must be counted in `at`."""
    yield from islice(merge(*map(_left, lines)), MERGED_ONE_BY_ONE)
    rest = [pair for line in lines for pair in _left(line)]
    rest.sort(key=itemgetter(0))
    yield from rest
