"""Pods: members of gangs, and those that are made by themselves."""

import base64
from concurrent.futures import ThreadPoolExecutor

import pytest

from api.k8s import pod_actions
from api.store.log_requests import ANSWER_S
from tests.api.http.yard import Yard
from tests.api.k8s.asking import (
    JOBS,
    MERGE,
    PODS,
    STRATEGIC,
    TABLE,
    Obj,
    fields,
    job,
    names,
    ok,
    pod,
    refused,
    send,
)
from tests.k8s.kubectl import until

GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"


@pytest.fixture
def served(yard: Yard) -> Yard:
    yard.load()
    return yard


def eviction(name: str, **options: object) -> Obj:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    return body | ({"deleteOptions": options} if options else {})


def group(name: str, least: int) -> Obj:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": least, "queue": "default"},
    }


def job_of(yard: Yard, name: str) -> dict[str, object]:
    return yard.ok("GET", f"/v1/namespaces/default/jobs/{name}")


def test_lone_pod_is_a_gang_of_one(served: Yard) -> None:
    made = ok(served, "POST", PODS, pod("lone", gpus=2))
    assert made["status"]["phase"] == "Pending"
    assert (job_of(served, "lone")["members"], job_of(served, "lone")["gpus"]) == (1, 2)
    served.cycle()
    served.report_all("running")
    shown = ok(served, "GET", f"{PODS}/lone")
    assert (shown["status"]["phase"], shown["metadata"]["uid"]) == (
        "Running",
        made["metadata"]["uid"],
    )
    assert shown["spec"]["nodeName"] == served.items("/v1/pods")[0]["node"]
    assert shown["spec"]["containers"] == made["spec"]["containers"]


def test_pod_joins_the_live_gang_that_it_names(served: Yard) -> None:
    served.submit("g", roles=[{"name": "member", "replicas": 2, "gpus": 8}])
    served.cycle()
    ok(served, "POST", PODS, pod("third", gpus=8, group="g", queue="default"))
    assert (job_of(served, "g")["members"], job_of(served, "g")["minimum"]) == (3, 2)
    served.cycle()
    assert names(ok(served, "GET", PODS)) == ["g-member-0", "g-member-1", "third"]
    assert ok(served, "GET", f"{PODS}/third")["metadata"]["ownerReferences"][0]["name"] == "g"


def test_pod_joins_a_gang_that_still_waits(served: Yard) -> None:
    served.submit("g", roles=[{"name": "member", "replicas": 2, "gpus": 8}])
    ok(served, "POST", PODS, pod("third", gpus=8, group="g", queue="default"))
    assert ok(served, "GET", f"{PODS}/third")["status"]["phase"] == "Pending"
    served.cycle()
    assert ok(served, "GET", f"{PODS}/third")["spec"]["nodeName"]


@pytest.mark.parametrize(
    ("member", "field"),
    [
        (pod("x", gpus=1, group="g"), "spec.containers"),
        (pod("x", gpus=8, group="g", queue="other"), "metadata.annotations"),
        (pod("x", gpus=8, group="grid"), "spec.containers"),
        (pod("x", gpus="many"), "spec.containers"),
        (pod("x", gpus=8, queue="nope"), "metadata.annotations"),
    ],
)
def test_pod_that_cannot_join_is_refused_and_changes_nothing(
    served: Yard, member: Obj, field: str
) -> None:
    served.submit("g", roles=[{"name": "member", "replicas": 2, "gpus": 8}])
    served.submit("grid", parallelism={"tp": 8})
    told = refused(served, 422, "POST", PODS, member)
    assert fields(told)[0].startswith(field), told
    assert job_of(served, "g")["members"] == 2
    refused(served, 404, "GET", f"{PODS}/x")


def test_pod_of_a_gang_that_is_not_there_waits_and_says_so(served: Yard) -> None:
    ok(served, "POST", PODS, pod("early", gpus=8, group="nobody"))
    served.cycle()
    condition = ok(served, "GET", f"{PODS}/early")["status"]["conditions"][0]
    assert "waits for gang 'nobody'" in condition["message"]
    assert served.items("/v1/jobs") == []
    ok(served, "DELETE", f"{PODS}/early")
    refused(served, 404, "GET", f"{PODS}/early")


