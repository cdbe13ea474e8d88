"""What the runner knows: the map, what is used of it, every unfinished job, and facts to apply."""

from collections.abc import Hashable, Iterable, Mapping
from math import inf
from typing import TypeVar

from scheduler.cluster.accounts import Accounts
from scheduler.cluster.nodes import Held, NodeTable
from scheduler.cluster.trial import Trial
from scheduler.cluster.waiting import is_in_line
from scheduler.model.claim import Claim, Window
from scheduler.model.ids import ClaimId, JobId, NodeId, PodId
from scheduler.model.job import JobSpec
from scheduler.model.lifecycle import FINAL, JobState, Reason
from scheduler.model.placement import NoFit
from scheduler.model.plan import Fact, JobRecord, PodRecord
from scheduler.model.queue import QueueRecord
from scheduler.model.resources import full_mask
from scheduler.model.standing import PLAIN, NodeStanding, aside_of, standing_of_word
from scheduler.topology.dead_rails import rail_count
from scheduler.topology.tree import Topology

HOLDING = frozenset({JobState.BOUND, JobState.RUNNING, JobState.RECOVERING, JobState.EVICTING})
"""States of jobs whose pods hold GPUs."""

Name = TypeVar("Name", bound=str)

WISHES_KEPT = 100_000
"""Different wishes whose numbers are remembered."""


