"""Volcano jobs as objects: what they become, what is shown of them, changes, refusals."""

from typing import Any

import pytest

from tests.api.k8s.reviews import job, task
from tests.api.k8s.volcano.yards import GROUPS, VolcanoYard

JOBS = GROUPS["Job"]


def spec_of(volcano: VolcanoYard, name: str = "train") -> dict[str, Any]:
    """The same job in the words of `/v1`."""
    found: dict[str, Any] = volcano.yard.ok("GET", f"/v1/namespaces/default/jobs/{name}")
    spec: dict[str, Any] = found["spec"]
    return spec


def test_task_becomes_a_role_with_what_its_pods_ask_for(volcano: VolcanoYard) -> None:
    one = task(replicas=4, minAvailable=2)
    one["template"]["spec"]["containers"][0]["resources"] = {
        "requests": {"cpu": "1500m", "memory": "2Gi"},
        "limits": {"nvidia.com/gpu": 2, "example.com/nic": 1, "cpu": 2},
    }
    one["template"]["spec"]["initContainers"] = [
        {"name": "warm", "image": "i", "resources": {"requests": {"memory": "3Gi"}}}
    ]
    volcano.apply(job(one, minAvailable=2))
    (role,) = spec_of(volcano)["roles"]
    wanted = {"name": "worker", "replicas": 4, "min": 2, "gpus": 2, "cpu": 1.5, "memory": 3.0}
    assert {key: role[key] for key in wanted} == wanted
    assert role["resources"] == {"example.com/nic": 1}


@pytest.mark.parametrize(
    ("least", "own", "wanted"),
    [
        (5, (None, None), (3, 2)),  # all that there are
        (3, (None, None), (3, 1)),  # fewer than all: the first ones, and one of each
        (4, (2, 1), (3, 1)),  # each its own, and one more
        (3, (2, 1), (2, 1)),
        (1, (None, None), (1, 1)),
    ],
)
def test_minimum_of_a_job_is_shared_among_its_tasks(
    volcano: VolcanoYard, least: int, own: tuple[int | None, ...], wanted: tuple[int, ...]
) -> None:
    tasks = [task("a", 3), task("b", 2)]
    for item, number in zip(tasks, own, strict=True):
        item.update({} if number is None else {"minAvailable": number})
    volcano.apply(job(*tasks, minAvailable=least))
    assert tuple(role["min"] for role in spec_of(volcano)["roles"]) == wanted


def test_task_of_higher_priority_gets_the_minimum_first(volcano: VolcanoYard) -> None:
    for name, value in (("high", 100), ("low", 1)):
        head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        volcano.apply(head | {"metadata": {"name": name}, "value": value})
    tasks = [task("a", 3), task("b", 2)]
    for item, name in zip(tasks, ("low", "high"), strict=True):
        item["template"]["spec"]["priorityClassName"] = name
    volcano.apply(job(*tasks, minAvailable=3))
    assert tuple(role["min"] for role in spec_of(volcano)["roles"]) == (1, 2)


@pytest.mark.parametrize(
    ("given", "rules"),
    [
        ({"mode": "hard", "highestTierAllowed": 1}, [("job", "rack", "required")]),
        ({"highestTierAllowed": 2}, [("job", "zone", "required")]),
        ({"mode": "hard", "highestTierName": "zone"}, [("job", "zone", "required")]),
        ({"mode": "soft", "highestTierAllowed": 2}, [("job", "zone", "preferred")]),
        ({"mode": "soft"}, [("job", "rack", "preferred")]),
        ({"mode": "hard"}, []),
        ({"mode": "hard", "highestTierAllowed": 9}, []),
    ],
)
def test_tier_becomes_a_rule_about_a_level(
    volcano: VolcanoYard, given: dict[str, object], rules: list[tuple[str, ...]]
) -> None:
    volcano.apply(job(networkTopology=given))
    found = spec_of(volcano)["topology"]
    assert [(rule["group"], rule["within"], rule["mode"]) for rule in found] == rules


