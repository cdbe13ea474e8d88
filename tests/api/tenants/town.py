"""A cluster that two tenants share, and requests in the name of anybody.

Everything of the second tenant has a marker in its name, so that a leak is found by reading.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx2

from api.auth import Caller, Role
from api.clock import ManualClock
from api.store.tokens import add_token
from tests.api.http.contract import Contract
from tests.api.http.yard import Json, Yard

ALPHA = "alpha"
MARK = "zmk"
"""In every name of the other tenant, and nowhere else."""

OTHER = "qxj"
"""As long as the marker, and in no name at all."""

BETA = f"{MARK}-ns"
HOOK = f"http://127.0.0.1:9/{MARK}-hook"


class Door:
    """Requests of one caller, with a token, to a service that runs."""

    def __init__(self, yard: Yard, caller: Caller, contract: Contract | None = None) -> None:
        made = add_token(yard.database, caller, now_s=yard.clock.now_s())
        yard.app.service.gate.keyring.refresh()
        self._client = yard.client
        self._token = {"Authorization": f"Bearer {made.text}"}
        self._contract = contract

    def send(
        self, method: str, path: str, json: object = None, headers: dict[str, str] | None = None
    ) -> httpx2.Response:
        """One request; checked against the description where there is one of its path."""
        sent = self._token | (headers or {})
        answer = (
            self._client.request(method, path, headers=sent)
            if json is None
            else self._client.request(method, path, json=json, headers=sent)
        )
        if self._contract is not None and path.startswith("/v1/"):
            self._contract.check(method, path, answer)
        return answer


def bound(name: str, role: Role, *namespaces: str) -> Caller:
    """Somebody who is bound to namespaces."""
    return Caller(name, role, frozenset(namespaces))


@dataclass(frozen=True)
class Town:
    """Attributes:
    uids: Of the other tenant's jobs and pods.
    """

    yard: Yard
    uids: frozenset[str]


@contextmanager
def town(yard: Yard) -> Iterator[Town]:
    """Both tenants at work: running, waiting, making way for each other, ended, deleted."""
    yard.load()
    _queues(yard)
    _jobs(yard)
    _objects(yard)
    yard.ok("POST", "/v1/nodes/a1/faults", {"code": "ecc_sbe", "message": "looks ill"})
    yard.cycle()
    beta = yard.items(f"/v1/jobs?namespace={BETA}")
    pods = yard.items(f"/v1/pods?namespace={BETA}")
    yield Town(yard, frozenset(str(item["uid"]) for item in (*beta, *pods)))


def _queues(yard: Yard) -> None:
    for queue in (
        {"name": "org"},
        {"name": "ours", "parent": "org", "namespaces": [ALPHA], "max_priority": 1_000},
        {"name": "shared", "parent": "org", "namespaces": [ALPHA, BETA]},
        {"name": f"{MARK}-queue", "parent": "org", "namespaces": [BETA]},
    ):
        yard.ok("POST", "/v1/queues", queue)
    yard.ok("POST", "/v1/queues", {"name": f"{MARK}-gone"})
    yard.ok("DELETE", f"/v1/queues/{MARK}-gone")


def beta_job(name: str, **fields: object) -> Json:
    return {"name": f"{MARK}-{name}", "namespace": BETA, "queue": f"{MARK}-queue"} | fields


def alpha_job(name: str, **fields: object) -> Json:
    return {"name": name, "namespace": ALPHA, "queue": "ours"} | fields


def gang(pods: int) -> Json:
    """Whole nodes of 8 GPUs."""
    return {"roles": [{"name": "m", "replicas": pods, "min": pods, "gpus": 8}]}


def beta_gang(pods: int) -> Json:
    return {"roles": [{"name": f"{MARK}-m", "replicas": pods, "min": pods, "gpus": 8}]}


def _jobs(yard: Yard) -> None:
    hooks = [{"url": HOOK, "events": ["placement.bound"]}]
    run = {"command": ["sleep"], "env": {f"{MARK.upper()}_KEY": f"{MARK}-value"}}
    _submit(yard, beta_job("run", **beta_gang(3), hooks=hooks, run=run, priority=500, spares=1))
    _submit(yard, beta_job("low", **beta_gang(2), queue="shared", duration_s=900.0))
    _submit(yard, beta_job("done", **beta_gang(1), hooks=hooks))
    saves = {"hook": "http://127.0.0.1:9/ours", "grace_s": 60, "interval_s": 900}
    _submit(yard, alpha_job("low", **gang(2)))
    _submit(yard, alpha_job("run", **gang(1), priority=600, checkpoint=saves))
    yard.cycle()
    yard.report_all("running")
    assert isinstance(yard.clock, ManualClock)
    yard.clock.advance(60)
    _end(yard, BETA, f"{MARK}-done", "succeeded", 0)
    path = f"/v1/namespaces/{BETA}/jobs/{MARK}-run/checkpoints"
    yard.ok("POST", path, {"step": 7, "uri": f"s3://{MARK}-bucket/run"})
    yard.ok("POST", "/v1/jobs", beta_job("gone", **beta_gang(1)))
    yard.ok("DELETE", f"/v1/namespaces/{BETA}/jobs/{MARK}-gone")
    yard.cycle()
    # Each has the other make way; nobody of those told to leave has left yet.
    _submit(yard, alpha_job("high", **gang(4), priority=700))
    yard.cycle()
    _submit(yard, beta_job("high", **beta_gang(5), priority=900))
    yard.cycle()
    _submit(yard, alpha_job("wait", **gang(9)))
    _submit(yard, beta_job("wait", **beta_gang(9)))
    _submit(yard, beta_job("held", **beta_gang(1)))
    yard.ok("POST", f"/v1/namespaces/{BETA}/jobs/{MARK}-held/hold")
    yard.cycle(2)


def _submit(yard: Yard, body: Json) -> None:
    yard.ok("POST", "/v1/jobs", body)


def _end(yard: Yard, namespace: str, job: str, state: str, code: int) -> None:
    for pod in yard.items(f"/v1/pods?namespace={namespace}&job={job}"):
        path = f"/v1/namespaces/{namespace}/pods/{pod['name']}/status"
        yard.ok("POST", path, {"attempt": pod["attempt"], "state": state, "exit_code": code})
    yard.cycle()


def _objects(yard: Yard) -> None:
    """What `kubectl` of the other tenant has made."""
    name = f"{MARK}-object"
    meta = {"name": name, "labels": {f"{MARK}/label": MARK}, "annotations": {MARK: MARK}}
    core = f"/api/v1/namespaces/{BETA}"
    batch = f"/apis/batch.volcano.sh/v1alpha1/namespaces/{BETA}/jobs"
    groups = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{BETA}/podgroups"
    head: Json = {"apiVersion": "v1", "metadata": meta}
    container = {"name": f"{MARK}-c", "image": "none"}
    task = {"name": f"{MARK}-t", "replicas": 1, "template": {"spec": {"containers": [container]}}}
    made: list[tuple[str, Json]] = [
        ("/api/v1/namespaces", head | {"kind": "Namespace", "metadata": {**meta, "name": BETA}}),
        (f"{core}/configmaps", head | {"kind": "ConfigMap", "data": {MARK: MARK}}),
        (f"{core}/secrets", head | {"kind": "Secret", "data": {MARK: ""}}),
        (f"{core}/services", head | {"kind": "Service", "spec": {}}),
        (f"{core}/serviceaccounts", head | {"kind": "ServiceAccount"}),
        (
            batch,
            head
            | {
                "apiVersion": "batch.volcano.sh/v1alpha1",
                "kind": "Job",
                "spec": {"queue": f"{MARK}-queue", "minAvailable": 1, "tasks": [task]},
            },
        ),
        (
            groups,
            head
            | {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "PodGroup",
                "spec": {"minMember": 2, "queue": f"{MARK}-queue"},
            },
        ),
        (
            f"{core}/pods",
            head
            | {
                "kind": "Pod",
                "metadata": {**meta, "name": f"{MARK}-pod"},
                "spec": {"containers": [container]},
            },
        ),
    ]
    for path, body in made:
        answer = yard.client.post(path, json=body)
        assert answer.is_success, f"{path}: {answer.status_code} {answer.text[:600]}"
    _alphas(yard)


def _alphas(yard: Yard) -> None:
    core = f"/api/v1/namespaces/{ALPHA}"
    for path, body in (
        (f"{core}/configmaps", {"kind": "ConfigMap", "data": {"a": "b"}}),
        (f"{core}/secrets", {"kind": "Secret", "data": {"a": ""}}),
    ):
        whole = {"apiVersion": "v1", "metadata": {"name": "object"}} | body
        answer = yard.client.post(path, json=whole)
        assert answer.is_success, answer.text[:600]
