"""Who may be made to leave for a gang, what that costs, and within which limits."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from scheduler.model.claim import Claim
from scheduler.model.ids import JobId
from scheduler.model.job import Role
from scheduler.model.lifecycle import JobState, PodState
from scheduler.model.plan import JobRecord, PodRecord
from scheduler.model.queue import Use
from scheduler.order.shares import Shares
from scheduler.order.use import use_of_pods
from scheduler.policy import Policy
from scheduler.topology.tree import Topology

EVICTABLE = frozenset({JobState.BOUND, JobState.RUNNING})
"""Gangs in recovery are on their way back to work and leave that way first."""

STAYING = frozenset({PodState.BOUND, PodState.RUNNING})
"""Live pods that are not on their way out, nor lost: nobody gets the GPUs of those."""

AT_ONCE = 2
"""Evictions of a gang that may still count when it has to leave once more. Priorities hold at
once, and a gang that was driven out three times in a row gets on with its work for a while."""

UNLIMITED = 1 << 62
"""GPUs that may leave when the policy sets no limit."""


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """Pods that leave together, or a place that another gang waits for and gives up.

    Each is equal to itself alone: sets of hundreds are searched for one.

    Attributes:
        job: Whose they are.
        pods: Live, not on their way out.
        role: Of members above the minimum; None when the whole gang leaves.
        number: Tells units of one job and role apart; smaller numbers leave first among equals.
        cost: GPU-seconds of lost work and of starting again; at least 0.
        gpus: Of the pods, in all.
        claims: What a gang gives up that waits for its place; it has no pods then.
    """

    job: JobRecord
    pods: tuple[PodRecord, ...]
    cost: float
    gpus: int = 0
    role: str | None = None
    number: int = 0
    claims: tuple[Claim, ...] = ()

    @property
    def key(self) -> tuple[int, str, str, int]:
        """Breaks ties: the job that was submitted last goes first."""
        return (-self.job.age, self.job.uid, self.role or "", self.number)

    @property
    def is_whole(self) -> bool:
        return self.role is None


def lost_s(job: JobRecord, now_s: float) -> float:
    """Seconds of work that leaving now throws away: since the last acknowledged checkpoint.

    A gang that never ran loses nothing.
    """
    if job.started_s is None:
        return 0.0
    return max(0.0, now_s - max(job.started_s, job.saved_s or job.started_s))


def spared_until_s(job: JobRecord, policy: Policy) -> float:
    """Unix seconds until when a job is not made to leave; 0 when it may be."""
    until_s = 0.0
    began = job.since_s
    if began is not None and policy.min_run_s:
        until_s = began + policy.min_run_s
    if job.evicted_s is not None:
        until_s = max(until_s, job.evicted_s - AT_ONCE * policy.spare_evicted_s)
    return until_s


def evicted_after_s(job: JobRecord, policy: Policy, now_s: float) -> float:
    """Up to when the evictions of a gang count that has to leave now once more."""
    counted_s = now_s if job.evicted_s is None else max(now_s, job.evicted_s)
    return counted_s + policy.spare_evicted_s


def units_of(
    job: JobRecord, pods: Iterable[PodRecord], now_s: float, policy: Policy
) -> Iterator[Unit]:
    """Members above the minimum one by one (in whole parts), then the whole gang."""
    # The order in which a world learnt of its pods decides nothing.
    live = sorted((p for p in pods if p.state in STAYING), key=lambda p: (p.role, p.index))
    per_gpu = lost_s(job, now_s) + policy.restart_cost_s
    for role in job.spec.roles:
        spare = spare_members(role, live)
        if spare:
            yield from _members(job, role, live, per_gpu)
    if live:
        gpus = _gpus(live)
        yield Unit(job, tuple(live), per_gpu * gpus, gpus)


def _members(job: JobRecord, role: Role, live: list[PodRecord], per_gpu: float) -> Iterator[Unit]:
    size = role.parts.size if role.parts is not None else 1
    parts: dict[int, list[PodRecord]] = {}
    for pod in live:
        if pod.role == role.name:
            parts.setdefault(pod.index // size, []).append(pod)
    for part, pods in sorted(parts.items(), reverse=True):
        if len(pods) == size:
            gpus = _gpus(pods)
            yield Unit(job, tuple(pods), per_gpu * gpus, gpus, role.name, -part)


def spare_members(role: Role, live: Iterable[PodRecord]) -> int:
    """Units of members (single ones, or whole parts) that a role can do without now."""
    size = role.parts.size if role.parts is not None else 1
    there = sum(pod.role == role.name for pod in live)
    return max(0, there - role.min) // size


def _gpus(pods: Iterable[PodRecord]) -> int:
    return sum(pod.gpu_mask.bit_count() for pod in pods)


class Permission:
    """What one claimant may make leave, as of what has been taken for it so far.

    Preemption: gangs of strictly lower priority, unless that takes their queue or one above it
    below its quota. Reclaim: a claimant whose queue is owed that much may take from queues above
    their quota, whatever the priority (`Shares.owes`). Only gangs that are preemptible, either way.

    Args:
        quotas: Accounts as they will be once what is leaving has left; edited while units are
            taken, and as before once all are given back and `close` was called.
        gpus_left: GPUs that may still be made to leave.
        keeps_accounts: The accounts follow what is taken also where no queue has a quota.
    """

    def __init__(
        self,
        quotas: Shares,
        claimant: JobRecord,
        use: Use,
        topology: Topology,
        gpus_left: int,
        *,
        keeps_accounts: bool = False,
    ) -> None:
        self._quotas = quotas
        self._claimant = claimant
        self._use = use
        self._topology = topology
        self._gpus_left = gpus_left
        # Where no queue has a quota there is nothing to keep account of, for any of hundreds.
        self._has_quotas = keeps_accounts or any(
            q.quota_gpus is not None or q.quota_by_model for q in quotas.accounts.queues.values()
        )
        self._is_limited = gpus_left < UNLIMITED
        quotas.add(claimant, use)

    def close(self) -> None:
        """The claimant does not come in after all."""
        self._quotas.remove(self._claimant, self._use)

    def might(self, job: JobRecord) -> bool:
        """Whether the job could ever be made to leave for this claimant; quick."""
        if not job.spec.preemptible or job.uid == self._claimant.uid:
            return False
        if job.spec.priority < self._claimant.spec.priority:
            return True
        return self._quotas.owes(job.spec.queue, self._claimant.spec.queue)

    def may(self, unit: Unit, pods: Iterable[PodRecord]) -> bool:
        """Whether these pods of a unit may leave too, beside those taken already."""
        if not (self._has_quotas or self._is_limited):
            return unit.job.spec.priority < self._claimant.spec.priority
        use = use_of_pods(self._topology, pods)
        if use.gpu_count > self._gpus_left:
            return False
        queue = unit.job.spec.queue
        if unit.job.spec.priority < self._claimant.spec.priority and self._quotas.keeps_quota(
            queue, use
        ):
            return True
        return self._quotas.owes(queue, self._claimant.spec.queue)

    def take(self, unit: Unit, pods: Iterable[PodRecord]) -> None:
        if self._has_quotas or self._is_limited:
            use = use_of_pods(self._topology, pods)
            self._gpus_left -= use.gpu_count
            self._quotas.remove(unit.job, use)

    def give_back(self, unit: Unit, pods: Iterable[PodRecord]) -> None:
        if self._has_quotas or self._is_limited:
            use = use_of_pods(self._topology, pods)
            self._gpus_left += use.gpu_count
            self._quotas.add(unit.job, use)


def spare_by_role(units: Iterable[Unit]) -> Mapping[tuple[JobId, str], int]:
    """Units of members that each job and role can do without."""
    out: dict[tuple[JobId, str], int] = {}
    whole = {unit.job.uid: unit for unit in units if unit.is_whole}
    for unit in whole.values():
        for role in unit.job.spec.roles:
            out[unit.job.uid, role.name] = spare_members(role, unit.pods)
    return out
