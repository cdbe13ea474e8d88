"""What the runner knows: the map, what is used of it, every unfinished job, and facts to apply."""

from collections.abc import Iterable

from scheduler.cluster.nodes import Held, NodeTable
from scheduler.cluster.trial import Trial
from scheduler.model.ids import JobId, PodId
from scheduler.model.job import JobSpec
from scheduler.model.lifecycle import FINAL
from scheduler.model.placement import NoFit
from scheduler.model.plan import Fact, JobRecord, PodRecord
from scheduler.topology.tree import Topology

WISHES_KEPT = 100_000
"""Different wishes whose numbers are remembered."""


class World:
    """One process's copy of the cluster as of `revision`; only its owner edits it.

    Attributes:
        jobs: Every job that has not ended.
        pods: Every pod of those jobs by job, live or not.
        facts: Reports and cancels that no plan has taken account of yet, oldest first.
        trial: Edits for deciding; always rolled back before anything else is applied.
        never: Wishes (`cycle.wish_of`) already asked of the empty cluster, with the verdict or
            None.
        elastic: Jobs of which some members may come and go.
        map_changed: The map is new since the last cycle, so the rules of running jobs are to be
            checked.
    """

    def __init__(self, topology: Topology) -> None:
        self.revision = 0
        self.jobs: dict[JobId, JobRecord] = {}
        self.pods: dict[JobId, dict[PodId, PodRecord]] = {}
        self.facts: list[Fact] = []
        self.paused = False
        self.map_changed = True
        self.elastic: set[JobId] = set()
        self.wish: dict[JobId, int] = {}
        self._numbers: dict[object, int] = {}
        self._last_number = 0
        self._aside: dict[str, str] = {}
        self._held: dict[PodId, PodRecord] = {}
        self._lay_out(topology)

    def _lay_out(self, topology: Topology) -> None:
        self.topology = topology
        self.table = NodeTable(topology)
        self.trial = Trial(self.table)
        self._empty: Trial | None = None
        self.never: dict[int, NoFit | None] = {}
        for name, reason in self._aside.items():
            if name in topology.node_index:
                self.table.set_aside(topology.node_index[name], reason)
        for pod in self._held.values():
            self._hold(pod)

    def set_topology(self, topology: Topology) -> None:
        """Take a new map; what is used stays with its node and GPU."""
        self.map_changed = True
        self._lay_out(topology)

    def set_node(self, name: str, *, aside: str | None) -> None:
        """Say why a node takes no new pods; None = it does."""
        if aside is None:
            self._aside.pop(name, None)
        else:
            self._aside[name] = aside
        index = self.topology.node_index.get(name)
        if index is not None:
            self.table.set_aside(index, aside)

    def put_job(self, job: JobRecord) -> None:
        """Learn of a job's state; one that ended is forgotten with its pods."""
        if job.state in FINAL:
            self.jobs.pop(job.uid, None)
            self.pods.pop(job.uid, None)
            self.elastic.discard(job.uid)
            self.wish.pop(job.uid, None)
        else:
            known = self.jobs.get(job.uid)
            if known is None or known.spec is not job.spec:
                self.wish[job.uid] = self._number(wish_of(job.spec))
            self.jobs[job.uid] = job
            if any(role.min < role.replicas for role in job.spec.roles):
                self.elastic.add(job.uid)
            else:
                self.elastic.discard(job.uid)

    def _number(self, wish: object) -> int:
        if len(self._numbers) >= WISHES_KEPT and wish not in self._numbers:
            # Numbers in use stay as they are; equal wishes from now on may have two.
            self._numbers.clear()
        number = self._numbers.get(wish)
        if number is None:
            self._last_number += 1
            number = self._numbers[wish] = self._last_number
        return number

    def put_pod(self, pod: PodRecord) -> None:
        """Learn of one pod; see `put_pods`."""
        self.put_pods((pod,))

    def put_pods(self, pods: Iterable[PodRecord]) -> None:
        """Learn of pods that changed together; a live one holds its GPUs whatever its job's state.

        All that leave do so before any arrives, since one may take the GPUs of another.
        """
        arrived = list(pods)
        for pod in arrived:
            old = self._held.pop(pod.uid, None)
            if old is not None and self._index(old) is not None:
                self.table.release(self.held_by(old))
        for pod in arrived:
            if pod.is_live:
                self._held[pod.uid] = pod
                self._hold(pod)
            if pod.job in self.jobs:
                self.pods.setdefault(pod.job, {})[pod.uid] = pod

    def held_by(self, pod: PodRecord) -> Held:
        """What a live pod holds; its node must be on the map."""
        return Held(self.topology.node_index[pod.node], pod.gpu_mask, pod.resources)

    def live_pods(self, job: JobId) -> list[PodRecord]:
        """The job's pods that hold GPUs, by role and index."""
        pods = [p for p in self.pods.get(job, {}).values() if p.is_live]
        return sorted(pods, key=lambda p: (p.role, p.index))

    def emptied(self) -> Trial:
        """The same map with every node healthy, uncordoned and empty; not to be edited for good."""
        if self._empty is None:
            self._empty = Trial(NodeTable(self.topology))
        return self._empty

    def _index(self, pod: PodRecord) -> int | None:
        return self.topology.node_index.get(pod.node)

    def _hold(self, pod: PodRecord) -> None:
        # The store never removes a node that holds a live pod; during a rebuild of the map a pod
        # may still be learnt before its node is.
        if self._index(pod) is not None:
            self.table.hold(self.held_by(pod))


def wish_of(spec: JobSpec) -> object:
    """What of a job decides where it may go; jobs that differ in name or standing share it."""
    return (
        spec.parallelism,
        spec.gpus_per_pod,
        spec.resources_per_pod,
        spec.roles,
        spec.rules,
        spec.gpu,
        tuple(sorted(spec.labels.items())),
        spec.tolerations,
        spec.nodes,
        spec.rails_required,
    )
