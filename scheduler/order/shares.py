"""What queues may use, do use and are owed, as one cycle changes it."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf

from scheduler.cluster.accounts import Account, Accounts, Capacity
from scheduler.cluster.world import World
from scheduler.model.ids import JobId
from scheduler.model.job import JobSpec
from scheduler.model.lifecycle import JobState, Reason
from scheduler.model.plan import JobRecord
from scheduler.model.queue import WEIGHT_MIN, QueueRecord, Use
from scheduler.order.limits import Denied as Denied
from scheduler.order.limits import closed_message, cut, limit_denied
from scheduler.order.use import least_use


class Shares:
    """The accounts of all queues in one cycle: a world's, and what the cycle adds and removes.

    The world's own accounts are never touched. Everything said of a queue holds for the queues
    below it together; a queue that is not known has no limit, no quota and a weight of 1.

    Attributes:
        booked: The queue of every change, in order.
    """

    def __init__(self, accounts: Accounts) -> None:
        self.accounts = accounts
        self.booked: list[str] = []
        self._own: dict[str, Account] = {}
        self._ranks: dict[str, tuple[float, float]] = {}
        self._denying: dict[str, tuple[QueueRecord, ...]] = {}
        self._pairs: dict[tuple[str, str], tuple[list[QueueRecord], list[QueueRecord]]] = {}
        self._denied: dict[tuple[str, str | None, int], Denied] = {}
        self._denied_version = 0

    @property
    def version(self) -> int:
        """Grows with every change."""
        return len(self.booked)

    # -- changes ----------------------------------------------------------------------------------

    def add(self, job: JobRecord, use: Use) -> None:
        """Charge a job's queue and all above it."""
        self._book(job.spec.queue, use, 1)

    def remove(self, job: JobRecord, use: Use) -> None:
        """Give back what was charged."""
        self._book(job.spec.queue, use, -1)

    def _book(self, queue: str, use: Use, sign: int) -> None:
        self.booked.append(queue)
        for name in self._chain(queue):
            own = self._own.get(name)
            if own is None:
                before = self.accounts.total.get(name)
                own = self._own[name] = Account() if before is None else before.copy()
            own.cpu_milli += sign * use.cpu_milli
            own.memory_mib += sign * use.memory_mib
            for model, gpus in use.gpus.items():
                own.add(model, sign * gpus, 0, 0)
            self._ranks.pop(name, None)

    # -- limits -----------------------------------------------------------------------------------

    def denied(self, job: JobRecord, use: Use) -> Denied | None:
        """The first queue, from the job's own up, that does not let it have so much more."""
        queue = job.spec.queue
        for record in self._strict(queue):
            if record.closed:
                return Denied(Reason.CLOSED, record.name, closed_message(record.name, queue))
            over = self._over_limit(record, queue, use)
            if over is not None:
                return over
        return None

    def _strict(self, queue: str) -> tuple[QueueRecord, ...]:
        """Those of a queue and all above it that may deny something: most often none."""
        found = self._denying.get(queue)
        if found is None:
            records = (self.accounts.queues.get(name) for name in self._chain(queue))
            found = self._denying[queue] = tuple(
                r
                for r in records
                if r and (r.closed or r.limit_gpus is not None or r.limit_by_model)
            )
        return found

    def _over_limit(self, record: QueueRecord, queue: str, use: Use) -> Denied | None:
        account = self.account(record.name)
        if record.limit_gpus is not None and account.gpus + use.gpu_count > record.limit_gpus:
            return limit_denied(
                record.name, queue, "", record.limit_gpus, account.gpus, use.gpu_count
            )
        for model, limit in sorted(record.limit_by_model.items()):
            wanted, used = use.gpus.get(model, 0), account.by_model.get(model, 0)
            if wanted and used + wanted > limit:
                return limit_denied(record.name, queue, model, limit, used, wanted)
        return None

    def limiting(self, queue: str) -> tuple[str, ...]:
        """Those of a queue and all above it that have a limit, from the queue up."""
        return tuple(
            r.name for r in self._strict(queue) if r.limit_gpus is not None or r.limit_by_model
        )

    def beyond_limit(self, queue: str) -> str | None:
        """The first queue from this one up that uses more than it may; None = none does."""
        for record in self._strict(queue):
            account = self.account(record.name)
            if record.limit_gpus is not None and account.gpus > record.limit_gpus:
                return record.name
            for model, limit in record.limit_by_model.items():
                if account.by_model.get(model, 0) > limit:
                    return record.name
        return None

    def least_within(self, job: JobRecord) -> JobSpec | None:
        """The job with its minimum of members alone; with a GPU model, where limits need to know.

        None when they do and there are several models to choose from.
        """
        spec = cut(job.spec, least_use(job.spec).gpu_count)
        if spec.gpu is None and self._limits_models(spec.queue):
            models = self.accounts.models
            return replace(spec, gpu=models[0]) if len(models) == 1 else None
        return spec

    def within(self, job: JobRecord) -> JobSpec | Denied:
        """The job with as many members as the limits allow now, or which queue denies its minimum.

        Members above a role's minimum are left out from the last role up, in whole parts. A job
        that may have all its members is given back as it is.
        """
        spec = job.spec
        if not self._strict(spec.queue):
            return spec
        denied = self._least_denied(job)
        if denied is not None:
            return denied
        if spec.gpu is None and spec.gpu_count and self._limits_models(spec.queue):
            chosen = self._with_model(job)
            if isinstance(chosen, Denied):
                return chosen
            spec = chosen
        room = self.room(spec.queue, spec.gpu)
        return spec if room is None else cut(spec, room)

    def _least_denied(self, job: JobRecord) -> Denied | None:
        """Whether a gang's minimum is denied; the same for all of equal wishes in one queue."""
        least = least_use(job.spec)
        if self._denied_version != self.version:
            self._denied_version = self.version
            self._denied.clear()
        key = (job.spec.queue, job.spec.gpu, least.gpu_count)
        denied = self._denied.get(key)
        if denied is None:
            denied = self.denied(job, least)
            if denied is not None:
                self._denied[key] = denied
        return denied

    def _limits_models(self, queue: str) -> bool:
        return any(record.limit_by_model for record in self._strict(queue))

    def _with_model(self, job: JobRecord) -> JobSpec | Denied:
        """A job that takes any GPUs, told to take those that limits of models let it have.

        A gang is on nodes of one type, so it is told one model: the one with the most room.
        """
        least = least_use(job.spec)
        gpus = least.gpu_count
        allowed, denials = list[str](), list[Denied]()
        for model in self.accounts.models:
            use = Use({model: gpus} if gpus else {}, least.cpu_milli, least.memory_mib)
            denied = self.denied(job, use)
            if denied is None:
                allowed.append(model)
            else:
                denials.append(denied)
        if not denials:
            return job.spec
        if not allowed:
            return min(denials, key=lambda denied: (denied.never, denied.message))
        best = min(allowed, key=lambda model: (-self._room_of(job.spec.queue, model), model))
        return replace(job.spec, gpu=best)

    def _room_of(self, queue: str, model: str) -> float:
        room = self.room(queue, model)
        return inf if room is None else room

    def room(self, queue: str, model: str | None = None) -> int | None:
        """GPUs until the first limit: of a model, or of whatever model without one.

        Returns:
            At least 0; None without any limit.
        """
        left: list[int] = []
        for record in self._strict(queue):
            account = self.account(record.name)
            if record.limit_gpus is not None:
                left.append(record.limit_gpus - account.gpus)
            left += [
                limit - account.by_model.get(limited, 0)
                for limited, limit in record.limit_by_model.items()
                if model in (None, limited)
            ]
        return max(0, min(left)) if left else None

    # -- quotas -----------------------------------------------------------------------------------

    def owes(self, victim: str, claimant: str) -> bool:
        """Whether a gang of one queue may take from another what it has lent it.

        What counts is below where their trees meet, as nothing changes above: the claimant's queues
        there are within their quotas, with the gang in them already, and one has a quota; and one
        of the other's uses more than its quota.
        """
        mine, theirs = self._apart(claimant, victim)
        if not mine or not all(_is_within_quota(r, self.account(r.name)) for r in mine):
            return False
        return any(not _is_within_quota(r, self.account(r.name)) for r in theirs)

    def _apart(self, one: str, other: str) -> tuple[list[QueueRecord], list[QueueRecord]]:
        """Queues with a quota of each chain that are not in the other."""
        found = self._pairs.get((one, other))
        if found is None:
            first, second = self._with_quota(one), self._with_quota(other)
            ones, others = set(self._chain(one)), set(self._chain(other))
            found = (
                [r for r in first if r.name not in others],
                [r for r in second if r.name not in ones],
            )
            self._pairs[one, other] = found
        return found

    def keeps_quota(self, queue: str, use: Use) -> bool:
        """Whether taking so much away leaves every queue from it up at its quota or above.

        A queue that is below its quota already keeps nothing of it. What comes into the same queue
        instead is to be added first.
        """
        return all(
            _still_has(record, self.account(record.name), use) for record in self._with_quota(queue)
        )

    # -- shares -----------------------------------------------------------------------------------

    def share(self, queue: str) -> float:
        """Dominant share / weight: the largest part of any resource of the cluster it uses."""
        return self.rank(queue)[1]

    def rank(self, queue: str) -> tuple[float, float]:
        """What siblings are compared by, the smaller first: share of what is lent to it, share.

        What is lent is what its dominant share exceeds its quota's part of all GPUs by. So a queue
        within its quota goes before one that borrows, and who borrows does so by weight. A queue
        without a quota borrows all it uses.
        """
        found = self._ranks.get(queue)
        if found is None:
            found = self._ranks[queue] = self._rank(queue)
        return found

    def _rank(self, queue: str) -> tuple[float, float]:
        account = self.account(queue)
        if not (account.gpus or account.cpu_milli or account.memory_mib):
            return 0.0, 0.0
        record = self.accounts.queues.get(queue)
        dominant = _dominant(account, self.accounts.capacity)
        if record is None:
            return dominant, dominant
        quota = _quota_gpus(record)
        lent = dominant
        if quota and self.accounts.capacity.gpus:
            lent = max(0.0, dominant - quota / self.accounts.capacity.gpus)
        weight = max(record.weight, WEIGHT_MIN)
        return lent / weight, dominant / weight

    # -- reading ----------------------------------------------------------------------------------

    def account(self, queue: str) -> Account:
        """What the queue and those below it hold; not to be edited."""
        found = self._own.get(queue)
        if found is None:
            found = self.accounts.total.get(queue)
        return _NOTHING if found is None else found

    def root(self, queue: str) -> str:
        """The queue at the top of its tree."""
        return self._chain(queue)[-1]

    def _chain(self, queue: str) -> tuple[str, ...]:
        return self.accounts.chains.get(queue) or (queue,)

    def _with_quota(self, queue: str) -> list[QueueRecord]:
        found = (self.accounts.queues.get(name) for name in self._chain(queue))
        return [r for r in found if r and (r.quota_gpus is not None or r.quota_by_model)]


