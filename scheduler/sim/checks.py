"""What the service promises, checked after every step by code of its own.

Promises by number, as far as a cycle can keep or break them: 1 no GPU twice, 2 a gang has its
minimum or nothing, 3 every job ends once and is never lost, 4 revisions only grow, 8 nothing new on
a node that is set aside, 9 no eviction for a gang but with that gang's place, 10 same input, same
plan. A gang in recovery has a limit and ends by it; what runs moves only after it has stopped.
With them: required rules hold, queues keep their limits, nobody starts on what is kept for another
beyond its time, and a decision leaves the world as it was.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from scheduler.cluster.world import World
from scheduler.errors import InvariantError
from scheduler.model.claim import LENT, Claim, ClaimWhy
from scheduler.model.ids import ClaimId, JobId, PodId
from scheduler.model.lifecycle import FINAL, JobState, PodState, Reason
from scheduler.model.plan import EvictStep, JobMove, JobRecord, Plan, PodRecord
from scheduler.model.resources import full_mask
from scheduler.policy import Policy
from scheduler.recover.lending import may_borrow
from scheduler.sim.engine import Decide, rebuilt
from scheduler.sim.rules import broken_required
from scheduler.sim.workload import Submission

HOLDING = frozenset({JobState.BOUND, JobState.RUNNING})
"""States in which a gang has its minimum."""

_RUNS = frozenset({PodState.BOUND, PodState.RUNNING, PodState.TERMINATING})

_PROMISED = frozenset({ClaimWhy.PREEMPTION, ClaimWhy.RECOVERY})
"""Claims with which a gang has its place already, and is charged for it."""

HOLDS_NOTHING = frozenset({JobState.PENDING, JobState.RESERVED, JobState.SUSPENDED})


class BrokenPromise(InvariantError):
    """A promise that did not hold.

    Attributes:
        promise: Its number in the list of promises; 0 for the checks beside it.
    """

    def __init__(self, promise: int, message: str) -> None:
        self.promise = promise
        super().__init__(f"promise {promise}: {message}" if promise else message)


@dataclass(slots=True)
class _Before:
    """What is kept of the world a plan was decided on."""

    revision: int
    claims: Mapping[ClaimId, Claim]
    pods: Mapping[PodId, PodRecord]
    is_paused: bool

    def held(self, pod: PodRecord) -> bool:
        """Whether a pod that starts had as many GPUs, in its former attempt, until this plan."""
        old = self.pods.get(pod.uid)
        return old is not None and old.is_live

    def promised(self) -> set[JobId]:
        """Gangs that were given their place when the eviction of others was decided."""
        claims = self.claims.values()
        return {c.job for c in claims if c.job is not None and c.why in _PROMISED}


class Checks:
    """An observer of a simulation that raises on the first broken promise.

    Args:
        replay_every: Cycles after which one is decided a second time on a copy; 0 = never.
        stops: Who moves has to have stopped first; peers move pods in one go.

    Attributes:
        replays: Cycles that were decided a second time on a copy.
    """

    def __init__(self, decide: Decide, *, replay_every: int = 20, stops: bool = True) -> None:
        self._decide = decide
        self._stops = stops
        self._replay_every = replay_every
        self._submitted: set[JobId] = set()
        self._ended: dict[JobId, JobState] = {}
        self._before: _Before | None = None
        self._cycles = 0
        self.replays = 0

    # -- what the engine tells --------------------------------------------------------------------

    def submitted(self, job: JobRecord, submission: Submission, now_s: float) -> None:
        self._submitted.add(job.uid)

    def before(self, world: World, policy: Policy, plan: Plan, now_s: float) -> None:
        self._cycles += 1
        self._untouched(world)
        if self._replay_every and self._cycles % self._replay_every == 0:
            self._replay(world, policy, plan, now_s)
        _evictions_give_a_place(world, plan)
        known = {pod.job: world.pods.get(pod.job, {}) for pod in plan.pods}
        pods = {p.uid: known[p.job][p.uid] for p in plan.pods if p.uid in known[p.job]}
        self._before = _Before(world.revision, dict(world.claims), pods, policy.paused)

    def after(self, world: World, plan: Plan, now_s: float) -> None:
        before = self._before
        if before is None:
            return
        if world.revision < before.revision or (
            (plan.job_moves or plan.pods) and world.revision == before.revision
        ):
            raise BrokenPromise(4, f"revision {world.revision} after {before.revision}")
        self._all_there(world, plan)
        _no_gpu_twice(world)
        _whole_or_nothing(world)
        if not before.is_paused and not world.paused:
            _recovery_ends(world, now_s)
        _claims_hold(world)
        bound = {pod.job for pod in plan.pods}
        _rules_hold(world, sorted(bound | _moved_to_run(world, plan)))
        if bound:
            if self._stops:
                _restarts(world, plan, before.pods)
            _new_pods(world, plan, before, now_s)
            # Who was promised a place under an older limit gets it.
            # Who starts anew takes no more than it held.
            more = {p.job for p in plan.pods if not before.held(p)}
            _limits_hold(world, (bound & more) - before.promised())

    def ended(self, job: JobRecord, state: JobState, now_s: float) -> None:
        if job.uid in self._ended:
            raise BrokenPromise(3, f"job '{job.uid}' was {self._ended[job.uid]}, now {state}")
        if state not in FINAL:
            raise BrokenPromise(3, f"job '{job.uid}' ended as {state}")
        self._ended[job.uid] = state

    def finished(self, world: World) -> None:
        """Nothing will happen any more: every job has ended or is still known."""
        self._lost(world, ())

    # -- promises ---------------------------------------------------------------------------------

    def _untouched(self, world: World) -> None:
        """A decision is made on a trial: what is free must be what live pods and claims leave."""
        expected = _free_by_pods(world)
        for node, free in enumerate(world.table.free):
            if free != expected[node]:
                name = world.topology.nodes[node].name
                raise BrokenPromise(0, f"node '{name}' has {free:b} free, its pods say otherwise")

    def _replay(self, world: World, policy: Policy, plan: Plan, now_s: float) -> None:
        """Decide again on a copy that was put together in another order."""
        copy = rebuilt(world, backwards=True)
        copy.map_changed = world.map_changed
        again = self._decide(copy, policy, now_s)
        self.replays += 1
        if _sorted(again) != _sorted(plan):
            raise BrokenPromise(10, f"decided otherwise on a copy: {_difference(plan, again)}")

    def _all_there(self, world: World, plan: Plan) -> None:
        ends = {move.uid for move in plan.job_moves if move.state in FINAL}
        for uid in sorted(ends & self._ended.keys()):
            raise BrokenPromise(3, f"job '{uid}' ends a second time")
        self._lost(world, ends)

    def _lost(self, world: World, ending: Iterable[JobId]) -> None:
        known = world.jobs.keys() | self._ended.keys() | set(ending)
        for uid in sorted(self._submitted - known):
            raise BrokenPromise(3, f"job '{uid}' was acknowledged and is lost")
        for uid in sorted(world.jobs.keys() & self._ended.keys()):
            raise BrokenPromise(3, f"job '{uid}' had {self._ended[uid]} and is there again")
        for uid in sorted(world.jobs.keys() - self._submitted):
            raise BrokenPromise(3, f"job '{uid}' was never submitted")


def _live(world: World) -> Iterator[PodRecord]:
    for pods in world.pods.values():
        yield from (pod for pod in pods.values() if pod.is_live)


def _free_by_pods(world: World) -> list[int]:
    topology = world.topology
    free = [full_mask(kind.gpus) for kind in topology.types]
    for pod in _live(world):
        free[topology.node_index[pod.node]] &= ~pod.gpu_mask
    for claim in world.claims.values():
        if claim.node in topology.node_index:
            free[topology.node_index[claim.node]] &= ~claim.gpu_mask
    return free


def _no_gpu_twice(world: World) -> None:
    held: dict[str, int] = {}
    for pod in _live(world):
        if held.get(pod.node, 0) & pod.gpu_mask:
            raise BrokenPromise(1, f"pod '{pod.uid}' has GPUs of another on node '{pod.node}'")
        held[pod.node] = held.get(pod.node, 0) | pod.gpu_mask
        gpus = world.topology.types[world.topology.node_index[pod.node]].gpus
        if pod.gpu_mask & ~full_mask(gpus):
            raise BrokenPromise(1, f"pod '{pod.uid}' has GPUs that '{pod.node}' has not")


def _whole_or_nothing(world: World) -> None:
    for job in world.jobs.values():
        if job.state in HOLDS_NOTHING:
            if any(pod.is_live for pod in world.pods.get(job.uid, {}).values()):
                raise BrokenPromise(2, f"job '{job.uid}' is {job.state} and has live pods")
        elif job.state in HOLDING:
            lack = _lacks(job, world)
            if lack:
                raise BrokenPromise(2, f"job '{job.uid}' is {job.state} and {lack}")


def _recovery_ends(world: World, now_s: float) -> None:
    """A gang in recovery has a limit, unless the breaker holds it, and is not so beyond it."""
    for uid in sorted(world.recovering):
        job = world.jobs[uid]
        if job.reason is Reason.BREAKER:
            continue
        if job.hold_until_s is None:
            raise BrokenPromise(2, f"job '{uid}' is recovering without a limit")
        keeps = any(c.why is ClaimWhy.RECOVERY for c in world.claims_of(uid))
        if job.hold_until_s < now_s and not keeps:
            raise BrokenPromise(2, f"job '{uid}' is recovering beyond its limit")


def _restarts(world: World, plan: Plan, before: Mapping[PodId, PodRecord]) -> None:
    """Who starts anew elsewhere had stopped, or its node is gone."""
    for pod in plan.pods:
        old = before.get(pod.uid)
        if old is None or old.node in world.gone or old.state not in _RUNS:
            continue
        reported = any(m.uid == pod.uid for m in plan.pod_moves)
        if (old.node, old.gpu_mask) != (pod.node, pod.gpu_mask) and not reported:
            if plan.facts_done:
                continue  # It may have ended in this very cycle.
            raise BrokenPromise(8, f"pod '{pod.uid}' moves from '{old.node}', where it still runs")


def _lacks(job: JobRecord, world: World) -> str:
    pods = [
        p
        for p in world.pods.get(job.uid, {}).values()
        if p.state in {PodState.BOUND, PodState.RUNNING, PodState.SUCCEEDED}
    ]
    if job.spec.parallelism is not None:
        ranks = {p.first_rank + k for p in pods for k in range(p.gpu_mask.bit_count())}
        wanted = job.spec.parallelism.world
        return "" if ranks == set(range(wanted)) else f"has {len(ranks)} of {wanted} ranks"
    for role in job.spec.roles:
        indices = {p.index for p in pods if p.role == role.name}
        if len(indices) < role.min:
            return f"has {len(indices)} of at least {role.min} members of role '{role.name}'"
        if role.parts is not None:
            size = role.parts.size
            whole = sum(
                indices.issuperset(range(k * size, (k + 1) * size)) for k in range(role.parts.count)
            )
            if whole < role.parts.min:
                return f"has {whole} of at least {role.parts.min} parts of role '{role.name}'"
    return ""


def _claims_hold(world: World) -> None:
    taken: dict[str, int] = {}
    of_job: dict[JobId, set[ClaimWhy]] = {}
    for claim in world.claims.values():
        if taken.get(claim.node, 0) & claim.gpu_mask:
            raise BrokenPromise(1, f"claim '{claim.uid}' has GPUs of another claim")
        taken[claim.node] = taken.get(claim.node, 0) | claim.gpu_mask
        if claim.job is None:
            continue
        if claim.job not in world.jobs:
            raise BrokenPromise(9, f"claim '{claim.uid}' is of a job that has ended")
        of_job.setdefault(claim.job, set()).add(claim.why)
    for job in world.jobs.values():
        why = of_job.get(job.uid, set())
        if job.state is JobState.RESERVED and not why:
            raise BrokenPromise(9, f"job '{job.uid}' is reserved and has no claim")
        waits = {ClaimWhy.RESERVATION, ClaimWhy.PREEMPTION} & why
        if waits and job.state is not JobState.RESERVED:
            raise BrokenPromise(9, f"job '{job.uid}' is {job.state} and keeps a claim")
        evict = job.evict
        if evict is None or evict.step is not EvictStep.ASKED or evict.for_job is None:
            continue
        if evict.asked_s is not None:
            continue
        if evict.for_job not in world.jobs:
            raise BrokenPromise(9, f"job '{job.uid}' is still asked to leave for nobody")


def _evictions_give_a_place(world: World, plan: Plan) -> None:
    """Who is evicted for a gang is so in the plan with that gang's claims or pods, on its GPUs."""
    places: dict[JobId, dict[str, int]] = {}
    given: list[Claim | PodRecord] = [*plan.claims, *plan.pods]
    for place in given:
        if place.job is not None:
            of_job = places.setdefault(place.job, {})
            of_job[place.node] = of_job.get(place.node, 0) | place.gpu_mask
    moves = {move.uid: move for move in plan.job_moves}
    told = {m.uid for m in plan.pod_moves if m.state is PodState.TERMINATING}
    for uid, job in sorted(world.jobs.items()):
        move = moves.get(uid)
        evict = job.evict if move is None else move.evict
        pods = [p for p in world.live_pods(uid) if p.uid in told] if told else []
        if evict is not None and evict.for_job is not None and job.evict is None:
            claimant = places.get(evict.for_job)
            if claimant is None:
                raise BrokenPromise(
                    9, f"'{uid}' is evicted for '{evict.for_job}', which gets no place"
                )
            # What is kept for a gang in recovery is given as well as what its pods hold.
            gone: list[Claim | PodRecord] = [*(pods or world.live_pods(uid))]
            gone += [claim for claim in world.claims.values() if claim.job == uid]
            gives_gpus = any(_gives(one, claimant) for one in gone)
            if not gives_gpus and not _under_one_limit(world, uid, evict.for_job):
                raise BrokenPromise(9, f"'{uid}' is evicted, but '{evict.for_job}' goes elsewhere")
        elif pods and evict is None:
            for pod in pods:
                if not _leaves_for_itself(world, plan, pod, move) and not any(
                    _gives(pod, of_job) for of_job in places.values()
                ):
                    raise BrokenPromise(9, f"pod '{pod.uid}' is told to stop and nobody gets it")


