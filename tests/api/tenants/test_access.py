"""`kubectl auth can-i`: what it is told is what happens."""

from collections.abc import Iterator

import pytest

from api.auth import Caller, Role
from api.k8s.registry import registry
from tests.api.http.contract import Contract
from tests.api.http.yard import Json, Yard
from tests.api.tenants.matrix import KUBERNETES, rows
from tests.api.tenants.town import ALPHA, Door, bound

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
RULES = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
READS = ("get", "list", "watch")

MAY = {(row.what, row.verb): row for row in rows(KUBERNETES, verb_first=False)}


def attributes(namespace: str) -> Iterator[tuple[Json, str, str]]:
    """Every verb of every kind as a review asks for it, with the name and the verb of its row."""
    for handler in registry().handlers:
        kind = handler.kind
        if kind.nameless:
            continue
        for part, verbs in (("", kind.verbs), *((s.name, s.verbs) for s in kind.subresources)):
            for verb in verbs:
                asked: Json = {
                    "verb": verb,
                    "group": kind.group,
                    "version": kind.version,
                    "resource": kind.plural,
                    "namespace": namespace,
                }
                if part:
                    asked["subresource"] = part
                name = f"{kind.resource}/{part}" if part else kind.resource
                yield asked, name, "read" if verb in READS else "write"


def allowed(door: Door, asked: Json) -> bool:
    spec = {"resourceAttributes": asked}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": spec,
    }
    answer = door.send("POST", REVIEWS, body)
    assert answer.status_code == 201, answer.text
    return bool(answer.json()["status"]["allowed"])


@pytest.mark.parametrize("role", [role for role in Role if role is not Role.AGENT])
def test_review_says_what_is_so(any_yard: Yard, role: Role) -> None:
    everywhere = Door(any_yard, Caller(f"{role}-everywhere", role))
    here = Door(any_yard, bound(f"{role}-here", role, ALPHA))
    for asked, name, verb in attributes(ALPHA):
        row = MAY[name, verb]
        assert allowed(everywhere, asked) is (role in row.all), asked
        assert allowed(here, asked) is (role in row.bound), asked


@pytest.mark.parametrize("role", [Role.SUBMITTER, Role.OPERATOR, Role.ADMIN])
def test_review_of_another_namespace_says_no(any_yard: Yard, role: Role) -> None:
    here = Door(any_yard, bound(f"{role}-elsewhere", role, ALPHA))
    kinds = {h.kind.plural for h in registry().handlers if h.kind.namespaced}
    for asked, _, _ in attributes("beta"):
        if asked["resource"] in kinds and asked["group"] != "scheduling.volcano.sh":
            assert not allowed(here, asked), asked


def test_review_of_all_namespaces_allows_lists_and_no_writes(any_yard: Yard) -> None:
    here = Door(any_yard, bound("all-of-them", Role.SUBMITTER, ALPHA))
    pods: Json = {"group": "", "version": "v1", "resource": "pods"}
    assert allowed(here, pods | {"verb": "list"})
    assert not allowed(here, pods | {"verb": "create"})
    assert not allowed(here, pods | {"verb": "deletecollection"})


def test_review_of_what_is_not_there_is_no_for_all_but_who_may_everything(any_yard: Yard) -> None:
    viewer = Door(any_yard, Caller("looks", Role.VIEWER))
    root = Door(any_yard, Caller("root-of-all"))
    nonsense: Json = {"group": "apps", "resource": "deployments", "verb": "create"}
    every: Json = {"group": "*", "resource": "*", "verb": "*"}
    assert [allowed(viewer, asked) for asked in (nonsense, every)] == [False, False]
    assert [allowed(root, asked) for asked in (nonsense, every)] == [True, True]


def test_rules_list_what_a_viewer_may(any_yard: Yard, contract: Contract) -> None:
    viewer = Door(any_yard, bound("sees", Role.VIEWER, ALPHA), contract)
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": ALPHA},
    }
    rules = viewer.send("POST", RULES, body).json()["status"]["resourceRules"]
    by_name = {(rule["apiGroups"][0], rule["resources"][0]): rule["verbs"] for rule in rules}
    assert by_name["", "pods"] == ["get", "list", "watch"]
    assert ("", "secrets") not in by_name
    assert ("", "pods/eviction") not in by_name


def test_whoami_tells_role_and_namespaces(any_yard: Yard) -> None:
    door = Door(any_yard, bound("ann-of-alpha", Role.SUBMITTER, ALPHA))
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    told = door.send("POST", path, body).json()["status"]["userInfo"]
    assert told["username"] == "ann-of-alpha"
    assert "podyard.io:submitter" in told["groups"]
    assert told["extra"] == {"podyard.io/namespaces": [ALPHA]}
