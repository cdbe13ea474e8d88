"""Queues, pod groups, hypernodes and priority classes as objects."""

from typing import Any

import pytest

from tests.api.http.yard import Yard
from tests.api.k8s.reviews import job
from tests.api.k8s.volcano.yards import GROUPS, VolcanoYard

GPU = "nvidia.com/gpu"
ONE = pytest.mark.parametrize("database_kind", ["sqlite"], indirect=True)


def queue(name: str, **spec: object) -> dict[str, Any]:
    head = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
    return head | {"metadata": {"name": name}, "spec": spec}


def of_v1(volcano: VolcanoYard, name: str) -> dict[str, Any]:
    found: dict[str, Any] = volcano.yard.ok("GET", f"/v1/queues/{name}")
    return found


def test_queue_is_one_of_the_other_face_with_its_gpus(volcano: VolcanoYard) -> None:
    volcano.apply(queue("lab", weight=3, capability={GPU: 16, "cpu": 8}, deserved={GPU: "8"}))
    found = of_v1(volcano, "lab")
    assert (found["limit_gpus"], found["quota_gpus"], found["weight"]) == (16, 8, 3.0)
    volcano.apply(queue("team", parent="lab", guarantee={"resource": {}}))
    assert of_v1(volcano, "team")["parent"] == "lab"


def test_change_of_a_queue_in_either_face_shows_in_the_other(volcano: VolcanoYard) -> None:
    made = volcano.apply(queue("lab", capability={GPU: 16, "cpu": 8}))
    path = f"{GROUPS['Queue']}/lab"
    volcano.yard.ok("PATCH", "/v1/queues/lab", {"limit_gpus": 24, "max_pending": 5})
    assert volcano.get(made)["spec"]["capability"] == {GPU: "24", "cpu": 8}
    volcano.ok("PATCH", path, {"spec": {"weight": 7}})
    found = of_v1(volcano, "lab")
    assert (found["weight"], found["limit_gpus"], found["max_pending"]) == (7.0, 24, 5)
    volcano.yard.ok("PATCH", "/v1/queues/lab", {"limit_gpus": None})
    assert volcano.get(made)["spec"]["capability"] == {"cpu": 8}


def test_amount_beyond_all_gpus_there_are_is_taken_as_written(volcano: VolcanoYard) -> None:
    made = volcano.apply(queue("lab", capability={GPU: "9" * 40}))
    assert volcano.yard.ok("GET", "/v1/queues/lab")["limit_gpus"] == 10**9
    assert volcano.get(made)["spec"]["capability"] == {GPU: "9" * 40}


def test_queue_tells_what_it_does_not_act_on(volcano: VolcanoYard) -> None:
    body = queue("lab", capability={"cpu": 8}, reclaimable=False)
    told = volcano.call("POST", GROUPS["Queue"], body).headers["warning"]
    assert "not cpu" in told
    assert "reclaimable" in told


@ONE
def test_root_queue_is_there_and_stays(volcano: VolcanoYard) -> None:
    path = GROUPS["Queue"]
    names = [item["metadata"]["name"] for item in volcano.ok("GET", path)["items"]]
    assert names == ["default", "root"]
    volcano.refused(409, "POST", path, queue("root"))
    volcano.refused(409, "DELETE", f"{path}/root")
    volcano.refused(409, "PATCH", f"{path}/root", {"spec": {"weight": 2}})
    volcano.refused(409, "DELETE", f"{path}/default")


@ONE
def test_queue_that_breaks_a_rule_is_refused_by_its_field(volcano: VolcanoYard) -> None:
    path = GROUPS["Queue"]
    for wrong, field in (
        (queue("a", parent="nowhere"), "spec.parent"),
        (queue("a", deserved={GPU: 4}, capability={GPU: 2}), f"spec.deserved.{GPU}"),
        (queue("a", weight=70_000), "spec.weight"),
        (queue("a", capability={"cpu": "lots"}), "spec.capability.cpu"),
    ):
        assert volcano.fields(volcano.refused(422, "POST", path, wrong)) == [field]
    volcano.apply(queue("a"))
    volcano.apply(queue("b", parent="a"))
    volcano.refused(409, "DELETE", f"{path}/a")
    volcano.ok("DELETE", f"{path}/b")
    volcano.ok("DELETE", f"{path}/a")
    volcano.refused(404, "GET", f"{path}/a")


def test_queue_counts_its_jobs_and_what_they_hold(volcano: VolcanoYard) -> None:
    made = volcano.apply(queue("lab"))
    volcano.apply(job(queue="lab"))
    assert volcano.get(made)["status"]["pending"] == 1
    volcano.turn()
    volcano.run("train")
    status = volcano.get(made)["status"]
    assert (status["running"], status["allocated"]["pods"]) == (1, "2")
    assert (status["state"], status["allocated"]["cpu"]) == ("Open", "2000m")