class World:
    """One process's copy of the cluster as of `revision`; only its owner edits it.

    Attributes:
        jobs: Every job that has not ended.
        pods: Every pod of those jobs by job, live or not.
        facts: Reports and cancels that no plan has taken account of yet, oldest first.
        claims: Every claim. What a claim keeps is not free to others, whenever it starts; a cycle
            lifts those that start late enough for whom it places.
        windows: Maintenance windows by name, those that have no claims yet included.
        accounts: What each queue uses and who waits in it.
        trial: Edits for deciding; always rolled back before anything else is applied.
        never: Wishes (`wish_of`) already asked of the empty cluster, with the verdict or
            None.
        best: Wishes already placed on the empty cluster, with what that is worth (see `backfill`).
        elastic: Jobs of which some members may come and go.
        holding: Jobs in a state in which pods hold GPUs.
        recovering: Of those, the ones that lack members which must run together.
        sparing: Unfinished jobs that want spare nodes.
        timed: Of those, the ones that time alone moves: with a time limit, or on the way out.
        on_node: Live pods by node, whatever their job's state.
        standing: How nodes stand, of those that are not `PLAIN`.
        gone: Of those, the nodes that are lost or out.
        draining: Those that are being drained.
        quarantined: Those that are kept out of use for a time, whether or not it is over.
        alike: How many gangs wait that are alike to the line, see `alike_of`.
        map_changed: The map is new since the last cycle, so the rules of running jobs are to be
            checked.
    """

    def __init__(self, topology: Topology) -> None:
        self.revision = 0
        self.jobs: dict[JobId, JobRecord] = {}
        self.pods: dict[JobId, dict[PodId, PodRecord]] = {}
        self.facts: list[Fact] = []
        self.claims: dict[ClaimId, Claim] = {}
        self.windows: dict[str, Window] = {}
        self.accounts = Accounts()
        self.paused = False
        self.map_changed = True
        self.elastic: set[JobId] = set()
        self.holding: set[JobId] = set()
        self.recovering: set[JobId] = set()
        self.sparing: set[JobId] = set()
        self.timed: set[JobId] = set()
        self.alike: dict[Hashable, int] = {}
        self._alike_of: dict[JobId, Hashable] = {}
        self.on_node: dict[NodeId, dict[PodId, PodRecord]] = {}
        self._wish: dict[JobId, int] = {}
        self._numbers: dict[object, int] = {}
        self._last_number = 0
        self.standing: dict[NodeId, NodeStanding] = {}
        self.gone: set[NodeId] = set()
        self.draining: set[NodeId] = set()
        self.quarantined: set[NodeId] = set()
        self._aside: dict[str, str] = {}
        self._dead_rails: dict[str, int] = {}
        self._held: dict[PodId, PodRecord] = {}
        self._lay_out(topology)

    def _lay_out(self, topology: Topology) -> None:
        self.topology = topology
        self.table = NodeTable(topology)
        self.trial = Trial(self.table)
        self._empty: Trial | None = None
        self.never: dict[int, NoFit | None] = {}
        self.best: dict[Hashable, object] = {}
        for name, reason in self._aside.items():
            if name in topology.node_index:
                self.table.set_aside(topology.node_index[name], reason)
        for name, standing in self.standing.items():
            if standing.lemon and name in topology.node_index:
                self.table.set_lemon(topology.node_index[name], is_one=True)
        self._tell_dead_rails(
            {name: 0 for name, s in self.standing.items() if s.dead_rails} | self._dead_rails
        )
        self.accounts.set_topology(topology)
        for pod in self._held.values():
            self._hold(pod)
            self.accounts.charge(pod, topology)
        for claim in self.claims.values():
            self._claim(claim)

    def set_topology(self, topology: Topology) -> None:
        """Take a new map; what is used stays with its node and GPU."""
        self.map_changed = True
        self._lay_out(topology)

    def put_node(self, name: str, standing: NodeStanding) -> None:
        """Learn how a node stands, on the map or not.

        One in quarantine is kept out of use until `end_quarantines` is told that its time is over.
        """
        node, before = NodeId(name), self.standing.get(NodeId(name), PLAIN)
        if standing == PLAIN:
            self.standing.pop(node, None)
        else:
            self.standing[node] = standing
        _note(self.gone, node, is_in=standing.is_gone)
        _note(self.draining, node, is_in=standing.drain is not None)
        _note(self.quarantined, node, is_in=standing.quarantined_until_s is not None)
        if standing.dead_rails != before.dead_rails:
            self._tell_dead_rails({name: self._dead_rails.get(name, 0)})
        index = self.topology.node_index.get(name)
        if index is not None:
            self.table.set_lemon(index, is_one=standing.lemon)
        self._set_aside(name, aside_of(standing, -inf))

    def set_node(self, name: str, *, aside: str | None) -> None:
        """Say in one word why a node takes no new pods; None = it does."""
        self.put_node(name, standing_of_word(aside))

    def end_quarantines(self, now_s: float) -> float | None:
        """Let nodes be used again whose quarantine is over; when the next one is, Unix seconds."""
        until = {node: self.standing[node].quarantined_until_s or 0.0 for node in self.quarantined}
        for node, until_s in until.items():
            if until_s <= now_s:
                self._set_aside(node, aside_of(self.standing[node], now_s))
        return min((at_s for at_s in until.values() if at_s > now_s), default=None)

    def _set_aside(self, name: str, aside: str | None) -> None:
        if aside is None:
            self._aside.pop(name, None)
        else:
            self._aside[name] = aside
        index = self.topology.node_index.get(name)
        if index is not None:
            self.table.set_aside(index, aside)

    def set_dead_rails(self, rails: Mapping[str, int]) -> None:
        """Learn which rails some nodes have lost, beside those that the map tells of.

        What is placed from now on keeps off them or pays for them; what runs stays. The empty
        cluster has them all.

        Args:
            rails: Node name -> mask of its dead rails, all that there are now; 0 = they are back.
                Nodes that are not named stay as they are; names off the map are remembered.
        """
        for name, mask in rails.items():
            if mask:
                self._dead_rails[name] = mask
            else:
                self._dead_rails.pop(name, None)
        self._tell_dead_rails(rails)

    @property
    def dead_rails(self) -> Mapping[str, int]:
        """What `set_dead_rails` was told, by node name, of nodes that have any."""
        return self._dead_rails

    def _tell_dead_rails(self, rails: Mapping[str, int]) -> None:
        index, types = self.topology.node_index, self.topology.types
        known = {
            index[name]: mask | self.standing.get(NodeId(name), PLAIN).dead_rails
            for name, mask in rails.items()
            if name in index
        }
        self.table.set_dead_rails(
            {node: mask & full_mask(rail_count(types[node])) for node, mask in known.items()}
        )

    def put_job(self, job: JobRecord) -> None:
        """Learn of a job's state; one that ended is forgotten with its pods."""
        self.accounts.put_job(job)
        if job.state in FINAL:
            self.jobs.pop(job.uid, None)
            self.pods.pop(job.uid, None)
            self.elastic.discard(job.uid)
            self.holding.discard(job.uid)
            self.recovering.discard(job.uid)
            self.sparing.discard(job.uid)
            self.timed.discard(job.uid)
            self._wish.pop(job.uid, None)
            self._count_alike(job.uid, None)
        else:
            known = self.jobs.get(job.uid)
            if known is not None and known.spec is not job.spec:
                self._wish.pop(job.uid, None)
            self.jobs[job.uid] = job
            if job.state is JobState.PENDING:
                self.wish(job.uid)  # of those that run, which are many, nobody asks
            if any(role.min < role.replicas for role in job.spec.roles):
                self.elastic.add(job.uid)
            else:
                self.elastic.discard(job.uid)
            _note(self.holding, job.uid, is_in=job.state in HOLDING)
            _note(self.recovering, job.uid, is_in=job.state is JobState.RECOVERING)
            _note(self.sparing, job.uid, is_in=job.spec.spares > 0)
            is_limited = job.state in HOLDING and job.spec.time_limit_s is not None
            _note(self.timed, job.uid, is_in=is_limited or job.evict is not None)
            self._count_alike(job.uid, self.alike_of(job))

    def alike_of(self, job: JobRecord) -> Hashable:
        """Equal for waiting gangs of which one cycle makes the same; None for one that is not.

        They ask for the same, stand in the same queue with the same priority, and were told the
        same. One that has claims, was patient or has a forecast is alike to none.
        """
        if not is_in_line(job):
            return None
        if job.state is not JobState.PENDING or not job.message:
            return job.uid
        if job.could_start_s is not None or job.expected_start_s is not None:
            return job.uid
        if job.goes_first or job.reason is Reason.BACKOFF:
            return job.uid
        spec = job.spec
        ends = spec.duration_s is not None
        return (self.wish(job.uid), spec.queue, spec.priority, spec.preempts, ends, job.reason)

    def _count_alike(self, uid: JobId, key: Hashable) -> None:
        before = self._alike_of.pop(uid, None)
        if before is not None:
            self.alike[before] -= 1
            if not self.alike[before]:
                del self.alike[before]
        if key is not None:
            self._alike_of[uid] = key
            self.alike[key] = self.alike.get(key, 0) + 1

    def wish(self, uid: JobId) -> int:
        """The number of what a job asks for; equal for jobs whose `wish_of` is equal."""
        number = self._wish.get(uid)
        if number is None:
            number = self._wish[uid] = self._number(wish_of(self.jobs[uid].spec))
        return number

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
            if old is not None:
                self.on_node[old.node].pop(old.uid)
                if self._index(old) is not None:
                    self.table.release(self.held_by(old))
            if not pod.is_live:
                self.accounts.release(pod.uid)
        for pod in arrived:
            if pod.is_live:
                self._held[pod.uid] = pod
                self.on_node.setdefault(pod.node, {})[pod.uid] = pod
                self._hold(pod)
                self.accounts.charge(pod, self.topology)
            if pod.job in self.jobs:
                self.pods.setdefault(pod.job, {})[pod.uid] = pod

    def claims_of(self, job: JobId) -> list[Claim]:
        """Claims of a job, by role and index."""
        mine = (claim for claim in self.claims.values() if claim.job == job)
        return sorted(mine, key=lambda c: (c.role, c.index, c.uid))

    def put_claims(self, new: Iterable[Claim], gone: Iterable[ClaimId] = ()) -> None:
        """Learn of claims that changed together.

        Args:
            new: New ones, or known ones with another time or place.
            gone: Those that ended; they make way for the new ones first.
        """
        arrived = list(new)
        for uid in (*gone, *(claim.uid for claim in arrived)):
            old = self.claims.pop(uid, None)
            if old is not None and old.node in self.topology.node_index:
                self.table.unclaim(self.claimed_by(old))
        for claim in arrived:
            self.claims[claim.uid] = claim
            self._claim(claim)

    def set_windows(self, windows: Iterable[Window]) -> None:
        """All maintenance windows there are now."""
        self.windows = {window.name: window for window in windows}

    def set_queues(self, queues: Iterable[QueueRecord]) -> None:
        """All queues there are now."""
        self.accounts.set_queues(queues)

    def put_ended(self, queues: Mapping[JobId, str]) -> None:
        """Learn the queues of jobs that ended before this world began, of which pods are live.

        To be told before those pods are.
        """
        self.accounts.put_ended(queues)

    @property
    def queues(self) -> Mapping[str, QueueRecord]:
        """By name; `default` is always there."""
        return self.accounts.queues

    def claimed_by(self, claim: Claim) -> Held:
        """What a claim keeps; its node must be on the map."""
        job = None if claim.job is None else self.jobs.get(claim.job)
        exclusive = job is not None and job.spec.exclusive
        return Held(
            self.topology.node_index[claim.node], claim.gpu_mask, claim.resources, exclusive
        )

    def held_by(self, pod: PodRecord) -> Held:
        """What a live pod holds; its node must be on the map."""
        job = self.jobs.get(pod.job)
        exclusive = job is not None and job.spec.exclusive
        return Held(self.topology.node_index[pod.node], pod.gpu_mask, pod.resources, exclusive)

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

    def _claim(self, claim: Claim) -> None:
        if claim.node in self.topology.node_index:
            self.table.claim(self.claimed_by(claim))

    def _hold(self, pod: PodRecord) -> None:
        # The store never removes a node that holds a live pod; during a rebuild of the map a pod
        # may still be learnt before its node is.
        if self._index(pod) is not None:
            self.table.hold(self.held_by(pod))


def _note(these: set[Name], name: Name, *, is_in: bool) -> None:
    if is_in:
        these.add(name)
    else:
        these.discard(name)


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
        spec.model,
        tuple(sorted(spec.axis_weights.items())),
        spec.exclusive,
        spec.segment,
        spec.dp_sizes,
    )
