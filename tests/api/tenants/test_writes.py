"""What a tenant may change: their own, by every path; and what they are told of the rest."""

import pytest

from api.auth import Caller, Role
from tests.api.http.contract import Contract
from tests.api.http.yard import Json, Yard
from tests.api.tenants.town import ALPHA, BETA, MARK, Door, alpha_job, bound, gang

STATUS = f"/v1/namespaces/{ALPHA}/pods/run-m-0/status"
RUNNING = {"attempt": 1, "state": "running"}
NODE = "/api/v1/nodes/a1"
MERGE = {"Content-Type": "application/merge-patch+json"}


@pytest.fixture
def ann(yard: Yard, contract: Contract) -> Door:
    """A submitter of one namespace, on a cluster with a queue of each tenant."""
    yard.load()
    yard.ok("POST", "/v1/queues", {"name": "ours", "namespaces": [ALPHA]})
    yard.ok("POST", "/v1/queues", {"name": f"{MARK}-queue", "namespaces": [BETA]})
    return Door(yard, bound("ann", Role.SUBMITTER, ALPHA), contract)


@pytest.fixture
def root(yard: Yard, ann: Door) -> Door:
    """Somebody who sees and may do everything, beside the tenant."""
    return Door(yard, Caller("root"))


def test_job_in_the_namespace_of_others_is_refused_whether_or_not_its_name_is_in_use(
    ann: Door, root: Door
) -> None:
    body: Json = {"name": "there", "namespace": BETA, **gang(1)}
    assert root.send("POST", "/v1/jobs", body).status_code == 201
    answers = [
        ann.send("POST", "/v1/jobs", body | {"name": name}).text for name in ("there", "not")
    ]
    assert answers[0] == answers[1]
    assert BETA in answers[0]
    assert len(root.send("GET", "/v1/jobs").json()["items"]) == 1


def test_batch_does_what_is_its_senders_and_refuses_the_rest(ann: Door, root: Door) -> None:
    theirs: Json = {"name": "theirs", "namespace": BETA, **gang(1)}
    assert root.send("POST", "/v1/jobs", theirs).status_code == 201
    batch = {
        "jobs": [
            alpha_job("one", **gang(1)),
            theirs | {"name": "new"},
            alpha_job("two", **gang(1)),
        ],
        "delete": [f"{BETA}/theirs", f"{BETA}/none"],
    }
    answer = ann.send("POST", "/v1/jobs:batch", batch).json()
    assert [item["status"] for item in answer["items"]] == [201, 403, 201]
    assert [item["status"] for item in answer["deleted"]] == [403, 403]
    assert answer["deleted"][0] == answer["deleted"][1]
    states = {j["name"]: j["state"] for j in root.send("GET", "/v1/jobs").json()["items"]}
    assert states == {"theirs": "pending", "one": "pending", "two": "pending"}


def test_same_idempotency_key_of_somebody_else_is_another_key(
    yard: Yard, ann: Door, root: Door
) -> None:
    bob = Door(yard, bound("bob", Role.SUBMITTER, ALPHA))
    key = {"Idempotency-Key": "same"}
    first = ann.send("POST", "/v1/jobs", alpha_job("one", **gang(1)), key)
    other = bob.send("POST", "/v1/jobs", alpha_job("two", **gang(1)), key)
    again = ann.send("POST", "/v1/jobs", alpha_job("one", **gang(1)), key)
    assert [a.status_code for a in (first, other, again)] == [201, 201, 200]
    assert first.json()["uid"] == again.json()["uid"] != other.json()["uid"]
    batch = {"jobs": [alpha_job("three", **gang(1))]}
    told = [d.send("POST", "/v1/jobs:batch", batch, key).json()["items"][0] for d in (ann, bob)]
    assert [item["status"] for item in told] == [201, 409]


def test_queue_of_several_tenants_names_to_each_only_themselves(ann: Door, root: Door) -> None:
    queue = {"name": "shared", "namespaces": [ALPHA, "gamma", BETA]}
    assert root.send("POST", "/v1/queues", queue).status_code == 201
    assert ann.send("GET", "/v1/queues/shared").json()["namespaces"] == [ALPHA]


def test_queue_that_a_job_is_not_for_is_told_of_without_other_tenants(
    yard: Yard, ann: Door, root: Door
) -> None:
    both = Door(yard, bound("both", Role.SUBMITTER, ALPHA, "gamma"))
    queue = {"name": "some", "namespaces": ["gamma", BETA]}
    assert root.send("POST", "/v1/queues", queue).status_code == 201
    answer = both.send("POST", "/v1/jobs", alpha_job("one", queue="some", **gang(1)))
    assert answer.status_code == 422
    assert "'gamma'" in answer.text
    assert MARK not in answer.text


def test_queue_with_queues_of_others_below_it_names_none_of_them(ann: Door, root: Door) -> None:
    for queue in ({"name": "top"}, {"name": f"{MARK}-below", "parent": "top"}):
        assert root.send("POST", "/v1/queues", queue).status_code == 201
    answer = ann.send("POST", "/v1/jobs", alpha_job("one", queue="top", **gang(1)))
    assert answer.status_code == 422
    assert "has queues below it" in answer.text
    assert MARK not in answer.text


def test_job_moves_to_no_queue_of_others(ann: Door) -> None:
    assert ann.send("POST", "/v1/jobs", alpha_job("one", **gang(1))).status_code == 201
    path = f"/v1/namespaces/{ALPHA}/jobs/one"
    theirs = ann.send("PATCH", path, {"queue": f"{MARK}-queue"})
    none = ann.send("PATCH", path, {"queue": "qxj-queue"})
    assert (theirs.status_code, none.status_code) == (422, 422)
    assert theirs.text.replace(MARK, "qxj") == none.text