def _leaves_for_itself(world: World, plan: Plan, pod: PodRecord, move: JobMove | None) -> bool:
    """Whether it stops for no other gang: its own lost members, or somebody drains its node."""
    if move is not None and move.state in {JobState.RECOVERING, JobState.EVICTING}:
        return True
    mine = world.pods.get(pod.job, {}).values()
    told = {m.uid for m in plan.pod_moves if m.state is PodState.TERMINATING}
    if any(p.uid in told and p.node in world.draining for p in mine):
        # The rest of a part stops with the member that a drain takes from it.
        return True
    if any(m.state not in _RUNS for m in plan.pod_moves if m.uid in world.pods.get(pod.job, {})):
        return True
    return pod.node in world.draining or any(p.state not in _RUNS for p in mine)


def _under_one_limit(world: World, first: JobId, second: JobId) -> bool:
    """Whether a queue with a limit is above both: who leaves gives the other its part of it."""
    chains = [world.accounts.chains.get(world.jobs[j].spec.queue, ()) for j in (first, second)]
    both = (world.queues[name] for name in chains[0] if name in chains[1])
    return any(q.limit_gpus is not None or q.limit_by_model for q in both)


def _gives(pod: PodRecord | Claim, place: Mapping[str, int]) -> bool:
    """Whether what a pod holds can be of use to a place: its GPUs, or its node's CPU and memory."""
    if pod.gpu_mask and place.get(pod.node, 0) & pod.gpu_mask:
        return True
    return pod.node in place and not pod.resources.is_zero()