def test_hard_topology_with_an_unknown_tier_name_is_refused(volcano: VolcanoYard) -> None:
    wrong = job(networkTopology={"mode": "hard", "highestTierName": "galaxy"})
    status = volcano.refused(422, "POST", JOBS, wrong)
    assert volcano.fields(status) == ["spec.networkTopology.highestTierName"]
    assert "zone, rack, node" in status["message"]
    parts = {
        "totalPartitions": 1,
        "partitionSize": 2,
        "networkTopology": {"highestTierName": "galaxy"},
    }
    status = volcano.refused(422, "POST", JOBS, job(task(partitionPolicy=parts)))
    assert volcano.fields(status) == [
        "spec.tasks[0].partitionPolicy.networkTopology.highestTierName"
    ]


def test_ring_of_five_crosses_between_two_hypernodes_twice(volcano: VolcanoYard) -> None:
    ring = task(replicas=5, minAvailable=5)
    ring["template"]["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": 8}}
    volcano.apply(job(ring, minAvailable=5))
    volcano.turn()
    sides = {pod["index"]: pod["node"][0] for pod in volcano.pods("train")}
    assert len(sides) == 5
    crossings = sum(sides[i] != sides[(i + 1) % 5] for i in range(5))
    assert crossings == 2


def test_nodes_are_chosen_as_the_templates_say(volcano: VolcanoYard) -> None:
    one = task()
    one["template"]["metadata"] = {"labels": {"app": "x"}}
    one["template"]["spec"] |= {
        "nodeSelector": {"kubernetes.io/os": "linux", "kubernetes.io/hostname": "a1"},
        "tolerations": [{"key": "t", "operator": "Exists", "effect": "NoSchedule"}],
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "topologyKey": "kubernetes.io/hostname",
                        "labelSelector": {"matchLabels": {"app": "x"}},
                    }
                ]
            }
        },
    }
    volcano.apply(job(one))
    spec = spec_of(volcano)
    assert (spec["nodes"], spec["labels"]) == (["a1"], {})
    assert spec["roles"][0]["one_per_node"] is True
    assert spec["tolerations"][0]["key"] == "t"


def _running(name: str, command: list[str]) -> dict[str, Any]:
    made = task(name)
    made["template"]["spec"]["containers"][0]["command"] = command
    return made


def _selecting(name: str, **labels: str) -> dict[str, Any]:
    made = task(name)
    made["template"]["spec"]["nodeSelector"] = labels
    return made


def test_labels_that_nodes_show_may_be_selected_by(volcano: VolcanoYard) -> None:
    one = _selecting("a", **{"nvidia.com/gpu.product": "CARD", "podyard.io/rack": "s1"})
    volcano.apply(job(one))
    spec = spec_of(volcano)
    assert (spec["gpu"], spec["labels"]) == ("CARD", {})
    assert spec["nodes"] == ["b1", "b2", "b3", "b4"]
    volcano.apply(job(_selecting("a", **{"podyard.io/rack": "s9"}), name="other"))
    assert spec_of(volcano, "other")["labels"] == {"podyard.io/rack": "s9"}


NODE_TERMS = {
    "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": "x", "operator": "Gt", "values": ["1"]}]}
        ]
    }
}


def test_what_cannot_be_said_of_a_gang_is_refused_by_its_field(volcano: VolcanoYard) -> None:
    path, second = "spec.tasks[0].template.spec", "spec.tasks[1].template.spec.containers[0]"
    exotic = task()
    exotic["template"]["spec"]["affinity"] = {"nodeAffinity": NODE_TERMS}
    paired = task()
    paired["template"]["spec"]["affinity"] = {
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "rack"}]}
    }
    two_makes = task()
    two_makes["template"]["spec"]["containers"][0]["resources"] = {
        "limits": {"nvidia.com/gpu": 1, "amd.com/gpu": 1}
    }
    for wrong, field in (
        (job(_selecting("a", x="1"), _selecting("b", x="2")), "spec.tasks[1].template.spec.nodeS"),
        (job(exotic), f"{path}.affinity.nodeAffinity"),
        (job(paired), f"{path}.affinity.podAffinity"),
        (job(two_makes), f"{path}.containers"),
        (job(task("dp")), "spec.tasks[0].name"),
        (job(task(replicas=0), minAvailable=0), "spec.tasks"),
        (job(priorityClassName="nobody"), "spec.priorityClassName"),
        (job(task(replicas=2_000_000)), "spec.tasks[0].replicas"),
        (job(name="train" * 12), "spec.tasks[0].name"),
        (job(task("first"), _running("second", ["x"] * 2_000)), f"{second}.command"),
    ):
        status = volcano.refused(422, "POST", JOBS, wrong)
        assert volcano.fields(status)[0].startswith(field), status["message"]