@ONE
def test_queue_is_closed_by_its_status_alone(volcano: VolcanoYard) -> None:
    made = volcano.apply(queue("lab") | {"status": {"state": "Closed"}})
    assert made["status"]["state"] == "Open"
    path = f"{GROUPS['Queue']}/lab/status"
    closed = volcano.ok("PATCH", path, {"status": {"state": "Closed"}})
    assert closed["status"]["state"] == "Closed"
    assert of_v1(volcano, "lab")["closed"] is True
    status = volcano.refused(422, "PATCH", path, {"status": {"state": "Ajar"}})
    assert volcano.fields(status) == ["status.state"]


# -- groups ---------------------------------------------------------------------------------------


def group(**spec: object) -> dict[str, Any]:
    head = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup"}
    return head | {"metadata": {"name": "pg", "namespace": "default"}, "spec": spec}


@ONE
def test_group_is_kept_changed_and_deleted(volcano: VolcanoYard) -> None:
    made = volcano.apply(group(minMember=2))
    assert made["spec"] == {"minMember": 2, "queue": "default"}
    path = f"{GROUPS['PodGroup']}/pg"
    volcano.ok("PATCH", path, {"spec": {"minMember": 3}})
    assert volcano.get(made)["spec"]["minMember"] == 3
    volcano.ok("DELETE", path)
    volcano.refused(404, "GET", path)


@ONE
def test_group_that_breaks_a_rule_is_refused_by_its_field(volcano: VolcanoYard) -> None:
    path = GROUPS["PodGroup"]
    for wrong, field in (
        (group(queue="nowhere"), "spec.queue"),
        (group(networkTopology={"highestTierName": "galaxy"}), "spec.networkTopology.highestT"),
        (group(minMember=-1), "spec.minMember"),
    ):
        status = volcano.refused(422, "POST", path, wrong)
        assert volcano.fields(status)[0].startswith(field)


@ONE
def test_pods_that_name_a_group_become_one_job(volcano: VolcanoYard) -> None:
    volcano.apply(group(minMember=2))
    for name in ("one", "two"):
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "annotations": {"scheduling.k8s.io/group-name": "pg"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }
        answer = volcano.yard.client.post("/api/v1/namespaces/default/pods", json=pod)
        assert answer.status_code == 201, answer.text
    found: dict[str, Any] = volcano.yard.ok("GET", "/v1/namespaces/default/jobs/pg")
    assert (found["minimum"], found["members"]) == (2, 2)


# -- hypernodes -----------------------------------------------------------------------------------


