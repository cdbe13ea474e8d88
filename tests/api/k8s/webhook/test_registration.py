"""What is registered in `deploy/` is what is answered, and what Volcano registers."""

from pathlib import Path
from typing import Any

import yaml

from api.k8s.webhook.hooks import HOOKS
from tests.core.importers.samples import sample

Json = dict[str, Any]
FOLDER = Path("deploy/volcano-webhook")


def registered(text: str) -> dict[str, Json]:
    """Webhooks by their path."""
    found: dict[str, Json] = {}
    for document in yaml.safe_load_all(text):
        for hook in (document or {}).get("webhooks", ()):
            path = hook["clientConfig"]["service"]["path"]
            found[path] = hook | {"configuration": document["kind"]}
    return found


def ours() -> dict[str, Json]:
    return registered((FOLDER / "webhooks.yaml").read_text())


def test_every_registered_webhook_is_answered() -> None:
    for path, hook in ours().items():
        known = HOOKS[path]
        (rule,) = hook["rules"]
        assert hook["name"] == known.name
        assert (rule["apiGroups"], rule["apiVersions"], rule["resources"]) == tuple(
            [part] for part in known.resource
        )
        assert tuple(rule["operations"]) == known.operations
        assert hook["configuration"].startswith("Mutating" if known.mutate else "Validating")


def test_every_path_but_those_of_pods_is_registered() -> None:
    assert set(HOOKS) - set(ours()) == {"/pods/mutate", "/pods/validate"}


def test_registration_asks_as_volcano_does() -> None:
    theirs = registered(sample("volcano/admission/webhook-configurations.yaml"))
    mine = ours()
    assert set(theirs) <= set(mine)
    for path, hook in theirs.items():
        for field in ("admissionReviewVersions", "failurePolicy", "matchPolicy", "timeoutSeconds"):
            assert hook.get(field) == mine[path].get(field), (path, field)
        for field in ("apiGroups", "apiVersions", "operations", "resources"):
            assert hook["rules"][0][field] == mine[path]["rules"][0][field], (path, field)


def test_other_manifests_parse_and_name_the_same_service() -> None:
    documents = list(yaml.safe_load_all((FOLDER / "service.yaml").read_text()))
    service = next(d for d in documents if d and d["kind"] == "Service")
    meta = service["metadata"]
    for hook in ours().values():
        named = hook["clientConfig"]["service"]
        assert (named["name"], named["namespace"]) == (meta["name"], meta["namespace"])
        assert named["port"] == service["spec"]["ports"][0]["port"]
