"""Manifests that Volcano's users have: each runs to its end, or is refused as Volcano would."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from api.store.schema import migrate, open_database
from tests.api.http.contract import Contract
from tests.api.http.yard import Yard
from tests.api.k8s.reviews import manifests
from tests.api.k8s.volcano.yards import GROUPS, TWO_DOMAINS, VolcanoYard
from tests.core.importers.samples import SAMPLES

FLEET = """\
levels: [hall, block, rack, node]
node_types:
  gpu: {gpu: CARD, gpus: 8, cpus: 64, memory_gib: 512}
  npu: {gpus: 0, cpus: 64, memory_gib: 512, resources: {huawei.com/npu-core: 8}}
nodes:
  - {names: "node-[0-7]", type: gpu, hall: null, block: null, rack: null}
  - names: arm
    type: npu
    hall: null
    block: null
    rack: null
    labels: {host-arch: huawei-arm}
"""

QUEUES = ("queue1", "testing", "root-eng-prod", "root-eng-dev", "root-sci-prod", "root-sci-dev")

REFUSED = {
    "docs/job-api-policies.yaml": "spec.tasks[0].template.spec.containers",
    "docs/job-cdp-cooldown.yaml": "spec.volumes[0]",
    "docs/job-policy-timeout-string-events.yaml": "spec.tasks[0].policies[0].events",
    "docs/job-sla-annotation.yaml": "metadata.name",
    "docs/job-two-partitioned-tasks.yaml": "spec.tasks[0].template.spec.containers",
    "docs/podgroup-subgroup-policy.yaml": "metadata.name",
    "invalid/invalid_jobs-duplicatedPolicyEvent-webhook-deny.yaml": "spec.policies[1].event",
    "invalid/invalid_jobs-duplicatedTaskName-webhook-deny.yaml": "spec.tasks[1].name",
    "invalid/invalid_jobs-minAvailable-webhook-deny.yaml": "spec.minAvailable",
}
"""Objects that break a rule of Volcano, with the first field that is wrong."""

NO_OBJECT = {
    "docs/hypernodes-roce-nvlink-design.yaml",
    "docs/hypernodes-tree-design.yaml",
    "examples/kubecon-2019-china-task-priority-high-priority.yaml",
    "examples/kubecon-2019-china-task-priority-normal-priority.yaml",
}
"""With a header of no version that there is, or without one."""

THERE_ALREADY = {"examples/artifacts-queue.yaml", "docs/queues-nodegroup-affinity.yaml"}
"""Queues `default` and `root`."""

TEMPLATES = {"examples/bench-cases-vcjob-template.yaml"}


def _files() -> list[str]:
    found = [
        str(path.relative_to(SAMPLES / "volcano"))
        for folder in ("docs", "examples", "invalid")
        for path in sorted((SAMPLES / "volcano" / folder).glob("*.yaml"))
    ]
    return [name for name in found if name not in TEMPLATES] or ["examples/job.yaml"]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, contract: Contract) -> Iterator[VolcanoYard]:
    """The tree of the website over eight nodes, one of another make, queues that samples name."""
    url = f"sqlite:///{tmp_path_factory.mktemp('fleet') / 'podyard.db'}"
    migrate(url)
    with closing(open_database(url)) as database, Yard(database, contract) as yard:
        yard.load(FLEET)
        for name in QUEUES:
            yard.ok("POST", "/v1/queues", {"name": name})
        volcano = VolcanoYard(yard)
        for name in ("docs/website-hypernode-09.yaml", "docs/website-hypernode-10.yaml"):
            for manifest in manifests(name):
                volcano.apply(manifest)
        yield volcano


def objects_of(name: str) -> list[dict[str, Any]]:
    """Objects of a sample that are of kinds which this service has."""
    return [dict(item) for item in manifests(name) if item.get("kind") in GROUPS]


@pytest.mark.parametrize("name", _files())
def test_sample_runs_to_its_end_or_is_refused_by_its_field(fleet: VolcanoYard, name: str) -> None:
    for obj in objects_of(name):
        if name in REFUSED:
            status = fleet.refused(422, "POST", fleet.path(obj), obj)
            assert fleet.fields(status)[0] == REFUSED[name]
        elif name in NO_OBJECT:
            fleet.refused(400, "POST", fleet.path(obj), obj)
        elif name in THERE_ALREADY and obj["metadata"]["name"] in ("default", "root"):
            fleet.refused(409, "POST", fleet.path(obj), obj)
        elif obj["kind"] == "Job":
            _runs(fleet, obj)
        elif fleet.call("POST", fleet.path(obj), obj).status_code != 201:
            # Names that the fixture has given already.
            assert fleet.get(obj)["metadata"]["name"] == obj["metadata"]["name"]


def _runs(fleet: VolcanoYard, obj: dict[str, Any]) -> None:
    """Start a job, let all its pods run and succeed, delete it."""
    made = fleet.apply(obj)
    name = made["metadata"]["name"]
    fleet.turn()
    fleet.run(f"/{name}")
    assert fleet.phase(made) == "Running", fleet.get(made)["status"]
    fleet.run(f"/{name}", "succeeded", 0)
    assert fleet.phase(made) == "Completed"
    fleet.ok("DELETE", f"{fleet.path(made)}/{name}")
    assert fleet.call("GET", f"{fleet.path(made)}/{name}").status_code == 404


# -- outcomes that the authors state --------------------------------------------------------------


def domains(volcano: VolcanoYard, job: str) -> dict[int, str]:
    """Pod index -> tier-1 domain, of pods that have a place."""
    return {
        pod["index"]: "s0" if pod["node"].startswith("a") else "s1" for pod in volcano.pods(job)
    }


@pytest.fixture
def cramped(yard: Yard) -> VolcanoYard:
    """Two tier-1 domains of four nodes; a node has room for one pod of the guide's jobs."""
    yard.load(TWO_DOMAINS.replace("cpus: 64", "cpus: 4"))
    return VolcanoYard(yard)