def _new_pods(world: World, plan: Plan, before: _Before, now_s: float) -> None:
    """Nothing new on nodes set aside, nor on what was and is kept for others beyond its time.

    A member may start anew where it is on a node that takes no others, as long as it is there.
    """
    by_node: dict[str, list[Claim]] = {}
    for uid, claim in world.claims.items():
        # A claim that is new waits for the new pod, if it shares GPUs with it.
        if uid in before.claims and before.claims[uid].node == claim.node:
            by_node.setdefault(claim.node, []).append(claim)
    for pod in plan.pods:
        node = world.topology.node_index[pod.node]
        old = before.pods.get(pod.uid)
        is_there = old is not None and (old.node, old.gpu_mask) == (pod.node, pod.gpu_mask)
        is_gone = pod.node in world.gone
        if world.table.aside[node] is not None and (is_gone or not is_there):
            raise BrokenPromise(
                8, f"pod '{pod.uid}' is new on '{pod.node}', which is {world.table.aside[node]}"
            )
        for claim in () if is_there else by_node.get(pod.node, ()):
            if not claim.gpu_mask & pod.gpu_mask or _goes_before(world, pod.job, claim):
                continue
            spec = world.jobs[pod.job].spec
            if claim.why in LENT and may_borrow(spec):
                # Lent, until the gang that it is kept for needs it.
                continue
            duration_s = spec.duration_s
            if duration_s is None or now_s + duration_s > claim.starts_s + 1e-6:
                raise BrokenPromise(
                    9, f"pod '{pod.uid}' is new on GPUs kept by '{claim.uid}' beyond its start"
                )


