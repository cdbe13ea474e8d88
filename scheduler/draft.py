"""What a cycle has decided so far: jobs and pods as they will be, and the moves that lead there."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from scheduler.cluster.world import World
from scheduler.model.ids import JobId, PodId
from scheduler.model.job import Role
from scheduler.model.lifecycle import FINAL, POD_MOVES, JobState, PodState, Reason
from scheduler.model.placement import NoFit, Placement
from scheduler.model.plan import Fact, FactKind, JobMove, JobRecord, Plan, PodMove, PodRecord
from scheduler.place.kept import Member, broken_rules
from scheduler.place.verdict import gist, never

LIVE_JOB = frozenset({JobState.BOUND, JobState.RUNNING})

STOPPABLE = frozenset({PodState.BOUND, PodState.RUNNING})
"""Pods that stop as soon as this is decided."""


class Draft:
    """A plan in the making. GPUs that pods leave are released in the world's trial at once.

    Attributes:
        jobs: Every unfinished job as this cycle leaves it.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.jobs: dict[JobId, JobRecord] = dict(world.jobs)
        self._pods: dict[JobId, dict[PodId, PodRecord]] = {}
        self._moved_pods: dict[PodId, PodMove] = {}
        self._new_pods: list[PodRecord] = []
        self._placements: dict[JobId, Placement] = {}
        self._verdicts: dict[JobId, NoFit | None] = {}
        self._changed: dict[JobId, JobRecord] = {}
        self._facts_done: list[int] = []

    def pods(self, job: JobId) -> dict[PodId, PodRecord]:
        """The job's pods, live or not, as this cycle leaves them."""
        found = self._pods.get(job)
        return self._world.pods.get(job, {}) if found is None else found

    def live_pods(self, job: JobId) -> list[PodRecord]:
        return sorted(
            (p for p in self.pods(job).values() if p.is_live), key=lambda p: (p.role, p.index)
        )

    # -- facts ------------------------------------------------------------------------------------

    def apply_facts(self) -> None:
        """Take account of every fact, oldest first; one that has no effect any more is done too."""
        for fact in self._world.facts:
            job = self.jobs.get(fact.job)
            if job is not None and job.state not in FINAL:
                if fact.kind is FactKind.CANCEL:
                    self._end(job, JobState.CANCELLED, "cancelled by its owner", PodState.CANCELLED)
                elif fact.kind is FactKind.RESIZE:
                    self._resize(job)
                else:
                    self._report(job, fact)
            self._facts_done.append(fact.id)

    def _report(self, job: JobRecord, fact: Fact) -> None:
        pod = self.pods(job.uid).get(fact.pod) if fact.pod is not None else None
        state = fact.pod_state
        if pod is None or state is None or pod.attempt != fact.attempt:
            return
        if state not in POD_MOVES[pod.state]:
            return
        was_terminating = pod.state is PodState.TERMINATING
        self._move_pod(pod, state, fact.exit_code)
        if state is PodState.RUNNING:
            self._maybe_running(job)
        elif state is PodState.SUCCEEDED:
            self._maybe_succeeded(job)
        elif state is PodState.FAILED:
            self._crashed(job, pod, fact.exit_code)
        elif not was_terminating:
            self._restart(job, f"pod '{pod.name}' was stopped on its node '{pod.node}'")

    def _resize(self, job: JobRecord) -> None:
        """Stop the members that the job has too many; what is missing joins in the growth step."""
        if job.state not in LIVE_JOB:
            return
        for role in job.spec.roles:
            for pod in self._surplus(job, role):
                self._move_pod(pod, PodState.STOPPED, None, surplus=True)
        # With fewer members wanted, those that are left may be all there need to be.
        self._maybe_succeeded(job)

    def _surplus(self, job: JobRecord, role: Role) -> list[PodRecord]:
        """Members beyond the role's number, in whole parts, highest index first.

        So many stay as must run together, should members below have a gap. A lost or
        terminating pod is left alone: its GPUs are not free before its node says so.
        """
        mine = [p for p in self.pods(job.uid).values() if p.role == role.name]
        there = sum(p.is_live or p.state is PodState.SUCCEEDED for p in mine)
        over = [p for p in mine if p.index >= role.replicas and p.state in STOPPABLE]
        over.sort(key=lambda p: -p.index)
        size = role.parts.size if role.parts is not None else 1
        return over[: max(0, there - role.min) // size * size]

    def _maybe_running(self, job: JobRecord) -> None:
        if job.state is JobState.BOUND and self._has_minimum(
            job, {PodState.RUNNING, PodState.SUCCEEDED}
        ):
            self._set(job, state=JobState.RUNNING, reason=None, message="")

    def _has_minimum(self, job: JobRecord, states: set[PodState]) -> bool:
        """Whether so many members of every role are in one of these states as must run together."""
        pods = [p for p in self.pods(job.uid).values() if p.state in states]
        if not job.spec.roles:
            return len(pods) == job.spec.gpu_count // max(job.gpus_per_pod, 1)
        return all(sum(p.role == role.name for p in pods) >= role.min for role in job.spec.roles)

    def _maybe_succeeded(self, job: JobRecord) -> None:
        """All have exited 0, or all of a role that decides."""
        pods = self.pods(job.uid).values()
        deciding = {role.name for role in job.spec.roles if role.decides}
        waited_for = [p for p in pods if p.role in deciding] if deciding else list(pods)
        if not any(p.is_live for p in waited_for):
            self._end(job, JobState.SUCCEEDED, "", PodState.CANCELLED)
        else:
            self._maybe_running(job)

    def _crashed(self, job: JobRecord, pod: PodRecord, exit_code: int | None) -> None:
        code = "" if exit_code is None else f" with exit code {exit_code}"
        told = f"pod '{pod.name}' failed{code} on node '{pod.node}'"
        if job.attempt <= job.spec.failure.max_restarts:
            self._restart(job, f"{told}; restart {job.attempt} of {job.spec.failure.max_restarts}")
        else:
            self._end(job, JobState.FAILED, told, PodState.STOPPED)

    def _restart(self, job: JobRecord, message: str) -> None:
        """All pods leave; the gang waits in line with its age."""
        self._leave(job, PodState.STOPPED)
        self._set(job, state=JobState.PENDING, reason=Reason.ROOM, message=message)

    def _end(self, job: JobRecord, state: JobState, message: str, pods: PodState) -> None:
        self._leave(job, pods)
        self._set(job, state=state, reason=None, message=message)

    def _leave(self, job: JobRecord, state: PodState) -> None:
        for pod in self.live_pods(job.uid):
            self._move_pod(pod, state, None)

    def _move_pod(
        self, pod: PodRecord, state: PodState, exit_code: int | None, *, surplus: bool = False
    ) -> None:
        moved = replace(pod, state=state, exit_code=exit_code)
        if pod.is_live and not moved.is_live and pod.node in self._world.topology.node_index:
            self._world.trial.release(self._world.held_by(pod))
        self._own_pods(pod.job)[pod.uid] = moved
        self._moved_pods[pod.uid] = PodMove(pod.uid, state, exit_code, surplus)

    def _own_pods(self, job: JobId) -> dict[PodId, PodRecord]:
        if job not in self._pods:
            self._pods[job] = dict(self._world.pods.get(job, {}))
        return self._pods[job]

    # -- decisions --------------------------------------------------------------------------------

    def bind(self, job: JobRecord, pods: Iterable[PodRecord], placement: Placement) -> None:
        """Give a pending gang its place; the caller holds the GPUs."""
        self._placements[job.uid] = placement
        self._set(
            job,
            state=JobState.BOUND,
            reason=None,
            message="",
            attempt=job.attempt + 1,
            gpus_per_pod=placement.gpus_per_pod,
            node_type=placement.node_type,
        )
        self.add_pods(job, pods)

    def add_pods(self, job: JobRecord, pods: Iterable[PodRecord]) -> None:
        """Further pods of a gang; the caller holds their GPUs."""
        mine = self._own_pods(job.uid)
        for pod in pods:
            mine[pod.uid] = pod
            self._moved_pods.pop(pod.uid, None)
            self._new_pods.append(pod)

    def wait(
        self,
        job: JobRecord,
        reason: Reason,
        message: str,
        verdict: NoFit | None,
        *,
        fresh: bool = True,
    ) -> None:
        """A pending gang stays so, for this reason.

        Args:
            fresh: Tell it when only the words change, what was set aside apart; else the reason.
        """
        if job.reason is reason and job.message:
            same = never(job.message) == never(message)
            if same and (not fresh or gist(job.message) == gist(message)):
                return
        self._verdicts[job.uid] = verdict
        self._set(job, reason=reason, message=message)

    def incomplete(self) -> Iterator[JobRecord]:
        """Gangs with fewer members than they want: highest priority first, then the oldest."""
        live = (self.jobs[uid] for uid in self._world.elastic if uid in self.jobs)
        wanting = [j for j in live if j.state in LIVE_JOB and self._wants_more(j)]
        yield from sorted(wanting, key=lambda j: (-j.spec.priority, j.age, j.uid))

    def _wants_more(self, job: JobRecord) -> bool:
        pods = self.pods(job.uid).values()
        had = sum(p.is_live or p.state is PodState.SUCCEEDED for p in pods)
        return had < sum(role.replicas for role in job.spec.roles)

    def audit(self, *, everything: bool) -> None:
        """Note which rules the pods of live gangs do not keep."""
        uids = list(self.jobs) if everything else list(self._pods)
        for uid in uids:
            job = self.jobs.get(uid)
            if job is None or job.state in FINAL:
                continue
            index = self._world.topology.node_index
            pods = [Member(p.role, p.index, index.get(p.node)) for p in self.live_pods(uid)]
            broken = broken_rules(job.spec, self._world.topology, pods, job.gpus_per_pod)
            if broken != job.broken:
                self._set(job, broken=broken)

    def _set(self, job: JobRecord, **changes: object) -> None:
        moved = replace(self.jobs[job.uid], **changes)  # type: ignore[arg-type]  # by name
        self.jobs[job.uid] = self._changed[job.uid] = moved

    def plan(self) -> Plan:
        """Everything decided, stamped with the revision it was decided on."""
        return Plan(
            revision=self._world.revision,
            facts_done=tuple(self._facts_done),
            job_moves=tuple(
                self._move(job)
                for uid, job in self._changed.items()
                if job != self._world.jobs[uid]
            ),
            pods=tuple(self._new_pods),
            pod_moves=tuple(self._moved_pods.values()),
        )

    def _move(self, job: JobRecord) -> JobMove:
        placement = self._placements.get(job.uid)
        return JobMove(
            uid=job.uid,
            state=job.state,
            reason=job.reason,
            message=job.message,
            attempt=job.attempt,
            gpus_per_pod=job.gpus_per_pod,
            node_type=job.node_type,
            search="exact" if placement is None else placement.search,
            verdict=self._verdicts.get(job.uid) if job.state is JobState.PENDING else None,
            broken=job.broken,
        )
