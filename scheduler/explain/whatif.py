"""What would happen if: changes to a copy of the world, and the real cycle until it settles."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from scheduler.cluster.world import World
from scheduler.explain.twin import twin
from scheduler.model.ids import JobId, NodeId, PodId
from scheduler.model.job import JobSpec
from scheduler.model.lifecycle import JobState, PodState
from scheduler.model.plan import EvictStep, Fact, FactKind, JobRecord, Plan, PodRecord, moved_job
from scheduler.model.queue import QueueRecord
from scheduler.topology.tree import Topology

CYCLES_MAX = 12
"""Cycles after which an answer is given though the world has not come to rest."""

Decide = Callable[[World, float], Plan]
"""One cycle of the real engine: a world and Unix seconds to a plan, the world left as it was."""


@dataclass(frozen=True, slots=True)
class Supposed:
    """What is supposed to be otherwise; every name in it is known to the world.

    Attributes:
        jobs: Submitted now, in this order.
        aside: Node -> why it takes no new pods; None = it does.
        emptied: Nodes whose pods stop: drained, lost or removed ones.
        finished: Jobs all of whose pods end well.
        cancelled: Jobs that are cancelled.
        priorities: Job -> its new priority.
        queues: All queues, if they change; else None.
        topology: The map, if it changes; else None.
    """

    jobs: tuple[JobSpec, ...] = ()
    aside: Mapping[NodeId, str | None] = field(default_factory=dict)
    emptied: frozenset[NodeId] = frozenset()
    finished: tuple[JobId, ...] = ()
    cancelled: tuple[JobId, ...] = ()
    priorities: Mapping[JobId, int] = field(default_factory=dict)
    queues: tuple[QueueRecord, ...] | None = None
    topology: Topology | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What becomes of one job.

    Attributes:
        before: None of a job that is submitted now.
        after: None of a job that has ended.
        pods: Live ones afterwards, by role and index.
        had: Live pods before.
    """

    before: JobRecord | None
    after: JobRecord | None
    pods: tuple[PodRecord, ...] = ()
    had: tuple[PodRecord, ...] = ()

    @property
    def effect(self) -> str:
        """`ended started stopped recovering moved resized evicting waits`, or "" for nothing."""
        if self.after is None:
            return "ended"
        if self.before is None or not self.had:
            if self.pods:
                return "started"
            return "waits" if self.before is None or self.before != self.after else ""
        if self.after.evict is not None and self.before.evict is None:
            return "evicting"
        if not self.pods:
            return "stopped"
        if self.after.state is JobState.RECOVERING:
            return "" if self.before.state is JobState.RECOVERING else "recovering"
        is_new = self.after.attempt != self.before.attempt
        if {(p.uid, p.node) for p in self.pods} == {(p.uid, p.node) for p in self.had}:
            return "moved" if is_new else ""
        if is_new or {p.uid for p in self.pods} == {p.uid for p in self.had}:
            return "moved"
        return "resized"


@dataclass(frozen=True, slots=True)
class Gpus:
    """GPUs of a cluster: all, those that pods hold, those free on nodes that take new pods."""

    total: int
    used: int
    free: int


@dataclass(frozen=True, slots=True)
class Standing:
    """How things stood: a world's jobs and live pods, kept though the world goes on."""

    revision: int
    jobs: Mapping[JobId, JobRecord]
    pods: Mapping[JobId, Mapping[PodId, PodRecord]]
    gpus: Gpus


@dataclass(frozen=True, slots=True)
class Consequences:
    """What would happen.

    Attributes:
        world: As it would be then.
        jobs: Those submitted, in order.
        others: Every other job that is affected, by age.
        cycles: How many it took.
        settled: False when it went on changing.
    """

    world: World
    jobs: tuple[Outcome, ...]
    others: tuple[Outcome, ...]
    cycles: int
    settled: bool


def standing(world: World) -> Standing:
    """How things stand; cheap, as records never change."""
    pods = {uid: dict(mine) for uid, mine in world.pods.items()}
    return Standing(world.revision, dict(world.jobs), pods, gpus_of(world))


def gpus_of(world: World) -> Gpus:
    """GPUs in use and free; what a claim keeps of GPUs nobody holds is neither."""
    table, types = world.table, world.topology.types
    total = sum(kind.gpus for kind in types)
    free_or_kept = sum(mask.bit_count() for mask in table.free)
    free_or_kept += sum(mask.bit_count() for mask in table.vacant.values())
    free = sum(
        mask.bit_count()
        for mask, aside in zip(table.free, table.aside, strict=True)
        if aside is None
    )
    return Gpus(total, total - free_or_kept, free)