def test_pods_of_a_group_start_together_when_enough_have_come(served: Yard) -> None:
    ok(served, "POST", GROUPS, group("pg", 2))
    ok(served, "POST", PODS, pod("p0", gpus=8, group="pg"))
    served.cycle()
    assert served.items("/v1/jobs") == []
    ok(served, "POST", PODS, pod("p1", gpus=8, group="pg"))
    assert (job_of(served, "pg")["members"], job_of(served, "pg")["minimum"]) == (2, 2)
    served.cycle()
    ok(served, "POST", PODS, pod("p2", gpus=8, group="pg"))
    served.cycle()
    listed = ok(served, "GET", PODS)
    assert names(listed) == ["p0", "p1", "p2"]
    assert len({item["spec"]["nodeName"] for item in listed["items"]}) == 3


def test_pod_is_changed_only_in_its_metadata(served: Yard) -> None:
    ok(served, "POST", PODS, pod("lone"))
    served.cycle()
    patch = {"metadata": {"labels": {"x": "y"}}}
    changed = ok(served, "PATCH", f"{PODS}/lone", patch, kind=STRATEGIC)
    assert changed["metadata"]["labels"]["x"] == "y"
    assert names(ok(served, "GET", f"{PODS}?labelSelector=x%3Dy")) == ["lone"]
    told = refused(served, 422, "PATCH", f"{PODS}/lone", {"spec": {"nodeName": "b1"}}, kind=MERGE)
    assert fields(told) == ["spec"]


def test_member_that_a_job_made_can_be_labelled(served: Yard) -> None:
    ok(served, "POST", JOBS, job("a"))
    served.cycle()
    ok(served, "PATCH", f"{PODS}/a-0", {"metadata": {"labels": {"x": "y"}}}, kind=STRATEGIC)
    served.report_all("running")
    assert names(ok(served, "GET", f"{PODS}?labelSelector=x%3Dy")) == ["a-0"]


def test_status_that_a_node_writes_is_a_report(served: Yard) -> None:
    ok(served, "POST", PODS, pod("lone"))
    served.cycle()
    at = f"{PODS}/lone/status"
    ok(served, "PATCH", at, {"status": {"phase": "Running"}}, kind=MERGE)
    served.cycle()
    assert ok(served, "GET", f"{PODS}/lone")["status"]["phase"] == "Running"
    refused(served, 422, "PATCH", at, {"status": {"phase": "Sleeping"}}, kind=MERGE)
    ok(served, "PATCH", at, {"status": {"phase": "Failed"}}, kind=MERGE)
    served.cycle()
    assert ok(served, "GET", f"{PODS}/lone")["status"]["phase"] == "Failed"
    assert job_of(served, "lone")["state"] == "failed"


def test_evicted_gang_starts_again_under_other_uids(served: Yard) -> None:
    ok(served, "POST", JOBS, job("a"))
    served.cycle()
    served.report_all("running")
    first = {o["metadata"]["name"]: o for o in ok(served, "GET", PODS)["items"]}
    ok(served, "POST", f"{PODS}/a-0/eviction", eviction("a-0", dryRun=["All"]))
    assert ok(served, "GET", f"{PODS}/a-0") == first["a-0"]
    node = first["a-0"]["spec"]["nodeName"]
    cordon = {"spec": {"unschedulable": True}}
    ok(served, "PATCH", f"/api/v1/nodes/{node}", cordon, kind=STRATEGIC)
    told = ok(served, "POST", f"{PODS}/a-0/eviction", eviction("a-0"))
    assert (told["kind"], told["status"]) == ("Status", "Success")
    for _ in range(3):
        served.cycle()
        for found in served.items("/v1/pods"):
            if found["state"] == "terminating":
                path = f"/v1/namespaces/default/pods/{found['name']}/status"
                served.ok("POST", path, {"attempt": found["attempt"], "state": "stopped"})
    now = {o["metadata"]["name"]: o for o in ok(served, "GET", PODS)["items"]}
    assert set(now) == {"a-0", "a-1"}
    for name, obj in now.items():
        assert obj["metadata"]["uid"] != first[name]["metadata"]["uid"]
        assert obj["spec"]["nodeName"] != node
        assert obj["status"]["containerStatuses"][0]["restartCount"] == 1


