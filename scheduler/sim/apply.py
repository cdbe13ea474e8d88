"""The store in memory, with its checks: takes facts, and of a plan all or nothing."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from scheduler.cluster.world import World
from scheduler.errors import Problem, SchedulerError, StateError
from scheduler.model.claim import LENT, MAKING_ROOM, Claim
from scheduler.model.ids import ClaimId, JobId, NodeId, PodId
from scheduler.model.job import JobSpec
from scheduler.model.lifecycle import (
    FINAL,
    LIVE_POD,
    POD_MOVES,
    JobState,
    PodState,
    check_job_move,
    check_pod_move,
)
from scheduler.model.plan import (
    Fact,
    FactKind,
    JobMove,
    JobRecord,
    Plan,
    PodMove,
    PodRecord,
    moved_job,
)
from scheduler.model.resources import Resources, full_mask
from scheduler.recover.lending import may_borrow


class PlanRefused(SchedulerError):
    """A plan that the store's schema would not take; nothing of it was applied."""


def submit(world: World, spec: JobSpec, uid: JobId, now_s: float) -> JobRecord:
    """A job that was acknowledged; its age is the revision of its submission."""
    world.revision += 1
    job = JobRecord(uid, spec, JobState.PENDING, world.revision, submitted_s=now_s)
    world.put_job(job)
    return job


def tell(world: World, kind: FactKind, job: JobId) -> Fact:
    """What a caller wants of a job, to be taken account of by the next cycle."""
    return _note(world, kind, job)


def report(world: World, pod: PodRecord, state: PodState, exit_code: int | None = None) -> Fact:
    """A node's word on one pod, to be taken account of by the next cycle."""
    world.revision += 1
    fact = Fact(
        world.revision,
        world.revision,
        FactKind.REPORT,
        pod.job,
        pod.uid,
        pod.attempt,
        state,
        exit_code,
    )
    world.facts.append(fact)
    return fact


def _note(world: World, kind: FactKind, job: JobId) -> Fact:
    world.revision += 1
    fact = Fact(world.revision, world.revision, kind, job)
    world.facts.append(fact)
    return fact


def apply(world: World, plan: Plan, now_s: float = 0.0) -> None:
    """Take over a plan.

    Args:
        now_s: Unix seconds of the commit: when gangs were bound, started and ended.

    Raises:
        PlanRefused: With every reason the schema has against it; the world is as it was.
    """
    before = _pods_of(world, plan)
    problems = list(_problems(world, plan, before))
    if problems:
        raise PlanRefused(problems)
    world.put_claims((), plan.claims_gone)
    moved = [
        replace(before[move.uid], state=move.state, exit_code=move.exit_code)
        for move in plan.pod_moves
    ]
    again = {pod.uid for pod in plan.pods}
    world.put_pods([*(pod for pod in moved if pod.uid not in again), *plan.pods])
    for move in plan.job_moves:
        world.put_job(moved_job(world.jobs[move.uid], move, now_s))
    world.put_claims(plan.claims)
    done = set(plan.facts_done)
    world.facts = [fact for fact in world.facts if fact.id not in done]
    world.map_changed = False
    world.revision += len({move.uid for move in plan.job_moves} | {pod.job for pod in plan.pods})


# -- what the schema checks -----------------------------------------------------------------------


def _pods_of(world: World, plan: Plan) -> dict[PodId, PodRecord]:
    """The pods that the plan moves or starts anew, as they are."""
    wanted = {move.uid for move in plan.pod_moves} | {pod.uid for pod in plan.pods}
    likely = {move.uid for move in plan.job_moves} | {pod.job for pod in plan.pods}
    likely |= {fact.job for fact in world.facts}
    found: dict[PodId, PodRecord] = {}
    for job in likely:
        mine = world.pods.get(job, {})
        found |= {uid: mine[uid] for uid in mine.keys() & wanted}
    missing = wanted - found.keys() - {pod.uid for pod in plan.pods}
    if missing:
        for mine in world.pods.values():
            found |= {uid: mine[uid] for uid in mine.keys() & missing}
    return found


