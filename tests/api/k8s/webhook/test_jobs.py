"""The webhook's answers about jobs: defaults, refusals, changes."""

from typing import cast

import pytest

from api.k8s.volcano.shape import Tree
from api.k8s.volcano.site import QueueSeen, Site
from tests.api.k8s.reviews import (
    SITE,
    job,
    manifests,
    patch_of,
    patched,
    queue,
    refusal,
    seen,
    task,
)

MUTATE, VALIDATE = "/jobs/mutate", "/jobs/validate"


def test_job_gets_the_defaults_of_volcano_in_its_order() -> None:
    bare: Tree = {"metadata": {"name": "aj"}, "spec": {"tasks": [{"replicas": 3}, {"replicas": 2}]}}
    operations = patch_of(MUTATE, bare)
    assert [(o["op"], o["path"]) for o in operations] == [
        ("add", "/spec/queue"),
        ("add", "/spec/schedulerName"),
        ("add", "/spec/maxRetry"),
        ("replace", "/spec/tasks"),
        ("add", "/spec/minAvailable"),
    ]
    spec = cast(Tree, patched(MUTATE, bare)["spec"])
    assert (spec["queue"], spec["schedulerName"], spec["maxRetry"]) == ("default", "volcano", 3)
    assert spec["minAvailable"] == 5
    assert spec["tasks"] == [
        {"replicas": 3, "name": "default0", "minAvailable": 3, "maxRetry": 3},
        {"replicas": 2, "name": "default1", "minAvailable": 2, "maxRetry": 3},
    ]


def test_null_amounts_of_a_container_count_as_left_out() -> None:
    made = task()
    spec = made["template"]["spec"]
    spec["containers"][0]["resources"] = {"requests": {"cpu": None}, "limits": {"cpu": None}}
    spec["overhead"] = {"cpu": None}
    assert refusal(VALIDATE, job(made)) == ""


def test_job_that_states_all_is_not_patched() -> None:
    whole = job(task(minAvailable=2, maxRetry=3), schedulerName="volcano", minAvailable=2)
    assert patch_of(MUTATE, whole) == []


def test_task_with_partitions_needs_its_least_of_them() -> None:
    parts = {"totalPartitions": 4, "partitionSize": 2, "minPartitions": 3}
    spec = cast(Tree, patched(MUTATE, job(task(replicas=8, partitionPolicy=parts)))["spec"])
    assert cast(list[Tree], spec["tasks"])[0]["minAvailable"] == 6


def test_task_on_the_network_of_its_host_gets_the_dns_of_it() -> None:
    one = task()
    cast(Tree, cast(Tree, one["template"])["spec"])["hostNetwork"] = True
    spec = cast(Tree, patched(MUTATE, job(one))["spec"])
    pod = cast(Tree, cast(Tree, cast(list[Tree], spec["tasks"])[0]["template"])["spec"])
    assert pod["dnsPolicy"] == "ClusterFirstWithHostNet"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"mpi": []}, {"mpi": [], "svc": [], "ssh": []}),
        ({"pytorch": ["--port=1"]}, {"pytorch": ["--port=1"], "svc": []}),
        ({"ray": [], "svc": ["-x"]}, {"ray": [], "svc": ["-x"]}),
        ({"env": []}, {"env": []}),
    ],
)
def test_plugin_brings_those_it_needs(given: Tree, wanted: Tree) -> None:
    whole = job(task(minAvailable=2, maxRetry=3), schedulerName="volcano", plugins=given)
    assert patch_of(MUTATE, whole) == [{"op": "replace", "path": "/spec/plugins", "value": wanted}]


