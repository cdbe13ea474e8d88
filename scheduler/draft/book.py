"""What a cycle has decided so far: jobs, pods, claims as they will be, and how they get there."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from scheduler.cluster.world import World
from scheduler.model.claim import Claim, ClaimWhy
from scheduler.model.ids import ClaimId, JobId, NodeId, PodId
from scheduler.model.lifecycle import FINAL, LIVE_POD, JobState, PodState, Reason
from scheduler.model.placement import NoFit, Placement
from scheduler.model.plan import JobMove, JobRecord, Plan, PodMove, PodRecord, job_with
from scheduler.model.standing import PLAIN
from scheduler.place.kept import Member, broken_rules, states_rules
from scheduler.place.verdict import gist, never

LIVE_JOB = frozenset({JobState.BOUND, JobState.RUNNING})
NO_PLACE = frozenset({JobState.PENDING, JobState.RESERVED, JobState.SUSPENDED})


class Draft:
    """A plan in the making.

    What pods leave is released in the world's trial at once, what claims keep is kept there.

    Attributes:
        jobs: Every unfinished job as this cycle leaves it.
        changed: Those of them that differ from what the world was told, and those that ended.
        now_s: Unix seconds of the cycle.
        freed: Pods that held GPUs and do so no more, as they were.
        ended: How many claims have ended; what did not fit before one did may fit now.
        departures: How often a gang began to leave, went on with it, or was let stay after all;
            who leaves is not known any more after the next.
    """

    def __init__(self, world: World, now_s: float) -> None:
        self.world = world
        self.now_s = now_s
        self.jobs: dict[JobId, JobRecord] = dict(world.jobs)
        self.changed: dict[JobId, JobRecord] = {}
        self.freed: list[PodRecord] = []
        self.ended = 0
        self.departures = 0
        self._pods: dict[JobId, dict[PodId, PodRecord]] = {}
        self._moved_pods: dict[PodId, PodMove] = {}
        self._new_pods: dict[PodId, PodRecord] = {}
        self._forgotten: set[PodId] = set()
        self._placements: dict[JobId, Placement] = {}
        self._verdicts: dict[JobId, NoFit | None] = {}
        self._facts_done: list[int] = []
        self._wake_at_s: float | None = None
        self._claims: dict[JobId, dict[ClaimId, Claim]] = {}
        self._reserved: dict[JobId, None] = {}
        self._of_windows: dict[ClaimId, Claim] = {}
        self._of_pools: dict[ClaimId, Claim] = {}
        self._new_claims: dict[ClaimId, Claim] = {}
        self._ended_claims: dict[ClaimId, None] = {}
        self._lifted: set[ClaimId] = set()
        for claim in sorted(world.claims.values(), key=lambda c: (c.role, c.index, c.uid)):
            self._learn(claim)

    # -- pods -------------------------------------------------------------------------------------

    @property
    def new_pods(self) -> list[PodRecord]:
        """Pods that start."""
        return list(self._new_pods.values())

    def starts(self, pod: PodRecord) -> bool:
        """Whether a pod is one that this cycle starts, for the first time or anew."""
        return self._new_pods.get(pod.uid) is pod

    def pods(self, job: JobId) -> dict[PodId, PodRecord]:
        """The job's pods, live or not, as this cycle leaves them."""
        found = self._pods.get(job)
        return self.world.pods.get(job, {}) if found is None else found

    def live_pods(self, job: JobId) -> list[PodRecord]:
        return sorted(
            (p for p in self.pods(job).values() if p.is_live), key=lambda p: (p.role, p.index)
        )

    def move_pod(
        self,
        pod: PodRecord,
        state: PodState,
        exit_code: int | None = None,
        *,
        surplus: bool = False,
    ) -> None:
        """Give a pod its state; one that leaves lets go of what it holds."""
        if self._take_back(pod):
            before = self.world.pods.get(pod.job, {}).get(pod.uid)
            if before is None:
                del self._own_pods(pod.job)[pod.uid]
                return
            # It never started; what the world knows of it ends, if it has not done so already.
            if not before.is_live:
                self._own_pods(pod.job)[pod.uid] = before
                if pod.uid in self._forgotten:
                    self.move_pod(before, PodState.STOPPED)
                return
            if state in LIVE_POD and not self._hold_again(pod):
                state = PodState.STOPPED
            self._own_pods(pod.job)[pod.uid] = replace(before, state=state, exit_code=exit_code)
            self._moved_pods[pod.uid] = PodMove(pod.uid, state, exit_code, surplus)
            return
        moved = replace(pod, state=state, exit_code=exit_code)
        if pod.is_live and not moved.is_live:
            self._free(pod)
        self._own_pods(pod.job)[pod.uid] = moved
        self._moved_pods[pod.uid] = PodMove(pod.uid, state, exit_code, surplus)

    def add_pods(self, job: JobRecord, pods: Iterable[PodRecord]) -> None:
        """Further pods of a gang; the caller holds their GPUs."""
        mine = self._own_pods(job.uid)
        for pod in pods:
            mine[pod.uid] = pod
            self._moved_pods.pop(pod.uid, None)
            self._new_pods[pod.uid] = pod

    def forget_done(self, job: JobRecord) -> None:
        """As a gang starts over, members that were done are so no more: they start anew as well.

        Those without a place this time, as it is smaller, would else stand for members that it has
        not: it would run below its minimum, or wait for ever for those beneath them.
        """
        for pod in list(self.pods(job.uid).values()):
            if pod.state is PodState.SUCCEEDED:
                self._forgotten.add(pod.uid)
                self.move_pod(pod, PodState.STOPPED)

    def restart(self, job: JobRecord, pods: Iterable[PodRecord]) -> None:
        """Members that start anew, there or elsewhere; those that are live let go first."""
        new, mine = list(pods), self._own_pods(job.uid)
        for pod in new:
            before = mine.get(pod.uid)
            if before is not None and not self._take_back(before) and before.is_live:
                self._free(before)
        for pod in new:
            if pod.node in self.world.topology.node_index:
                self.world.trial.hold(self.world.held_by(pod))
        self.add_pods(job, new)

    def next_attempt(self, pod: PodRecord) -> int:
        """The attempt that a member starts with when it starts anew in this cycle."""
        before = self.world.pods.get(pod.job, {}).get(pod.uid)
        return 1 if before is None else before.attempt + 1

    def touched(self) -> list[JobId]:
        """Jobs with pods that this cycle moved or started, by uid."""
        return sorted(self._pods)

    def has_agent(self, node: NodeId) -> bool:
        """Whether pods of a node have stopped only when its agent says so."""
        standing = self.world.standing.get(node, PLAIN)
        return standing.has_agent and not standing.is_gone

    def _free(self, pod: PodRecord) -> None:
        self.freed.append(pod)
        if pod.node in self.world.topology.node_index:
            self.world.trial.release(self.world.held_by(pod))

    def _take_back(self, pod: PodRecord) -> bool:
        """Undo the start of a pod that was decided in this very cycle; whether it was."""
        if not self.starts(pod):
            return False
        del self._new_pods[pod.uid]
        if pod.node in self.world.topology.node_index:
            self.world.trial.release(self.world.held_by(pod))
        return True

    def _hold_again(self, pod: PodRecord) -> bool:
        """Have a member hold again what it let go of to start anew there; whether it held that.

        One that was to start anew elsewhere has let go for good: another may be there by now.
        """
        before = next((p for p in self.freed if p.uid == pod.uid), None)
        if before is None or (before.node, before.gpu_mask) != (pod.node, pod.gpu_mask):
            return False
        self.freed.remove(before)
        if before.node in self.world.topology.node_index:
            self.world.trial.hold(self.world.held_by(before))
        return True

    def _own_pods(self, job: JobId) -> dict[PodId, PodRecord]:
        if job not in self._pods:
            self._pods[job] = dict(self.world.pods.get(job, {}))
        return self._pods[job]

    # -- claims -----------------------------------------------------------------------------------

    @property
    def claimants(self) -> list[JobId]:
        """Jobs that have claims, by uid."""
        return sorted(uid for uid, claims in self._claims.items() if claims)

    @property
    def reserved(self) -> list[JobId]:
        """Jobs that have a reservation, by uid."""
        return sorted(self._reserved)

    def claims_of(self, job: JobId, *why: ClaimWhy) -> list[Claim]:
        """Claims of a job for any of these reasons (none given: for any), by role and index."""
        found = self._claims.get(job)
        return [] if not found else [c for c in found.values() if not why or c.why in why]

    def claims_of_windows(self) -> list[Claim]:
        """Claims of all maintenance windows."""
        return list(self._of_windows.values())

    def claims_of_pools(self) -> list[Claim]:
        """Claims of all pools of spare nodes."""
        return list(self._of_pools.values())

    def keep(self, claims: Iterable[Claim]) -> None:
        """New claims, over GPUs that no other claim keeps."""
        for claim in claims:
            if claim.node in self.world.topology.node_index:
                self.world.trial.claim(self.world.claimed_by(claim))
            self._learn(claim)
            self._new_claims[claim.uid] = claim
            self._ended_claims.pop(claim.uid, None)

    def retime(self, claims: Iterable[Claim], starts_s: float) -> None:
        """Known claims that are to start at another time."""
        for claim in claims:
            if claim.starts_s != starts_s:
                moved = replace(claim, starts_s=starts_s)
                self._learn(moved)
                self._new_claims[claim.uid] = moved

    def let_go(self, claims: Iterable[Claim]) -> None:
        """Claims that end."""
        for claim in list(claims):
            self.ended += 1
            self.lift((claim,))
            self._lifted.discard(claim.uid)
            self._new_claims.pop(claim.uid, None)
            if claim.uid in self.world.claims:
                self._ended_claims[claim.uid] = None
            if claim.job is None:
                del (self._of_pools if claim.why is ClaimWhy.POOL else self._of_windows)[claim.uid]
            else:
                del self._claims[claim.job][claim.uid]
                # A gang waits for one place at a time, with claims of one kind.
                self._reserved.pop(claim.job, None)

    def lift(self, claims: Iterable[Claim]) -> None:
        """Let what these claims keep be free for a while."""
        for claim in claims:
            if claim.uid not in self._lifted and claim.node in self.world.topology.node_index:
                self._lifted.add(claim.uid)
                self.world.trial.unclaim(self.world.claimed_by(claim))

    def bar(self, claims: Iterable[Claim]) -> None:
        """Keep again what was let free."""
        for claim in claims:
            if claim.uid in self._lifted:
                self._lifted.discard(claim.uid)
                self.world.trial.claim(self.world.claimed_by(claim))

    def vacant_gpus(self, claims: Iterable[Claim]) -> int:
        """GPUs that these claims keep and nobody holds; those let free are not counted."""
        vacant, index = self.world.table.vacant, self.world.topology.node_index
        return sum(
            (vacant.get(index.get(c.node, -1), 0) & c.gpu_mask).bit_count()
            for c in claims
            if c.uid not in self._lifted
        )

    def _learn(self, claim: Claim) -> None:
        if claim.job is None:
            of_kind = self._of_pools if claim.why is ClaimWhy.POOL else self._of_windows
            of_kind[claim.uid] = claim
        else:
            self._claims.setdefault(claim.job, {})[claim.uid] = claim
            if claim.why is ClaimWhy.RESERVATION:
                self._reserved[claim.job] = None

    # -- jobs -------------------------------------------------------------------------------------

    def bind(self, job: JobRecord, pods: Iterable[PodRecord], placement: Placement) -> None:
        """Give a gang its place; the caller holds the GPUs and has ended its claims."""
        self._placements[job.uid] = placement
        self.set(
            job,
            state=JobState.BOUND,
            reason=None,
            message="",
            attempt=job.attempt + 1,
            gpus_per_pod=placement.gpus_per_pod,
            node_type=placement.node_type,
            pod_count=len(placement.pods) if job.spec.dp_sizes else 0,
            bound_s=self.now_s,
            started_s=None,
            could_start_s=None,
            expected_start_s=None,
            evict=None,
            goes_first=False,
        )
        self.forget_done(job)
        self.add_pods(job, pods)

    def wait(
        self,
        job: JobRecord,
        reason: Reason,
        message: str,
        verdict: NoFit | None,
        *,
        fresh: bool = True,
        starts_s: float | None = None,
    ) -> None:
        """A gang is pending, for this reason; its claims were ended by the caller.

        Args:
            starts_s: Forecast of its start, Unix seconds; None = none.
            fresh: Tell it when only the words change, what was set aside apart; else the reason.
        """
        is_so = job.state is JobState.PENDING and job.expected_start_s == starts_s
        if is_so and job.reason is reason and job.message:
            same = never(job.message) == never(message)
            if same and (not fresh or gist(job.message) == gist(message)):
                return
        self._verdicts[job.uid] = verdict
        self.set(
            job, state=JobState.PENDING, reason=reason, message=message, expected_start_s=starts_s
        )

    def reserve(
        self, job: JobRecord, message: str, starts_s: float | None, verdict: NoFit | None
    ) -> None:
        """A gang is promised a place; the caller makes its claims."""
        self._verdicts[job.uid] = verdict
        self.set(
            job,
            state=JobState.RESERVED,
            reason=Reason.RESERVATION,
            message=message,
            could_start_s=None,
            expected_start_s=starts_s,
        )

    def set(self, job: JobRecord, **changes: object) -> JobRecord:
        """Change fields of a job, on top of what this cycle has changed already."""
        known = self.jobs[job.uid]
        moved = job_with(known, changes)
        if moved.evict is not known.evict:
            self.departures += 1
        if moved.hold_until_s is not None and moved.state is not JobState.RECOVERING:
            # Only a gang in recovery has less than its minimum, and so a limit.
            moved = replace(moved, hold_until_s=None, lost_since_s=None)
        if moved.pod_count and moved.state in NO_PLACE and moved.reason is not Reason.BACKOFF:
            # It may start with another size.
            moved = replace(moved, pod_count=0)
        self.jobs[job.uid] = self.changed[job.uid] = moved
        return moved

    def incomplete(self) -> Iterator[JobRecord]:
        """Gangs with fewer members than they want: highest priority first, then the oldest."""
        live = (self.jobs[uid] for uid in self.world.elastic if uid in self.jobs)
        wanting = [j for j in live if j.state in LIVE_JOB and self._wants_more(j)]
        yield from sorted(wanting, key=lambda j: (-j.spec.priority, j.age, j.uid))

    def _wants_more(self, job: JobRecord) -> bool:
        pods = self.pods(job.uid).values()
        had = sum(
            (p.is_live and p.state is not PodState.LOST) or p.state is PodState.SUCCEEDED
            for p in pods
        )
        return had < sum(role.replicas for role in job.spec.roles)

    def audit(self, *, everything: bool) -> None:
        """Note which rules the pods of live gangs do not keep."""
        uids = list(self.jobs) if everything else list(self._pods)
        for uid in uids:
            job = self.jobs.get(uid)
            if job is None or job.state in FINAL:
                continue
            if not job.broken and not (self.pods(uid) and states_rules(job.spec)):
                continue  # most that are looked at after a restart wait
            index = self.world.topology.node_index
            there = [p for p in self.live_pods(uid) if p.state is not PodState.LOST]
            pods = [Member(p.role, p.index, index.get(p.node)) for p in there]
            broken = broken_rules(job.spec, self.world.topology, pods, job.gpus_per_pod)
            if broken != job.broken:
                self.set(job, broken=broken)

    # -- the plan ---------------------------------------------------------------------------------

    def note_fact(self, fact_id: int) -> None:
        """A fact was taken account of."""
        self._facts_done.append(fact_id)

    def wake_at(self, at_s: float | None) -> None:
        """Time alone makes a cycle due then; moments that have passed already are left out."""
        if at_s is not None and at_s > self.now_s:
            self._wake_at_s = at_s if self._wake_at_s is None else min(at_s, self._wake_at_s)

    def plan(self) -> Plan:
        """Everything decided, stamped with the revision it was decided on."""
        return Plan(
            revision=self.world.revision,
            facts_done=tuple(self._facts_done),
            job_moves=tuple(
                self._move(job) for uid, job in self.changed.items() if job != self.world.jobs[uid]
            ),
            pods=tuple(self._new_pods.values()),
            pod_moves=tuple(self._moved_pods.values()),
            claims=tuple(c for c in self._new_claims.values() if c != self.world.claims.get(c.uid)),
            claims_gone=tuple(self._ended_claims),
            wake_at_s=self._wake_at_s,
        )

    def _move(self, job: JobRecord) -> JobMove:
        placement = self._placements.get(job.uid)
        waits = job.state in {JobState.PENDING, JobState.RESERVED}
        return JobMove(
            uid=job.uid,
            state=job.state,
            reason=job.reason,
            message=job.message,
            attempt=job.attempt,
            gpus_per_pod=job.gpus_per_pod,
            node_type=job.node_type,
            search="exact" if placement is None else placement.search,
            gap=None if placement is None else placement.gap,
            verdict=self._verdicts.get(job.uid) if waits else None,
            broken=job.broken,
            could_start_s=job.could_start_s,
            expected_start_s=job.expected_start_s,
            held=job.held,
            evict=job.evict,
            evicted_s=job.evicted_s,
            hold_until_s=job.hold_until_s,
            crashes=job.crashes,
            not_before_s=job.not_before_s,
            crash_streak=job.crash_streak,
            last_crash=job.last_crash,
            goes_first=job.goes_first,
            lost_since_s=job.lost_since_s,
            pod_count=job.pod_count,
        )