def test_what_is_taken_but_not_acted_on_is_told(volcano: VolcanoYard) -> None:
    one = task(dependsOn={"name": ["first"]})
    one["template"]["spec"]["topologySpreadConstraints"] = [{"whenUnsatisfiable": "DoNotSchedule"}]
    answer = volcano.call("POST", JOBS, job(task("first"), one, plugins={"ray": []}))
    told = answer.headers["warning"]
    for words in ("topologySpreadConstraints", "plugin 'ray'", "start after others"):
        assert words in told


def test_name_of_a_job_is_free_when_the_object_is_gone(volcano: VolcanoYard) -> None:
    volcano.apply(job())
    assert volcano.refused(409, "POST", JOBS, job())["reason"] == "AlreadyExists"
    volcano.turn()
    volcano.run("train")
    volcano.ok("DELETE", f"{JOBS}/train")
    assert volcano.get(job())["metadata"]["deletionTimestamp"]
    volcano.turn()
    volcano.run("train", "stopped")
    assert volcano.call("GET", f"{JOBS}/train").status_code == 404
    volcano.apply(job())


def test_job_of_the_other_face_has_the_name(volcano: VolcanoYard) -> None:
    volcano.yard.submit("train")
    status = volcano.refused(409, "POST", JOBS, job())
    assert status["reason"] == "AlreadyExists"


def test_dry_run_writes_nothing(volcano: VolcanoYard) -> None:
    made = volcano.ok("POST", f"{JOBS}?dryRun=All", job())
    assert made["spec"]["tasks"][0]["maxRetry"] == 3
    assert volcano.ok("GET", JOBS)["items"] == []


def test_number_of_pods_is_changed_by_a_patch(volcano: VolcanoYard) -> None:
    volcano.apply(job(task(replicas=4, minAvailable=1)))
    volcano.turn()
    tasks = volcano.get(job())["spec"]["tasks"]
    tasks[0]["replicas"] = 2
    volcano.ok("PATCH", f"{JOBS}/train", {"spec": {"tasks": tasks}})
    assert spec_of(volcano)["roles"][0]["replicas"] == 2
    assert volcano.get(job())["metadata"]["generation"] == 2
    tasks[0]["name"] = "other"
    status = volcano.refused(422, "PATCH", f"{JOBS}/train", {"spec": {"tasks": tasks}})
    assert volcano.fields(status) == ["spec.tasks[0].name"]


def test_change_in_the_other_face_shows(volcano: VolcanoYard) -> None:
    volcano.apply(job(task(replicas=4, minAvailable=1)))
    path = "/v1/namespaces/default/jobs/train"
    volcano.yard.ok("PATCH", path, {"replicas": 3})
    assert volcano.get(job())["spec"]["tasks"][0]["replicas"] == 3


def test_labels_and_annotations_are_kept(volcano: VolcanoYard) -> None:
    volcano.apply(job() | {"metadata": {"name": "train", "labels": {"team": "x"}}})
    volcano.ok("PATCH", f"{JOBS}/train", {"metadata": {"annotations": {"note": "y"}}})
    meta = volcano.get(job())["metadata"]
    assert (meta["labels"], meta["annotations"]) == ({"team": "x"}, {"note": "y"})


def test_group_of_a_job_shows_what_it_waits_for(volcano: VolcanoYard) -> None:
    made = volcano.apply(job(minAvailable=2, networkTopology={"highestTierAllowed": 1}))
    name = f"train-{made['metadata']['uid']}"
    path = f"{GROUPS['PodGroup']}/{name}"
    group = volcano.ok("GET", path)
    assert group["status"]["phase"] == "Inqueue"
    assert group["spec"]["minMember"] == 2
    assert group["spec"]["networkTopology"] == {"highestTierAllowed": 1, "mode": "hard"}
    assert group["metadata"]["ownerReferences"][0]["name"] == "train"
    volcano.turn()
    volcano.run("train")
    group = volcano.ok("GET", path)
    assert (group["status"]["phase"], group["status"]["running"]) == ("Running", 2)
    assert group["status"]["conditions"][0]["type"] == "Scheduled"
    volcano.refused(409, "DELETE", path)
