"""Discovery, OpenAPI, tables, lists and the forms of answers."""

import pytest

from tests.api.http.yard import Yard
from tests.api.k8s.asking import JOBS, NODES, PODS, TABLE, fields, job, names, ok, refused, send

DISCOVERY = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"


def test_discovery_is_told_in_the_version_that_is_accepted(any_yard: Yard) -> None:
    for version in ("v2", "v2beta1"):
        answer = send(any_yard, "GET", "/apis", accept=DISCOVERY.format(version))
        assert answer.headers["content-type"] == DISCOVERY.format(version)
        assert answer.json()["apiVersion"] == f"apidiscovery.k8s.io/{version}"
    both = f"{DISCOVERY.format('v2')},{DISCOVERY.format('v2beta1')},application/json"
    assert ok(any_yard, "GET", "/api", accept=both)["apiVersion"] == "apidiscovery.k8s.io/v2"
    assert ok(any_yard, "GET", "/api")["kind"] == "APIVersions"
    assert ok(any_yard, "GET", "/apis")["kind"] == "APIGroupList"


def test_both_forms_of_discovery_tell_of_the_same_kinds(any_yard: Yard) -> None:
    found: dict[str, set[str]] = {}
    for path in ("/api", "/apis"):
        told = ok(any_yard, "GET", path, accept=DISCOVERY.format("v2"))
        for group in told["items"]:
            for version in group["versions"]:
                name = group["metadata"].get("name", "")
                at = f"/apis/{name}/{version['version']}" if name else f"/api/{version['version']}"
                found[at] = {r["resource"] for r in version["resources"]}
    assert "/apis/podyard.io/v1" in found
    for at, resources in found.items():
        listed = ok(any_yard, "GET", at)
        assert {r["name"] for r in listed["resources"] if "/" not in r["name"]} == resources


def test_eviction_is_told_of_with_its_group_so_that_drain_uses_it(any_yard: Yard) -> None:
    listed = ok(any_yard, "GET", "/api/v1")["resources"]
    eviction = next(r for r in listed if r["name"] == "pods/eviction")
    assert (eviction["group"], eviction["version"], eviction["verbs"]) == (
        "policy",
        "v1",
        ["create"],
    )


def test_openapi_has_a_patch_with_field_validation_for_every_kind_that_is_patched(
    any_yard: Yard,
) -> None:
    index = ok(any_yard, "GET", "/openapi/v3")["paths"]
    for at, entry in index.items():
        document = ok(any_yard, "GET", entry["serverRelativeURL"])
        resources = ok(any_yard, "GET", f"/{at}")["resources"]
        patched = {r["kind"] for r in resources if "/" not in r["name"] and "patch" in r["verbs"]}
        described = {
            path["patch"]["x-kubernetes-group-version-kind"]["kind"]
            for path in document["paths"].values()
            if any(
                p["name"] == "fieldValidation" for p in path.get("patch", {}).get("parameters", ())
            )
        }
        assert patched == described, at
    assert send(any_yard, "GET", "/openapi/v2").content == b""


def test_plain_paths_answer_as_clients_expect(any_yard: Yard) -> None:
    assert send(any_yard, "GET", "/livez").text == "ok"
    assert ok(any_yard, "GET", "/version")["gitVersion"].startswith("v1.")