def test_defaulted_samples_are_allowed() -> None:
    for name in ("examples/job.yaml", "docs/job-mpi-plugin.yaml", "docs/job-hard-tier1.yaml"):
        for manifest in manifests(name):
            assert refusal(VALIDATE, patched(MUTATE, manifest)) == ""


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("invalid/invalid_jobs-duplicatedPolicyEvent-webhook-deny.yaml", "spec.policies[1].event"),
        ("invalid/invalid_jobs-duplicatedTaskName-webhook-deny.yaml", "spec.tasks[1].name"),
        ("invalid/invalid_jobs-minAvailable-webhook-deny.yaml", "spec.minAvailable"),
        ("docs/job-policy-timeout-string-events.yaml", "spec.tasks[0].policies[0].events"),
        ("docs/job-api-policies.yaml", "spec.tasks[0].template.spec.containers"),
        ("docs/job-two-partitioned-tasks.yaml", "spec.tasks[0].template.spec.containers"),
        ("docs/job-cdp-cooldown.yaml", "spec.volumes[0]"),
        ("docs/job-sla-annotation.yaml", "spec.tasks"),
        ("docs/job-fragment-replica-typo.yaml", "spec.tasks"),
    ],
)
def test_published_mistake_is_refused_by_its_field(name: str, field: str) -> None:
    for manifest in manifests(name):
        assert refusal(VALIDATE, manifest).startswith(f"{field}: ")


def _limits(**amounts: object) -> Tree:
    made = task()
    spec = cast(Tree, cast(Tree, made["template"])["spec"])
    cast(list[Tree], spec["containers"])[0]["resources"] = dict(amounts)
    return made


def _container(**fields: object) -> Tree:
    made = task()
    spec = cast(Tree, cast(Tree, made["template"])["spec"])
    cast(list[Tree], spec["containers"])[0].update(fields)
    return made


GPU = "nvidia.com/gpu"
PARTS = {"totalPartitions": 2, "partitionSize": 2}
TIERS = {"mode": "hard", "highestTierAllowed": 1, "highestTierName": "rack"}
RESTART = {"event": "PodFailed", "action": "RestartJob"}


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        (job(task(minAvailable=3)), "spec.tasks[0].minAvailable"),
        (job(task(), task("worker")), "spec.tasks[1].name"),
        (job(minAvailable=9), "spec.minAvailable"),
        (job(networkTopology=TIERS), "spec.networkTopology.highestTierName"),
        (
            job(task(replicas=4, partitionPolicy=PARTS | {"networkTopology": TIERS})),
            "spec.tasks[0].partitionPolicy.networkTopology.highestTierName",
        ),
        (job(task(replicas=5, partitionPolicy=PARTS)), "spec.tasks[0].replicas"),
        (
            job(task(replicas=4, minAvailable=4, partitionPolicy=PARTS | {"minPartitions": 1})),
            "spec.tasks[0].minAvailable",
        ),
        (job(policies=[RESTART, RESTART]), "spec.policies[1].event"),
        (job(policies=[{"action": "RestartJob"}]), "spec.policies[0]"),
        (job(policies=[RESTART | {"exitCode": 3}]), "spec.policies[0]"),
        (job(policies=[{"exitCode": 0, "action": "AbortJob"}]), "spec.policies[0].exitCode"),
        (
            job(policies=[{"exitCode": 3, "action": "AbortJob"}] * 2),
            "spec.policies[1].exitCode",
        ),
        (job(policies=[RESTART | {"event": "OutOfSync"}]), "spec.policies[0].event"),
        (job(policies=[RESTART | {"action": "SyncJob"}]), "spec.policies[0].action"),
        (job(policies=[RESTART, RESTART | {"event": "*"}]), "spec.policies[1].event"),
        (job(task(policies=[{"event": "*"}])), "spec.tasks[0].policies[0].action"),
        (job(policies=[RESTART | {"timeout": "10 minutes"}]), "spec.policies[0].timeout"),
        (job(plugins={"docker": []}), "spec.plugins"),
        (job(plugins={"mpi": ["--master=boss"]}), "spec.plugins.mpi"),
        (job(volumes=[{"mountPath": "/a"}]), "spec.volumes[0]"),
        (job(volumes=[{"mountPath": "/a", "volumeClaimName": "A_B"}]), "spec.volumes[0].volumeC"),
        (
            job(volumes=[{"mountPath": "/a", "volumeClaimName": "b"}] * 2),
            "spec.volumes[1].mountPath",
        ),
        (job(queue="nowhere"), "spec.queue"),
        (job(queue="root"), "spec.queue"),
        (job(name="x" * 64), "spec.tasks[0].name"),
        (job(name="Not A Name"), "spec.tasks[0].name"),
        (job(task(dependsOn={"name": ["other"]})), "spec.tasks[0].dependsOn.name"),
        (job(task(dependsOn={"name": ["worker"]})), "spec.tasks[0].dependsOn"),
        (job(_limits(requests={"cpu": -1})), "spec.tasks[0].template.spec.containers[0].resources"),
        (
            job(_limits(requests={"cpu": 2}, limits={"cpu": 1})),
            "spec.tasks[0].template.spec.containers[0].resources.requests.cpu",
        ),
        (
            job(_limits(requests={GPU: 1})),
            f"spec.tasks[0].template.spec.containers[0].resources.limits.{GPU}",
        ),
        (
            job(_limits(limits={GPU: "500m"})),
            f"spec.tasks[0].template.spec.containers[0].resources.limits.{GPU}",
        ),
        (job(_limits(requests={"cpu": "lots"})), "spec.tasks[0].template.spec.containers[0].res"),
        (job(_container(name="Not_Legal")), "spec.tasks[0].template.spec.containers[0].name"),
        (job(_container(image="")), "spec.tasks[0].template.spec.containers[0].image"),
        (
            job(_container(env=[{"name": "A=B"}])),
            "spec.tasks[0].template.spec.containers[0].env[0].name",
        ),
        (
            job(_container(volumeMounts=[{"name": "v", "mountPath": "/v"}])),
            "spec.tasks[0].template.spec.containers[0].volumeMounts[0].name",
        ),
        (
            job(_limits(requests={"cpu": "1500m"}) | {"topologyPolicy": "restricted"}),
            "spec.tasks[0].template.spec.containers[0].resources.requests.cpu",
        ),
        (job(minAvailable="two"), "spec.minAvailable"),
        (job(task(replicas=-1)), "spec.tasks[0].replicas"),
        (job(task(replicas=10**30)), "spec.tasks[0].replicas"),
    ],
)
def test_job_that_breaks_a_rule_is_denied_by_its_field(wrong: Tree, field: str) -> None:
    assert refusal(VALIDATE, wrong).startswith(field)


