"""Nodes, namespaces, events, and objects that are only kept."""

import pytest

from tests.api.http.yard import Yard
from tests.api.k8s.asking import (
    JOBS,
    MERGE,
    NODES,
    STRATEGIC,
    TABLE,
    Obj,
    fields,
    job,
    names,
    ok,
    refused,
)

NAMESPACES = "/api/v1/namespaces"
MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def served(yard: Yard) -> Yard:
    yard.load()
    return yard


def word(yard: Yard, node: str) -> str:
    return str(ok(yard, "GET", f"{NODES}/{node}", accept=TABLE)["rows"][0]["cells"][1])


def test_cordon_here_is_the_cordon_of_v1(served: Yard) -> None:
    cordon = {"spec": {"unschedulable": True}}
    ok(served, "PATCH", f"{NODES}/a1?dryRun=All", cordon, kind=STRATEGIC)
    assert word(served, "a1") == "Ready"
    ok(served, "PATCH", f"{NODES}/a1", cordon, kind=STRATEGIC)
    assert word(served, "a1") == "Ready,SchedulingDisabled"
    assert served.ok("GET", "/v1/nodes/a1")["cordoned"]
    ok(served, "PATCH", f"{NODES}/a1", {"spec": {"unschedulable": None}}, kind=STRATEGIC)
    assert word(served, "a1") == "Ready"
    served.ok("POST", "/v1/nodes/a2/cordon", {"reason": "hot"})
    annotations = ok(served, "GET", f"{NODES}/a2")["metadata"]["annotations"]
    assert annotations["podyard.io/cordon-reason"] == "hot"


def test_label_and_taint_of_a_node_decide_where_jobs_run(served: Yard) -> None:
    ok(served, "PATCH", f"{NODES}/b2", {"metadata": {"labels": {"disk": "ssd"}}}, kind=MERGE)
    taints = [{"key": "spare", "value": "yes", "effect": "NoSchedule"}]
    ok(served, "PATCH", f"{NODES}/a1", {"spec": {"taints": taints}}, kind=STRATEGIC)
    ssd = job("ssd")
    ssd["spec"] = {"parallelism": {"tp": 8}, "labels": {"disk": "ssd"}}
    ok(served, "POST", JOBS, ssd)
    ok(served, "POST", JOBS, job("any", parallelism={"tp": 8}))
    served.cycle()
    nodes = {str(pod["job"]).rpartition("/")[2]: pod["node"] for pod in served.items("/v1/pods")}
    assert nodes["ssd"] == "b2"
    assert nodes["any"] != "a1"
    gone = ok(served, "PATCH", f"{NODES}/a1", {"spec": {"taints": None}}, kind=STRATEGIC)
    assert "taints" not in gone["spec"]
    gone = ok(served, "PATCH", f"{NODES}/b2", {"metadata": {"labels": {"disk": None}}}, kind=MERGE)
    assert "disk" not in gone["metadata"]["labels"]


@pytest.mark.parametrize(
    ("patch", "field"),
    [
        ({"metadata": {"labels": {"podyard.io/rack": "r9"}}}, "metadata.labels[podyard.io/rack]"),
        ({"metadata": {"labels": {"kubernetes.io/hostname": None}}},
         "metadata.labels[kubernetes.io/hostname]"),
        ({"spec": {"taints": [{"key": "k", "effect": "Sometimes"}]}}, "spec.taints[0].effect"),
        ({"spec": {"taints": [{"effect": "NoSchedule"}]}}, "spec.taints[0].key"),
        ({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}] * 2}}, "spec.taints[1]"),
        ({"spec": {"unschedulable": "yes"}}, "spec.unschedulable"),
        ({"metadata": {"labels": {"a b": "c"}}}, "metadata.labels"),
    ],
)  # fmt: skip
def test_change_of_a_node_that_makes_no_sense_is_refused(
    any_yard: Yard, patch: Obj, field: str
) -> None:
    before = ok(any_yard, "GET", f"{NODES}/a1")
    assert fields(refused(any_yard, 422, "PATCH", f"{NODES}/a1", patch, kind=MERGE)) == [field]
    assert ok(any_yard, "GET", f"{NODES}/a1") == before