def suppose(world: World, supposed: Supposed, now_s: float) -> World:
    """A copy of the world in which things are otherwise; the world itself is left alone."""
    other = twin(world, supposed.topology)
    if supposed.queues is not None:
        other.set_queues(supposed.queues)
    for name, reason in supposed.aside.items():
        other.set_node(name, aside=reason)
    for uid, priority in supposed.priorities.items():
        job = other.jobs[uid]
        other.put_job(replace(job, spec=replace(job.spec, priority=priority)))
    for uid in supposed.cancelled:
        _tell(other, FactKind.CANCEL, uid)
    for uid in supposed.finished:
        for pod in other.live_pods(uid):
            _report(other, pod, PodState.SUCCEEDED, 0)
    if supposed.emptied:
        for mine in list(other.pods.values()):
            for pod in mine.values():
                if pod.is_live and pod.node in supposed.emptied:
                    _report(other, pod, PodState.STOPPED)
    for number, spec in enumerate(supposed.jobs):
        other.revision += 1
        job = JobRecord(new_job(number), spec, JobState.PENDING, other.revision)
        other.put_job(replace(job, submitted_s=now_s))
    return other


def new_job(number: int) -> JobId:
    """The uid of the job submitted as `number`, counted from 0; no real uid has its form."""
    return JobId(f"whatif/{number}")


def play(before: Standing, other: World, jobs: int, decide: Decide, now_s: float) -> Consequences:
    """Let the engine decide on a copy of the world until it comes to rest, or long enough.

    Pods that are told to stop have stopped by the next cycle; time stands still.

    Args:
        before: How things stood before the copy was changed.
        jobs: How many were submitted to the copy.
    """
    cycles, settled = 0, False
    while cycles < CYCLES_MAX and not settled:
        cycles += 1
        plan = decide(other, now_s)
        moved = apply(other, plan, now_s)
        settled = not moved
    mine = [new_job(number) for number in range(jobs)]
    return Consequences(
        other,
        tuple(_outcome(before, other, uid) for uid in mine),
        tuple(_affected(before, other, frozenset(mine))),
        cycles,
        settled,
    )


def _affected(before: Standing, other: World, but: frozenset[JobId]) -> Iterator[Outcome]:
    uids = [uid for uid, job in before.jobs.items() if other.jobs.get(uid) is not job]
    uids += [
        uid
        for uid, mine in before.pods.items()
        if other.jobs.get(uid) is before.jobs.get(uid) and other.pods.get(uid, {}) != mine
    ]
    for uid in sorted(uids, key=lambda uid: (before.jobs[uid].age, uid)):
        found = _outcome(before, other, uid)
        if uid not in but and found.effect not in {"", "waits"}:
            yield found


def _outcome(before: Standing, other: World, uid: JobId) -> Outcome:
    had = [pod for pod in before.pods.get(uid, {}).values() if pod.is_live]
    return Outcome(
        before.jobs.get(uid),
        other.jobs.get(uid),
        tuple(other.live_pods(uid)),
        tuple(sorted(had, key=lambda p: (p.role, p.index))),
    )


def apply(world: World, plan: Plan, now_s: float) -> bool:
    """Do to a world what a plan says, as the store would; pods that are to stop then have stopped.

    Gangs that are asked to save first do so at once.

    Returns:
        Whether the next cycle may decide anything else: pods are on their way out, or claims have
        changed. All that became free or was taken before, this cycle has taken account of.
    """
    before = _pods_of(world, plan)
    world.put_claims((), plan.claims_gone)
    again = {pod.uid for pod in plan.pods}
    left = [
        replace(before[move.uid], state=move.state, exit_code=move.exit_code)
        for move in plan.pod_moves
        if move.uid not in again
    ]
    world.put_pods([*left, *plan.pods])
    for move in plan.job_moves:
        world.put_job(moved_job(world.jobs[move.uid], move, now_s))
    world.put_claims(plan.claims)
    done = set(plan.facts_done)
    world.facts = [fact for fact in world.facts if fact.id not in done]
    world.map_changed = False
    world.revision += 1
    for pod in left:
        if pod.state is PodState.TERMINATING:
            _report(world, pod, PodState.STOPPED)
    for move in plan.job_moves:
        if move.evict is not None and move.evict.step is EvictStep.ASKED:
            _save(world, move.uid, move.evict.request_id)
    return bool(world.facts or plan.claims or plan.claims_gone)


def _pods_of(world: World, plan: Plan) -> dict[PodId, PodRecord]:
    """The pods that a plan moves, as they are."""
    wanted = {move.uid for move in plan.pod_moves}
    found: dict[PodId, PodRecord] = {}
    if wanted:
        for mine in world.pods.values():
            found |= {uid: mine[uid] for uid in mine.keys() & wanted}
    return found


def _tell(world: World, kind: FactKind, job: JobId) -> None:
    world.revision += 1
    world.facts.append(Fact(_next_fact(world.facts), world.revision, kind, job))


def _save(world: World, job: JobId, request_id: str) -> None:
    world.revision += 1
    number = _next_fact(world.facts)
    world.facts.append(
        Fact(number, world.revision, FactKind.CHECKPOINT, job, request_id=request_id)
    )


def _report(world: World, pod: PodRecord, state: PodState, exit_code: int | None = None) -> None:
    world.revision += 1
    number = _next_fact(world.facts)
    world.facts.append(
        Fact(
            number,
            world.revision,
            FactKind.REPORT,
            pod.job,
            pod.uid,
            pod.attempt,
            state,
            exit_code,
        )
    )


def _next_fact(facts: Sequence[Fact]) -> int:
    return facts[-1].id + 1 if facts else 1
