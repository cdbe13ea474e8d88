"""Right requests to begin from: the API's own, kubectl's, an API server's, files of clusters."""

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.api.http.contract import description
from tests.api.k8s.asking import APPLY, JOBS, JSON_PATCH, MERGE, NODES, PODS, STRATEGIC, pod
from tests.api.k8s.test_mutants import MANIFESTS
from tests.fuzz.request import Sent
from tests.fuzz.served import JSON, STAGED
from tests.properties.test_importers_fuzz import PARSERS, mutated, seeds

REVIEWS = Path("tests/golden/webhook/reviews.json")

IMPORTS = {
    "podyard_yaml": "podyard", "slurm_conf": "slurm", "slurm_yaml": "slurm",
    "topograph": "topograph", "k8s_nodes": "kubernetes", "ibnetdiscover": "ibnetdiscover",
    "csv_hosts": "csv", "nccl_xml": "nccl", "nvidia_smi": "nvidia-smi", "sharp_map": "sharp",
    "guid_hosts": "guids", "detect": "",
}  # fmt: skip
"""Importer -> what the query calls it; '' = found out from the text."""

Schema = Mapping[str, Any]


def described(path: str, operation: Schema, method: str) -> list[Sent]:
    """Requests made of the examples in the description of one operation."""
    parameters = {p["name"]: p for p in operation.get("parameters", ())}
    target = path
    for name, value in NAMED.items():
        target = target.replace("{" + name + "}", value)
    if "/sets/" in path:
        target = target.replace("/sets/default/", "/sets/rack/").replace("/ring", "/r1")
    elif "/nodes/" in path:
        target = target.replace("/ring", "/a1")
    elif "/queues/" in path:
        target = target.replace("/ring", "/team")
    elif "/reservations/" in path:
        target = target.replace("/ring", "/window")
    elif "/pods/" in path:
        target = target.replace("/ring", "/ring-w-0")
    query = [f"{n}={_plain(p['schema'])}" for n, p in parameters.items() if p["in"] == "query"]
    found = [Sent(method, target)]
    if query:
        found.append(Sent(method, f"{target}?{'&'.join(query[:2])}"))
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        examples = [e["value"] for e in content.get("examples", {}).values()]
        examples += [content["example"]] if "example" in content else []
        for value in examples:
            text = value if isinstance(value, str) else json.dumps(value)
            found.append(Sent(method, target, text.encode(), {"Content-Type": kind}))
    return found


NAMED = {"namespace": "default", "name": "ring", "id": "1", "kind": "rack"}


def _plain(schema: Schema) -> str:
    some = (schema.get("anyOf") or [schema])[0]
    if "enum" in some:
        return str(some["enum"][0])
    return {"integer": "1", "number": "0.5", "boolean": "true"}.get(some.get("type", ""), "a")


def own() -> list[Sent]:
    """Of the API itself."""
    paths: Schema = description()["paths"]
    some = [
        Sent(
            "POST",
            f"/v1/jobs?dry_run={dry}",
            json.dumps(body | {"name": f"n-{dry}"}).encode(),
            JSON,
        )
        for body in STAGED
        for dry in ("true", "false")
    ]
    return some * 4 + [
        sent
        for path, methods in paths.items()
        for method, operation in methods.items()
        for sent in described(path, operation, method.upper())
        if path != "/v1/test/clock"
    ]