def test_eviction_of_what_is_not_there_or_is_none_is_refused(served: Yard) -> None:
    ok(served, "POST", PODS, pod("lone"))
    refused(served, 404, "POST", f"{PODS}/nope/eviction", eviction("nope"))
    refused(served, 400, "POST", f"{PODS}/lone/eviction", eviction("other"))
    refused(served, 400, "POST", f"{PODS}/lone/eviction", pod("lone"))
    refused(served, 400, "POST", f"{PODS}/lone/eviction", eviction("lone", dryRun=["Some"]))


def test_deleted_lone_pod_takes_its_job_with_it(served: Yard) -> None:
    ok(served, "POST", PODS, pod("lone"))
    ok(served, "DELETE", f"{PODS}/lone")
    refused(served, 404, "GET", f"{PODS}/lone")
    refused(served, 404, "GET", f"{JOBS}/lone")
    ok(served, "POST", PODS, pod("lone"))


def test_member_that_has_ended_is_no_longer_shown_once_it_is_deleted(served: Yard) -> None:
    ok(served, "POST", JOBS, job("a"))
    served.cycle()
    served.report_all("running")
    served.report_all("succeeded", 0)
    assert names(ok(served, "GET", PODS)) == ["a-0", "a-1"]
    ok(served, "DELETE", f"{PODS}/a-0")
    assert names(ok(served, "GET", PODS)) == ["a-1"]
    ok(served, "POST", f"{PODS}/a-1/eviction", eviction("a-1"))
    assert names(ok(served, "GET", PODS)) == []


def test_joined_member_is_not_deleted_by_itself(served: Yard) -> None:
    served.submit("g", roles=[{"name": "member", "replicas": 2, "gpus": 8}])
    ok(served, "POST", PODS, pod("third", gpus=8, group="g"))
    assert "member of gang 'g'" in refused(served, 409, "DELETE", f"{PODS}/third")["message"]


def test_pods_are_found_by_node_and_phase(served: Yard) -> None:
    ok(served, "POST", JOBS, job("a"))
    ok(served, "POST", PODS, pod("lone"))
    served.cycle()
    node = ok(served, "GET", f"{PODS}/a-0")["spec"]["nodeName"]
    everywhere = f"/api/v1/pods?fieldSelector=spec.nodeName%3D{node}%2Cstatus.phase%21%3DFailed"
    assert "a-0" in names(ok(served, "GET", everywhere))
    assert "a-1" not in names(ok(served, "GET", everywhere))
    table = ok(served, "GET", PODS, accept=TABLE)
    assert [row["cells"][2] for row in table["rows"]] == ["ContainerCreating"] * 3


def test_name_of_a_pod_is_used_once(served: Yard) -> None:
    ok(served, "POST", PODS, pod("lone"))
    assert refused(served, 409, "POST", PODS, pod("lone"))["reason"] == "AlreadyExists"
    dry = ok(served, "POST", f"{PODS}?dryRun=All", pod("other"))
    assert dry["metadata"]["name"] == "other"
    refused(served, 404, "GET", f"{PODS}/other")


