"""A seeded day of a busy yard over HTTP: whatever callers, nodes and people do to a service."""

import random
from collections.abc import Callable
from typing import Any

from tests.api.http.yard import Yard

NODES = [f"{rack}{number}" for rack in "abc" for number in range(1, 5)]
"""Of `yard.RACKS`."""

PODS_SHOWN = 200

QUEUES: tuple[dict[str, object], ...] = (
    {"name": "research", "weight": 2, "quota_gpus": 48},
    {"name": "vision", "parent": "research", "limit_gpus": 64},
    {"name": "batch", "weight": 1, "quota_gpus": 16},
)

FAULTS: tuple[dict[str, object], ...] = (
    {"code": "node_lost"},
    {"code": "xid_79"},
    {"code": "xid_48", "gpus": [1]},
    {"code": "rail_down", "rail": 1},
)


class Workload:
    """Does one thing after another, chosen by a seed; refusals are part of the day.

    Attributes:
        refused: Answers by status other than success.
        done: How often each kind of thing was done.
    """

    def __init__(self, yard: Yard, seed: int) -> None:
        self.yard = yard
        self.chance = random.Random(seed)
        self.done: dict[str, int] = {}
        self.refused: dict[int, int] = {}
        self._number = 0
        self._kinds: list[tuple[int, Callable[[], None]]] = [
            (7, self.submit),
            (4, self.submit_pressing),
            (8, self.report_some),
            (6, self.stop_those_that_leave),
            (2, self.cancel),
            (2, self.cordon),
            (2, self.drain),
            (2, self.fault),
            (5, self.clear_fault),
            (1, self.reserve),
            (2, self.control),
            (1, self.change_queue),
            (1, self.change_policy),
            (3, self.wait),
        ]

    def begin(self) -> None:
        """A cluster and its queues."""
        self.yard.load()
        for queue in QUEUES:
            self.yard.ok("POST", "/v1/queues", queue)

    def step(self) -> None:
        """Do one thing."""
        weights = [weight for weight, _ in self._kinds]
        (one,) = self.chance.choices([act for _, act in self._kinds], weights)
        self.done[one.__name__] = self.done.get(one.__name__, 0) + 1
        one()

    def _try(self, method: str, path: str, json: object = None) -> None:
        status = self.yard.client.request(method, path, json=json).status_code
        assert status < 500, f"{method} {path}: {status}"
        if status >= 400:
            self.refused[status] = self.refused.get(status, 0) + 1

    def submit(self, priority: int = 0) -> None:
        chance, self._number = self.chance, self._number + 1
        body: dict[str, Any] = {
            "name": f"j{self._number}",
            "priority": priority or chance.randint(0, 3),
            "queue": chance.choice(["default", "research", "vision", "batch"]),
            "failure": {"max_restarts": 3, "hold_s": 300},
            "if_never_fits": "wait",
        }
        if chance.random() < 0.4:
            body["duration_s"] = chance.choice([600, 3_600])
        if chance.random() < 0.3:
            body["spares"] = 1
        if chance.random() < 0.5:
            body["parallelism"] = {"tp": 8, "pp": chance.randint(1, 4)}
            body["topology"] = [{"group": "job", "within": "leaf", "mode": "preferred"}]
        else:
            replicas = chance.randint(1, 4)
            role = {"name": "m", "replicas": replicas, "gpus": chance.choice([2, 4, 8])}
            body["roles"] = [role | {"min": chance.randint(1, replicas)}]
        self._try("POST", "/v1/jobs", body)

    def submit_pressing(self) -> None:
        """One that comes before all who are there."""
        self.submit(priority=self.chance.randint(5, 9))

    def _pods(self, *states: str) -> list[dict[str, Any]]:
        answer = self.yard.client.get(f"/v1/pods?limit={PODS_SHOWN}").json()["items"]
        return [pod for pod in answer if pod["state"] in states]

    def _report(self, pod: dict[str, Any], state: str) -> None:
        body = {"attempt": pod["attempt"], "state": state}
        if state in {"succeeded", "failed"}:
            body["exit_code"] = int(state == "failed")
        self._try("POST", f"/v1/namespaces/{pod['namespace']}/pods/{pod['name']}/status", body)

    def report_some(self) -> None:
        """Pods run; at times all of a job succeed, or one fails."""
        for pod in self._pods("bound"):
            if self.chance.random() < 0.7:
                self._report(pod, "running")
        running = self._pods("running")
        if not running:
            return
        one = self.chance.choice(running)
        if self.chance.random() < 0.3:
            self._report(one, "failed")
        elif self.chance.random() < 0.5:
            for pod in running:
                if pod["job"] == one["job"]:
                    self._report(pod, "succeeded")

    def stop_those_that_leave(self) -> None:
        for pod in self._pods("terminating"):
            self._report(pod, "stopped")

    def cancel(self) -> None:
        number = self.chance.randint(1, max(self._number, 1))
        self._try("DELETE", f"/v1/namespaces/default/jobs/j{number}")

    def cordon(self) -> None:
        verb = self.chance.choice(["cordon", "uncordon", "uncordon"])
        self._try("POST", f"/v1/nodes/{self.chance.choice(NODES)}/{verb}", {})

    def drain(self) -> None:
        if self.chance.random() < 0.6:
            for node in NODES:
                self._try("POST", f"/v1/nodes/{node}/undrain", {})
            return
        body = {"deadline_s": self.chance.choice([0, 300])}
        self._try("POST", f"/v1/nodes/{self.chance.choice(NODES)}/drain", body)

    def fault(self) -> None:
        node = self.chance.choice(NODES)
        self._try("POST", f"/v1/nodes/{node}/faults", dict(self.chance.choice(FAULTS)))

    def clear_fault(self) -> None:
        for fault in self.yard.client.get("/v1/faults?open=true").json()["items"]:
            self._try("DELETE", f"/v1/nodes/{fault['node']}/faults/{fault['id']}")

    def reserve(self) -> None:
        name = self.chance.choice(["w1", "w2"])
        self._try("DELETE", f"/v1/reservations/{name}")
        begin = self.yard.clock.now_s() + self.chance.choice([0, 300, 2_000])
        body = {
            "name": name,
            "nodes": self.chance.sample(NODES, 2),
            "starts_at": _stamp(begin),
            "ends_at": _stamp(begin + self.chance.choice([100, 1_000])),
        }
        self._try("POST", "/v1/reservations", body)

    def control(self) -> None:
        number = self.chance.randint(max(1, self._number - 8), max(self._number, 1))
        verb = self.chance.choice(["hold", "release", "suspend", "resume", "requeue"])
        self._try("POST", f"/v1/namespaces/default/jobs/j{number}/{verb}", {})

    def change_queue(self) -> None:
        body = {"limit_gpus": self.chance.choice([None, 32, 64])}
        self._try("PATCH", f"/v1/queues/{self.chance.choice(['vision', 'batch'])}", body)

    def change_policy(self) -> None:
        policy = self.yard.client.get("/v1/policy").json()
        policy.pop("revision", None)
        policy |= {
            "order": self.chance.choice(["fair_share", "shortest_first"]),
            "reserve_after_s": self.chance.choice([60.0, 600.0]),
            "breaker_share": self.chance.choice([0.5, 1.0]),
        }
        self._try("PUT", "/v1/policy", policy)

    def wait(self) -> None:
        self._try("POST", "/v1/test/clock", {"advance_s": self.chance.choice([5, 60, 700])})


def _stamp(at_s: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"