def _goes_before(world: World, job: JobId, claim: Claim) -> bool:
    """A reservation binds those behind its gang; who was ahead under fair share is not known here.

    So of equal priority any may have been; of lower priority none.
    """
    if claim.why is not ClaimWhy.RESERVATION or claim.job is None:
        return False
    return world.jobs[job].spec.priority >= world.jobs[claim.job].spec.priority


def _moved_to_run(world: World, plan: Plan) -> set[JobId]:
    """Gangs members of which run from now on: they started, or were lost and are found again."""
    run = {move.uid for move in plan.pod_moves if move.state is PodState.RUNNING}
    return {job for job, pods in world.pods.items() if not run.isdisjoint(pods)} if run else set()


def _rules_hold(world: World, jobs: Iterable[JobId]) -> None:
    for uid in jobs:
        job = world.jobs[uid]
        if job.state not in HOLDING:
            continue
        # Lost ones are members again only if they are found where the rules let them be.
        there = [pod for pod in world.live_pods(uid) if pod.state is not PodState.LOST]
        for rule in broken_required(job.spec, there, world.topology):
            raise BrokenPromise(
                0, f"job '{uid}' was placed, but '{rule.group}' is not within '{rule.within}'"
            )


def _limits_hold(world: World, jobs: Iterable[JobId]) -> None:
    used = _use_by_queue(world)
    for uid in sorted(jobs):
        name: str | None = world.jobs[uid].spec.queue
        while name is not None and name in world.queues:
            queue, use = world.queues[name], used.get(name, {})
            total = sum(use.values())
            if queue.limit_gpus is not None and total > queue.limit_gpus:
                raise BrokenPromise(
                    0, f"queue '{name}' uses {total} GPUs; its limit is {queue.limit_gpus}"
                )
            for model, limit in queue.limit_by_model.items():
                if use.get(model, 0) > limit:
                    raise BrokenPromise(
                        0, f"queue '{name}' uses {use[model]} of '{model}'; its limit is {limit}"
                    )
            name = queue.parent


