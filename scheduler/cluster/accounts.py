"""What every queue uses, with the queues below it, and who waits in it; kept up edit by edit."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from scheduler.cluster.waiting import ByDuration, ByQueue
from scheduler.model.ids import JobId, PodId
from scheduler.model.lifecycle import FINAL
from scheduler.model.plan import JobRecord, PodRecord
from scheduler.model.queue import DEFAULT_QUEUE, DEPTH_MAX, QueueRecord
from scheduler.topology.tree import Topology


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a cluster has in all, used or not; 0 = not known.

    Attributes:
        by_model: GPU model -> GPUs.
    """

    gpus: int = 0
    cpu_milli: int = 0
    memory_mib: int = 0
    by_model: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Account:
    """GPUs, CPUs and memory that live pods of a queue and of all queues below it hold."""

    gpus: int = 0
    by_model: dict[str, int] = field(default_factory=dict)
    cpu_milli: int = 0
    memory_mib: int = 0

    @property
    def is_any(self) -> bool:
        """Whether anything is held."""
        return bool(self.gpus or self.cpu_milli or self.memory_mib)

    def copy(self) -> "Account":
        return Account(self.gpus, dict(self.by_model), self.cpu_milli, self.memory_mib)

    def add(self, model: str, gpus: int, cpu_milli: int, memory_mib: int) -> None:
        """Charge so much; negative numbers give it back."""
        self.gpus += gpus
        self.by_model[model] = self.by_model.get(model, 0) + gpus
        self.cpu_milli += cpu_milli
        self.memory_mib += memory_mib

    def merge(self, other: "Account") -> None:
        """Charge all that another account holds."""
        self.gpus += other.gpus
        self.cpu_milli += other.cpu_milli
        self.memory_mib += other.memory_mib
        for model, gpus in other.by_model.items():
            self.by_model[model] = self.by_model.get(model, 0) + gpus


@dataclass(frozen=True, slots=True)
class _Charge:
    """What one live pod was charged, and to which queue, so that the same is given back."""

    job: JobId
    queue: str
    model: str
    gpus: int
    cpu_milli: int
    memory_mib: int


class Accounts:
    """Use by queue and lines by queue of one world.

    Attributes:
        queues: By name; `default` is always there.
        chains: From each queue up to its root, itself first.
        total: What each queue uses with the queues below it; every queue has one.
        waiting: The lines of each queue in the order of `fair_share`.
        capacity: Of all nodes of the map, whatever their health.
        models: GPU models that the map has, by name.
    """

    def __init__(self) -> None:
        self.queues: Mapping[str, QueueRecord] = {}
        self.chains: dict[str, tuple[str, ...]] = {}
        self.total: dict[str, Account] = {}
        self.waiting = ByQueue()
        self.capacity = Capacity()
        self.models: tuple[str, ...] = ()
        self._by_duration: ByDuration | None = None
        self._direct: dict[str, Account] = {}
        self._charges: dict[PodId, _Charge] = {}
        self._queue_of: dict[JobId, str] = {}
        self._ended: dict[JobId, str] = {}
        self.set_queues(())

    def set_queues(self, queues: Iterable[QueueRecord]) -> None:
        """All queues there are now; what is used stays with the name of its queue."""
        found = {queue.name: queue for queue in queues}
        found.setdefault(DEFAULT_QUEUE, QueueRecord(DEFAULT_QUEUE))
        self.queues = found
        self.chains = {name: _chain(found, name) for name in found}
        self._sum_up()

    def set_topology(self, topology: Topology) -> None:
        """Learn of a new map. Live pods are to be charged anew: their nodes may be of new types."""
        kinds = Counter(kind.name for kind in topology.types)
        self.models = tuple(sorted({kind.gpu for kind in topology.kinds if kind.gpus}))
        known = [(kind, kinds[kind.name]) for kind in topology.kinds]
        by_model: dict[str, int] = {}
        for kind, n in known:
            by_model[kind.gpu] = by_model.get(kind.gpu, 0) + n * kind.gpus
        self.capacity = Capacity(
            sum(n * kind.gpus for kind, n in known),
            sum(n * kind.capacity.cpu_milli for kind, n in known),
            sum(n * kind.capacity.memory_mib for kind, n in known),
            by_model,
        )

    def by_duration(
        self, ageing: float, assumed_s: float, jobs: Callable[[], Iterable[JobRecord]]
    ) -> ByDuration:
        """The line of `shortest_first`, kept up from the first time on that it is asked for.

        Args:
            jobs: All unfinished jobs as this was told of them.
        """
        kept = self._by_duration
        if kept is None or (kept.ageing, kept.assumed_s) != (ageing, assumed_s):
            kept = self._by_duration = ByDuration(ageing, assumed_s)
            for job in jobs():
                kept.put(job)
        return kept

    def put_job(self, job: JobRecord) -> None:
        """Learn of a job's standing; its pods' charges stay with the queue they were made to."""
        self.waiting.put(job)
        if self._by_duration is not None:
            self._by_duration.put(job)
        if job.state in FINAL:
            self._queue_of.pop(job.uid, None)
        else:
            self._queue_of[job.uid] = job.spec.queue

    def put_ended(self, queues: Mapping[JobId, str]) -> None:
        """Learn to which queues the pods of jobs belong that ended and still have live ones."""
        self._ended.update(queues)

    def ended(self) -> dict[JobId, str]:
        """What `put_ended` takes, for all pods that are charged now."""
        charged = self._charges.values()
        return {c.job: c.queue for c in charged if c.job not in self._queue_of}

    def charge(self, pod: PodRecord, topology: Topology) -> None:
        """Learn of a pod that holds its GPUs, or holds others than before.

        A pod whose job is not known is nobody's, unless it was charged to a queue before.
        """
        before = self._charges.get(pod.uid)
        self.release(pod.uid)
        queue = self._queue_of.get(pod.job) or self._ended.get(pod.job)
        if queue is None and before is not None:
            queue = before.queue
        if queue is None:
            return
        node = topology.node_index.get(pod.node)
        charge = _Charge(
            pod.job,
            queue,
            "" if node is None else topology.types[node].gpu,
            pod.gpu_mask.bit_count(),
            pod.resources.cpu_milli,
            pod.resources.memory_mib,
        )
        self._charges[pod.uid] = charge
        self._book(charge, 1)

    def release(self, pod: PodId) -> None:
        """Learn of a pod that holds nothing any more."""
        charge = self._charges.pop(pod, None)
        if charge is not None:
            self._book(charge, -1)

    def _book(self, charge: _Charge, sign: int) -> None:
        amount = (
            charge.model,
            sign * charge.gpus,
            sign * charge.cpu_milli,
            sign * charge.memory_mib,
        )
        direct = self._direct.get(charge.queue)
        if direct is None:
            direct = self._direct[charge.queue] = Account()
        direct.add(*amount)
        for name in self.chains.get(charge.queue, ()):
            self.total[name].add(*amount)

    def _sum_up(self) -> None:
        # Queues come and go: one that holds nothing leaves nothing behind.
        self._direct = {queue: held for queue, held in self._direct.items() if held.is_any}
        self.total = {name: Account() for name in self.queues}
        for queue, direct in self._direct.items():
            for name in self.chains.get(queue, ()):
                self.total[name].merge(direct)


def _chain(queues: Mapping[str, QueueRecord], name: str) -> tuple[str, ...]:
    """A queue and all above it. The store refuses circles; here they end where they close."""
    out: list[str] = []
    at: str | None = name
    while at is not None and at in queues and at not in out and len(out) < DEPTH_MAX:
        out.append(at)
        at = queues[at].parent
    return tuple(out)
