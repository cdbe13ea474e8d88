"""Nodes kept spare for gangs: claimed when they are free, given up with the gang or the node."""

from scheduler.draft.book import LIVE_JOB, Draft
from scheduler.draft.charges import Charges
from scheduler.model.claim import Claim, ClaimWhy
from scheduler.model.ids import ClaimId, NodeId
from scheduler.model.lifecycle import JobState
from scheduler.model.plan import JobRecord
from scheduler.model.resources import full_mask
from scheduler.policy import Policy
from scheduler.recover.pool import pool_changes
from scheduler.recover.spares import free_node_near

KEEPS = LIVE_JOB | {JobState.RECOVERING}


def settle_spares(draft: Draft) -> None:
    """Give up spares of gangs that have left their place, that are too many, or of no use."""
    world = draft.world
    index, aside = world.topology.node_index, world.table.aside
    for uid in sorted(world.sparing):
        claims = draft.claims_of(uid, ClaimWhy.SPARE)
        if not claims:
            continue
        job = draft.jobs.get(uid)
        if job is None or job.state not in KEEPS:
            draft.let_go(claims)
            continue
        useless = [c for c in claims if c.node not in index or aside[index[c.node]] is not None]
        good = [c for c in claims if c not in useless]
        draft.let_go([*useless, *good[job.spec.spares :]])


def settle_pools(draft: Draft, policy: Policy) -> None:
    """Have each domain keep as many nodes for gangs in recovery as the policy wants."""
    world, known = draft.world, draft.claims_of_pools()
    if not known and not policy.spare_pool:
        return
    windows = (window for window in world.windows.values() if window.ends_s > draft.now_s)
    barred = {node for window in windows for node in window.nodes}
    new, gone = pool_changes(world.table, policy.spare_pool, known, barred)
    draft.let_go(gone)
    draft.keep(new)


def keep_spares(draft: Draft, charges: Charges) -> None:
    """Gangs that have fewer spares than they want get what is free, the most important first."""
    world = draft.world
    jobs = [draft.jobs[uid] for uid in world.sparing if uid in draft.jobs]
    for job in sorted(jobs, key=lambda j: (-j.spec.priority, j.age, j.uid)):
        if job.state in LIVE_JOB:
            _keep_for(draft, charges, job)


def _keep_for(draft: Draft, charges: Charges, job: JobRecord) -> None:
    world = draft.world
    mine = draft.claims_of(job.uid, ClaimWhy.SPARE)
    index = world.topology.node_index
    numbers = (n for n in range(job.spec.spares) if _uid(job, n) not in {c.uid for c in mine})
    pods = [p for p in draft.live_pods(job.uid) if p.gpu_mask and p.node in index]
    if not pods:
        return
    home = [index[p.node] for p in pods]
    kind = world.topology.types[home[0]]
    for number in list(numbers):
        node = free_node_near(world.table, home, kind.name, {})
        if node is None:
            return
        claim = Claim(
            uid=_uid(job, number),
            why=ClaimWhy.SPARE,
            node=NodeId(world.topology.nodes[node].name),
            gpu_mask=full_mask(kind.gpus),
            job=job.uid,
            index=number,
        )
        use = charges.use_of_claims([claim])
        if charges.now.denied(job, use) is not None:
            return
        charges.add(job, use)
        draft.keep([claim])


def _uid(job: JobRecord, number: int) -> ClaimId:
    return ClaimId(f"{job.uid}-spare-{number}")
