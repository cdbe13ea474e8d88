"""Requests to the Kubernetes face of a service in a test."""

from collections.abc import Mapping
from typing import Any

import httpx2

from tests.api.http.yard import Yard

JOBS = "/apis/podyard.io/v1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"

Obj = dict[str, Any]


def send(
    yard: Yard,
    method: str,
    path: str,
    body: object = None,
    *,
    kind: str = "application/json",
    accept: str = "application/json",
) -> httpx2.Response:
    """One request; a body of bytes or text is sent as it is."""
    headers: Mapping[str, str] = {"Content-Type": kind, "Accept": accept}
    if isinstance(body, bytes | str):
        return yard.client.request(method, path, content=body, headers=headers)
    if body is None:
        return yard.client.request(method, path, headers={"Accept": accept})
    content = httpx2.Request("POST", "http://x/", json=body).content
    return yard.client.request(method, path, content=content, headers=headers)


def ok(
    yard: Yard,
    method: str,
    path: str,
    body: object = None,
    *,
    kind: str = "application/json",
    accept: str = "application/json",
) -> Obj:
    """The answer of a request that must be served."""
    answer = send(yard, method, path, body, kind=kind, accept=accept)
    assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text[:800]}"
    found: Obj = answer.json()
    return found


def refused(
    yard: Yard,
    status: int,
    method: str,
    path: str,
    body: object = None,
    *,
    kind: str = "application/json",
    accept: str = "application/json",
) -> Obj:
    """The Status of a request that must not be served."""
    answer = send(yard, method, path, body, kind=kind, accept=accept)
    assert answer.status_code == status, (
        f"{method} {path}: {answer.status_code} {answer.text[:800]}"
    )
    told: Obj = answer.json()
    assert (told["kind"], told["apiVersion"], told["status"]) == ("Status", "v1", "Failure")
    assert told["code"] == status
    assert told["message"]
    return told


def fields(told: Obj) -> list[str]:
    """Fields that a Status names."""
    return [cause["field"] for cause in told["details"].get("causes", ())]


def job(name: str = "job", labels: Mapping[str, str] | None = None, **spec: object) -> Obj:
    """A manifest of a job of one rack's size, unless said otherwise."""
    return {
        "apiVersion": "podyard.io/v1",
        "kind": "Job",
        "metadata": {"name": name} | ({"labels": dict(labels)} if labels else {}),
        "spec": spec or {"parallelism": {"tp": 8, "pp": 2}},
    }


def pod(name: str = "lone", gpus: object = 2, **annotations: str) -> Obj:
    """A manifest of a pod; annotations by `group` and `queue`."""
    keys = {"group": "scheduling.k8s.io/group-name", "queue": "scheduling.volcano.sh/queue-name"}
    noted = {keys[name]: value for name, value in annotations.items()}
    limits = {"nvidia.com/gpu": str(gpus)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name} | ({"annotations": noted} if noted else {}),
        "spec": {
            "schedulerName": "volcano",
            "containers": [{"name": "main", "image": "none", "resources": {"limits": limits}}],
        },
    }


def names(listed: Obj) -> list[str]:
    """Names of the items of a list, or of the rows of a table."""
    if listed["kind"] == "Table":
        return [row["cells"][0] for row in listed["rows"]]
    return [item["metadata"]["name"] for item in listed["items"]]
