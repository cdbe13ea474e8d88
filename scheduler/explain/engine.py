"""Changes tried on the real engine: applied to a world's counts, asked about, undone."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from scheduler.cluster.trial import Trial
from scheduler.cluster.world import World
from scheduler.model.claim import Claim
from scheduler.model.ids import JobId
from scheduler.model.job import JobSpec, Rule
from scheduler.model.lifecycle import JobState
from scheduler.model.placement import Placement
from scheduler.model.plan import JobRecord, PodRecord
from scheduler.order.limits import Denied
from scheduler.order.shares import Shares, shares_of
from scheduler.order.use import use_of_places, use_of_pods
from scheduler.place.bounds import bounds_of
from scheduler.place.members import ask_for_role, node_types_for
from scheduler.place.room import Room
from scheduler.place.search import ask_for_parallel, place
from scheduler.place.uniform import Ask, required_wants

CALLS_MAX = 200
"""Gangs placed for one answer: a few milliseconds each on 8,000 nodes."""

COUNTS_MAX = 4_000
"""Counts read for one answer, each some tens of microseconds: most questions end with one."""

NEEDED_CALLS = 80
"""Questions spent on leaving out what is not needed of one list of edits."""


@dataclass(frozen=True, slots=True, eq=False)
class Freed:
    """What a job gives back when it ends: what its pods hold, each on a node of the map."""

    job: JobRecord
    pods: tuple[PodRecord, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Lifted:
    """A node that takes new pods again, and why it does not."""

    node_index: int
    reason: str


Edit = Freed | Lifted


class Engine:
    """Asks whether a gang fits after changes. Whatever is applied is undone by `scratch`.

    More room never turns a fit into a misfit, so prefixes of a list of edits can be halved.

    Args:
        shares: What queues may use, where one of the gang's has a limit; else None.
        ahead: The first gangs of those before it in line.

    Attributes:
        bounded: Whether a question was not asked for lack of calls.
    """

    def __init__(
        self,
        world: World,
        spec: JobSpec,
        shares: Shares | None,
        ahead: Sequence[JobRecord] = (),
        calls_max: int = CALLS_MAX,
    ) -> None:
        self.world = world
        self.spec = spec
        self.shares = shares
        self.bounded = False
        self._ahead = ahead
        self._calls_left = calls_max
        self._counts_left = COUNTS_MAX
        self._by_counts = True
        self._applied: dict[Edit, None] = {}

    @contextmanager
    def scratch(self) -> Iterator[None]:
        """Undo at its end what is applied inside."""
        before = dict(self._applied)
        try:
            yield
        finally:
            for edit in [e for e in self._applied if e not in before]:
                self.revert(edit)
            for edit in [e for e in before if e not in self._applied]:
                self.apply(edit)

    def apply(self, edit: Edit) -> None:
        world = self.world
        if isinstance(edit, Freed):
            for pod in edit.pods:
                world.table.release(world.held_by(pod))
            if self.shares is not None:
                self.shares.remove(edit.job, use_of_pods(world.topology, edit.pods))
        else:
            world.table.set_aside(edit.node_index, None)
        self._applied[edit] = None

    def revert(self, edit: Edit) -> None:
        world = self.world
        if isinstance(edit, Freed):
            for pod in edit.pods:
                world.table.hold(world.held_by(pod))
            if self.shares is not None:
                self.shares.add(edit.job, use_of_pods(world.topology, edit.pods))
        else:
            world.table.set_aside(edit.node_index, edit.reason)
        del self._applied[edit]

    def apply_all(self, edits: Iterable[Edit]) -> None:
        for edit in edits:
            self.apply(edit)

    def fits(self, spec: JobSpec | None = None) -> bool:
        """Whether the gang, or one like it, has a place as things are; no for lack of calls."""
        wanted = spec or self.spec
        if not self._calls_left:
            self.bounded = True
            return False
        if not self._may(wanted):
            return False
        self._calls_left -= 1
        return isinstance(place(self.world.trial, wanted), Placement)

    def may_fit(self, spec: JobSpec | None = None) -> bool:
        """The same by counts alone where they tell; what is found so is then asked for real."""
        wanted = spec or self.spec
        return self._may(wanted) if self._by_counts else self.fits(wanted)

    def _may(self, spec: JobSpec) -> bool:
        if not self._counts_left:
            self.bounded = True
            return False
        self._counts_left -= 1
        if self.shares is not None and isinstance(self.shares.within(as_job(spec)), Denied):
            return False
        return has_room(self.world.trial, spec)

    def fits_after(self, edits: Iterable[Edit]) -> bool:
        with self.scratch():
            self.apply_all(edits)
            return self.fits()

    def enough(self, edits: Sequence[Edit], first: int = 1) -> list[Edit] | None:
        """Edits from the beginning of a list after which the gang fits, none of them needlessly.

        Args:
            first: How many to begin with.

        Returns:
            None if not even all of them are enough.
        """
        if not edits:
            return None
        for self._by_counts in (True, False):
            found = self.fewest_first(edits, first)
            if found is None:
                return None
            kept = self.needed(found)
            if self.fits_after(kept):
                return kept
        return None

    def others_first(self, edits: Iterable[Edit] = (), spec: JobSpec | None = None) -> int:
        """How many gangs before it in line keep it from starting after these changes, 0 = none.

        Each of them takes what it can first, as in a cycle.
        """
        if not self._ahead:
            return 0
        trial = self.world.trial
        with self.scratch():
            self.apply_all(edits)
            mark = trial.mark()
            try:
                started = self._start_those_ahead()
                if not started or isinstance(place(trial, spec or self.spec), Placement):
                    return 0
                return started
            finally:
                trial.roll_back(mark)

    def _start_those_ahead(self) -> int:
        """Place the gangs ahead that fit now; the caller rolls back."""
        world, shares = self.world, shares_of(self.world)
        for edit in self._applied:
            if isinstance(edit, Freed):
                shares.remove(edit.job, use_of_pods(world.topology, edit.pods))
        claims: dict[JobId, list[Claim]] = {}
        for claim in world.claims.values():
            if claim.job is not None and claim.node in world.topology.node_index:
                claims.setdefault(claim.job, []).append(claim)
        started = 0
        in_vain: set[int] = set()
        for job in self._ahead:
            wish = world.wish(job.uid)
            if wish in in_vain or isinstance(shares.within(job), Denied):
                continue
            mark = world.trial.mark()
            for claim in claims.get(job.uid, ()):
                world.trial.unclaim(world.claimed_by(claim))
            found = place(world.trial, job.spec) if has_room(world.trial, job.spec) else None
            if isinstance(found, Placement):
                world.trial.hold_places(found.pods)
                shares.add(job, use_of_places(world.topology, found.pods))
                started += 1
            else:
                in_vain.add(wish)
                world.trial.roll_back(mark)
        return started

    def fewest_first(self, edits: Sequence[Edit], first: int = 1) -> list[Edit] | None:
        """The shortest beginning of a list after which the gang fits; None if all are not enough.

        Args:
            first: How many to begin with.
        """
        with self.scratch():
            low, high = 0, min(max(first, 1), len(edits))
            self.apply_all(edits[:high])
            while not self.may_fit():
                if high == len(edits) or self.bounded:
                    return None
                low, high = high, min(2 * high, len(edits))
                self.apply_all(edits[low:high])
            at = high
            while high - low > 1:
                middle = (low + high) // 2
                for edit in edits[middle:at]:
                    self.revert(edit)
                self.apply_all(edits[at:middle])
                at = middle
                if self.may_fit():
                    high = middle
                else:
                    low = middle
            return list(edits[:high])

    def needed(self, edits: Sequence[Edit], calls_max: int = NEEDED_CALLS) -> list[Edit]:
        """Those of the edits without which the gang does not fit; it fits after all of them.

        First those that the gang makes no use of go, then one after another from the last on.
        With more than `calls_max` of them they are tried in runs, and some may stay needlessly.
        """
        kept = self._used(edits)
        run = max(1, -(-len(kept) // calls_max))
        with self.scratch():
            self.apply_all(kept)
            for end in range(len(kept), 0, -run):
                dropped = kept[max(0, end - run) : end]
                for edit in dropped:
                    self.revert(edit)
                if self.may_fit():
                    del kept[max(0, end - run) : end]
                else:
                    self.apply_all(dropped)
        if run > 1:
            self.bounded = True
        return kept

    def _used(self, edits: Sequence[Edit]) -> list[Edit]:
        """The edits whose room the gang takes when it is placed after all of them."""
        with self.scratch():
            self.apply_all(edits)
            found = place(self.world.trial, self.spec)
        if isinstance(found, Placement):
            taken: dict[int, int] = {}
            for pod in found.pods:
                taken[pod.node_index] = taken.get(pod.node_index, 0) | pod.gpu_mask
            used = [edit for edit in edits if self._is_used(edit, taken)]
            with self.scratch():
                self.apply_all(used)
                if self.may_fit():
                    return used
        return list(edits)

    def _is_used(self, edit: Edit, taken: Mapping[int, int]) -> bool:
        if isinstance(edit, Lifted):
            return edit.node_index in taken
        index = self.world.topology.node_index
        return any(
            pod.gpu_mask & taken.get(index[pod.node], 0)
            or (index[pod.node] in taken and not pod.resources.is_zero())
            for pod in edit.pods
        )


def as_job(spec: JobSpec) -> JobRecord:
    """A gang as a queue sees it that was not submitted."""
    return JobRecord(JobId(""), spec, JobState.PENDING, 0)


def has_room(trial: Trial, spec: JobSpec) -> bool:
    """Whether the counts leave room for the gang; where they do not, no search finds a place.

    Unlike a search that fails, this does not say why, and so need not look at every node. What
    unlike roles need together is not to be counted: they are placed.
    """
    if len(spec.roles) > 1:
        return isinstance(place(trial, spec), Placement)
    return any(_holds(ask) for ask in _asks(trial, spec))


def _asks(trial: Trial, spec: JobSpec) -> Iterator[Ask]:
    if spec.parallelism is not None:
        sizes = replace(spec.parallelism, dp=min(spec.dp_sizes, default=spec.parallelism.dp))
        for kind in node_types_for(trial, spec.gpu, spec.gpus_per_pod or 1):
            if kind is not None:
                yield ask_for_parallel(trial, spec, sizes, kind)
    for role in spec.roles:
        for kind in node_types_for(trial, spec.gpu, role.gpus):
            yield ask_for_role(trial, spec, role, kind, role.replicas, role.min, None, alone=True)


def _holds(ask: Ask) -> bool:
    wants = required_wants(ask)
    if isinstance(wants, Rule):
        return False
    most = Room(ask.view, bounds_of(wants, ask.units), ask.scope).most()
    return most - most % ask.step >= ask.least
