"""Reservations: the first gang of each queue root that has no place is promised one in time."""

from collections.abc import Iterable

from scheduler.backfill.forecast import (
    Ending,
    Forecast,
    ending_of,
    expected_end_s,
    forecast,
)
from scheduler.backfill.turns import Turn, turn_of
from scheduler.backfill.words import moment
from scheduler.cluster.waiting import goes_before
from scheduler.draft.book import Draft
from scheduler.draft.charges import Charges
from scheduler.draft.leaving import give_up_place
from scheduler.draft.starts import claim_places, is_usable
from scheduler.model.claim import Claim, ClaimWhy
from scheduler.model.ids import JobId, PodId
from scheduler.model.job import JobSpec
from scheduler.model.lifecycle import JobState
from scheduler.model.placement import NoFit
from scheduler.model.plan import JobRecord, PodRecord
from scheduler.policy import Policy

EARLY_S = 1.0
"""Forecasts that differ by less are the same: rows are not rewritten for them."""


class Reservations:
    """The reservations of one cycle.

    A reservation binds those behind its gang and those of the same priority; a gang of higher
    priority may start on its GPUs. It is kept for as long as its forecast holds, so that a promise
    does not wander from domain to domain with every job that ends.
    """

    def __init__(self, draft: Draft, policy: Policy, charges: Charges) -> None:
        self._draft = draft
        self._policy = policy
        self._charges = charges
        self._holder: dict[str, JobId] = {}
        self._lifted_for: tuple[int, JobId | None] | None = None
        self._vacant: dict[JobId | None, int] = {}
        self._turns: dict[JobId, Turn] = {}
        self._first: dict[str, JobId] = {}
        self._outlooks: dict[JobId, float] = {}
        for uid in draft.reserved:
            job = draft.jobs[uid]
            self._holder.setdefault(charges.now.root(job.spec.queue), uid)

    # -- who may start there ----------------------------------------------------------------------

    def stand_for(self, job: JobRecord | None, *, with_own: bool = False) -> None:
        """Let the reservations stand that bind a gang; None = all of them.

        Args:
            with_own: Its own as well.
        """
        owners = self._draft.reserved
        own = None if job is None or with_own or job.uid not in owners else job.uid
        key = None if job is None else (job.spec.priority, own)
        if key is not None and key == self._lifted_for:
            return
        self._lifted_for = key
        for uid in owners:
            claims = self._draft.claims_of(uid, ClaimWhy.RESERVATION)
            above = job is not None and self._draft.jobs[uid].spec.priority < job.spec.priority
            if uid == own or above:
                self._draft.lift(claims)
            else:
                self._draft.bar(claims)

    def later_than(self, ends_s: float, job: JobRecord) -> list[Claim]:
        """Claims that begin when a gang that starts now would have ended."""
        draft = self._draft
        found = [c for c in draft.claims_of_windows() if c.starts_s >= ends_s]
        for uid in self._later_owners(ends_s, job):
            found += draft.claims_of(uid, ClaimWhy.RESERVATION)
        return found

    def vacant_later_than(self, ends_s: float, job: JobRecord) -> int:
        """GPUs that such claims keep and nobody holds, at most; 0 where there are none."""
        owners = self._later_owners(ends_s, job)
        return self._vacant_of_windows() + sum(self.vacant_of(uid) for uid in owners)

    @property
    def are_any(self) -> bool:
        """Whether anything is kept for later at all."""
        return bool(self._draft.reserved or self._draft.claims_of_windows())

    def most_vacant(self) -> int:
        """GPUs that any claim keeps for later and nobody holds, at most."""
        return self._vacant_of_windows() + sum(self.vacant_of(u) for u in self._draft.reserved)

    def _later_owners(self, ends_s: float, job: JobRecord) -> list[JobId]:
        jobs, out = self._draft.jobs, []
        for uid in self._draft.reserved:
            starts_s = jobs[uid].expected_start_s
            if starts_s is None or starts_s < ends_s or uid == job.uid:
                continue
            if jobs[uid].spec.priority >= job.spec.priority:
                out.append(uid)
        return out

    def _vacant_of_windows(self) -> int:
        if None not in self._vacant:
            claims = self._draft.claims_of_windows()
            self._vacant[None] = self._draft.vacant_gpus(claims)
        return self._vacant[None]

    def vacant_of(self, uid: JobId) -> int:
        """GPUs that a reservation keeps and nobody holds, at most: they only become fewer."""
        if uid not in self._vacant:
            claims = self._draft.claims_of(uid, ClaimWhy.RESERVATION)
            self._vacant[uid] = self._draft.vacant_gpus(claims)
        return self._vacant[uid]

    def forget(self) -> None:
        """Claims have ended: what was counted is not so any more."""
        self._vacant.clear()

    # -- one gang ---------------------------------------------------------------------------------

    def stands(self, job: JobRecord) -> bool:
        """Whether a gang keeps the reservation that it has, perhaps with another time."""
        root = self._charges.now.root(job.spec.queue)
        claims = self._draft.claims_of(job.uid, ClaimWhy.RESERVATION)
        return self._takes_turn(root, job) and self._kept(job, claims, None) is None

    def reserve(self, job: JobRecord, spec: JobSpec, verdict: NoFit) -> bool:
        """Promise a place to a gang that does not fit now, if it is its turn; whether it has it."""
        draft = self._draft
        root = self._charges.now.root(job.spec.queue)
        had = draft.claims_of(job.uid, ClaimWhy.RESERVATION)
        turn = self._turn(job)
        if not had and draft.now_s < turn.from_s:
            draft.wake_at(turn.from_s)
            self._look_ahead(root, job, spec)
            return False
        if not self._takes_turn(root, job):
            return False
        why_anew = ""
        if had:
            kept = self._kept(job, had, verdict)
            if kept is None:
                return True
            why_anew = kept
            draft.let_go(had)
        waited_until_s = job.submitted_s + self._policy.reserve_after_s
        is_long = draft.now_s >= waited_until_s or bool(had)
        draft.wake_at(waited_until_s)
        found = forecast(
            draft.world,
            spec,
            self._all_endings(known_only=not is_long),
            also_unknown=is_long,
            by_s=turn.start_s,
        )
        if found is None:
            return False
        self._claim(job, found, verdict, why_anew)
        return True

    def _turn(self, job: JobRecord) -> Turn:
        found = self._turns.get(job.uid)
        if found is None:
            capacity = self._draft.world.accounts.capacity
            found = self._turns[job.uid] = turn_of(job, self._policy, capacity)
        return found

    def promised_before(self, job: JobRecord) -> JobRecord | None:
        """The gang with the reservation of another's root, unless that goes before it anyhow."""
        uid = self._holder.get(self._charges.now.root(job.spec.queue))
        if uid is None or uid == job.uid:
            return None
        holder = self._draft.jobs.get(uid)
        if holder is None or holder.state is not JobState.RESERVED:
            return None
        if holder.held or holder.spec.priority != job.spec.priority:
            return None
        if goes_before(job) and not goes_before(holder):
            return None
        return holder if self._draft.claims_of(uid, ClaimWhy.RESERVATION) else None

    def outlook_s(self, uid: JobId) -> float | None:
        """When a gang that waits without a promise could start, as far as that was looked at."""
        return self._outlooks.get(uid)

    def _look_ahead(self, root: str, job: JobRecord, spec: JobSpec) -> None:
        """Forecast the start of the first gang of a root that nothing is kept for yet.

        No promise: others may take what it waits for. Looked at anew when the moment has passed.
        """
        if root in self._holder or self._first.setdefault(root, job.uid) != job.uid:
            return
        start_s = job.expected_start_s
        if start_s is None or start_s <= self._draft.now_s:
            endings = self._all_endings(known_only=True)
            found = forecast(self._draft.world, spec, endings, also_unknown=False)
            start_s = None if found is None else found.starts_s
        if start_s is not None:
            self._outlooks[job.uid] = start_s

    def _takes_turn(self, root: str, job: JobRecord) -> bool:
        """Whether the reservation of this root is this gang's."""
        draft = self._draft
        known = self._holder.get(root)
        if known is not None and known != job.uid:
            holder = draft.jobs[known]
            is_held = holder.state is JobState.RESERVED and bool(
                draft.claims_of(known, ClaimWhy.RESERVATION)
            )
            has_turn = is_held or holder.state is JobState.PENDING
            if has_turn and not self._goes_before(job, holder):
                return False
            if is_held:
                give_up_place(draft, holder)
                self._lifted_for = None
        self._holder[root] = job.uid
        return True

    def _goes_before(self, job: JobRecord, holder: JobRecord) -> bool:
        """Whether a gang takes over the reservation of another.

        Of a higher priority it does. So it does of the same queue and priority, if its turn came
        first: who was held, and is released, finds itself where it was.
        """
        if holder.spec.priority != job.spec.priority:
            return holder.spec.priority < job.spec.priority
        if holder.spec.queue != job.spec.queue:
            return False
        mine, other = self._turn(job), self._turn(holder)
        return (mine.from_s, job.age, job.uid) < (other.from_s, holder.age, holder.uid)

    def _claim(self, job: JobRecord, found: Forecast, verdict: NoFit, why_anew: str) -> None:
        starts_s = found.starts_s
        if starts_s is not None:
            starts_s = max(starts_s, self._turn(job).start_s)
        claim_places(self._draft, job, found.placement, ClaimWhy.RESERVATION, starts_s or 0.0)
        self._lifted_for = None
        self._tell(job, starts_s, len(found.waited_for), verdict, why_anew)

    def _tell(
        self, job: JobRecord, starts_s: float | None, jobs: int, verdict: NoFit | None, why: str
    ) -> None:
        draft = self._draft
        ends = "1 job there ends" if jobs == 1 else f"{jobs} jobs there end"
        if starts_s is None:
            said = f"has the next place: it starts when {ends}, nobody knows when"
        else:
            said = f"has the next place: it starts by {moment(starts_s, draft.now_s)}, when {ends}"
            draft.wake_at(starts_s)
        draft.reserve(job, f"{why}{said}", starts_s, verdict)

    # -- what was promised ------------------------------------------------------------------------

    def _kept(self, job: JobRecord, claims: list[Claim], verdict: NoFit | None) -> str | None:
        """Let a reservation stand, with another time if need be: None; or say why it cannot."""
        draft = self._draft
        if not is_usable(draft.world, claims):
            return "a node of its place is out of use; "
        on_it = self._on(claims)
        if not on_it:
            return "its place does not serve any more; "
        promised_s = job.expected_start_s
        until_s: float | None = self._turn(job).start_s
        if promised_s is not None:
            until_s = min(until_s or 0.0, promised_s)
        for other in on_it:
            ends_s = draft.now_s if other.evict else expected_end_s(other, draft.now_s)
            until_s = None if None in (ends_s, until_s) else max(until_s or 0.0, ends_s or 0.0)
        if promised_s is not None and (until_s is None or until_s > promised_s + EARLY_S):
            return self._moved(promised_s, on_it)
        draft.bar(claims)
        self._lifted_for = None
        if until_s is None or promised_s is None or until_s < promised_s - EARLY_S:
            if until_s is not None:
                draft.retime(claims, until_s)
            if until_s != promised_s:
                self._tell(job, until_s, len(on_it), verdict, "")
        draft.wake_at(until_s)
        return None

    def _moved(self, promised_s: float, on_it: Iterable[JobRecord]) -> str:
        """Why a promise cannot be kept."""
        now_s = self._draft.now_s
        late = any(
            job.spec.duration_s is not None and expected_end_s(job, now_s) is None for job in on_it
        )
        why = "a job there runs longer than it said" if late else "another job started there"
        return f"was to start by {moment(promised_s, now_s)}, but {why}; "

    def _on(self, claims: Iterable[Claim]) -> list[JobRecord]:
        """Jobs with live pods on GPUs of these claims, by uid."""
        draft = self._draft
        found: set[JobId] = set()
        fresh = self._fresh_pods()
        for claim in claims:
            here: dict[PodId, PodRecord] = dict(draft.world.on_node.get(claim.node, {}))
            here |= fresh.get(claim.node, {})
            for pod in here.values():
                now = draft.pods(pod.job).get(pod.uid, pod)
                if now.is_live and now.node == claim.node and now.gpu_mask & claim.gpu_mask:
                    found.add(pod.job)
        return [draft.jobs[uid] for uid in sorted(found) if uid in draft.jobs]

    def _fresh_pods(self) -> dict[str, dict[PodId, PodRecord]]:
        """Pods that got their place in this cycle, by node."""
        out: dict[str, dict[PodId, PodRecord]] = {}
        for pod in self._draft.new_pods:
            out.setdefault(pod.node, {})[pod.uid] = pod
        return out

    # -- endings ----------------------------------------------------------------------------------

    def _all_endings(self, *, known_only: bool) -> list[Ending]:
        """What every job with live pods will do, those that started in this cycle included."""
        draft = self._draft
        uids = draft.world.holding | draft.changed.keys()
        jobs = [draft.jobs[uid] for uid in uids if uid in draft.jobs]
        out: list[Ending] = []
        for job in sorted(jobs, key=lambda j: (j.age, j.uid)):
            if known_only and job.spec.duration_s is None and job.evict is None:
                continue
            pods = [p for p in draft.pods(job.uid).values() if p.is_live]
            out += ending_of(job, pods, draft.now_s)
        return out