def test_list_comes_as_a_table_or_as_metadata_when_that_is_accepted(any_yard: Yard) -> None:
    table = ok(any_yard, "GET", NODES, accept=TABLE)
    assert table["kind"] == "Table"
    assert len(table["rows"][0]["cells"]) == len(table["columnDefinitions"])
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    whole = ok(any_yard, "GET", f"{NODES}?includeObject=Object", accept=TABLE)
    assert whole["rows"][0]["object"]["kind"] == "Node"
    assert (
        "object" not in ok(any_yard, "GET", f"{NODES}?includeObject=None", accept=TABLE)["rows"][0]
    )
    metadata = ok(
        any_yard,
        "GET",
        NODES,
        accept="application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    )
    assert metadata["kind"] == "PartialObjectMetadataList"
    assert "spec" not in metadata["items"][0]


def test_every_kind_has_cells_for_its_columns_and_an_own_version_for_its_objects(
    yard: Yard,
) -> None:
    yard.load()
    ok(yard, "POST", JOBS, job())
    yard.cycle()
    for at in [e["serverRelativeURL"] for e in ok(yard, "GET", "/openapi/v3")["paths"].values()]:
        base = at.partition("?")[0].removeprefix("/openapi/v3")
        for resource in ok(yard, "GET", base)["resources"]:
            if "list" not in resource["verbs"]:
                continue
            table = ok(yard, "GET", f"{base}/{resource['name']}", accept=TABLE)
            for row in table["rows"]:
                assert len(row["cells"]) == len(table["columnDefinitions"]), resource["name"]
                metadata = row["object"]["metadata"]
                assert metadata["uid"]
                assert int(metadata["resourceVersion"]) > 0


def test_chunks_of_a_list_belong_together(any_yard: Yard) -> None:
    found: list[str] = []
    versions: set[str] = set()
    following = ""
    while True:
        chunk = ok(any_yard, "GET", f"{NODES}?limit=5&continue={following}")
        found += names(chunk)
        versions.add(chunk["metadata"]["resourceVersion"])
        following = chunk["metadata"].get("continue", "")
        if not following:
            break
    assert found == names(ok(any_yard, "GET", NODES))
    assert len(versions) == 1


def test_chunks_with_a_selector_leave_nothing_out(any_yard: Yard) -> None:
    first = ok(any_yard, "GET", f"{NODES}?limit=1&labelSelector=zone%3Dc")
    rest = ok(
        any_yard,
        "GET",
        f"{NODES}?limit=9&labelSelector=zone%3Dc&continue={first['metadata']['continue']}",
    )
    assert names(first) + names(rest) == ["c1", "c2", "c3", "c4"]


@pytest.mark.parametrize(
    ("status", "method", "path"),
    [
        (404, "GET", "/apis/nosuch.io/v1"),
        (404, "GET", "/apis/podyard.io/v9"),
        (404, "GET", "/apis/podyard.io/v9/jobs"),
        (404, "GET", "/api/v2"),
        (404, "GET", "/api/v1/what"),
        (404, "GET", "/api/v1/nodes/nope"),
        (404, "GET", "/api/v1/nodes/a1/what"),
        (404, "GET", "/api/v1/namespaces/default/nodes"),
        (404, "GET", "/api/v1/namespaces//pods"),
        (404, "GET", "/api/v1/namespaces/default/pods/a/b/c"),
        (404, "GET", "/openapi/v3/apis/nosuch.io/v1"),
        (405, "POST", "/api"),
        (405, "POST", "/version"),
        (405, "DELETE", "/api/v1"),
        (405, "DELETE", "/api/v1/nodes/a1"),
        (405, "POST", "/api/v1/nodes"),
        (405, "POST", "/api/v1/nodes/a1"),
        (405, "PUT", "/api/v1/nodes"),
        (405, "PATCH", "/api/v1/nodes"),
        (405, "OPTIONS", "/api/v1/nodes"),
        (405, "POST", "/api/v1/pods"),
        (405, "GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
        (405, "GET", "/api/v1/namespaces/default/pods/a/eviction"),
    ],
)
def test_path_or_method_that_is_not_there_is_told_as_a_status(
    any_yard: Yard, status: int, method: str, path: str
) -> None:
    refused(any_yard, status, method, path)


@pytest.mark.parametrize(
    ("status", "query"),
    [
        (400, "labelSelector=a%3Db%3Dc"),
        (400, "fieldSelector=spec.what%3Dx"),
        (400, "limit=-1"),
        (400, "limit=many"),
        (400, "continue=nonsense"),
        (400, "continue=WzEsMiwzXQ"),
        (400, "resourceVersion=abc"),
        (400, "includeObject=Everything"),
        (400, "dryRun=Some"),
        (400, "fieldValidation=Maybe"),
        (400, "watch=perhaps"),
        (400, "watch=true&resourceVersion=-3"),
        (400, "watch=true&timeoutSeconds=soon"),
        (504, "resourceVersion=999999999999999999"),
        (422, "watch=true&sendInitialEvents=true"),
        (422, "watch=true&resourceVersionMatch=Exact&resourceVersion=1"),
    ],
)
def test_query_that_makes_no_sense_is_refused(any_yard: Yard, status: int, query: str) -> None:
    refused(any_yard, status, "GET", f"{NODES}?{query}")


def test_unknown_parameters_are_ignored(any_yard: Yard) -> None:
    ok(any_yard, "GET", f"{NODES}?pretty=true&what=ever")


@pytest.mark.parametrize("accept", ["text/html", "application/vnd.kubernetes.protobuf"])
def test_form_that_there_is_not_is_refused(any_yard: Yard, accept: str) -> None:
    refused(any_yard, 406, "GET", NODES, accept=accept)


def test_body_that_is_too_large_is_refused_with_a_status(any_yard: Yard) -> None:
    told = refused(any_yard, 413, "POST", PODS, b" " * (10 * 1024 * 1024))
    assert told["reason"] == "RequestEntityTooLarge"


def test_review_of_access_is_answered_in_all_its_forms(any_yard: Yard) -> None:
    base = "/apis/authorization.k8s.io/v1"
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
    attributes = {"resourceAttributes": {"verb": "create", "resource": "pods"}}
    told = ok(any_yard, "POST", f"{base}/selfsubjectaccessreviews", review | {"spec": attributes})
    assert told["status"]["allowed"] is True
    rules = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview"}
    told = ok(any_yard, "POST", f"{base}/selfsubjectrulesreviews", rules)
    assert told["status"]["resourceRules"][0]["verbs"] == ["*"]
    who = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    told = ok(any_yard, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", who)
    assert told["status"]["userInfo"]["username"] == "anybody"


def test_status_of_a_refusal_names_what_was_asked_for(any_yard: Yard) -> None:
    told = refused(any_yard, 404, "GET", f"{JOBS}/nope")
    assert told["message"] == 'jobs.podyard.io "nope" not found'
    assert told["reason"] == "NotFound"
    assert told["details"] == {"name": "nope", "kind": "jobs", "group": "podyard.io"}
    assert fields(told) == []