def test_every_problem_of_a_job_is_told_at_once() -> None:
    told = refusal(VALIDATE, job(task(minAvailable=3), queue="nowhere", plugins={"docker": []}))
    for field in ("spec.tasks[0].minAvailable", "spec.queue", "spec.plugins"):
        assert field in told


def test_queue_with_queues_below_it_or_closed_takes_no_job() -> None:
    site = seen(queue("lab"), queue("team", parent="lab"))
    assert "queues below it" in refusal(VALIDATE, job(queue="lab"), site=site)
    assert refusal(VALIDATE, job(queue="team"), site=site) == ""
    closed = Site({**SITE.queues, "old": QueueSeen("old", state="Closing")})
    assert "is Closing" in refusal(VALIDATE, job(queue="old"), site=closed)


def test_task_may_wait_for_another() -> None:
    after = task("late", dependsOn={"name": ["worker"], "iteration": "any"})
    assert refusal(VALIDATE, job(task(), after)) == ""


# -- changes --------------------------------------------------------------------------------------


def _changed(old: Tree, new: Tree) -> str:
    return refusal(VALIDATE, new, old, operation="UPDATE")


def test_number_of_pods_may_change() -> None:
    assert _changed(job(), job(task(replicas=4, minAvailable=3), minAvailable=3)) == ""
    assert _changed(job(), job(priorityClassName="high")) == ""


@pytest.mark.parametrize(
    ("new", "field"),
    [
        (job(task(replicas=2, minAvailable=3)), "spec.tasks[0].minAvailable"),
        (job(task(), task("more")), "spec.tasks: found 2"),
        (job(task("renamed")), "spec.tasks[0].name"),
        (job(queue="research"), "spec.queue"),
        (job(minAvailable=3), "spec.minAvailable"),
        (job(maxRetry=9), "spec.maxRetry"),
    ],
)
def test_change_of_what_is_fixed_is_denied(new: Tree, field: str) -> None:
    assert _changed(job(), new).startswith(field)


def test_name_that_the_controller_gave_a_claim_is_no_change() -> None:
    volume = {"mountPath": "/d", "volumeClaim": {"storageClassName": "fast"}}
    old, new = job(volumes=[volume]), job(volumes=[volume | {"volumeClaimName": "train-volume-1"}])
    assert _changed(old, new) == ""
