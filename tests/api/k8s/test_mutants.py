"""Manifests and patches with anything in any place: each is taken or refused, and never fails."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.api.http.yard import Yard
from tests.api.k8s.asking import (
    APPLY,
    JOBS,
    JSON_PATCH,
    MERGE,
    NODES,
    PODS,
    STRATEGIC,
    Obj,
    job,
    pod,
    send,
)

VOLCANO = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "metadata": {"name": "vc", "annotations": {"a": "b"}},
    "spec": {
        "minAvailable": 1,
        "queue": "default",
        "policies": [{"event": "PodEvicted", "action": "RestartJob"}],
        "tasks": [
            {
                "name": "w",
                "replicas": 1,
                "template": {
                    "spec": {
                        "containers": [
                            {"name": "m", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
                        ]
                    }
                },
            }
        ],
    },
}
GROUP = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "PodGroup",
    "metadata": {"name": "pg"},
    "spec": {"minMember": 2, "queue": "default", "priorityClassName": ""},
}
QUEUE = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "Queue",
    "metadata": {"name": "q"},
    "spec": {"weight": 1, "capability": {"nvidia.com/gpu": "8"}},
}
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}}
FULL = job("j", {"a": "b"}, roles=[{"name": "w", "replicas": 2, "gpus": 1, "resources": {"x": 1}}],
           topology=[{"group": "job", "within": "rack"}], tolerations=[{"key": "a"}])  # fmt: skip

MANIFESTS = {
    JOBS: FULL,
    PODS: pod("p", group="g", queue="default"),
    "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs": VOLCANO,
    "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups": GROUP,
    "/apis/scheduling.volcano.sh/v1beta1/queues": QUEUE,
    "/api/v1/namespaces/default/configmaps": CONFIG,
    "/api/v1/namespaces": {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}},
}

NUMBERS = [-1, 0, 1.5, 2**31, 2**63 - 1]
TEXTS = ["", "x", "é\u0000", "\ud800", "a/b", "9" * 40, "-1", "1e999"]
VALUES: list[object] = [None, True, [], {}, [[]], [None], {"a": None}, [{}], {"name": 1}]
ODD = st.sampled_from([*NUMBERS, *TEXTS, *VALUES])
MUTANTS = 25
"""Of each; derandomized, so that a run is as good as another."""

SETTINGS = settings(
    max_examples=MUTANTS,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:  # noqa: ANN401  # any value of JSON
    """Every place in a value."""
    if path:
        yield path
    if isinstance(value, dict):
        items: Iterator[tuple[Any, Any]] = iter(value.items())
    elif isinstance(value, list):
        items = iter(enumerate(value))
    else:
        return
    for key, inner in items:
        yield from places(inner, (*path, key))


def mutant(manifest: Obj, chosen: int, odd: object) -> Obj:
    """A copy with something odd in one place."""
    made = copy.deepcopy(manifest)
    found = list(places(made))
    path = found[chosen % len(found)]
    here: Any = made
    for key in path[:-1]:
        here = here[key]
    here[path[-1]] = odd
    return made


def checked(yard: Yard, method: str, path: str, body: object, kind: str) -> None:
    answer = send(yard, method, path, json.dumps(body), kind=kind)
    told = answer.json()
    assert answer.status_code < 500, (method, path, body, told)
    if answer.status_code >= 400:
        assert (told["kind"], told["code"]) == ("Status", answer.status_code), (body, told)
        assert told["message"]


@pytest.mark.parametrize("path", MANIFESTS)
@SETTINGS
@given(chosen=st.integers(0, 200), odd=ODD)
def test_any_manifest_is_taken_or_refused(
    any_yard: Yard, path: str, chosen: int, odd: object
) -> None:
    body = mutant(MANIFESTS[path], chosen, odd)
    for query in ("?dryRun=All&fieldValidation=Strict", "?dryRun=All&fieldValidation=Ignore"):
        checked(any_yard, "POST", path + query, body, "application/json")
    applied = f"{path}/applied?dryRun=All&fieldManager=me"
    checked(any_yard, "PATCH", applied, body, APPLY)


PATCHED = {
    f"{JOBS}/there": FULL,
    f"{PODS}/alone": pod("alone"),
    f"{NODES}/a1": {
        "metadata": {"labels": {"a": "b"}, "annotations": {"a": "b"}},
        "spec": {"unschedulable": True, "taints": [{"key": "k", "effect": "NoSchedule"}]},
    },
    "/api/v1/namespaces/default/configmaps/c": CONFIG,
}


@pytest.mark.parametrize("path", PATCHED)
@SETTINGS
@given(
    chosen=st.integers(0, 200), odd=ODD, kind=st.sampled_from([MERGE, STRATEGIC, APPLY, JSON_PATCH])
)
def test_any_patch_is_taken_or_refused(
    any_yard: Yard, path: str, chosen: int, odd: object, kind: str
) -> None:
    send(any_yard, "POST", JOBS, FULL | {"metadata": {"name": "there"}})
    send(any_yard, "POST", PODS, pod("alone"))
    send(any_yard, "POST", "/api/v1/namespaces/default/configmaps", CONFIG)
    body: object = mutant(PATCHED[path], chosen, odd)
    if kind == JSON_PATCH:
        body = [{"op": "add", "path": "/metadata/labels", "value": odd}, {"op": odd, "path": odd}]
        body = body[: 1 + chosen % 2]
    checked(any_yard, "PATCH", f"{path}?dryRun=All&fieldManager=me", body, kind)
    checked(any_yard, "PUT", f"{path}?dryRun=All", body, "application/json")
    checked(any_yard, "DELETE", f"{path}?dryRun=All", odd, "application/json")


@SETTINGS
@given(text=st.text(max_size=30), odd=st.text(max_size=10))
def test_any_path_is_answered_with_a_status(any_yard: Yard, text: str, odd: str) -> None:
    clean = "".join(c for c in text if c.isprintable() and c not in "?#\\") or "x"
    for base in ("/api/v1/", "/apis/podyard.io/v1/", "/apis/", f"{PODS}/", f"{NODES}/"):
        answer = any_yard.client.request("GET", base + clean, params={"labelSelector": odd})
        assert answer.status_code < 500, (base, clean, odd)
