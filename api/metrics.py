"""Every metric of the service: name, unit, labels and meaning."""

from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4

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

    def _gauge(self, name: str, meaning: str, *labels: str) -> Gauge:
        return Gauge(name, meaning, labels, registry=self.registry)

    def observe_request(self, method: str, route: str, status: int, seconds: float) -> None:
        self.requests.labels(method, route, str(status)).observe(seconds)

    def observe_cycle(self, seconds: float) -> None:
        self.cycles.observe(seconds)

    def count_decisions(self, outcome: str, count: int = 1) -> None:
        if count:
            self.decisions.labels(outcome).inc(count)

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
