"""Pods of Volcano jobs, as `kubectl` and `vcctl` look for them."""

from typing import Any
from urllib.parse import quote

import pytest

from tests.api.k8s.reviews import job, task
from tests.api.k8s.volcano.yards import VolcanoYard

PODS = "/api/v1/namespaces/default/pods"
ONE = pytest.mark.parametrize("database_kind", ["sqlite"], indirect=True)


def get(volcano: VolcanoYard, path: str) -> dict[str, Any]:
    answer = volcano.yard.client.get(path)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


@ONE
def test_pods_of_a_job_carry_its_marks_and_template(volcano: VolcanoYard) -> None:
    one = task(replicas=4)
    one["template"]["metadata"] = {"labels": {"app": "trainer"}, "annotations": {"note": "x"}}
    one["partitionPolicy"] = {"totalPartitions": 2, "partitionSize": 2}
    made = volcano.apply(job(one, minAvailable=4))
    volcano.turn()
    items = get(volcano, PODS)["items"]
    assert [pod["metadata"]["name"] for pod in items] == [f"train-worker-{i}" for i in range(4)]
    meta = items[3]["metadata"]
    wanted = {
        "app": "trainer",
        "volcano.sh/job-name": "train",
        "volcano.sh/task-spec": "worker",
        "volcano.sh/task-index": "3",
        "volcano.sh/queue-name": "default",
        "volcano.sh/job-namespace": "default",
        "volcano.sh/partition-id": "1",
    }
    assert {key: meta["labels"].get(key) for key in wanted} == wanted
    group = meta["annotations"]["scheduling.k8s.io/group-name"]
    assert group == f"train-{made['metadata']['uid']}"
    owners = {owner["apiVersion"]: owner["name"] for owner in meta["ownerReferences"]}
    assert owners["batch.volcano.sh/v1alpha1"] == "train"
    (container,) = items[3]["spec"]["containers"]
    assert container["image"] == "trainer:1"
    assert items[3]["status"]["containerStatuses"][0]["name"] == container["name"]


@ONE
def test_pods_are_found_as_vcctl_looks_for_them(volcano: VolcanoYard) -> None:
    volcano.apply(job())
    volcano.apply(job(name="other"))
    volcano.yard.submit("plain", roles=[{"name": "w", "replicas": 1}])
    volcano.turn()
    for selector, count in (
        ("volcano.sh/job-name in (train)", 2),
        ("volcano.sh/job-name", 4),
        ("volcano.sh/job-name notin (train)", 3),
    ):
        items = get(volcano, f"{PODS}?labelSelector={quote(selector)}")["items"]
        assert len(items) == count


@ONE
def test_job_and_its_group_are_found_in_discovery(volcano: VolcanoYard) -> None:
    groups = [group["name"] for group in get(volcano, "/apis")["groups"]]
    for name in ("batch.volcano.sh", "scheduling.volcano.sh", "topology.volcano.sh"):
        assert name in groups
    found = get(volcano, "/apis/batch.volcano.sh/v1alpha1")["resources"]
    assert next(r for r in found if r["name"] == "jobs")["shortNames"] == ["vcjob", "vj"]
