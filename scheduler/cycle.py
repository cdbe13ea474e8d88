"""One scheduling cycle: facts, time and the line of waiting gangs in, a plan out."""

from collections.abc import Hashable, Iterator, Sequence

from scheduler.backfill.patience import (
    as_good,
    best_worth,
    is_patient,
    patience_message,
    patience_s,
    patient_until_s,
    worth,
)
from scheduler.cluster.world import WISHES_KEPT, World
from scheduler.draft.book import Draft
from scheduler.draft.charges import Charges
from scheduler.draft.claims import settle_claims, start_ready
from scheduler.draft.draining import drain_by_time, drain_in_turn
from scheduler.draft.facts import apply_facts
from scheduler.draft.leaving import give_up_place, push_on
from scheduler.draft.lending import Lending
from scheduler.draft.losing import breaker_now, lose_pods, settle_wounds
from scheduler.draft.preempting import Preemption
from scheduler.draft.recovering import Recovery
from scheduler.draft.reserving import Reservations
from scheduler.draft.sparing import keep_spares, settle_pools, settle_spares
from scheduler.draft.starts import bind, placement_of, pod_record
from scheduler.model.claim import Claim, ClaimWhy
from scheduler.model.ids import JobId
from scheduler.model.job import JobSpec
from scheduler.model.lifecycle import JobState, PodState, Reason
from scheduler.model.placement import NoFit, Placement, PodPlace
from scheduler.model.plan import JobRecord, Plan
from scheduler.order.line import line_of
from scheduler.order.shares import Denied
from scheduler.order.use import least_use, use_of_places
from scheduler.place.admit import never_fits_in
from scheduler.place.fits import Fit
from scheduler.place.grow import grow
from scheduler.place.search import place
from scheduler.policy import Policy
from scheduler.recover.breaker import Breaker
from scheduler.recover.pool import bare_nodes, pool_kept

FRESH_VERDICTS = 100
"""Gangs at the head of the line whose verdict is told anew whenever it changes. Further back only a
new reason is: else each end of one job would rewrite every job that waits. `explain` asks anew."""

LATE_EDITS = 10_000
"""Claims that one cycle lets go of, for the time of a look, to try gangs on GPUs that are promised
for later. A gang that would end in time and is not tried is so in a later cycle."""

_IN_LINE = frozenset({JobState.PENDING, JobState.RESERVED, JobState.RECOVERING})


def run_cycle(world: World, policy: Policy, now_s: float) -> Plan:
    """Decide one cycle; the world is as it was afterwards."""
    draft = Draft(world, now_s)
    mark = world.trial.mark()
    try:
        # 1. Take account of what was reported and asked for: what ended frees its GPUs for this
        #    very cycle.
        apply_facts(draft, policy)
        draft.wake_at(world.end_quarantines(now_s))
        lose_pods(draft, policy)
        drain_by_time(draft)
        # 2. And of time: limits that are reached, windows that open.
        push_on(draft)
        breaker = breaker_now(draft, policy)
        settle_wounds(draft, breaker)
        settle_pools(draft, policy)
        settle_claims(draft)
        settle_spares(draft)
        paused = world.paused or policy.paused
        if not paused:
            # 3. Gangs start whose victims have left.
            start_ready(draft)
        # 4. Go through the line: place, else make others leave, else reserve, else say why not.
        bare = bare_nodes(world.table, draft.claims_of_pools())
        with pool_kept(world.table, bare) as pool:
            _Line(draft, policy, breaker, pool).run(paused=paused)
        # 5. Check the rules of gangs whose pods or map changed.
        draft.audit(everything=world.map_changed)
        # 6. Return the plan, stamped with the revision it was decided on.
        return draft.plan()
    finally:
        world.trial.roll_back(mark)


