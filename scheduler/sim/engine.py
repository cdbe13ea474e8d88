"""The real cycle under a virtual clock: what happens, when, and what the nodes do about it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import heappop, heappush
from typing import Protocol

from scheduler.cluster.world import World
from scheduler.cycle import run_cycle
from scheduler.errors import InvariantError
from scheduler.model.ids import JobId, NodeId, PodId
from scheduler.model.lifecycle import FINAL, JobState, PodState
from scheduler.model.node import Health
from scheduler.model.plan import FactKind, JobRecord, Plan, PodRecord
from scheduler.model.standing import PLAIN, Drain, NodeStanding
from scheduler.policy import Policy
from scheduler.sim.apply import apply, report, submit, tell
from scheduler.sim.workload import Submission

EPOCH_S = 1_700_000_000.0
"""Unix seconds at which every simulation starts."""

REST_CYCLES = 50
"""Cycles after which a service that has no news must have come to rest."""


class Restless(InvariantError):
    """Cycles that go on changing things though nothing happens."""


class Decide(Protocol):
    """Whoever decides: the real cycle, or a peer."""

    def __call__(self, world: World, policy: Policy, now_s: float) -> Plan: ...


class Observer(Protocol):
    """Whoever looks on: checks, measures."""

    def submitted(self, job: JobRecord, submission: Submission, now_s: float) -> None: ...

    def before(self, world: World, policy: Policy, plan: Plan, now_s: float) -> None:
        """A plan was decided on this world and is not applied yet."""

    def after(self, world: World, plan: Plan, now_s: float) -> None:
        """The plan is applied."""

    def ended(self, job: JobRecord, state: JobState, now_s: float) -> None: ...


@dataclass(slots=True)
class Stats:
    steps: int = 0
    events: int = 0
    crashes: int = 0
    ended: dict[JobState, int] = field(default_factory=dict)


class Engine:
    """A service, its cluster and its users, driven by a heap of events.

    Nodes do what plans say: pods of a new binding run after `start_s`, end after the job's run
    time with exit code 0, and stop `stop_s` after they are told to. A step is one cycle; cycles are
    run until they change nothing, as the service does.

    Attributes:
        world, policy: As the service has them; `world` is another object after a crash.
        now_s: Unix seconds.
    """

    def __init__(
        self,
        world: World,
        policy: Policy | None = None,
        *,
        decide: Decide = run_cycle,
        observers: Iterable[Observer] = (),
        start_s: float = 1.0,
    ) -> None:
        self.world = world
        self.policy = policy or Policy()
        self.now_s = EPOCH_S
        self.stats = Stats()
        self.lost: set[str] = set()
        self.silent: set[str] = set()
        self.cordoned: set[str] = set()
        self.drains: dict[str, Drain] = {}
        self.agents: set[str] = set()
        self._unheard: dict[str, list[tuple[PodRecord, PodState, int | None]]] = {}
        self._decide = decide
        self._observers = list(observers)
        self._start_s = start_s
        self._heap: list[tuple[float, int, Callable[[], object]]] = []
        self._count = 0
        self._known: dict[JobId, Submission] = {}
        """What the nodes know of unfinished jobs, whatever the service does."""
        self._woken_s: float | None = None

    # -- what is to happen ------------------------------------------------------------------------

    def at(self, time_s: float, action: Callable[[], object]) -> None:
        """Let something happen at a time (Unix seconds); equal times go in the order of calls."""
        self._count += 1
        heappush(self._heap, (max(time_s, self.now_s), self._count, action))

    def load(self, jobs: Sequence[Submission]) -> None:
        """Let a workload come in; uids are `j` and the position in it."""
        for number, job in enumerate(jobs):
            uid = JobId(f"j{number:06d}")
            self.at(EPOCH_S + job.at_s, partial(self.submit, uid, job))

    def submit(self, uid: JobId, submission: Submission) -> JobRecord:
        """A job comes in now."""
        record = submit(self.world, submission.spec, uid, self.now_s)
        self._known[uid] = submission
        for observer in self._observers:
            observer.submitted(record, submission, self.now_s)
        if submission.cancel_s is not None:
            self.at(self.now_s + submission.cancel_s, partial(self.cancel, uid))
        return record

    def cancel(self, uid: JobId) -> None:
        """Its owner deletes a job; one that holds nothing ends at once, as in the store."""
        job = self.world.jobs.get(uid)
        if job is None:
            return
        if job.state is JobState.PENDING and not self.world.live_pods(uid):
            self.world.revision += 1
            self.world.put_job(replace(job, state=JobState.CANCELLED))
            self._end(job, JobState.CANCELLED)
        else:
            tell(self.world, FactKind.CANCEL, uid)

    def lose_node(self, name: str) -> None:
        """The machine is gone, and its pods with it."""
        if name not in self.lost:
            self.lost.add(name)
            self.silent.discard(name)
            self._unheard.pop(name, None)
            self._stand(name)

    def bring_back(self, name: str) -> None:
        if name in self.lost:
            self.lost.discard(name)
            self._stand(name)

    def silence(self, name: str) -> None:
        """A node's agent is not heard for so long that the node counts as lost; its pods run on."""
        if name not in self.lost and name not in self.silent:
            self.agents.add(name)
            self.silent.add(name)
            self._stand(name)

    def speak(self, name: str) -> None:
        """It is heard again: it says what became of its pods; those that moved meanwhile end."""
        if name not in self.silent:
            return
        self.silent.discard(name)
        unheard = self._unheard.pop(name, [])
        self._stand(name)
        for pod, state, exit_code in unheard:
            self._say(pod, state, exit_code)
        ended = {pod.uid for pod, state, _ in unheard if state is not PodState.RUNNING}
        for pod in sorted(self.world.on_node.get(NodeId(name), {}).values(), key=lambda p: p.uid):
            if pod.state is PodState.LOST and pod.uid not in ended:
                report(self.world, pod, PodState.RUNNING)

    def cordon(self, name: str, *, on: bool) -> None:
        (self.cordoned.add if on else self.cordoned.discard)(name)
        self._stand(name)

    def drain(self, name: str, deadline_s: float | None) -> None:
        """Somebody wants a node emptied, by force from then on (Unix seconds) if need be."""
        self.drains[name] = Drain(deadline_s, "simulated")
        self._stand(name)

    def undrain(self, name: str) -> None:
        if self.drains.pop(name, None) is not None:
            self._stand(name)

    def _stand(self, name: str) -> None:
        """Tell the world how a node stands now."""
        self.world.revision += 1
        before = self.world.standing.get(NodeId(name), PLAIN)
        is_gone = name in self.lost or name in self.silent
        health = Health.LOST if is_gone else Health.HEALTHY
        standing = NodeStanding(
            health=health,
            since_s=before.since_s if before.health is health else self.now_s,
            why="simulated" if is_gone else "",
            cordoned=name in self.cordoned,
            drain=self.drains.get(name),
            has_agent=name in self.agents,
            fenced=name in self.lost,
        )
        if standing == replace(PLAIN, since_s=standing.since_s):
            standing = PLAIN
        self.world.put_node(name, standing)

    def crash(self) -> None:
        """The service starts anew from what is durable; the nodes run on."""
        self.world = rebuilt(self.world)
        self.stats.crashes += 1
        self._woken_s = None

    # -- running ----------------------------------------------------------------------------------

    def step(self) -> bool:
        """Go to the next moment at which anything happens; False when nothing will."""
        if not self._heap:
            return False
        self.now_s = self._heap[0][0]
        while self._heap and self._heap[0][0] <= self.now_s:
            heappop(self._heap)[2]()
            self.stats.events += 1
        self._settle()
        return True

    def run(self, *, until_s: float | None = None, max_steps: int | None = None) -> None:
        """Step until nothing happens any more, or a time or a number of steps is reached."""
        while self._heap:
            if until_s is not None and self._heap[0][0] > until_s:
                return
            if max_steps is not None and self.stats.steps >= max_steps:
                return
            self.step()

    def _settle(self) -> None:
        for _ in range(REST_CYCLES):
            if not self.cycle():
                return
        raise Restless(f"{REST_CYCLES} cycles at {self.now_s - EPOCH_S:g} s, and still not at rest")

    def cycle(self) -> bool:
        """Decide once and commit; whether anything was written."""
        world, now_s = self.world, self.now_s
        plan = self._decide(world, self.policy, now_s)
        self.stats.steps += 1
        for observer in self._observers:
            observer.before(world, self.policy, plan, now_s)
        known = {m.uid: world.jobs[m.uid] for m in plan.job_moves if m.uid in world.jobs}
        pods = {m.uid: m.state for m in plan.pod_moves if m.state is PodState.TERMINATING}
        apply(world, plan, now_s)
        self._obey(plan, known, pods)
        for observer in self._observers:
            observer.after(world, plan, now_s)
        for move in plan.job_moves:
            if move.state in FINAL:
                self._end(known[move.uid], move.state)
        self._wake(plan)
        return not plan.is_empty()

    def _wake(self, plan: Plan) -> None:
        """Time alone makes a cycle due; a wake-up that lies in the past is due at once."""
        due_s = plan.wake_at_s
        if due_s is None or (due_s <= self.now_s and not plan.is_empty()):
            return
        if due_s <= self.now_s:
            raise Restless(f"nothing was decided, but a cycle is due at {due_s - EPOCH_S:g} s")
        if self._woken_s is None or self._woken_s <= self.now_s or due_s < self._woken_s:
            self._woken_s = due_s
            self.at(due_s, _nothing)

    def _end(self, job: JobRecord, state: JobState) -> None:
        self._known.pop(job.uid, None)
        self.stats.ended[state] = self.stats.ended.get(state, 0) + 1
        for observer in self._observers:
            observer.ended(job, state, self.now_s)

    # -- the nodes --------------------------------------------------------------------------------

    def _obey(
        self, plan: Plan, known: Mapping[JobId, JobRecord], told: Mapping[PodId, PodState]
    ) -> None:
        started: dict[JobId, list[PodRecord]] = {}
        for pod in plan.pods:
            started.setdefault(pod.job, []).append(pod)
        for pods in started.values():
            self.at(self.now_s + self._start_s, partial(self._report, pods, PodState.RUNNING))
        for move in plan.job_moves:
            if move.state is JobState.RUNNING and known[move.uid].state is JobState.BOUND:
                ends_s = self.now_s + self._known[move.uid].run_s
                self.at(ends_s, partial(self._finish, move.uid, move.attempt))
        if told:
            self._stop_later(told)

    def _stop_later(self, told: Mapping[PodId, PodState]) -> None:
        for job in sorted({j for j, pods in self.world.pods.items() if told.keys() & pods.keys()}):
            pods = [p for p in self.world.live_pods(job) if p.uid in told]
            submission = self._known.get(job)
            stop_s = submission.stop_s if submission is not None else 0.0
            self.at(self.now_s + stop_s, partial(self._report, pods, PodState.STOPPED))

    def _report(self, pods: Sequence[PodRecord], state: PodState) -> None:
        """What nodes say of pods; one that was stopped or moved since has nothing to say."""
        for pod in pods:
            now = self.world.pods.get(pod.job, {}).get(pod.uid)
            if now is None or now.attempt != pod.attempt or not now.is_live:
                continue
            if state is PodState.RUNNING and now.state is not PodState.BOUND:
                continue
            self._say(now, state)

    def _say(self, pod: PodRecord, state: PodState, exit_code: int | None = None) -> None:
        """A node's word on a pod; it waits while nobody hears it, and is lost with the node."""
        if pod.node in self.silent:
            self._unheard.setdefault(pod.node, []).append((pod, state, exit_code))
        elif pod.node not in self.lost:
            report(self.world, pod, state, exit_code)

    def _finish(self, uid: JobId, attempt: int) -> None:
        """All pods of a job exit with 0, unless it has left meanwhile."""
        job = self.world.jobs.get(uid)
        if job is None or job.attempt != attempt:
            return
        for pod in self.world.live_pods(uid):
            if pod.state is not PodState.TERMINATING:
                self._say(pod, PodState.SUCCEEDED, 0)

    def tell(self, kind: FactKind, uid: JobId) -> None:
        """What somebody wants of an unfinished job."""
        tell(self.world, kind, uid)

    def crash_pod(self, pod: PodRecord) -> None:
        """A pod exits with an error by itself."""
        self._say(pod, PodState.FAILED, 1)


def rebuilt(world: World, *, backwards: bool = False) -> World:
    """The world as a new process reads it from the records; nothing else is carried over.

    Args:
        backwards: Read them in the opposite order, for who wants to know whether it matters.
    """
    new = World(world.topology)
    new.revision = world.revision
    new.paused = world.paused
    new.set_queues(world.queues.values())
    new.set_windows(world.windows.values())
    for name in sorted(world.standing, reverse=backwards):
        new.put_node(name, world.standing[name])
    for uid in sorted(world.jobs, reverse=backwards):
        new.put_job(world.jobs[uid])
    new.put_pods(
        world.pods[job][uid]
        for job in sorted(world.pods, reverse=backwards)
        for uid in sorted(world.pods[job], reverse=backwards)
    )
    new.put_claims(world.claims[uid] for uid in sorted(world.claims, reverse=backwards))
    new.facts = list(world.facts)
    return new


def _nothing() -> None:
    """Time passes."""