def hypernode(name: str, tier: int, *members: dict[str, Any], **spec: object) -> dict[str, Any]:
    head = {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode"}
    return head | {"metadata": {"name": name}, "spec": {"tier": tier, "members": members} | spec}


def nodes(*names: str) -> list[dict[str, Any]]:
    return [{"type": "Node", "selector": {"exactMatch": {"name": name}}} for name in names]


def domains(names: str) -> dict[str, Any]:
    return {"type": "HyperNode", "selector": {"regexMatch": {"pattern": names}}}


BARE = """\
levels: [zone, rack, node]
node_types: {cpu: {gpu: CARD, gpus: 8}}
nodes:
  - {names: "n[1-6]", type: cpu, rack: null, zone: null, labels: {side: east}}
"""


@pytest.fixture
def bare(yard: Yard) -> VolcanoYard:
    """Six nodes without a place."""
    yard.load(BARE)
    return VolcanoYard(yard)


def rack_of(bare: VolcanoYard, name: str) -> object:
    found: dict[str, Any] = bare.yard.ok("GET", f"/v1/nodes/{name}")
    return found["domains"]["rack"]


@ONE
def test_hypernodes_come_with_the_inventory(volcano: VolcanoYard) -> None:
    items = volcano.ok("GET", GROUPS["HyperNode"])["items"]
    found = {
        item["metadata"]["name"]: (item["spec"]["tier"], item["spec"]["tierName"]) for item in items
    }
    assert found == {"s0": (1, "rack"), "s1": (1, "rack"), "top": (2, "zone")}
    top = next(item for item in items if item["metadata"]["name"] == "top")
    kinds = {member["type"] for member in top["spec"]["members"]}
    assert (kinds, top["status"]["nodeCount"]) == ({"HyperNode"}, 2)


@ONE
def test_hypernode_that_is_written_is_a_place_of_its_nodes(bare: VolcanoYard) -> None:
    bare.apply(hypernode("r1", 1, *nodes("n1", "n2")))
    by_label = {"type": "Node", "selector": {"labelMatch": {"matchLabels": {"side": "west"}}}}
    by_name = {"type": "Node", "selector": {"regexMatch": {"pattern": "^n[34]$"}}}
    bare.apply(hypernode("r2", 1, by_name))
    bare.apply(hypernode("z", 2, domains("^r"), tierName="zone"))
    place: dict[str, Any] = bare.yard.ok("GET", "/v1/nodes/n4")
    assert (place["domains"]["rack"], place["domains"]["zone"]) == ("r2", "z")
    status = bare.refused(422, "POST", GROUPS["HyperNode"], hypernode("r3", 1, by_label))
    assert bare.fields(status) == ["spec.members[0].selector"]


@ONE
def test_hypernode_that_does_not_nest_is_refused(bare: VolcanoYard) -> None:
    path = GROUPS["HyperNode"]
    bare.apply(hypernode("r1", 1, *nodes("n1", "n2")))
    bare.apply(hypernode("z1", 2, *nodes("n1", "n2")))
    for wrong, field in (
        (hypernode("r2", 1, *nodes("n2", "n3")), "spec.members"),
        (hypernode("z2", 2, *nodes("n2", "n3")), "spec.members"),
        (hypernode("x", 3, *nodes("n5")), "spec.tier"),
        (hypernode("x", 0, *nodes("n5")), "spec.tier"),
        (hypernode("x", 1, *nodes("n5"), tierName="zone"), "spec.tierName"),
        (hypernode("x", 1, domains("(a+)+$")), "spec.members[0].selector.regexMatch.pattern"),
        (hypernode("x", 1), "spec.members"),
    ):
        assert bare.fields(bare.refused(422, "POST", path, wrong)) == [field]
    bare.refused(409, "POST", path, hypernode("r1", 1, *nodes("n5")))


@ONE
def test_hypernode_is_changed_and_deleted(bare: VolcanoYard) -> None:
    made = bare.apply(hypernode("r1", 1, *nodes("n1", "n2")))
    path = f"{GROUPS['HyperNode']}/r1"
    bare.ok("PATCH", path, {"spec": {"members": nodes("n2", "n3")}})
    assert bare.get(made)["status"]["nodeCount"] == 2
    assert rack_of(bare, "n1") is None
    assert rack_of(bare, "n3") == "r1"
    status = bare.refused(422, "PATCH", path, {"spec": {"tier": 2}})
    assert bare.fields(status) == ["spec.tier"]
    bare.ok("DELETE", path)
    assert rack_of(bare, "n3") is None
    bare.refused(404, "GET", path)


# -- priority classes -----------------------------------------------------------------------------


def priority(name: str, **fields: object) -> dict[str, Any]:
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return head | {"metadata": {"name": name}} | fields


@ONE
def test_priority_class_is_a_name_of_the_policy(volcano: VolcanoYard) -> None:
    path = GROUPS["PriorityClass"]
    made = volcano.apply(priority("high", value=100, description="soon"))
    assert (made["value"], made["description"]) == (100, "soon")
    policy: dict[str, Any] = volcano.yard.ok("GET", "/v1/policy")
    assert policy["priorities"] == {"high": 100}
    volcano.apply(job(priorityClassName="high"))
    found: dict[str, Any] = volcano.yard.ok("GET", "/v1/namespaces/default/jobs/train")
    assert found["priority"] == 100
    status = volcano.refused(422, "PATCH", f"{path}/high", {"value": 7})
    assert volcano.fields(status) == ["value"]
    volcano.ok("DELETE", f"{path}/high")
    assert volcano.yard.ok("GET", "/v1/policy")["priorities"] == {}


@ONE
def test_jobs_of_a_class_that_never_preempts_make_nobody_leave(volcano: VolcanoYard) -> None:
    path = GROUPS["PriorityClass"]
    volcano.apply(priority("meek", value=100, preemptionPolicy="Never"))
    volcano.apply(priority("high", value=200))
    policy: dict[str, Any] = volcano.yard.ok("GET", "/v1/policy")
    assert policy["never_preempt"] == ["meek"]
    assert volcano.ok("GET", f"{path}/meek")["preemptionPolicy"] == "Never"
    assert "preemptionPolicy" not in volcano.ok("GET", f"{path}/high")
    volcano.apply(job(priorityClassName="meek"))
    found: dict[str, Any] = volcano.yard.ok("GET", "/v1/namespaces/default/jobs/train")
    assert found["spec"]["preempts"] is False
    volcano.ok("DELETE", f"{path}/meek")
    policy = volcano.yard.ok("GET", "/v1/policy")
    assert (policy["priorities"], policy["never_preempt"]) == ({"high": 200}, [])


@ONE
def test_priority_class_of_no_sense_is_refused(volcano: VolcanoYard) -> None:
    path = GROUPS["PriorityClass"]
    for wrong, field in (
        (priority("p", value=2_000_000_000), "value"),
        (priority("p", value=1, globalDefault=True), "globalDefault"),
        (priority("p", value=1, preemptionPolicy="Sometimes"), "preemptionPolicy"),
        (priority("p"), "value"),
    ):
        assert volcano.fields(volcano.refused(422, "POST", path, wrong)) == [field]
