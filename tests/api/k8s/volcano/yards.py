"""A service whose Volcano objects a test writes and reads, with cycles when the test says so."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import httpx2
from starlette.testclient import TestClient

from api.admission.admit import Door
from api.k8s.face import Face
from api.k8s.kinds import Parts
from api.k8s.registry import Registry
from api.k8s.volcano.lifecycle import Lifecycle
from api.k8s.volcano.registry import HANDLERS
from tests.api.http.yard import Yard

Json = dict[str, Any]

GROUPS = {
    "Job": "batch.volcano.sh/v1alpha1/namespaces/default/jobs",
    "PodGroup": "scheduling.volcano.sh/v1beta1/namespaces/default/podgroups",
    "Queue": "scheduling.volcano.sh/v1beta1/queues",
    "HyperNode": "topology.volcano.sh/v1alpha1/hypernodes",
    "Command": "bus.volcano.sh/v1alpha1/namespaces/default/commands",
    "PriorityClass": "scheduling.k8s.io/v1/priorityclasses",
}

TWO_DOMAINS = """\
levels: [zone, rack, node]
node_types: {cpu: {gpu: CARD, gpus: 8, cpus: 64, memory_gib: 512}}
nodes:
  - {names: "a[1-4]", type: cpu, rack: s0, zone: top}
  - {names: "b[1-4]", type: cpu, rack: s1, zone: top}
"""
"""Two tier-1 domains of four nodes under one of tier 2."""


class VolcanoYard:
    """The face over the app of a yard, and the lifecycle of jobs."""

    def __init__(self, yard: Yard) -> None:
        self.yard = yard
        database, clock = yard.database, yard.clock
        parts = Parts(database, clock, Door(database))
        face = Face(yard.app, parts=parts, registry=Registry(HANDLERS), closing=asyncio.Event())
        self.client = TestClient(face, base_url="http://127.0.0.1:8080")
        self.lifecycle = Lifecycle(database, clock)

    def call(self, method: str, path: str, body: object = None) -> httpx2.Response:
        """A request; whatever comes back is JSON, and never a 500."""
        content = None if body is None else json.dumps(body)
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        answer = self.client.request(
            method, f"/apis/{path}", content=content, headers={"Content-Type": kind}
        )
        assert answer.status_code < 500, answer.text
        return answer

    def ok(self, method: str, path: str, body: object = None) -> Json:
        answer = self.call(method, path, body)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return dict(answer.json())

    def refused(self, status: int, method: str, path: str, body: object = None) -> Json:
        """The `Status` of a request that must not be served."""
        answer = self.call(method, path, body)
        found = dict(answer.json())
        assert answer.status_code == status, answer.text
        assert (found["kind"], found["status"], found["code"]) == ("Status", "Failure", status)
        return found

    def fields(self, status: Json) -> list[str]:
        """Fields that a refusal names."""
        return [cause["field"] for cause in status["details"].get("causes", [])]

    def path(self, obj: Mapping[str, Any]) -> str:
        """Where objects of a kind are made."""
        path = GROUPS[str(obj["kind"])]
        namespace = obj.get("metadata", {}).get("namespace", "default")
        return path.replace("/default/", f"/{namespace}/")

    def apply(self, obj: Mapping[str, Any]) -> Json:
        return self.ok("POST", self.path(obj), obj)

    def get(self, obj: Mapping[str, Any]) -> Json:
        return self.ok("GET", f"{self.path(obj)}/{obj['metadata']['name']}")

    def phase(self, obj: Mapping[str, Any]) -> str:
        return str(self.get(obj)["status"]["state"]["phase"])

    def command(self, obj: Mapping[str, Any], action: str) -> httpx2.Response:
        """What `vcctl` sends."""
        owner = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], **obj["metadata"]}
        name = obj["metadata"]["name"]
        body = {
            "apiVersion": "bus.volcano.sh/v1alpha1",
            "kind": "Command",
            "metadata": {"generateName": f"{name}-{action.lower()}-", "namespace": "default"},
            "action": action,
            "target": {k: owner[k] for k in ("apiVersion", "kind", "name", "uid") if k in owner},
        }
        return self.call("POST", GROUPS["Command"], body)

    def turn(self) -> None:
        """Let the lifecycle act, the scheduler decide, and the lifecycle see that."""
        self.lifecycle.step()
        self.yard.cycle()
        self.lifecycle.step()

    def pods(self, job: str) -> list[Json]:
        found: list[Json] = [dict(pod) for pod in self.yard.items("/v1/pods")]
        return [pod for pod in found if str(pod["job"]).endswith(job)]

    def report(self, pod: Json, state: str, exit_code: int | None = None) -> None:
        """What the node of a pod says of it."""
        body = {"attempt": pod["attempt"], "state": state}
        body |= {} if exit_code is None else {"exit_code": exit_code}
        path = f"/v1/namespaces/{pod['namespace']}/pods/{pod['name']}/status"
        self.yard.ok("POST", path, body)

    def run(self, job: str, state: str = "running", code: int | None = None, **only: str) -> None:
        """Report a state for the pods of a job, or of one role of it, and go on."""
        for pod in self.pods(job):
            if (
                pod["state"] in ("bound", "running", "terminating")
                and only.get("role", pod["role"]) == pod["role"]
            ):
                self.report(pod, state, code)
        self.turn()
