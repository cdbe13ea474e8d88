"""Claims, evictions and the plans that make them, for tests of the store."""

from dataclasses import replace

from api.store.claims import list_claims
from api.store.engine import Database
from api.store.events import current_revision
from api.store.jobs import get_job
from api.store.views import JobView
from scheduler.model.claim import Claim, ClaimWhy
from scheduler.model.ids import ClaimId, JobId, NodeId
from scheduler.model.lifecycle import JobState, PodState, Reason
from scheduler.model.plan import Eviction, EvictStep, JobMove, Plan
from tests.api.store.build import job_move, pod_moves


def claim_of(
    job: JobView, index: int, node: str, *, mask: int = 0xFF, why: ClaimWhy = ClaimWhy.PREEMPTION
) -> Claim:
    """What the core claims for one member."""
    return Claim(
        uid=ClaimId(f"{job.uid}-member-{index}"),
        why=why,
        node=NodeId(node),
        gpu_mask=mask,
        job=JobId(job.uid),
        role="member",
        index=index,
        first_rank=index * 8,
    )


def claims_of(job: JobView, nodes: list[str], **more: object) -> tuple[Claim, ...]:
    return tuple(
        claim_of(job, index, node, **more)  # type: ignore[arg-type]  # arguments by name
        for index, node in enumerate(nodes)
    )


def reserved(job: JobView, **changes: object) -> JobMove:
    move = job_move(job, JobState.RESERVED, attempt=0, reason=Reason.RESERVATION)
    return replace(move, **changes)  # type: ignore[arg-type]  # fields by name


def evicting(victim: JobView, claimant: JobView | None, **changes: object) -> JobMove:
    eviction = Eviction(
        then=JobState.PENDING,
        step=EvictStep.TERMINATING,
        why="for a gang that comes first",
        for_job=None if claimant is None else JobId(claimant.uid),
    )
    move = replace(job_move(victim, JobState.EVICTING), evict=eviction)
    return replace(move, **changes)  # type: ignore[arg-type]  # fields by name


def preemption(database: Database, claimant: JobView, *victims: JobView) -> Plan:
    """One claimant takes n001.. from victims that have two nodes each."""
    nodes = [f"n{number + 1:03d}" for number in range(2 * len(victims))]
    return Plan(
        revision=current_revision(database),
        job_moves=(reserved(claimant), *(evicting(victim, claimant) for victim in victims)),
        pod_moves=tuple(
            move for victim in victims for move in pod_moves(victim, 2, PodState.TERMINATING)
        ),
        claims=claims_of(claimant, nodes),
    )


def claimed(database: Database) -> dict[str, str]:
    """Nodes of the claims that are not gone."""
    return {view.claim.uid: view.claim.node for view in list_claims(database).items}


def states(database: Database, *names: str) -> list[JobState]:
    return [get_job(database, "default", name).state for name in names]