def _problems(world: World, plan: Plan, before: dict[PodId, PodRecord]) -> Iterator[Problem]:
    open_facts = {fact.id for fact in world.facts}
    for id_ in plan.facts_done:
        if id_ not in open_facts:
            yield Problem("facts_done", f"fact {id_} is not open")
    yield from _job_problems(world, plan.job_moves)
    yield from _pod_problems(world, plan, before)
    yield from _usage_problems(world, plan, before)
    yield from _claim_problems(world, plan.claims, plan.claims_gone)
    yield from _kept_for_others(world, plan)


def _job_problems(world: World, moves: Iterable[JobMove]) -> Iterator[Problem]:
    seen: set[JobId] = set()
    for move in moves:
        job = world.jobs.get(move.uid)
        if job is None:
            yield Problem("job_moves", f"job '{move.uid}' has ended or never was")
            continue
        if move.uid in seen:
            yield Problem("job_moves", f"job '{move.uid}' moves twice")
        seen.add(move.uid)
        if move.attempt < job.attempt:
            yield Problem("job_moves", f"job '{move.uid}' goes back to attempt {move.attempt}")
        if move.state is not job.state:
            try:
                check_job_move(job.spec.name, job.state, move.state)
            except StateError as error:
                yield from error.problems


def _pod_problems(world: World, plan: Plan, before: dict[PodId, PodRecord]) -> Iterator[Problem]:
    states = {move.uid: move.state for move in plan.job_moves}
    for move in plan.pod_moves:
        yield from _pod_move_problems(before.get(move.uid), move)
    seen: set[PodId] = set()
    moved = {move.uid: move.state for move in plan.pod_moves}
    for pod in plan.pods:
        job, old = world.jobs.get(pod.job), before.get(pod.uid)
        if job is None or states.get(pod.job, job.state) in FINAL:
            yield Problem("pods", f"pod '{pod.uid}' is of a job that has ended or never was")
        if pod.uid in seen:
            yield Problem("pods", f"pod '{pod.uid}' is bound twice")
        seen.add(pod.uid)
        if pod.state is not PodState.BOUND:
            yield Problem("pods", f"pod '{pod.uid}' is new and {pod.state}")
        if old is None:
            continue
        left = moved.get(pod.uid, PodState.STOPPED if old.is_live else old.state)
        if PodState.BOUND not in POD_MOVES[left]:
            yield Problem("pods", f"pod '{pod.uid}' is {left} and cannot start anew")
        if pod.attempt != old.attempt + 1:
            yield Problem("pods", f"pod '{pod.uid}' starts attempt {pod.attempt}")


def _pod_move_problems(old: PodRecord | None, move: PodMove) -> Iterator[Problem]:
    if old is None:
        yield Problem("pod_moves", f"pod '{move.uid}' never was")
    elif old.state is not move.state:
        try:
            check_pod_move(old.name, old.state, move.state)
        except StateError as error:
            yield from error.problems


