"""The full answer on a gang that does not fit."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import inf

from scheduler.backfill.patience import patient_until_s
from scheduler.cluster.world import World
from scheduler.explain.answer import Answer, Change, Holder, Visible, all_visible
from scheduler.explain.demands import relax_changes, shrink_changes
from scheduler.explain.engine import Engine, as_job
from scheduler.explain.holders import (
    Scope,
    Tenant,
    holders_in,
    scope_of,
    tenants_of,
    usable_nodes,
)
from scheduler.explain.limits import denial, limit_change, shares_if_limited
from scheduler.explain.room import (
    OTHER_DOMAINS,
    Grounds,
    both_change,
    finish_changes,
    preempt_change,
    uncordon_change,
)
from scheduler.model.claim import Claim, ClaimWhy
from scheduler.model.ids import JobId
from scheduler.model.job import JobSpec
from scheduler.model.lifecycle import JobState, Reason
from scheduler.model.placement import NoFit, Placement
from scheduler.model.plan import JobRecord
from scheduler.order.line import line_of
from scheduler.order.shares import shares_of
from scheduler.place.admit import never_fits_in
from scheduler.place.search import place
from scheduler.policy import Policy
from scheduler.recover.pool import bare_nodes, pool_kept

_ASKED_ANEW = frozenset(
    {None, Reason.ROOM, Reason.RULE, Reason.LIMIT, Reason.CLOSED, Reason.RESERVATION}
)
"""Reasons to wait that can be asked about anew; the others are what the last cycle knows."""

AHEAD_TRIED = 50
"""Gangs before it in line that are looked at for whether they would take the room first."""

_IN_LINE = frozenset({JobState.PENDING, JobState.RESERVED})


def ask(
    world: World, spec: JobSpec, policy: Policy, now_s: float, visible: Visible = all_visible
) -> Placement | Answer:
    """Where a gang that is not submitted would go now, or why nowhere; the world is left alone."""
    job = as_job(spec)
    return _ask(world, job, policy, now_s, visible)


def waiting(
    world: World, job: JobRecord, policy: Policy, now_s: float, visible: Visible = all_visible
) -> Placement | Answer | None:
    """The same on a submitted gang; None where only the last cycle knows why it waits.

    A gang that has a place to come is told who is in the way there, and when it is to start; one
    that waits for a better place, until when.
    """
    if job.held or job.state not in _IN_LINE:
        return None
    if job.reason is Reason.PATIENCE:
        verdict = NoFit(never=False, code=Reason.PATIENCE, message=job.message)
        return Answer(verdict, expected_start_s=patient_until_s(job, now_s))
    if job.reason not in _ASKED_ANEW:
        return None
    found = _ask(world, job, policy, now_s, visible)
    if isinstance(found, Placement):
        return found
    if job.expected_start_s is not None:
        found = replace(found, expected_start_s=job.expected_start_s)
    if job.state is JobState.RESERVED:
        verdict = replace(
            found.verdict,
            code=job.reason or found.verdict.code,
            message=f"{job.message}; {found.verdict.message}" if job.message else "",
        )
        found = replace(found, verdict=verdict, holders=_in_the_way(world, job, now_s, visible))
    return found


def _ask(
    world: World, job: JobRecord, policy: Policy, now_s: float, visible: Visible
) -> Placement | Answer:
    with claims_that_bind(world, job, now_s):
        denied = denial(world, job.spec)
        with pool_kept(world.table, bare_nodes(world.table, world.claims.values())):
            found = denied.verdict() if denied is not None else place(world.trial, job.spec)
        if isinstance(found, Placement):
            return found
        never = None if denied is not None else never_fits_in(world.emptied(), job.spec)
        ahead, number = _ahead(world, job, policy)
        answer = explain(
            world,
            job.spec,
            never or found,
            now_s,
            visible=visible,
            job=job.uid or None,
            ahead=ahead,
        )
        return replace(answer, ahead=number)


def _ahead(world: World, job: JobRecord, policy: Policy) -> tuple[list[JobRecord], int]:
    """The first gangs that the next cycle would try before this one, and how many there are."""
    first: list[JobRecord] = []
    number = 0
    for other in line_of(world, world.jobs, {}, shares_of(world), policy):
        is_after = not job.uid and other.spec.priority < job.spec.priority
        if is_after or other.uid == job.uid:
            break
        number += 1
        if number <= AHEAD_TRIED and other.state in _IN_LINE:
            first.append(other)
    return first, number


@contextmanager
def claims_that_bind(world: World, job: JobRecord, now_s: float) -> Iterator[None]:
    """See the world as the next cycle does for this gang: claims that do not bind it are lifted.

    Its own do not, nor reservations of lower priority, nor what begins when it would have ended.
    """
    ends_s = inf if job.spec.duration_s is None else now_s + job.spec.duration_s
    mark = world.trial.mark()
    try:
        for claim in world.claims.values():
            if claim.node in world.topology.node_index and not _binds(world, claim, job, ends_s):
                world.trial.unclaim(world.claimed_by(claim))
        yield
    finally:
        world.trial.roll_back(mark)


def _binds(world: World, claim: Claim, job: JobRecord, ends_s: float) -> bool:
    if claim.job is None:
        return claim.starts_s < ends_s
    if claim.job == job.uid:
        return False
    if claim.why is not ClaimWhy.RESERVATION:
        return True
    owner = world.jobs.get(claim.job)
    is_above = owner is not None and owner.spec.priority < job.spec.priority
    return not is_above and claim.starts_s < ends_s


def explain(
    world: World,
    spec: JobSpec,
    verdict: NoFit,
    now_s: float,
    *,
    visible: Visible = all_visible,
    job: JobId | None = None,
    ahead: Sequence[JobRecord] = (),
) -> Answer:
    """Who holds what a gang lacks, and what would make it fit; the world is left as it was.

    Args:
        verdict: What the engine, or its queue, says of the gang in this world.
        job: The gang's own uid, if it has been submitted.
        ahead: The first gangs before it in line.
    """
    usable = usable_nodes(world, spec)
    tenants = tenants_of(world, usable, now_s, but=job)
    nearest = scope_of(world, verdict.nearest)
    engine = Engine(world, spec, shares_if_limited(world, spec.queue), ahead)
    grounds = Grounds(
        engine,
        tenants,
        _scopes(world, verdict, nearest, tenants, usable),
        verdict.nearest.lacks_gpus if verdict.nearest is not None else 0,
    )
    changes: list[Change] = limit_change(engine)
    start_s = None
    if not verdict.never:
        finish, start_s = finish_changes(grounds, visible)
        uncordon = uncordon_change(grounds, usable)
        changes += finish + uncordon
        if not uncordon:
            gpus = min((change.gpus for change in finish), default=None)
            changes += both_change(grounds, usable, visible, fewer_than=gpus)
    changes += relax_changes(engine, verdict.rule)
    changes += shrink_changes(engine)
    if spec.preempts and not verdict.never:
        changes += preempt_change(grounds, spec.priority, visible)
    return Answer(
        verdict=verdict,
        holders=holders_in(tenants, nearest, visible),
        expected_start_s=start_s,
        changes=tuple(sorted(changes, key=lambda change: change.others_first > 0)),
        bounded=engine.bounded,
    )


def _scopes(
    world: World,
    verdict: NoFit,
    nearest: Scope,
    tenants: Sequence[Tenant],
    usable: Sequence[bool],
) -> list[Scope]:
    """The nearest domain, those of its level in which least is in use, the whole cluster."""
    everywhere = (0, world.topology.node_count)
    if nearest == everywhere or verdict.nearest is None:
        return [everywhere]
    depth = world.topology.level_index[verdict.nearest.level]
    level, place = world.topology.levels[depth], world.topology.place[depth]
    used = [0] * len(level.names)
    for tenant in tenants:
        for node, gpus in tenant.gpus_on.items():
            used[place[node]] += gpus
    spans = list(zip(level.node_lo, level.node_hi, strict=True))
    others = sorted(
        (used[d], span)
        for d, span in enumerate(spans)
        if used[d] and span != nearest and sum(usable[slice(*span)]) >= verdict.nearest.lacks_nodes
    )
    return [nearest, *(span for _, span in others[:OTHER_DOMAINS]), everywhere]


def _in_the_way(world: World, job: JobRecord, now_s: float, visible: Visible) -> tuple[Holder, ...]:
    """Who holds GPUs that are claimed for a gang."""
    index = world.topology.node_index
    claimed: dict[int, int] = {}
    for claim in world.claims.values():
        if claim.job == job.uid and claim.node in index:
            node = index[claim.node]
            claimed[node] = claimed.get(node, 0) | claim.gpu_mask
    nodes = [node in claimed for node in range(world.topology.node_count)]
    tenants = []
    for tenant in tenants_of(world, nodes, now_s, but=job.uid):
        gpus_on = {
            index[pod.node]: (pod.gpu_mask & claimed[index[pod.node]]).bit_count()
            for pod in tenant.freed.pods
            if pod.gpu_mask & claimed.get(index[pod.node], 0)
        }
        tenants.append(replace(tenant, gpus_on=gpus_on))
    return holders_in(tenants, (0, world.topology.node_count), visible)