# -- reports of pods ------------------------------------------------------------------------------


@pytest.fixture
def placed(yard: Yard, ann: Door, root: Door) -> str:
    """The node of the one pod of a job of the tenant."""
    assert ann.send("POST", "/v1/jobs", alpha_job("run", **gang(1))).status_code == 201
    yard.cycle()
    (pod,) = ann.send("GET", "/v1/pods").json()["items"]
    return str(pod["node"])


def test_submitter_reports_of_own_pods_where_no_agent_does(ann: Door, placed: str) -> None:
    assert ann.send("POST", STATUS, RUNNING).status_code == 200


def test_submitter_is_not_believed_where_an_agent_reports(
    yard: Yard, ann: Door, root: Door, placed: str
) -> None:
    """It could have GPUs given away that its processes still use."""
    _hear(root, placed)
    assert ann.send("POST", STATUS, RUNNING | {"state": "failed"}).status_code == 403
    operator = Door(yard, Caller("olga", Role.OPERATOR))
    assert operator.send("POST", STATUS, RUNNING).status_code == 200


def test_agent_reports_of_pods_on_its_own_node_alone(
    yard: Yard, ann: Door, root: Door, placed: str
) -> None:
    other = "c4" if placed != "c4" else "a1"
    doors = {
        node: Door(yard, Caller(f"node:{node}", Role.AGENT, nodes=frozenset({node})))
        for node in (placed, other)
    }
    assert doors[other].send("POST", STATUS, RUNNING).status_code == 403
    assert doors[placed].send("POST", STATUS, RUNNING).status_code == 200


def test_agent_sees_the_pods_of_its_node_whosever_they_are(
    yard: Yard, ann: Door, root: Door, placed: str
) -> None:
    agent = Door(yard, Caller("agent", Role.AGENT, nodes=frozenset({placed})))
    (pod,) = agent.send("GET", f"/v1/pods?node={placed}").json()["items"]
    assert pod["namespace"] == ALPHA
    assert agent.send("GET", "/v1/pods").status_code == 403


def _hear(root: Door, node: str) -> None:
    body: Json = {"session": "s-1", "boot_id": "b-1", "pods": []}
    answer = root.send("POST", f"/v1/nodes/{node}/heartbeat", body)
    assert answer.status_code == 200, answer.text


# -- kubectl ---------------------------------------------------------------------------------------


def test_command_on_a_queue_needs_an_operator(yard: Yard, ann: Door, root: Door) -> None:
    command = {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "kind": "Command",
        "metadata": {"name": "close"},
        "action": "CloseQueue",
        "target": {"apiVersion": "x", "kind": "Queue", "name": "ours"},
    }
    path = f"/apis/bus.volcano.sh/v1alpha1/namespaces/{ALPHA}/commands"
    assert ann.send("POST", path, command).status_code == 403
    assert not root.send("GET", "/v1/queues/ours").json()["closed"]
    assert root.send("POST", path, command).status_code == 201


def test_operator_cordons_a_node_and_leaves_the_inventory_alone(yard: Yard, ann: Door) -> None:
    olga = Door(yard, Caller("olga", Role.OPERATOR))
    taint = {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}
    label = {"metadata": {"labels": {"k": "v"}}}
    for change in (taint, label):
        assert olga.send("PATCH", NODE, change, MERGE).status_code == 403
    cordon = olga.send("PATCH", NODE, {"spec": {"unschedulable": True}}, MERGE)
    assert cordon.status_code == 200
    by = olga.send("GET", "/v1/nodes/a1").json()["cordoned"]["by"]
    assert by == "olga"


def test_object_of_another_namespace_is_not_made_by_way_of_ones_own(ann: Door, root: Door) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": BETA}}
    answer = ann.send("POST", f"/api/v1/namespaces/{ALPHA}/configmaps", body)
    assert answer.status_code in {400, 422}
    assert root.send("GET", "/api/v1/configmaps").json()["items"] == []


def test_volcano_job_in_a_queue_of_others_is_refused_as_in_one_that_is_not_there(
    ann: Door,
) -> None:
    path = f"/apis/batch.volcano.sh/v1alpha1/namespaces/{ALPHA}/jobs"
    container = {"name": "c", "image": "none"}
    task = {"name": "t", "replicas": 1, "template": {"spec": {"containers": [container]}}}
    answers = [
        ann.send(
            "POST",
            path,
            {
                "apiVersion": "batch.volcano.sh/v1alpha1",
                "kind": "Job",
                "metadata": {"name": "v"},
                "spec": {"queue": f"{mark}-queue", "minAvailable": 1, "tasks": [task]},
            },
        )
        for mark in (MARK, "qxj")
    ]
    assert [a.status_code for a in answers] == [422, 422]
    assert answers[0].text.replace(MARK, "qxj") == answers[1].text


def test_review_of_what_is_not_its_senders_is_refused(ann: Door) -> None:
    def review(namespace: str) -> Json:
        request = {
            "uid": "1",
            "operation": "CREATE",
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "namespace": namespace,
            "name": "p",
            "object": {"metadata": {"name": "p"}, "spec": {}},
        }
        return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}

    assert ann.send("POST", "/pods/validate", review(ALPHA)).status_code == 200
    for namespace in (BETA, ""):
        assert ann.send("POST", "/pods/validate", review(namespace)).status_code == 403
