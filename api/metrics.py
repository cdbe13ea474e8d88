"""Every metric of the service: name, unit, labels and meaning."""

from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4

_WAIT_S = (1, 5, 15, 60, 300, 900, 3_600, 4 * 3_600, 12 * 3_600, 86_400, 3 * 86_400, 7 * 86_400)
"""Buckets in seconds: a gang waits for a cycle, or for days."""

QUEUES_MAX = 200
"""Queues with a histogram of their own, those seen first; the rest share `OTHER`."""

OTHER = "_other"
"""No queue's name: those begin with a letter or digit."""

_QUICK_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Buckets in seconds: a placement takes tens of microseconds, a waiting request half a minute."""


class Metrics:
    """The metrics of one process, in a registry of their own.

    Attributes:
        requests: Seconds from the first byte of a request to the last of its answer, by `method`,
            `route` (the template, never the path: paths hold names without end) and `status`.
            Requests that wait on purpose (`?wait=`) are left out.
        cycles: Seconds of one scheduling cycle, from the snapshot to the commit.
        decisions: What cycles decided, by `outcome`: `bound`, `pending`, `reserved` (its place is
            kept), `evicted` (told to leave), `dropped` (something newer touched the gang before the
            commit), `ended`.
        gangs: Jobs that have not been deleted, by `state`.
        gpus: GPUs by `state`: `used`, `free` (on usable nodes), `aside` (free, on nodes that take
            no new pods).
        queue_gpus: GPUs by `queue` and `kind`: `used` (with the queues below it), `quota`, `limit`;
            the last two where they are set.
        queue_pending: Jobs that wait by `queue`, with those of the queues below it.
        largest_gang: GPUs of the largest gang that fits now, by `node_type`, `gpus_per_pod` and the
            `level` inside one domain of which it lies; `cluster` = anywhere.
        revision: The newest revision of the store.
        runner_lag: Revisions that the leader has yet to look at.
        deliveries: Attempts to deliver messages to hooks, by `kind` of message and `outcome`:
            `taken`, `failed` (tried again), `dead` (given up).
        leader: 1 where this process decides, else 0.
        decide: Seconds in which cycles decided, without reading before and writing after.
        waits: Seconds from submission to the first place, by `queue`.
        events: Events by `kind`; counted where the leader is, and from when it began to lead.
        waiting_gangs, waiting_gpus: Gangs without their place, and their GPUs, by `reason`.
        claimed_gpus: GPUs kept for somebody.
        nodes: Nodes by `standing`: `usable`, or why they take nothing new.
        level_domains: Domains of a `level` by `fill`: `empty`, `partly`, `full`.
        level_fragmentation: Share of free GPUs not in empty domains of a `level`.
        regret, spread: Of gangs in their place, `stat` = `mean` or `max`; spread by `level`:
            domains they lie in over the fewest they could. Of the leader: `gangs_measured` gangs.
        faults: Faults nobody cleared yet, by `action`.
        deliveries_pending: Messages to hooks that are still to be delivered.
        paused: 1 while nothing new is placed.
        failures: Turns of the leader that ended in an exception.
        refused: Requests turned away, by `why`: `unauthenticated`, `forbidden`, `too_fast`.
        database_up: Whether the database answered just now, and `database_read`: in what time.
        watchers: Streams of events that are open here.
        ledger_faults: What the last audit found wrong; the leader looks every ten minutes.
        parts_aside: Nodes and gangs where nothing new happens, as the audit found them wrong.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        self.requests = Histogram(
            "podyard_http_request_duration_seconds",
            "Time to answer a request that does not wait on purpose.",
            ("method", "route", "status"),
            buckets=_QUICK_S,
            registry=self.registry,
        )
        self.cycles = Histogram(
            "podyard_cycle_duration_seconds",
            "Time of one scheduling cycle, snapshot to commit.",
            buckets=_QUICK_S,
            registry=self.registry,
        )
        self.decisions = Counter(
            "podyard_decisions",
            "What cycles decided.",
            ("outcome",),
            registry=self.registry,
        )
        self.gangs = self._gauge("podyard_gangs", "Jobs by state.", "state")
        self.gpus = self._gauge("podyard_gpus", "GPUs by state.", "state")
        self.queue_gpus = self._gauge(
            "podyard_queue_gpus", "GPUs of queues: used, quota, limit.", "queue", "kind"
        )
        self.queue_pending = self._gauge(
            "podyard_queue_pending_jobs", "Jobs that wait in queues.", "queue"
        )
        self.largest_gang = self._gauge(
            "podyard_largest_gang_gpus",
            "GPUs of the largest gang that fits now, inside one domain of a level.",
            "node_type",
            "gpus_per_pod",
            "level",
        )
        self.revision = self._gauge("podyard_revision", "Newest revision of the store.")
        self.runner_lag = self._gauge(
            "podyard_runner_lag_revisions", "Revisions the leader has yet to look at."
        )
        self.deliveries = Counter(
            "podyard_hook_deliveries",
            "Attempts to deliver messages to hooks.",
            ("kind", "outcome"),
            registry=self.registry,
        )
        self.leader = self._gauge("podyard_leader", "1 where this process decides, else 0.")
        self._add_work()
        self._add_standing()

    def _add_work(self) -> None:
        self.decide = Histogram(
            "podyard_decision_duration_seconds",
            "Time in which a cycle decided, without reading and writing.",
            buckets=_QUICK_S,
            registry=self.registry,
        )
        self.waits = Histogram(
            "podyard_queue_wait_seconds",
            "Time from submission to the first place.",
            ("queue",),
            buckets=_WAIT_S,
            registry=self.registry,
        )
        self._queues_seen: set[str] = set()
        self.events = Counter(
            "podyard_events",
            "Events, as the leader counts them.",
            ("kind",),
            registry=self.registry,
        )
        self.failures = Counter(
            "podyard_runner_failures", "Turns of the leader that failed.", registry=self.registry
        )
        self.refused = Counter(
            "podyard_requests_refused",
            "Requests turned away for who sent them.",
            ("why",),
            registry=self.registry,
        )
        self.regret = self._gauge(
            "podyard_gang_regret_ratio",
            "Predicted time between nodes over that of the best place, of gangs in their place.",
            "stat",
        )
        self.spread = self._gauge(
            "podyard_gang_spread_ratio",
            "Domains that gangs lie in over the fewest they could.",
            "level",
            "stat",
        )
        self.gangs_measured = self._gauge(
            "podyard_gangs_measured", "Gangs whose regret and spread are known."
        )

    def _add_standing(self) -> None:
        self.waiting_gangs = self._gauge("podyard_waiting_gangs", "Gangs that wait.", "reason")
        self.waiting_gpus = self._gauge(
            "podyard_waiting_gpus", "GPUs that gangs wait for.", "reason"
        )
        self.claimed_gpus = self._gauge("podyard_claimed_gpus", "GPUs kept for somebody.")
        self.nodes = self._gauge("podyard_nodes", "Nodes by standing.", "standing")
        self.level_domains = self._gauge(
            "podyard_level_domains", "Domains of a level by how full they are.", "level", "fill"
        )
        self.level_fragmentation = self._gauge(
            "podyard_level_fragmentation_ratio",
            "Share of free GPUs that are not in empty domains.",
            "level",
        )
        self.faults = self._gauge("podyard_open_faults", "Faults nobody cleared yet.", "action")
        self.deliveries_pending = self._gauge(
            "podyard_hook_deliveries_pending", "Messages to hooks that are to be delivered."
        )
        self.paused = self._gauge("podyard_scheduler_paused", "1 while nothing new is placed.")
        self.breaker = self._gauge(
            "podyard_breaker_open", "1 while lost members are not moved, as too much failed."
        )
        self.database_up = self._gauge("podyard_database_up", "1 if the database answered.")
        self.database_read = self._gauge(
            "podyard_database_read_seconds", "Time of a read of one row, just now."
        )
        self.watchers = self._gauge("podyard_watchers", "Streams of events that are open.")
        self.ledger_faults = self._gauge(
            "podyard_ledger_faults", "What the last audit of the ledger found wrong."
        )
        self.parts_aside = self._gauge(
            "podyard_parts_aside", "Nodes and gangs that the last audit has set aside."
        )

    def _gauge(self, name: str, meaning: str, *labels: str) -> Gauge:
        return Gauge(name, meaning, labels, registry=self.registry)

    def observe_request(self, method: str, route: str, status: int, seconds: float) -> None:
        self.requests.labels(method, route, str(status)).observe(seconds)

    def observe_cycle(self, seconds: float) -> None:
        self.cycles.observe(seconds)

    def count_decisions(self, outcome: str, count: int = 1) -> None:
        if count:
            self.decisions.labels(outcome).inc(count)

    def observe_decision(self, seconds: float) -> None:
        self.decide.observe(seconds)

    def observe_wait(self, queue: str, seconds: float) -> None:
        if queue not in self._queues_seen and len(self._queues_seen) >= QUEUES_MAX:
            queue = OTHER
        self._queues_seen.add(queue)
        self.waits.labels(queue).observe(seconds)

    def count_events(self, by_kind: Mapping[str, int]) -> None:
        for kind, count in by_kind.items():
            self.events.labels(kind).inc(count)

    def show_quality(
        self,
        regret: tuple[float, float] | None,
        spread: Mapping[str, tuple[float, float]],
        measured: int,
    ) -> None:
        """Replace the gauges of how well gangs lie; pairs are mean and worst."""
        self.regret.clear()
        self.spread.clear()
        self.gangs_measured.set(measured)
        if regret is not None:
            for stat, value in zip(("mean", "max"), regret, strict=True):
                self.regret.labels(stat).set(value)
        for level, pair in spread.items():
            for stat, value in zip(("mean", "max"), pair, strict=True):
                self.spread.labels(level, stat).set(value)

    def show_waiting(self, by_reason: Iterable[tuple[str, int, int]]) -> None:
        """Replace the gauges, given as reason, gangs, GPUs."""
        self.waiting_gangs.clear()
        self.waiting_gpus.clear()
        for reason, gangs, gpus in by_reason:
            self.waiting_gangs.labels(reason).set(gangs)
            self.waiting_gpus.labels(reason).set(gpus)

    def show_levels(self, levels: Iterable[tuple[str, Mapping[str, int], float]]) -> None:
        """Replace the gauges, given as level, domains by fill, fragmentation."""
        self.level_domains.clear()
        self.level_fragmentation.clear()
        for level, fills, fragmentation in levels:
            self.level_fragmentation.labels(level).set(fragmentation)
            for fill, count in fills.items():
                self.level_domains.labels(level, fill).set(count)

    def show_by(self, gauge: Gauge, values: Mapping[str, int]) -> None:
        """Replace a gauge of one label."""
        gauge.clear()
        for value, count in values.items():
            gauge.labels(value).set(count)

    def show_gangs(self, by_state: Mapping[str, int]) -> None:
        """Replace the gauge; states without a gang are shown as 0 by the caller or not at all."""
        for state, count in by_state.items():
            self.gangs.labels(state).set(count)

    def show_gpus(self, by_state: Mapping[str, int]) -> None:
        for state, count in by_state.items():
            self.gpus.labels(state).set(count)

    def show_queues(self, queues: Iterable[tuple[str, Mapping[str, int | None], int]]) -> None:
        """Replace the gauges of queues, given as name, GPUs by kind, pending jobs."""
        self.queue_gpus.clear()
        self.queue_pending.clear()
        for name, gpus, pending in queues:
            self.queue_pending.labels(name).set(pending)
            for kind, count in gpus.items():
                if count is not None:
                    self.queue_gpus.labels(name, kind).set(count)

    def show_largest_gangs(self, gpus: Mapping[tuple[str, int, str], int]) -> None:
        """Replace the gauge.

        Args:
            gpus: By node type, GPUs of a pod, and level.
        """
        self.largest_gang.clear()
        for (node_type, gpus_per_pod, level), count in gpus.items():
            self.largest_gang.labels(node_type, str(gpus_per_pod), level).set(count)

    def text(self) -> bytes:
        """All metrics in the Prometheus text format."""
        return generate_latest(self.registry)