class _Rest:
    """Who is still to come in the line, counted by kind: what is alike has the same answer.

    With ten thousand gangs of a hundred kinds in line, a cycle is done once each kind had its turn
    and everybody knows why he waits.

    Attributes:
        settled: Kinds that would be told nothing new.
    """

    def __init__(self, draft: Draft) -> None:
        world = draft.world
        self.settled: set[Hashable] = set()
        self._left = dict(world.alike)
        for uid, job in draft.changed.items():
            self._count(world.alike_of(world.jobs[uid]), -1)
            if job.state in _IN_LINE:
                self._count(world.alike_of(job), 1)
        # On a new map everybody may have to be told something new.
        self._is_open = world.map_changed
        self._open = len(self._left)

    @property
    def is_settled(self) -> bool:
        """Whether nobody who is still to come would be told anything."""
        return not self._open and not self._is_open

    def passes(self, key: Hashable) -> None:
        """One of a kind has its turn."""
        if self._left.get(key) == 1 and key not in self.settled:
            self._open -= 1
        self._count(key, -1)

    def settle(self, key: Hashable) -> None:
        """What one of a kind was told holds for the rest of it."""
        if key is not None and key not in self.settled and not self._is_open:
            self.settled.add(key)
            self._open -= key in self._left

    def unsettle(self) -> None:
        """Something became free: all kinds are to be looked at again."""
        self.settled.clear()
        self._open = len(self._left)

    def _count(self, key: Hashable, by: int) -> None:
        if key is None:
            return
        left = self._left.get(key, 0) + by
        if left > 0:
            self._left[key] = left
        else:
            self._left.pop(key, None)