def _use_by_queue(world: World) -> dict[str, dict[str, int]]:
    """GPUs by model that live pods hold, in their queue and all above it."""
    used: dict[str, dict[str, int]] = {}
    for uid, pods in world.pods.items():
        for pod in pods.values():
            if not pod.is_live:
                continue
            model = world.topology.types[world.topology.node_index[pod.node]].gpu
            name: str | None = world.jobs[uid].spec.queue
            while name is not None and name in world.queues:
                by_model = used.setdefault(name, {})
                by_model[model] = by_model.get(model, 0) + pod.gpu_mask.bit_count()
                name = world.queues[name].parent
    return used


def _sorted(plan: Plan) -> Plan:
    return replace(
        plan,
        facts_done=tuple(sorted(plan.facts_done)),
        job_moves=tuple(sorted(plan.job_moves, key=lambda m: m.uid)),
        pods=tuple(sorted(plan.pods, key=lambda p: p.uid)),
        pod_moves=tuple(sorted(plan.pod_moves, key=lambda m: m.uid)),
        claims=tuple(sorted(plan.claims, key=lambda c: c.uid)),
        claims_gone=tuple(sorted(plan.claims_gone)),
    )


def _difference(first: Plan, second: Plan) -> str:
    """The first thing in which two plans differ."""
    one, two = _sorted(first), _sorted(second)
    for name in ("facts_done", "job_moves", "pods", "pod_moves", "claims", "claims_gone"):
        ours, theirs = getattr(one, name), getattr(two, name)
        if ours != theirs:
            for a, b in zip(ours, theirs, strict=False):
                if a != b:
                    return f"{name}: {a} / {b}"
            return f"{name}: {len(ours)} / {len(theirs)}"
    return f"wake_at_s: {one.wake_at_s} / {two.wake_at_s}"
