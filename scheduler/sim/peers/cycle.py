"""A peer's scheduling cycle: the same facts in, the same kind of plan out, its own choices."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from scheduler.cluster.nodes import Held
from scheduler.cluster.trial import Trial
from scheduler.cluster.world import World
from scheduler.model.ids import JobId, NodeId, PodId
from scheduler.model.job import JobSpec
from scheduler.model.lifecycle import FINAL, POD_MOVES, JobState, PodState, Reason
from scheduler.model.placement import NoFit, Placement
from scheduler.model.plan import Fact, FactKind, JobMove, JobRecord, Plan, PodMove, PodRecord
from scheduler.model.resources import NOTHING
from scheduler.place.search import place
from scheduler.policy import Policy
from scheduler.sim.peers.placer import Placer

Key = Callable[[JobRecord], float]
"""Smaller goes first among jobs of equal priority; ties by age."""


class Discipline(StrEnum):
    """What happens behind a job that does not fit."""

    STRICT = "strict"
    """Nobody overtakes it."""
    GREEDY = "greedy"
    """Whoever fits goes: Kueue's BestEffortFIFO, Volcano's allocate action."""
    EASY = "easy"
    """The first that does not fit gets a reservation at the earliest time that the declared
    durations allow; others go if they end before it or stay off its nodes. Source: Lifka, "The
    ANL/IBM SP Scheduling System", JSSPP 1995; Slurm's sched/backfill is of this family."""


class OwnPlacer:
    """Podyard's placement under another order of jobs."""

    name = "own"

    def place(self, trial: Trial, spec: JobSpec) -> Placement | None:
        found = place(trial, spec)
        return None if isinstance(found, NoFit) else found


@dataclass(frozen=True, slots=True)
class PeerCycle:
    """Decides like `run_cycle`, with a peer's placement and discipline; parallel jobs only.

    Attributes:
        key: Order among equal priority; None = oldest first.
    """

    placer: Placer
    discipline: Discipline
    key: Key | None = None

    def __call__(self, world: World, policy: Policy, now_s: float) -> Plan:
        mark = world.trial.mark()
        turn = _Turn(world)
        try:
            for fact in world.facts:
                turn.take(fact)
            turn.lose_pods()
            if not policy.paused and not world.paused:
                self._place_all(turn, now_s)
            return turn.plan()
        finally:
            world.trial.roll_back(mark)

    def _place_all(self, turn: "_Turn", now_s: float) -> None:
        trial = turn.world.trial
        key = self.key
        line = sorted(
            (j for j in turn.jobs.values() if j.state is JobState.PENDING),
            key=lambda j: (-j.spec.priority, key(j) if key else 0.0, j.age, j.uid),
        )
        misfits: set[int] = set()
        for position, job in enumerate(line):
            wish = turn.world.wish(job.uid)
            if wish in misfits:
                continue
            found = self.placer.place(trial, job.spec)
            if found is not None:
                turn.bind(job, found)
                continue
            misfits.add(wish)
            if self.discipline is Discipline.STRICT:
                return
            if self.discipline is Discipline.EASY:
                self._backfill(turn, job, line[position + 1 :], now_s)
                return

    def _backfill(
        self, turn: "_Turn", head: JobRecord, behind: Sequence[JobRecord], now_s: float
    ) -> None:
        starts_s, reserved = self._reservation(turn, head, now_s)
        misfits: set[tuple[int, bool]] = set()
        for job in behind:
            duration_s = job.spec.duration_s
            ends = duration_s is not None and now_s + duration_s <= starts_s
            wish = (turn.world.wish(job.uid), ends)
            if wish in misfits:
                continue
            found = self.placer.place(turn.world.trial, job.spec)
            if found is not None and not ends:
                found = self._place_beside(turn.world.trial, job.spec, reserved)
            if found is None:
                misfits.add(wish)
            else:
                turn.bind(job, found)

    def _place_beside(
        self, trial: Trial, spec: JobSpec, reserved: Placement | None
    ) -> Placement | None:
        """A place off the nodes that are reserved."""
        mark = trial.mark()
        for pod in reserved.pods if reserved is not None else ():
            free = trial.table.free[pod.node_index] & pod.gpu_mask
            if free:
                trial.hold(Held(pod.node_index, free, NOTHING))
        found = self.placer.place(trial, spec)
        trial.roll_back(mark)
        return found

    def _reservation(
        self, turn: "_Turn", head: JobRecord, now_s: float
    ) -> tuple[float, Placement | None]:
        """When the first in line could start at the earliest and where, by declared durations."""
        trial = turn.world.trial
        ends = sorted((turn.ends_s(job, now_s), job.uid) for job in turn.running())
        mark = trial.mark()
        try:
            for at_s, uid in ends:
                if at_s == math.inf:
                    break
                turn.free(uid)
                found = self.placer.place(trial, head.spec)
                if found is not None:
                    return at_s, found
        finally:
            trial.roll_back(mark)
        return math.inf, None