@pytest.mark.parametrize("size", [1, 2, 3])
def test_chunks_of_pods_are_all_pods_in_order(
    served: Yard, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names of pods are in two tables, and some are hidden, waiting or of another name inside."""
    ok(served, "POST", JOBS, job("b"))
    ok(served, "POST", JOBS, job("d"))
    for name in ("a", "c", "e"):
        ok(served, "POST", PODS, pod(name, gpus=1))
    served.cycle()
    ok(served, "POST", PODS, pod("b-0x", group="nobody"))
    ok(served, "POST", PODS, pod("zz", group="nobody"))
    ok(served, "PATCH", f"{PODS}/d-0", {"metadata": {"labels": {"x": "y"}}}, kind=STRATEGIC)
    served.report_all("running")
    served.report_all("succeeded", 0)
    ok(served, "DELETE", f"{PODS}/b-0")
    whole = names(ok(served, "GET", PODS))
    assert whole == ["a", "b-0x", "b-1", "c", "d-0", "d-1", "e", "zz"]
    monkeypatch.setattr("api.k8s.listing.CHUNK", 1)
    found: list[str] = []
    following = ""
    while True:
        chunk = ok(served, "GET", f"{PODS}?limit={size}&continue={following}")
        found += names(chunk)
        following = chunk["metadata"].get("continue", "")
        if not following:
            break
    assert found == whole


def binding(node: object) -> Obj:
    return {"apiVersion": "v1", "kind": "Binding", "target": {"kind": "Node", "name": node}}


def test_pod_that_waits_is_bound_where_a_binding_says(served: Yard) -> None:
    ok(served, "POST", PODS, pod("lone"))
    at = f"{PODS}/lone/binding"
    refused(served, 404, "POST", at, binding("moon"))
    refused(served, 400, "POST", at, binding(None))
    refused(served, 400, "POST", at, pod("lone"))
    assert ok(served, "POST", at, binding("b3"))["status"] == "Success"
    served.cycle()
    assert ok(served, "GET", f"{PODS}/lone")["spec"]["nodeName"] == "b3"
    assert "is on node 'b3'" in refused(served, 409, "POST", at, binding("b1"))["message"]


def test_member_of_a_gang_is_not_bound_by_itself(served: Yard) -> None:
    served.submit("g", roles=[{"name": "member", "replicas": 2, "gpus": 8}])
    ok(served, "POST", PODS, pod("third", gpus=8, group="g"))
    told = refused(served, 409, "POST", f"{PODS}/third/binding", binding("b3"))
    assert "placed as a whole" in told["message"]


BEAT = {"session": "s1", "boot_id": "b1", "pods": []}


def wishes(yard: Yard, node: str) -> list[Obj]:
    """What the agent of a node is asked for."""
    found = yard.ok("POST", f"/v1/nodes/{node}/heartbeat", BEAT)["logs"]
    assert isinstance(found, list)
    return found


def test_log_that_is_not_there_yet_is_to_be_asked_for_again(
    served: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kubectl does so by itself, after the time it is told."""
    assert ANSWER_S < 5.0
    monkeypatch.setattr(pod_actions, "ANSWER_S", 0.1)
    ok(served, "POST", PODS, pod("talks"))
    served.cycle()
    node = ok(served, "GET", f"{PODS}/talks")["spec"]["nodeName"]
    wishes(served, node)
    told = send(served, "GET", f"{PODS}/talks/log")
    assert (told.status_code, told.headers["Retry-After"]) == (429, "1")
    assert "has not answered within 0.1 s; ask again" in told.json()["message"]
    (wish,) = wishes(served, node)
    content = base64.b64encode(b"one\n").decode()
    served.ok("POST", f"/v1/nodes/{node}/logs/{wish['id']}", {"content": content})
    assert send(served, "GET", f"{PODS}/talks/log").text == "one\n"


def test_log_of_a_pod_is_what_its_agent_sends(any_yard: Yard) -> None:
    ok(any_yard, "POST", PODS, pod("talks"))
    at = f"{PODS}/talks/log"
    refused(any_yard, 400, "GET", at)
    any_yard.cycle()
    assert "no agent" in refused(any_yard, 409, "GET", at)["message"]
    node = ok(any_yard, "GET", f"{PODS}/talks")["spec"]["nodeName"]
    wishes(any_yard, node)
    with ThreadPoolExecutor(1) as threads:
        reading = threads.submit(send, any_yard, "GET", f"{at}?container=main&tailLines=2")
        until(lambda: wishes(any_yard, node), "a wish")
        wish = wishes(any_yard, node)[0]
        content = base64.b64encode(b"one\ntwo\nthree\n").decode()
        any_yard.ok("POST", f"/v1/nodes/{node}/logs/{wish['id']}", {"content": content})
        assert reading.result().text == "two\nthree\n"
    refused(any_yard, 400, "GET", f"{at}?container=other")
    refused(any_yard, 400, "GET", f"{at}?tailLines=all")
    refused(any_yard, 400, "GET", f"{at}?previous=true")