def never_allowed(spec: JobSpec, queues: Sequence[QueueRecord]) -> Denied | None:
    """The queue whose limit a gang's minimum exceeds with nothing else in use; None = none does.

    Args:
        queues: The gang's own queue and all above it.
    """
    limiting = [q for q in queues if q.limit_gpus is not None or q.limit_by_model]
    if not limiting:
        return None
    accounts = Accounts()
    # What is closed now may be opened again.
    accounts.set_queues(replace(queue, closed=False) for queue in queues)
    job = JobRecord(JobId(""), spec, JobState.PENDING, 0)
    return Shares(accounts).denied(job, least_use(spec))


def shares_of(world: World) -> Shares:
    """The accounts at the beginning of a cycle: what live pods hold."""
    return Shares(world.accounts)


_NOTHING = Account()


def _is_within_quota(record: QueueRecord, account: Account) -> bool:
    """Whether what is used is at most the quota, in all and by model."""
    if record.quota_gpus is not None and account.gpus > record.quota_gpus:
        return False
    return all(
        account.by_model.get(model, 0) <= quota for model, quota in record.quota_by_model.items()
    )


def _still_has(record: QueueRecord, account: Account, use: Use) -> bool:
    if record.quota_gpus is not None and account.gpus - use.gpu_count < record.quota_gpus:
        return not use.gpu_count
    return all(
        not use.gpus.get(model) or account.by_model.get(model, 0) - use.gpus[model] >= quota
        for model, quota in record.quota_by_model.items()
    )


def _quota_gpus(record: QueueRecord) -> int:
    if record.quota_gpus is not None:
        return record.quota_gpus
    return sum(record.quota_by_model.values())


def _dominant(account: Account, capacity: Capacity) -> float:
    pairs = (
        (account.gpus, capacity.gpus),
        (account.cpu_milli, capacity.cpu_milli),
        (account.memory_mib, capacity.memory_mib),
    )
    return max((used / there for used, there in pairs if there), default=0.0)