class _Turn:
    """What one cycle of a peer has decided so far."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.jobs = dict(world.jobs)
        self._pods: dict[JobId, dict[PodId, PodRecord]] = {}
        self._moved: dict[PodId, PodMove] = {}
        self._new: list[PodRecord] = []
        self._facts: list[int] = []

    def running(self) -> list[JobRecord]:
        states = {JobState.BOUND, JobState.RUNNING}
        return [job for job in self.jobs.values() if job.state in states]

    def ends_s(self, job: JobRecord, now_s: float) -> float:
        """Declared end; one that is over its time may end any moment."""
        if job.spec.duration_s is None:
            return math.inf
        began_s = job.started_s if job.started_s is not None else job.bound_s
        return max(now_s, (now_s if began_s is None else began_s) + job.spec.duration_s)

    def free(self, uid: JobId) -> None:
        """Release a job's pods in the trial."""
        for pod in self._live(uid):
            self.world.trial.release(self.world.held_by(pod))

    def take(self, fact: Fact) -> None:
        """Take account of a cancel or a report; peers know no other facts."""
        self._facts.append(fact.id)
        job = self.jobs.get(fact.job)
        if job is None or job.state in FINAL:
            return
        if fact.kind is FactKind.CANCEL:
            self._leave(job.uid, PodState.CANCELLED)
            self._set(job, JobState.CANCELLED)
        elif fact.kind is FactKind.REPORT and fact.pod is not None:
            pod = self._of(job.uid).get(fact.pod)
            state = fact.pod_state
            if pod is None or state is None or pod.attempt != fact.attempt:
                return
            if pod.is_live and state in POD_MOVES[pod.state]:
                self._report(job, pod, state, fact.exit_code)

    def lose_pods(self) -> None:
        """Gangs with pods on nodes that are gone start over: no peer mends one in its place."""
        for node in sorted(self.world.gone):
            for uid, known in sorted(self.world.on_node.get(node, {}).items()):
                job, pod = self.jobs.get(known.job), self._of(known.job).get(uid)
                if job is not None and pod is not None and pod.is_live and job.state not in FINAL:
                    self._report(job, pod, PodState.STOPPED, None)

    def _report(
        self, job: JobRecord, pod: PodRecord, state: PodState, exit_code: int | None
    ) -> None:
        self._move(pod, state, exit_code)
        live = self._live(job.uid)
        if state is PodState.RUNNING:
            if job.state is JobState.BOUND and all(p.state is PodState.RUNNING for p in live):
                self._set(job, JobState.RUNNING)
        elif state is PodState.SUCCEEDED:
            if not live:
                self._set(job, JobState.SUCCEEDED)
        else:
            self._leave(job.uid, PodState.STOPPED)
            over = state is PodState.FAILED and job.attempt > job.spec.failure.max_restarts
            self._set(job, JobState.FAILED if over else JobState.PENDING)

    def bind(self, job: JobRecord, found: Placement) -> None:
        """Give a gang its place."""
        self.world.trial.hold_places(found.pods)
        self.jobs[job.uid] = replace(
            job,
            state=JobState.BOUND,
            reason=None,
            message="",
            attempt=job.attempt + 1,
            gpus_per_pod=found.gpus_per_pod,
            node_type=found.node_type,
        )
        before = self._of(job.uid)
        for place_ in found.pods:
            uid = PodId(f"{job.uid}-{place_.role}-{place_.index}")
            old = before.get(uid)
            self._moved.pop(uid, None)
            self._new.append(
                PodRecord(
                    uid=uid,
                    job=job.uid,
                    name=f"{job.spec.name}-{place_.index}",
                    role=place_.role,
                    index=place_.index,
                    node=NodeId(self.world.topology.nodes[place_.node_index].name),
                    gpu_mask=place_.gpu_mask,
                    first_rank=place_.first_rank,
                    state=PodState.BOUND,
                    attempt=1 if old is None else old.attempt + 1,
                    resources=place_.resources,
                )
            )

    def plan(self) -> Plan:
        """All of it, with a reason for whoever still waits."""
        moves = []
        for uid, job in self.jobs.items():
            now = job
            if job.state is JobState.PENDING and job.reason is None:
                now = replace(job, reason=Reason.ROOM, message="no place")
            if now != self.world.jobs[uid]:
                moves.append(
                    JobMove(
                        uid, now.state, now.reason, now.message, now.attempt, now.gpus_per_pod,
                        now.node_type,
                    )
                )  # fmt: skip
        return Plan(
            revision=self.world.revision,
            facts_done=tuple(self._facts),
            job_moves=tuple(moves),
            pods=tuple(self._new),
            pod_moves=tuple(self._moved.values()),
        )

    def _set(self, job: JobRecord, state: JobState) -> None:
        self.jobs[job.uid] = replace(self.jobs[job.uid], state=state, reason=None, message="")

    def _of(self, uid: JobId) -> dict[PodId, PodRecord]:
        return self._pods[uid] if uid in self._pods else self.world.pods.get(uid, {})

    def _live(self, uid: JobId) -> Iterable[PodRecord]:
        return [pod for pod in self._of(uid).values() if pod.is_live]

    def _leave(self, uid: JobId, state: PodState) -> None:
        for pod in list(self._live(uid)):
            self._move(pod, state, None)

    def _move(self, pod: PodRecord, state: PodState, exit_code: int | None) -> None:
        moved = replace(pod, state=state, exit_code=exit_code)
        if pod.is_live and not moved.is_live:
            self.world.trial.release(self.world.held_by(pod))
        self._pods.setdefault(pod.job, dict(self.world.pods.get(pod.job, {})))[pod.uid] = moved
        self._moved[pod.uid] = PodMove(pod.uid, state, exit_code)