def test_node_shows_what_the_inventory_says(any_yard: Yard) -> None:
    shown = ok(any_yard, "GET", f"{NODES}/c1")
    assert shown["status"]["capacity"]["nvidia.com/gpu"] == "8"
    labels = shown["metadata"]["labels"]
    assert (labels["podyard.io/rack"], labels["podyard.io/leaf"], labels["zone"]) == (
        "r3",
        "l2",
        "c",
    )
    assert shown["status"]["conditions"][0] | {"message": ""} == {
        "type": "Ready",
        "status": "True",
        "reason": "NodeHealthy",
        "message": "",
    }


def test_annotation_of_a_node_outlives_an_import(served: Yard) -> None:
    ok(served, "PATCH", f"{NODES}/a1", {"metadata": {"annotations": {"n": "1"}}}, kind=MERGE)
    served.load()
    assert ok(served, "GET", f"{NODES}/a1")["metadata"]["annotations"] == {"n": "1"}


def test_namespaces_are_those_that_were_made_and_those_with_jobs(served: Yard) -> None:
    served.submit("a", namespace="team-b", parallelism={"tp": 8})
    made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}
    ok(served, "POST", NAMESPACES, made)
    found = names(ok(served, "GET", NAMESPACES))
    assert found == ["default", "kube-system", "team-a", "team-b"]
    refused(served, 409, "POST", NAMESPACES, made)
    assert "jobs are in it" in refused(served, 409, "DELETE", f"{NAMESPACES}/team-b")["message"]
    refused(served, 409, "DELETE", f"{NAMESPACES}/default")
    ok(served, "DELETE", f"{NAMESPACES}/team-a")
    refused(served, 404, "GET", f"{NAMESPACES}/team-a")
    label = {"metadata": {"labels": {"x": "y"}}}
    ok(served, "PATCH", f"{NAMESPACES}/team-b", label, kind=STRATEGIC)
    assert names(ok(served, "GET", f"{NAMESPACES}?labelSelector=x")) == ["team-b"]


def test_kept_object_is_made_changed_and_deleted(served: Yard) -> None:
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}}
    ok(served, "POST", MAPS, made)
    refused(served, 409, "POST", MAPS, made)
    changed = ok(served, "PATCH", f"{MAPS}/c", {"data": {"a": None, "c": "d"}}, kind=STRATEGIC)
    assert changed["data"] == {"c": "d"}
    refused(served, 422, "PATCH", f"{MAPS}/c", {"data": {"a": 1}}, kind=STRATEGIC)
    ok(served, "DELETE", f"{MAPS}/c")
    refused(served, 404, "GET", f"{MAPS}/c")


def test_events_tell_of_the_object_that_is_asked_about(served: Yard) -> None:
    ok(served, "POST", JOBS, job("a"))
    ok(served, "POST", JOBS, job("b"))
    served.cycle()
    served.ok("POST", "/v1/nodes/a1/cordon", {})
    selector = "fieldSelector=involvedObject.name%3Da%2CinvolvedObject.kind%3DJob"
    listed = ok(served, "GET", f"/api/v1/namespaces/default/events?{selector}")
    assert [e["reason"] for e in listed["items"]] == ["Submitted", "Bound"]
    one = listed["items"][0]
    assert ok(served, "GET", f"/api/v1/namespaces/default/events/{one['metadata']['name']}") == one
    of_node = ok(served, "GET", "/api/v1/events?fieldSelector=involvedObject.uid%3Da1")
    assert [e["reason"] for e in of_node["items"]] == ["Cordoned"]
    refused(served, 405, "POST", "/api/v1/namespaces/default/events", one)