def kubernetes() -> list[Sent]:
    """Of the Kubernetes face: every verb, every kind of patch."""
    found: list[Sent] = []
    for path, manifest in MANIFESTS.items():
        name = manifest["metadata"]["name"]
        body = json.dumps(manifest).encode()
        one = f"{path}/{name}"
        found += [Sent("POST", path, body, JSON), Sent("PUT", one, body, JSON)]
        found += [Sent("GET", path), Sent("GET", one), Sent("DELETE", one)]
        found.append(
            Sent("GET", f"{path}?limit=2&labelSelector=a%3Db&fieldSelector=metadata.name%3Da")
        )
        found.append(
            Sent("GET", path, headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"})
        )
        for kind in (MERGE, STRATEGIC):
            found.append(Sent("PATCH", one, body, {"Content-Type": kind}))
        applied = f"{one}?fieldManager=me&force=true"
        found.append(Sent("PATCH", applied, body, {"Content-Type": APPLY}))
        operations = [
            {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}},
            {"op": "test", "path": "/metadata/name", "value": name},
            {"op": "copy", "from": "/metadata/name", "path": "/metadata/labels/c"},
            {"op": "move", "from": "/metadata/labels/c", "path": "/metadata/labels/d"},
            {"op": "replace", "path": "/metadata/labels/a", "value": "c"},
            {"op": "remove", "path": "/metadata/labels/a"},
        ]
        body = json.dumps(operations).encode()
        found.append(Sent("PATCH", one, body, {"Content-Type": JSON_PATCH}))
    node = {"spec": {"unschedulable": True, "taints": [{"key": "k", "effect": "NoSchedule"}]}}
    found += [
        Sent("PATCH", f"{NODES}/a1", json.dumps(node).encode(), {"Content-Type": kind})
        for kind in (MERGE, STRATEGIC)
    ]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "ring-w-0"}}
    found.append(Sent("POST", f"{PODS}/ring-w-0/eviction", json.dumps(eviction).encode(), JSON))
    found.append(Sent("POST", PODS, json.dumps(pod("p1", group="g")).encode(), JSON))
    texts = (
        *("/api", "/apis", "/version", "/openapi/v2", "/openapi/v3", "/api/v1"),
        *(f"{JOBS}/ring/status", "/api/v1/namespaces/default/events"),
    )
    return [*found, *(Sent("GET", text) for text in texts)]


def reviews() -> list[Sent]:
    """What an API server asks the webhook, and foreign schedulers ask for pods."""
    found = [
        Sent("POST", f"{one['path']}?timeout=10s", json.dumps(one["review"]).encode(), JSON)
        for one in json.loads(REVIEWS.read_text())
    ]
    nodes = [
        {"metadata": {"name": f"n{i}", "labels": {"network.topology.nvidia.com/leaf": f"l{i % 2}"}},
         "status": {"allocatable": {"cpu": "8", "nvidia.com/gpu": "8"}}}
        for i in range(3)
    ]  # fmt: skip
    asked = {"Pod": pod("p", group="g"), "Nodes": {"items": nodes}, "NodeNames": None}
    for verb in ("filter", "prioritize"):
        found.append(Sent("POST", f"/extender/kube/{verb}", json.dumps(asked).encode(), JSON))
    about = {"name": "p", "namespace": "default", "job": "default/g", "resreq": {"milli_cpu": 1}}
    task = {"task": about, "nodes": {f"n{i}": node for i, node in enumerate(nodes)}}
    verbs = (
        "onSessionOpen", "onSessionClose", "predicate", "prioritize", "preemptable",
        "reclaimable", "queueOverused", "jobEnqueueable", "jobEnqueued", "jobReady",
        "allocateFunc", "deallocateFunc",
    )  # fmt: skip
    for verb in verbs:
        found.append(Sent("POST", f"/extender/volcano/{verb}", json.dumps(task).encode(), JSON))
    return found


def a_file(draw: random.Random) -> Sent:
    """A damaged description of a cluster, sent as its format or to be found out."""
    name = draw.choice(sorted(PARSERS))
    text = mutated(draw, seeds_of(name))
    said = draw.choice((IMPORTS[name], IMPORTS[name], "", draw.choice(sorted(IMPORTS.values()))))
    kind = draw.choice(("application/yaml", "text/plain", "application/json", "text/csv"))
    query = f"?format={said}&dry_run=true" if said else "?dry_run=true"
    return Sent("POST", f"/v1/inventory{query}", text, {"Content-Type": kind})


_SEEDS: dict[str, list[bytes]] = {}


def seeds_of(name: str) -> list[bytes]:
    if name not in _SEEDS:
        _SEEDS[name] = seeds(name)
    return _SEEDS[name]