def _usage_problems(world: World, plan: Plan, before: dict[PodId, PodRecord]) -> Iterator[Problem]:
    """What the ledger of nodes refuses: what leaves does so before anything arrives."""
    table, topology = world.table, world.topology
    again = {pod.uid for pod in plan.pods}
    left = {move.uid: move.state for move in plan.pod_moves}
    free: dict[int, int] = {}
    amounts: dict[int, list[int]] = {}

    def touch(node: int) -> None:
        if node not in free:
            free[node] = table.free[node] | table.vacant.get(node, 0)
            amounts[node] = [table.cpu_milli[node], table.memory_mib[node]]

    for uid, pod in before.items():
        stays = left.get(uid, pod.state) in LIVE_POD and uid not in again
        if pod.is_live and not stays and pod.node in topology.node_index:
            node = topology.node_index[pod.node]
            touch(node)
            free[node] |= pod.gpu_mask
            _add(amounts[node], pod.resources, 1)
    for pod in plan.pods:
        found = topology.node_index.get(pod.node)
        if found is None:
            yield Problem("pods", f"pod '{pod.uid}' is on node '{pod.node}', which is not there")
            continue
        touch(found)
        if pod.gpu_mask & ~full_mask(topology.types[found].gpus):
            yield Problem("pods", f"pod '{pod.uid}' has GPUs that node '{pod.node}' has not")
        elif pod.gpu_mask & ~free[found]:
            yield Problem("pods", f"pod '{pod.uid}' has GPUs of node '{pod.node}' that are in use")
        free[found] &= ~pod.gpu_mask
        _add(amounts[found], pod.resources, -1)
    kept = _kept_by_claims(world)
    for node, (cpu, memory) in sorted(amounts.items()):
        more = kept.get(node, (0, 0))
        capacity = topology.types[node].capacity
        if (capacity.cpu_milli and cpu + more[0] < 0) or (
            capacity.memory_mib and memory + more[1] < 0
        ):
            yield Problem("pods", f"node '{topology.nodes[node].name}' has not so much CPU, memory")


def _kept_by_claims(world: World) -> dict[int, tuple[int, int]]:
    """CPU and memory that the table counts as used for claims; pods alone are held to the node."""
    kept: dict[int, tuple[int, int]] = {}
    for claim in world.claims.values():
        node = _index(world, claim)
        if node is not None and not claim.resources.is_zero():
            cpu, memory = kept.get(node, (0, 0))
            kept[node] = (cpu + claim.resources.cpu_milli, memory + claim.resources.memory_mib)
    return kept


def _add(amounts: list[int], resources: Resources, sign: int) -> None:
    amounts[0] += sign * resources.cpu_milli
    amounts[1] += sign * resources.memory_mib


def _index(world: World, claim: Claim) -> int | None:
    return world.topology.node_index.get(claim.node)


def _claim_problems(
    world: World, new: Iterable[Claim], gone: Iterable[ClaimId]
) -> Iterator[Problem]:
    arrived = {claim.uid: claim for claim in new}
    if not arrived:
        return
    ended = set(gone)
    taken: dict[str, int] = {}
    for uid, claim in world.claims.items():
        if uid not in ended and uid not in arrived:
            taken[claim.node] = taken.get(claim.node, 0) | claim.gpu_mask
    for claim in arrived.values():
        node = _index(world, claim)
        if node is None:
            yield Problem("claims", f"claim '{claim.uid}' is on node '{claim.node}', not there")
        elif claim.gpu_mask & ~full_mask(world.topology.types[node].gpus):
            yield Problem("claims", f"claim '{claim.uid}' has GPUs that '{claim.node}' has not")
        if taken.get(claim.node, 0) & claim.gpu_mask:
            yield Problem("claims", f"claim '{claim.uid}' has GPUs that another claim has")
        taken[claim.node] = taken.get(claim.node, 0) | claim.gpu_mask
        if (claim.job is None) == (not claim.window):
            yield Problem("claims", f"claim '{claim.uid}' is of one gang or one window, not so")


def _kept_for_others(world: World, plan: Plan) -> Iterator[Problem]:
    """Pods that start where claims of others are by then: those are written first."""
    if not plan.pods:
        return
    gone, kept = set(plan.claims_gone), {c.uid: c for c in plan.claims}
    by_node: dict[NodeId, list[Claim]] = {}
    for claim in ({c.uid: c for c in world.claims.values() if c.uid not in gone} | kept).values():
        if claim.why in MAKING_ROOM | LENT:
            by_node.setdefault(claim.node, []).append(claim)
    for pod in plan.pods:
        job = world.jobs.get(pod.job)
        for claim in by_node.get(pod.node, ()):
            is_lent = claim.why in LENT and job is not None and may_borrow(job.spec)
            if claim.job != pod.job and claim.gpu_mask & pod.gpu_mask and not is_lent:
                yield Problem("pods", f"pod '{pod.uid}' has GPUs that '{claim.uid}' keeps")
