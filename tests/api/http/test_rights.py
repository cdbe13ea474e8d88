"""Every call there is has its right in the table, and the table has no others."""

from collections.abc import Iterable, Iterator

import pytest
from starlette.routing import BaseRoute, Route

from api.auth import Caller, Forbidden, Right, Role
from api.auth.table import KNOWN, Table
from api.http.rights import TABLE
from api.k8s.registry import registry
from api.k8s.rights import asked_of
from tests.api.http.yard import Yard

READ_METHODS = {"GET", "HEAD"}


def calls(routes: Iterable[BaseRoute]) -> Iterator[tuple[str, str]]:
    for route in routes:
        if isinstance(route, Route):
            for method in (route.methods or set()) - {"HEAD"}:
                yield method, route.path


def test_every_route_has_its_right_in_the_table_and_the_table_no_others(any_yard: Yard) -> None:
    """A new route goes into `api/http/rights.py`; until then nobody known may call it."""
    there = set(calls(any_yard.app.routed.routes))
    assert len(there) > 80
    missing, unknown = sorted(there - set(TABLE)), sorted(set(TABLE) - there)
    assert missing == [], "add these to api/http/rights.py"
    assert unknown == [], "these are in api/http/rights.py and nowhere else"


def test_nothing_that_changes_is_public_or_asks_for_reading_alone() -> None:
    """But a question that is too long for a URL, and what a browser says to be known."""
    lenient = {
        call
        for call in TABLE
        if call[0] not in READ_METHODS
        and set(TABLE.rights(*call) or ()) <= {Right.READ, Right.PUBLIC}
    }
    assert lenient == {("POST", "/v1/whatif"), ("POST", "/login"), ("POST", "/logout")}


def test_public_calls_tell_nothing_of_the_cluster() -> None:
    public = {path for method, path in TABLE if TABLE.rights(method, path) == (Right.PUBLIC,)}
    assert public == {
        "/",
        "/dashboard/{name}",
        "/docs",
        "/openapi.json",
        "/healthz",
        "/readyz",
        "/login",
        "/logout",
    }


@pytest.mark.parametrize(
    ("method", "path", "route", "namespace", "node"),
    [
        ("GET", "/v1/jobs", "/v1/jobs", None, None),
        ("HEAD", "/v1/jobs", "/v1/jobs", None, None),
        ("POST", "/v1/jobs:batch", "/v1/jobs:batch", None, None),
        (
            "GET",
            "/v1/namespaces/a/jobs/b",
            "/v1/namespaces/{namespace}/jobs/{name}",
            "a",
            None,
        ),
        ("POST", "/v1/nodes/n1/heartbeat", "/v1/nodes/{name}/heartbeat", None, "n1"),
        ("POST", "/v1/sets/rack/a/b/drain", "/v1/sets/{kind}/{name:path}/drain", None, None),
        ("GET", "/", "/", None, None),
    ],
)
def test_table_finds_calls_by_path(
    method: str, path: str, route: str, namespace: str | None, node: str | None
) -> None:
    found = TABLE.find(method, path)
    assert found is not None
    assert (found.route, found.namespace, found.node) == (route, namespace, node)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "/v1/jobs"),
        ("GET", "/v1/jobs/"),
        ("GET", "//v1/jobs"),
        ("GET", "/v1//jobs"),
        ("GET", "/v1/../v1/jobs"),
        ("GET", "/v1/namespaces//jobs/x"),
        ("POST", "/v1/nodes/a/b/heartbeat"),
        ("GET", ""),
        ("GET", "/V1/jobs"),
        ("OPTIONS", "/v1/jobs"),
    ],
)
def test_table_has_no_call_by_another_spelling(method: str, path: str) -> None:
    assert TABLE.find(method, path) is None


def test_methods_of_a_path_are_those_of_all_its_routes() -> None:
    assert TABLE.methods("/v1/queues/x") == ["DELETE", "GET", "PATCH", "PUT"]
    assert TABLE.methods("/v1/sets/rack/r1/drain") == ["POST"]
    assert TABLE.methods("/nothing") == []


def test_literal_words_go_before_names() -> None:
    table = Table(
        (((Right.READ,), ("GET /a/{name}", "GET /a/{name}/c")), ((Right.ADMIN,), ("GET /a/b",)))
    )
    literal = table.find("GET", "/a/b")
    assert literal is not None
    assert literal.rights == (Right.ADMIN,)
    found = table.find("GET", "/a/b/c")
    assert found is not None
    assert found.route == "/a/{name}/c"


BOUND = Caller("s", Role.SUBMITTER, frozenset({"research"}))
AGENT = Caller("n1", Role.AGENT, nodes=frozenset({"n1"}))


