"""AdmissionReviews as an API server sends them, and the objects they are about."""

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from api.k8s.volcano.patch import apply_patch
from api.k8s.volcano.shape import Tree
from api.k8s.volcano.site import QueueSeen, Site
from api.k8s.webhook.hooks import HOOKS
from api.k8s.webhook.review import answer_review
from tests.core.importers.samples import sample

Json = dict[str, Any]

SITE = Site({name: QueueSeen(name) for name in ("root", "default", "research")})

KINDS = {
    "jobs": "Job",
    "cronjobs": "CronJob",
    "podgroups": "PodGroup",
    "queues": "Queue",
    "hypernodes": "HyperNode",
    "jobflows": "JobFlow",
    "pods": "Pod",
}


def review_of(
    path: str, obj: Tree | None, old: Tree | None = None, *, operation: str = "CREATE"
) -> Tree:
    """The question that an API server sends to one path of the webhook."""
    group, version, plural = HOOKS[path].resource
    meta = (obj or old or {}).get("metadata", {})
    meta = meta if isinstance(meta, dict) else {}
    what = {"group": group, "version": version}
    return {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": "4c1f6b2e-0c9c-4d3c-8f0e-2d5b2f9f3a11",
            "kind": what | {"kind": KINDS[plural]},
            "resource": what | {"resource": plural},
            "requestKind": what | {"kind": KINDS[plural]},
            "requestResource": what | {"resource": plural},
            "name": meta.get("name", ""),
            "namespace": meta.get("namespace", "default"),
            "operation": operation,
            "userInfo": {"username": "kubernetes-admin", "groups": ["system:authenticated"]},
            "object": obj,
            "oldObject": old,
            "dryRun": False,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    }


def ask(path: str, obj: Tree | None, old: Tree | None = None, **given: Any) -> Tree:  # noqa: ANN401  # any JSON
    """The response to a review; `site` and `operation` may be given."""
    operation, site = str(given.get("operation", "CREATE")), given.get("site", SITE)
    assert isinstance(site, Site)
    body = json.dumps(review_of(path, obj, old, operation=operation)).encode()
    answer = answer_review(HOOKS[path], body, lambda: site)
    assert (answer["kind"], answer["apiVersion"]) == ("AdmissionReview", "admission.k8s.io/v1")
    response = answer["response"]
    assert isinstance(response, dict)
    assert response["uid"] == "4c1f6b2e-0c9c-4d3c-8f0e-2d5b2f9f3a11"
    assert ("patch" in response) == ("patchType" in response)
    return response


def refusal(path: str, obj: Tree | None, old: Tree | None = None, **given: Any) -> str:  # noqa: ANN401  # any JSON
    """Why a review is denied; "" where it is allowed."""
    response = ask(path, obj, old, **given)
    if response["allowed"]:
        return ""
    status = response["status"]
    assert isinstance(status, dict)
    return str(status["message"])


def patch_of(path: str, obj: Tree, **given: Any) -> list[Tree]:  # noqa: ANN401  # any JSON
    """Operations of an allowed review."""
    response = ask(path, obj, **given)
    assert response["allowed"], response
    text = base64.b64decode(str(response.get("patch", "W10=")))
    found = json.loads(text)
    assert isinstance(found, list)
    return found


def patched(path: str, obj: Tree, **given: Any) -> Tree:  # noqa: ANN401  # any JSON
    """The object that an API server makes of an answer."""
    made = apply_patch(obj, patch_of(path, obj, **given))
    assert isinstance(made, dict)
    return made


def manifests(name: str) -> list[Tree]:
    """The objects of a sample file."""
    found = list(yaml.safe_load_all(sample(f"volcano/{name}")))
    return [item for item in found if isinstance(item, dict)]


def task(name: str = "worker", replicas: int = 2, **fields: object) -> Json:
    """A task with one container."""
    container: Tree = {"name": "main", "image": "trainer:1", "resources": {"requests": {"cpu": 1}}}
    template: Tree = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    return {"name": name, "replicas": replicas, "template": template} | fields


def job(*tasks: Tree, name: str = "train", **spec: Any) -> Json:  # noqa: ANN401  # any JSON
    """A job as an API server has it after the defaults of its definition."""
    found: Sequence[Mapping[str, object]] = tasks or (task(),)
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"queue": "default", "maxRetry": 3, "minAvailable": 1, "tasks": list(found)} | spec,
    }


def queue(name: str = "lab", annotations: Mapping[str, str] | None = None, **spec: object) -> Json:
    """A queue as an API server has it."""
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name, "annotations": dict(annotations or {})},
        "spec": {"weight": 1} | spec,
    }


def seen(*queues: Tree, **pods: int) -> Site:
    """A cluster with these queues; `pods` that are placed by queue."""
    found = dict(SITE.queues)
    for item in queues:
        meta, spec = item["metadata"], item["spec"]
        assert isinstance(meta, dict)
        assert isinstance(spec, dict)
        name = str(meta["name"])
        found[name] = QueueSeen(
            name,
            str(spec.get("parent", "")),
            spec=spec,
            annotations=meta.get("annotations", {}),
            allocated_pods=pods.get(name, 0),
        )
    return Site(found)
