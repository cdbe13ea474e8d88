"""When a gang that finds no room is promised a place, and for when."""

from dataclasses import dataclass

from scheduler.cluster.accounts import Capacity
from scheduler.cluster.waiting import due_s
from scheduler.model.plan import JobRecord
from scheduler.order.use import least_use
from scheduler.policy import Policy


@dataclass(frozen=True, slots=True)
class Turn:
    """From when on a place is kept for a gang; both Unix seconds.

    Attributes:
        from_s: It is promised a place from then on.
        start_s: The start that it is promised is not before: until then what ends in time goes on
            starting on its nodes. It starts earlier all the same when it fits.
    """

    from_s: float
    start_s: float


def turn_of(job: JobRecord, policy: Policy, capacity: Capacity) -> Turn:
    """When it is a gang's turn to be promised a place; the same at any time.

    Under `shortest_first` short work goes ahead of what is longer until that is due. A promise
    before would hold up the short work, and is not needed: from then on nobody goes before it.

    Under `fair_share` a gang that needs a large share of the GPUs is promised a place at once: so
    many are never free by chance. A smaller one mostly finds room before GPUs need to be kept idle
    for it, so it waits in proportion to its own run time first, up to a limit.
    """
    if policy.order == "shortest_first":
        turn_s = due_s(job, policy.ageing, policy.assumed_duration_s)
        return Turn(turn_s, turn_s)
    if is_large(job, policy, capacity):
        return Turn(job.submitted_s, job.submitted_s)
    duration_s = job.spec.duration_s
    run_s = policy.reserve_after_s if duration_s is None else duration_s
    run_s = min(run_s, policy.reserve_run_s_max)
    return Turn(
        job.submitted_s + policy.reserve_after_run_times * run_s,
        job.submitted_s + policy.start_by_run_times * run_s,
    )


def is_large(job: JobRecord, policy: Policy, capacity: Capacity) -> bool:
    """Whether a gang needs so large a share of the GPUs it could have that chance does not help."""
    spec = job.spec
    there = capacity.gpus if spec.gpu is None else capacity.by_model.get(spec.gpu, 0)
    return least_use(spec).gpu_count >= policy.reserve_at_once_share * there
