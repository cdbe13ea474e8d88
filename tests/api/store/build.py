"""Clusters, jobs and plans for tests of the store, written through the code."""

from dataclasses import replace

from api.store.commit import commit
from api.store.engine import Database
from api.store.jobs import submit_job
from api.store.nodes import import_inventory
from api.store.views import Committed, JobView
from scheduler.model.ids import JobId, NodeId, PodId
from scheduler.model.job import JobSpec, Role
from scheduler.model.lifecycle import JobState, PodState, Reason
from scheduler.model.node import Inventory
from scheduler.model.plan import JobMove, Plan, PodMove, PodRecord
from scheduler.model.resources import Resources
from tests.builders import make_inventory

NOW_S = 1_800_000_000.0


def load_cluster(database: Database, nodes: int = 4, *, racks: int = 2) -> Inventory:
    """Nodes n001.. of 8 GPUs in `racks` racks of one leaf."""
    sizes = {"block": 1, "leaf": 1, "rack": racks, "node": nodes // racks}
    inventory = make_inventory(sizes)
    import_inventory(database, inventory, prune=False, dry_run=False, now_s=NOW_S)
    return inventory


def make_spec(name: str = "j", *, replicas: int = 2, gpus: int = 8, **more: object) -> JobSpec:
    """One role `member`."""
    role = Role("member", replicas, replicas, gpus=gpus)
    return replace(JobSpec(name=name, roles=(role,)), **more)  # type: ignore[arg-type]  # fields by name


def submit(database: Database, spec: JobSpec | str = "j") -> JobView:
    """Submit a job and return it."""
    spec = make_spec(spec) if isinstance(spec, str) else spec
    return submit_job(database, spec, {"name": spec.name}, now_s=NOW_S)[0]


def make_pod(
    job: JobView,
    index: int,
    node: str,
    *,
    role: str = "member",
    mask: int = 0xFF,
    attempt: int = 1,
    resources: Resources = Resources(),
) -> PodRecord:
    """A pod as the core makes it."""
    return PodRecord(
        uid=PodId(f"{job.uid}-{role}-{index}"),
        job=JobId(job.uid),
        name=f"{job.name}-{role}-{index}",
        role=role,
        index=index,
        node=NodeId(node),
        gpu_mask=mask,
        first_rank=index * mask.bit_count(),
        state=PodState.BOUND,
        attempt=attempt,
        resources=resources,
    )


def make_pods(
    job: JobView, nodes: list[str], *, mask: int = 0xFF, attempt: int = 1
) -> tuple[PodRecord, ...]:
    """One pod on each node."""
    return tuple(
        make_pod(job, index, node, mask=mask, attempt=attempt) for index, node in enumerate(nodes)
    )


def job_move(
    job: JobView,
    state: JobState,
    *,
    attempt: int = 1,
    reason: Reason | None = None,
    message: str = "",
) -> JobMove:
    """A move with everything else as it is on the first life."""
    return JobMove(JobId(job.uid), state, reason, message, attempt, node_type="h100-8")


def binding(database: Database, job: JobView, nodes: list[str], *, mask: int = 0xFF) -> Plan:
    """A plan on the present revision that binds a job."""
    return Plan(
        revision=database.notifier.wait(-1, 0.0),
        job_moves=(job_move(job, JobState.BOUND),),
        pods=make_pods(job, nodes, mask=mask),
    )


def bind(database: Database, job: JobView, nodes: list[str], *, mask: int = 0xFF) -> Committed:
    """Commit such a plan."""
    return commit(database, binding(database, job, nodes, mask=mask), 0, NOW_S)


def pod_moves(job: JobView, count: int, state: PodState) -> tuple[PodMove, ...]:
    """All pods of a job to one state."""
    return tuple(PodMove(PodId(f"{job.uid}-member-{index}"), state) for index in range(count))