class _Line:
    """The line of one cycle.

    What is free only shrinks while gangs are placed, so what did not fit once will not in this
    cycle: verdicts are kept by wish. When a place that was kept is given up they are forgotten.
    """

    def __init__(self, draft: Draft, policy: Policy, breaker: Breaker, pool: Sequence[int]) -> None:
        self._draft = draft
        self._world = draft.world
        self._policy = policy
        self._charges = Charges(draft)
        self._reservations = Reservations(draft, policy, self._charges)
        self._preemption = Preemption(draft, policy, self._charges)
        self._recovery = Recovery(draft, policy, self._charges, self._preemption, breaker, pool)
        self._lending = Lending(draft, policy, pool)
        self._verdicts: dict[Hashable, NoFit] = {}
        self._too_long: dict[Hashable, float] = {}
        self._late_edits = LATE_EDITS
        self._free_at_most: int | None = None
        self._ended = draft.ended
        self._rest = _Rest(draft)

    def run(self, *, paused: bool) -> None:
        """Every gang in line once, then gangs that are there but not complete."""
        draft, rest = self._draft, self._rest
        line = line_of(self._world, draft.jobs, draft.changed, self._charges.now, self._policy)
        for position, job in enumerate(self._promised_first(line)):
            fresh = position < FRESH_VERDICTS
            if not fresh and rest.is_settled:
                break
            key = self._world.alike_of(job)
            rest.passes(key)
            if job.state not in _IN_LINE or (not fresh and key in rest.settled):
                continue
            self._turn(job, fresh=fresh, paused=paused)
            if job.spec.duration_s is None or not self._is_time_of_use(job.spec):
                rest.settle(self._world.alike_of(draft.jobs[job.uid]))
        if not paused:
            # Gangs above their minimum take what nobody waiting could use.
            self._reservations.stand_for(None)
            drain_in_turn(draft, self._recovery)
            for job in draft.incomplete():
                self._grow(job)
            keep_spares(draft, self._charges)

    def _promised_first(self, line: Iterator[JobRecord]) -> Iterator[JobRecord]:
        """The line, but who has the reservation of a root comes before others of it of its class.

        It was first when it got it, and has the next place, wherever that is.
        """
        done: set[JobId] = set()
        for job in line:
            promised = self._reservations.promised_before(job)
            if promised is not None and promised.uid not in done:
                done.add(promised.uid)
                yield promised
            now = self._draft.jobs.get(job.uid, job)
            # One that lost its place to another since its turn has not been told why it waits.
            if job.uid not in done or (now.state is JobState.PENDING and not now.message):
                yield now

    # -- one gang ---------------------------------------------------------------------------------

    def _turn(self, job: JobRecord, *, fresh: bool, paused: bool) -> None:
        if paused:
            if job.state is JobState.PENDING and not job.held:
                self._draft.wait(job, Reason.PAUSED, "the scheduler is paused", None)
        elif job.state is JobState.RECOVERING:
            self._reservations.stand_for(job)
            self._recovery.recover(job)
            self._forget_if_ended()
        elif job.held:
            pass
        elif job.state is JobState.RESERVED:
            self._reserved(job, fresh=fresh)
        else:
            self._pending(job, fresh=fresh)

    def _pending(self, job: JobRecord, *, fresh: bool) -> None:
        if job.not_before_s is not None and self._waits_after_crash(job):
            return
        spec = self._charges.now.within(job)
        if isinstance(spec, Denied):
            if not self._takes_over(job, spec):
                self._wait(job, spec.verdict(), fresh=fresh)
            return
        self._reservations.stand_for(job)
        wish = (self._world.wish(job.uid), spec.gpu_count, spec.gpu)
        verdict = self._verdicts.get(wish)
        if verdict is None:
            found = place(self._world.trial, spec)
            if isinstance(found, Placement):
                self._start(job, spec, wish, found)
                return
            verdict = self._verdicts[wish] = self._never_or(job, found)
        if self._start_in_between(job, spec, wish, verdict) or self._borrows(job, spec, wish):
            return
        if not self._claims(job, spec, wish, verdict):
            self._wait(job, verdict, fresh=fresh)

    def _waits_after_crash(self, job: JobRecord) -> bool:
        """Whether a gang that crashed waits for its time, or starts where it was."""
        draft = self._draft
        if draft.claims_of(job.uid, ClaimWhy.RECOVERY):
            kept = self._recovery.start_again(job)
            self._forget_if_ended()
            if kept:
                return True
        if job.not_before_s is None or job.not_before_s <= draft.now_s:
            return False
        draft.wake_at(job.not_before_s)
        draft.wait(job, Reason.BACKOFF, job.message or "waits after a crash", None)
        return True

    def _reserved(self, job: JobRecord, *, fresh: bool) -> None:
        """A gang that has claims starts as soon as it fits, there or elsewhere."""
        claims = self._draft.claims_of(job.uid, ClaimWhy.PREEMPTION)
        if claims:
            self._start_elsewhere(job, claims)
            return
        spec = self._charges.now.within(job)
        if isinstance(spec, Denied):
            if not self._takes_over(job, spec):
                self._wait(job, spec.verdict(), fresh=fresh)
            return
        wish = (self._world.wish(job.uid), spec.gpu_count, spec.gpu)
        self._reservations.stand_for(job, with_own=True)
        own = self._reservations.vacant_of(job.uid)
        is_hopeless = not (
            self._might_fit(spec, own) or self._preemption.might_find(job, spec, wish)
        )
        if is_hopeless and self._reservations.stands(job):
            return
        self._reservations.stand_for(job)
        found = place(self._world.trial, spec)
        if isinstance(found, Placement):
            self._bind(job, found)
            return
        verdict = self._never_or(job, found)
        if self._start_in_between(job, spec, wish, verdict) or self._borrows(job, spec, wish):
            return
        if not self._claims(job, spec, wish, verdict):
            self._wait(job, verdict, fresh=fresh)

    def _takes_over(self, job: JobRecord, denied: Denied) -> bool:
        """Get a gang that a limit keeps out the place of those who fill it, if it may."""
        if denied.never or denied.reason is not Reason.LIMIT or self._policy.paused:
            return False
        spec = self._charges.now.least_within(job)
        if spec is None:
            return False
        wish = ("limit", self._world.wish(job.uid), spec.gpu_count)
        self._reservations.stand_for(job)
        has = self._preemption.make_room(job, spec, wish, under_limit=True)
        self._forget_if_ended()
        return has

    def _start_elsewhere(self, job: JobRecord, claims: list[Claim]) -> None:
        """A gang whose victims are leaving need not wait for them if it fits as well without."""
        if self._charges.now.limiting(job.spec.queue):
            # Nor would it be within the limit before they have left.
            return
        self._reservations.stand_for(job)
        self._draft.lift(claims)
        if Fit(self._world.trial, job.spec).now():
            found = place(self._world.trial, job.spec)
            if isinstance(found, Placement) and self._is_as_good(job, found, claims):
                self._charges.remove(job, self._charges.use_of_claims(claims))
                self._bind(job, found)
                return
        self._draft.bar(claims)

    def _is_as_good(self, job: JobRecord, found: Placement, claims: list[Claim]) -> bool:
        """Whether a gang loses nothing if it does not wait for the place that it is promised."""
        promised = placement_of(self._world, job, claims)
        topology = self._world.topology
        return as_good(worth(topology, job.spec, found), worth(topology, job.spec, promised))

    def _start(self, job: JobRecord, spec: JobSpec, wish: Hashable, found: Placement) -> None:
        """Start a gang that fits, unless it is still patient enough to wait for a better place."""
        draft, now_s = self._draft, self._draft.now_s
        until_s = patient_until_s(job, now_s)
        if job.state is JobState.PENDING and patience_s(job.spec) and now_s < until_s:
            best = best_worth(self._world, wish, spec)
            here = worth(self._world.topology, spec, found)
            if best is not None and not as_good(here, best):
                message = patience_message(self._world.topology, here, best, until_s, now_s)
                if job.could_start_s is None:
                    job = draft.set(job, could_start_s=now_s)
                draft.wait(job, Reason.PATIENCE, message, None)
                draft.wake_at(until_s)
                return
        self._bind(job, found)

    def _start_in_between(
        self, job: JobRecord, spec: JobSpec, wish: Hashable, verdict: NoFit
    ) -> bool:
        """Start a gang on GPUs that are promised for later, if it says that it ends in time."""
        if spec.duration_s is None or verdict.never or self._late_edits <= 0:
            return False
        ends_s = self._draft.now_s + spec.duration_s
        if ends_s >= self._too_long.get(wish, float("inf")):
            return False
        vacant = self._reservations.vacant_later_than(ends_s, job)
        if not self._is_worth_a_try(spec, vacant):
            return False
        later = self._reservations.later_than(ends_s, job)
        if not later:
            return False
        self._late_edits -= len(later)
        self._draft.lift(later)
        fits = Fit(self._world.trial, spec).now()
        found = place(self._world.trial, spec) if fits else verdict
        if isinstance(found, Placement):
            self._start(job, spec, wish, found)
        else:
            self._too_long[wish] = ends_s
        self._draft.bar(later)
        return isinstance(found, Placement)

    def _borrows(self, job: JobRecord, spec: JobSpec, wish: Hashable) -> bool:
        """Start a gang on spares of others, from which it can be called back; whether it is done.

        One that waits for a better place is done as well.
        """
        found = self._lending.place(job, spec, wish)
        if found is None:
            return False
        self._start(job, spec, wish, found)
        self._lending.settle()
        return True

    def _claims(self, job: JobRecord, spec: JobSpec, wish: Hashable, verdict: NoFit) -> bool:
        """Get a gang that does not fit a place to wait for; whether it has one.

        Nothing is claimed for a gang that can never start or is patient.
        """
        if verdict.never:
            return False
        if is_patient(job, self._draft.now_s):
            self._draft.wake_at(patient_until_s(job, self._draft.now_s))
            return False
        has = self._preemption.make_room(job, spec, wish)
        if not has and (self._preemption.has_time or job.state is JobState.RESERVED):
            # Who was not searched for in this cycle may get a better place in the next one.
            has = self._reservations.reserve(job, spec, verdict)
        self._forget_if_ended()
        return has

    def _wait(self, job: JobRecord, verdict: NoFit, *, fresh: bool) -> None:
        give_up_place(self._draft, job)
        job = self._draft.jobs[job.uid]
        starts_s = self._reservations.outlook_s(job.uid)
        self._draft.wait(
            job, verdict.code, verdict.message, verdict, fresh=fresh, starts_s=starts_s
        )
        self._forget_if_ended()

    def _bind(self, job: JobRecord, found: Placement) -> None:
        self._charges.add(job, use_of_places(self._world.topology, found.pods))
        bind(self._draft, job, found)
        self._forget_if_ended()

    def _forget_if_ended(self) -> None:
        """Once claims have ended, what did not fit before may."""
        if self._draft.ended != self._ended:
            self._ended = self._draft.ended
            self._verdicts.clear()
            self._too_long.clear()
            self._rest.unsettle()
            self._reservations.forget()
            self._free_at_most = None

    def _is_time_of_use(self, spec: JobSpec) -> bool:
        """Whether it could matter when a gang ends: somewhere GPUs are promised for later."""
        most = self._reservations.most_vacant()
        return self._reservations.are_any and self._is_worth_a_try(spec, most)

    def _is_worth_a_try(self, spec: JobSpec, vacant: int) -> bool:
        """Whether so many GPUs that are promised for later could make a gang fit."""
        if not vacant and least_use(spec).gpu_count:
            return False
        return self._might_fit(spec, vacant)

    def _might_fit(self, spec: JobSpec, more: int) -> bool:
        """Whether there are as many GPUs as a gang needs at least, with so many more; quick."""
        if self._free_at_most is None:
            table = self._world.table
            usable = zip(table.free, table.aside, strict=True)
            self._free_at_most = sum(m.bit_count() for m, aside in usable if aside is None)
        return least_use(spec).gpu_count <= self._free_at_most + more

    def _never_or(self, job: JobRecord, verdict: NoFit) -> NoFit:
        """The verdict, or the one on the empty cluster if not even that could hold the gang."""
        key, never = self._world.wish(job.uid), self._world.never
        if key not in never:
            if len(never) >= WISHES_KEPT:
                never.clear()
            never[key] = never_fits_in(self._world.emptied(), job.spec)
        return never[key] or verdict

    # -- growth -----------------------------------------------------------------------------------

    def _grow(self, job: JobRecord) -> None:
        world, draft = self._world, self._draft
        if job.not_before_s is not None and job.not_before_s > draft.now_s:
            draft.wake_at(job.not_before_s)
            return
        job = self._recovery.end_wait(job)
        if self._recovery.is_held and any(
            pod.state is PodState.LOST for pod in draft.pods(job.uid).values()
        ):
            return
        self._recovery.mend_parts(job)
        pods, index = draft.pods(job.uid).values(), world.topology.node_index
        there = [p for p in pods if p.is_live and p.state is not PodState.LOST]
        have = {(p.role, p.index): index[p.node] for p in there}
        done = {(p.role, p.index) for p in pods if p.state is PodState.SUCCEEDED}
        mark = world.trial.mark()
        for pod in pods:
            if pod.state is PodState.LOST and pod.node in index:
                world.trial.release(world.held_by(pod))
        allowed = self._within_limits(job, grow(world.trial, job.spec, have, done))
        world.trial.roll_back(mark)
        if allowed:
            new = [pod_record(world, job, place_) for place_ in allowed]
            self._recovery.give_up_lost(job, new)
            self._recovery.restart(job, new)

    def _within_limits(self, job: JobRecord, places: list[PodPlace]) -> list[PodPlace]:
        """As many of the places, in whole parts from the first on, as the queue's limits allow."""
        if self._charges.now.room(job.spec.queue, job.spec.gpu) is None:
            return places
        size = {r.name: r.parts.size if r.parts is not None else 1 for r in job.spec.roles}
        allowed = list(places)
        while allowed and self._charges.now.denied(
            job, use_of_places(self._world.topology, allowed)
        ):
            del allowed[-size[allowed[-1].role] :]
        return allowed