@pytest.mark.parametrize(
    ("caller", "method", "path", "query", "may"),
    [
        (BOUND, "GET", "/v1/namespaces/research/jobs/x", b"", True),
        (BOUND, "GET", "/v1/namespaces/vision/jobs/x", b"", False),
        (BOUND, "GET", "/metrics", b"", False),
        (AGENT, "POST", "/v1/nodes/n1/heartbeat", b"", True),
        (AGENT, "POST", "/v1/nodes/n2/heartbeat", b"", False),
        (AGENT, "POST", "/v1/nodes/n1/faults", b"", True),
        (AGENT, "POST", "/v1/nodes/n2/faults", b"", False),
        (AGENT, "POST", "/v1/nodes/n1/cordon", b"", False),
        (AGENT, "GET", "/v1/nodes/n1", b"", True),
        (AGENT, "GET", "/v1/nodes/n2", b"", False),
        (AGENT, "GET", "/v1/pods", b"node=n1", True),
        (AGENT, "GET", "/v1/pods", b"node=n2", False),
        (AGENT, "GET", "/v1/pods", b"node=n1&node=n2", False),
        (AGENT, "GET", "/v1/pods", b"", False),
        (AGENT, "GET", "/v1/jobs", b"", False),
        (AGENT, "GET", "/v1/whoami", b"", True),
        (Caller("v", Role.VIEWER), "GET", "/metrics", b"", True),
        (Caller("v", Role.VIEWER), "GET", "/v1/audit", b"", False),
        (Caller("o", Role.OPERATOR), "GET", "/v1/audit", b"", False),
        (Caller("a", Role.ADMIN), "GET", "/v1/audit", b"", True),
    ],
)
def test_call_is_let_in_by_role_namespace_and_node(
    caller: Caller, method: str, path: str, query: bytes, *, may: bool
) -> None:
    asked = TABLE.find(method, path)
    assert asked is not None
    if may:
        asked.check(caller, query)
        return
    with pytest.raises(Forbidden):
        asked.check(caller, query)


@pytest.mark.parametrize(
    ("method", "path", "rights"),
    [
        ("GET", "/version", (Right.PUBLIC,)),
        ("GET", "/livez", (Right.PUBLIC,)),
        ("GET", "/api", KNOWN),
        ("GET", "/openapi/v3", KNOWN),
        ("GET", "/apis/none.example/v1/things", KNOWN),
        ("GET", "/api/v1/pods", (Right.READ,)),
        ("GET", "/api/v1/namespaces/a/secrets", (Right.SUBMIT,)),
        ("POST", "/api/v1/namespaces/a/secrets", (Right.SUBMIT,)),
        ("PATCH", "/api/v1/nodes/n1", (Right.OPERATE,)),
        ("PATCH", "/api/v1/namespaces/a/pods/p/status", (Right.OPERATE,)),
        ("POST", "/api/v1/namespaces/a/pods/p/binding", (Right.OPERATE,)),
        ("POST", "/api/v1/namespaces/a/pods/p/eviction", (Right.SUBMIT,)),
        ("DELETE", "/apis/batch.volcano.sh/v1alpha1/namespaces/a/jobs", (Right.SUBMIT,)),
        ("POST", "/apis/topology.volcano.sh/v1alpha1/hypernodes", (Right.ADMIN,)),
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", KNOWN),
    ],
)
def test_call_of_the_kubernetes_face_has_the_right_of_its_verb_and_kind(
    method: str, path: str, rights: tuple[Right, ...]
) -> None:
    found = asked_of(registry(), method, path)
    assert found is not None
    assert found.rights == rights


def test_every_kind_of_the_kubernetes_face_asks_for_a_right() -> None:
    for handler in registry().handlers:
        kind = handler.kind
        group = f"/apis/{kind.group}" if kind.group else "/api"
        space = "/namespaces/a" if kind.namespaced else ""
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            found = asked_of(registry(), method, f"{group}/{kind.version}{space}/{kind.plural}/x")
            assert found is not None
            assert Right.PUBLIC not in found.rights
            assert found.rights or kind.nameless
            if method != "GET" and not kind.nameless:
                assert Right.READ not in found.rights


def test_collection_over_all_namespaces_is_not_for_those_bound_to_some() -> None:
    path = "/apis/batch.volcano.sh/v1alpha1/jobs"
    asked = asked_of(registry(), "DELETE", path)
    assert asked is not None
    asked.check(Caller("s", Role.SUBMITTER))
    with pytest.raises(Forbidden, match="reaches all namespaces"):
        asked.check(BOUND)


def test_namespace_of_kubernetes_is_one_of_those_the_caller_is_bound_to() -> None:
    for path, may in (("/api/v1/namespaces/research", True), ("/api/v1/namespaces/vision", False)):
        asked = asked_of(registry(), "GET", path)
        assert asked is not None
        assert asked.namespace == path.rpartition("/")[2]
        if may:
            asked.check(BOUND)
        else:
            with pytest.raises(Forbidden, match="found namespace 'vision'"):
                asked.check(BOUND)


def test_paths_outside_the_kubernetes_face_are_not_its_own() -> None:
    assert asked_of(registry(), "GET", "/v1/jobs") is None
    assert asked_of(registry(), "GET", "/apiary") is None