def test_hard_tier_runs_four_in_one_domain_while_four_wait(cramped: VolcanoYard) -> None:
    (manifest,) = manifests("docs/job-hard-tier1.yaml")
    made = cramped.apply(manifest)
    cramped.turn()
    cramped.run("network-topology-job")
    placed = domains(cramped, "network-topology-job")
    assert (len(placed), len(set(placed.values()))) == (4, 1)
    status = cramped.get(made)["status"]
    assert (status["state"]["phase"], status["running"], status["pending"]) == ("Running", 4, 4)


def test_each_partition_runs_in_its_own_domain(cramped: VolcanoYard) -> None:
    (manifest,) = manifests("docs/job-partition-tier2-tier1.yaml")
    cramped.apply(manifest)
    cramped.turn()
    cramped.turn()
    placed = domains(cramped, "network-topology-job")
    assert len(placed) == 8
    assert len({placed[index] for index in range(4)}) == 1
    assert len({placed[index] for index in range(4, 8)}) == 1
    assert placed[0] != placed[4]


def test_pods_without_a_constraint_share_a_domain(cramped: VolcanoYard) -> None:
    (manifest,) = manifests("docs/job-no-topology.yaml")
    cramped.apply(manifest)
    cramped.turn()
    placed = domains(cramped, "network-topology-job")
    assert (len(placed), len(set(placed.values()))) == (2, 1)


def test_tree_of_the_website_is_made_and_carries_its_job(fleet: VolcanoYard) -> None:
    tree = fleet.ok("GET", GROUPS["HyperNode"])["items"]
    counts = {hn["metadata"]["name"]: hn["status"]["nodeCount"] for hn in tree}
    assert counts == {"s0": 2, "s1": 2, "s2": 2, "s3": 2, "s4": 2, "s5": 2, "s6": 2}
    assert {hn["metadata"]["name"]: hn["spec"]["tier"] for hn in tree}["s6"] == 3
    (manifest,) = manifests("docs/website-hypernode-11.yaml")
    made = fleet.apply(manifest)
    fleet.turn()
    fleet.run("mindspore-cpu")
    assert fleet.phase(made) == "Running"
    nodes = {int(pod["node"].removeprefix("node-")) for pod in fleet.pods("mindspore-cpu")}
    assert max(nodes) < 4 or min(nodes) >= 4  # tier 2 holds four nodes
    fleet.run("mindspore-cpu", "succeeded", 0)
    fleet.ok("DELETE", f"{fleet.path(made)}/mindspore-cpu")
