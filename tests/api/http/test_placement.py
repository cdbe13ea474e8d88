"""What a placement costs, and the formats in which launchers read it."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from api.store.schema import open_database
from scheduler.cost.constants import CONSTANTS
from tests.api.http.contract import Contract
from tests.api.http.yard import RACKS, Yard

JOB = "/v1/namespaces/default/jobs/job"
MODEL = {"params": 7e9, "layers": 32, "hidden": 4096, "seq": 4096, "global_batch": 256}
FABRIC = """\
cluster: test
levels: [block, leaf, node]
node_types:
  box: {gpu: CARD, gpus: 8, rails: 8, nic_gbps: 400, scale_up_gbps: 3600, cpus: 112}
nodes:
  - {names: "a[01-08]", type: box, block: b1, leaf: l1}
  - {names: "b[01-08]", type: box, block: b1, leaf: l2}
fabric:
  levels: {leaf: {gbps_per_gpu: 400}, block: {gbps_per_gpu: 400, oversubscription: 2}}
"""


@pytest.fixture
def yard(sqlite_template: Path, tmp_path: Path, contract: Contract) -> Iterator[Yard]:
    """An empty service; what is computed here is the same on every kind of database."""
    path = tmp_path / "podyard.db"
    shutil.copyfile(sqlite_template, path)
    database = open_database(f"sqlite:///{path}")
    try:
        with Yard(database, contract) as made:
            yield made
    finally:
        database.close()


def placed(yard: Yard, text: str = RACKS, **fields: object) -> dict[str, Any]:
    yard.load(text)
    yard.ok("POST", "/v1/jobs", {"name": "job"} | fields)
    yard.cycle()
    return yard.ok("GET", f"{JOB}/placement")


def as_format(yard: Yard, name: str) -> dict[str, Any]:
    return yard.ok("GET", f"{JOB}/placement?format={name}")


def as_text(yard: Yard, name: str) -> list[str]:
    answer = yard.call("GET", f"{JOB}/placement?format={name}")
    assert answer.headers["content-type"].startswith("text/plain")
    return answer.text.splitlines()


def test_placement_has_its_price_and_the_table_it_is_from(yard: Yard) -> None:
    found = placed(yard, FABRIC, parallelism={"tp": 8, "pp": 2, "dp": 2}, model=MODEL)
    assert (found["assumed"], found["cost_table"]) == (False, CONSTANTS.version)
    groups = found["groups"]
    assert groups["tp"]["bottleneck"] == "scale_up"
    assert groups["dp"]["bottleneck"] == groups["pp"]["bottleneck"] == "rail"
    # dp: half of 7e9 / (8 x 2) parameters, 4 + 2 bytes each.
    assert groups["dp"]["bytes_per_step"] == pytest.approx(0.5 * 7e9 / 16 * 6)
    assert found["inter_node_s"] == pytest.approx(groups["dp"]["seconds"] + groups["pp"]["seconds"])
    assert found["exposed_s"] == pytest.approx(
        sum(groups[axis]["exposed_s"] for axis in ("tp", "dp", "pp"))
    )
    assert groups["job"]["seconds"] is None
    assert groups["job"]["spans"]["leaf"]["least_possible"] == 1


def test_placement_without_a_model_is_assumed(yard: Yard) -> None:
    found = placed(yard, FABRIC, parallelism={"tp": 8, "dp": 2})
    assert found["assumed"] is True
    assert found["groups"]["dp"]["bytes_per_step"] == 1e9 * CONSTANTS.traffic.dp_gb


def test_weights_of_axes_are_taken(yard: Yard) -> None:
    sizes = {"tp": 8, "pp": 2, "dp": 2}
    found = placed(yard, FABRIC, parallelism=sizes, axis_weights={"dp": 10, "pp": 1})["groups"]
    assert found["dp"]["bytes_per_step"] == 10 * found["pp"]["bytes_per_step"] == 10e9
    assert yard.ok("GET", JOB)["spec"]["axis_weights"] == {"dp": 10.0, "pp": 1.0}  # type: ignore[index]  # plain JSON


def test_regret_is_one_where_nothing_leaves_a_node_and_in_the_best_place(yard: Yard) -> None:
    assert placed(yard, FABRIC, parallelism={"tp": 8})["regret"] == 1.0
    yard.ok("POST", "/v1/jobs", {"name": "wide", "parallelism": {"tp": 8, "dp": 8}})
    yard.cycle()
    wide = yard.ok("GET", "/v1/namespaces/default/jobs/wide/placement")
    assert wide["regret"] == 1.0


def test_regret_is_what_the_empty_cluster_would_have_saved(yard: Yard) -> None:
    """Eight nodes fit a leaf; with half of each leaf taken they cross at 2:1."""
    yard.load(FABRIC)
    nodes = [f"{leaf}0{n}" for leaf in "ab" for n in range(1, 5)]
    for node in nodes:
        yard.ok("POST", f"/v1/nodes/{node}/cordon", {"reason": "other work"})
    body = {"name": "job", "parallelism": {"tp": 8, "dp": 8}}
    dry = yard.ok("POST", "/v1/jobs?dry_run=true", body)
    yard.ok("POST", "/v1/jobs", body)
    yard.cycle()
    found = yard.ok("GET", f"{JOB}/placement")
    assert found["groups"]["dp"]["spans"]["leaf"]["max"] == 2  # type: ignore[index]  # plain JSON
    assert found["regret"] > 1.05  # type: ignore[operator]  # plain JSON
    assert dry["placement"]["regret"] == found["regret"]  # type: ignore[index]  # plain JSON
    assert yard.ok("GET", f"{JOB}/placement")["regret"] == found["regret"]


def test_gang_that_shrank_is_priced_at_the_size_it_has(yard: Yard) -> None:
    """16 nodes, two of which are cordoned: dp 16 does not fit now, dp 8 does."""
    yard.load(FABRIC)
    for node in ("a01", "b01"):
        yard.ok("POST", f"/v1/nodes/{node}/cordon", {"reason": "fan"})
    yard.submit("job", parallelism={"tp": 8, "dp": {"sizes": [8, 16]}})
    yard.cycle()
    found = yard.ok("GET", f"{JOB}/placement")
    assert found["groups"]["dp"]["size"] == 8  # type: ignore[index]  # plain JSON
    assert found["regret"] > 1.0  # type: ignore[operator]  # plain JSON
    assert as_format(yard, "megatron")["env"]["DATA_PARALLEL_SIZE"] == "8"


def test_regret_is_asked_anew_on_a_new_map(yard: Yard) -> None:
    placed(yard, FABRIC, parallelism={"tp": 8, "dp": 8})
    yard.load(FABRIC.replace("oversubscription: 2", "oversubscription: 4"))
    assert yard.ok("GET", f"{JOB}/placement")["regret"] == 1.0


def test_members_of_a_role_are_priced_as_a_ring(yard: Yard) -> None:
    found = placed(yard, FABRIC, roles=[{"name": "w", "replicas": 4, "gpus": 8, "ring": True}])
    ring = found["groups"]["w"]
    assert ring["seconds"] == pytest.approx(found["inter_node_s"])
    assert (ring["bottleneck"], ring["bytes_per_step"]) == ("rail", pytest.approx(4e9))
    assert (found["regret"], found["assumed"]) == (1.0, True)


def test_a_ring_over_two_leaves_regrets_the_one_it_does_not_have(yard: Yard) -> None:
    yard.load(FABRIC)
    for leaf in "ab":
        blocker = {"name": leaf, "nodes": [f"{leaf}{n:02}" for n in range(1, 7)]}
        yard.ok("POST", "/v1/jobs", blocker | {"roles": [{"name": "w", "replicas": 6, "gpus": 8}]})
    ring = [{"name": "w", "replicas": 4, "gpus": 8, "ring": True}]
    yard.ok("POST", "/v1/jobs", {"name": "job", "roles": ring})
    yard.cycle()
    found: dict[str, Any] = yard.ok("GET", f"{JOB}/placement")
    assert found["regret"] > 1.0


def test_roles_without_gpus_have_no_price(yard: Yard) -> None:
    found = placed(yard, roles=[{"name": "w", "replicas": 300, "cpu": 1}])
    assert (found["inter_node_s"], found["assumed"]) == (None, None)
    assert found["groups"]["w"]["seconds"] is None


def test_a_place_that_may_not_be_the_best_says_how_far_off_it_may_be(yard: Yard) -> None:
    """Fourteen nodes on two leaves of eight: one stage of seven fits each."""
    wish = {"name": "job", "parallelism": {"tp": 8, "pp": 2, "dp": 7}}
    yard.load(FABRIC)
    tried: dict[str, Any] = yard.ok("POST", "/v1/jobs?dry_run=true", wish)
    yard.ok("POST", "/v1/jobs", wish)
    yard.cycle()
    found: dict[str, Any] = yard.ok("GET", f"{JOB}/placement")
    assert (found["search"], found["gap"]) == (
        tried["placement"]["search"],
        tried["placement"]["gap"],
    )
    assert found["search"] == "bounded"
    assert 0.0 < found["gap"] < 1.0


def test_job_of_roles_on_one_node_regrets_nothing(yard: Yard) -> None:
    assert placed(yard, roles=[{"name": "w", "replicas": 2, "gpus": 4}])["regret"] == 1.0


def test_hostfile_is_in_rank_order(yard: Yard) -> None:
    placed(yard, parallelism={"tp": 4, "dp": 2}, gpus_per_pod=4)
    lines = as_text(yard, "hostfile")
    assert len(lines) == 2
    assert all(line.endswith(" slots=4") for line in lines)


def test_torchrun_gives_every_rank_its_environment(yard: Yard) -> None:
    placed(yard, parallelism={"tp": 8, "dp": 2})
    found = as_format(yard, "torchrun")
    assert (found["nnodes"], found["nproc_per_node"], found["master_addr"]) == (2, 8, "c1")
    last = found["ranks"][-1]
    assert last["rank"] == 15
    assert last["env"] == {
        "RANK": "15",
        "LOCAL_RANK": "7",
        "WORLD_SIZE": "16",
        "LOCAL_WORLD_SIZE": "8",
        "GROUP_RANK": "1",
        "MASTER_ADDR": "c1",
        "MASTER_PORT": "29500",
        "CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7",
    }


def test_torchrun_needs_equal_pods(yard: Yard) -> None:
    placed(
        yard,
        roles=[{"name": "a", "replicas": 1, "gpus": 8}, {"name": "b", "replicas": 1, "gpus": 4}],
    )
    assert "4, 8" in yard.refused(422, "GET", f"{JOB}/placement?format=torchrun")["format"]


def test_unknown_format_is_refused_with_the_known_ones(any_yard: Yard) -> None:
    found = any_yard.refused(422, "GET", f"{JOB}/placement?format=slurm2")
    assert "'megatron' or 'nccl'" in found["format"]


def test_torchrun_gives_every_pod_what_it_reads_instead_of_options(yard: Yard) -> None:
    placed(yard, parallelism={"tp": 8, "dp": 2})
    second = as_format(yard, "torchrun")["nodes"][1]
    assert second["env"] == {
        "PET_NNODES": "2",
        "PET_NPROC_PER_NODE": "8",
        "PET_NODE_RANK": "1",
        "PET_MASTER_ADDR": "c1",
        "PET_MASTER_PORT": "29500",
        "CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7",
    }


def test_rankfile_binds_each_rank_to_the_cores_beside_its_gpu(yard: Yard) -> None:
    """112 cores, 8 GPUs: 14 cores each."""
    placed(yard, FABRIC, parallelism={"tp": 8, "dp": 2})
    lines = as_text(yard, "rankfile")
    assert len(lines) == 16
    assert lines[0] == "rank 0=a01 slot=0-13"
    assert lines[9] == "rank 9=a02 slot=14-27"


def test_rankfile_takes_one_core_where_they_are_not_known(yard: Yard) -> None:
    placed(yard, parallelism={"tp": 8})
    assert as_text(yard, "rankfile")[3].endswith(" slot=3")


def test_rankfile_needs_gpus(yard: Yard) -> None:
    placed(yard, roles=[{"name": "ps", "replicas": 1, "cpu": 4}])
    found = yard.refused(422, "GET", f"{JOB}/placement?format=rankfile")
    assert "'job-ps-0' has none" in found["format"]


def test_slurm_gets_a_hostlist_and_a_line_for_each_task(yard: Yard) -> None:
    placed(yard, FABRIC, parallelism={"tp": 8, "dp": 3})
    found = as_format(yard, "slurm")
    assert (found["nodelist"], found["nodes"], found["ntasks"]) == ("a[01-03]", 3, 24)
    assert found["ntasks_per_node"] == 8
    assert found["hostfile"] == "".join(f"a0{n}\n" * 8 for n in (1, 2, 3))
    assert [pod["first_task"] for pod in found["pods"]] == [0, 8, 16]
    assert found["args"][-1] == "--distribution=arbitrary"


def test_slurm_counts_a_task_for_each_pod_without_gpus(yard: Yard) -> None:
    roles = [{"name": "w", "replicas": 1, "gpus": 4}, {"name": "ps", "replicas": 1, "cpu": 4}]
    placed(yard, roles=roles)
    found = as_format(yard, "slurm")
    assert (found["ntasks"], found["ntasks_per_node"]) == (5, None)
    assert [pod["cuda_visible_devices"] for pod in found["pods"]][1] == ""


def test_megatron_gets_its_sizes_by_its_own_names(yard: Yard) -> None:
    placed(yard, FABRIC, parallelism={"tp": 8, "pp": 2, "dp": 2}, model=MODEL)
    found = as_format(yard, "megatron")
    args = dict(zip(found["args"][::2], found["args"][1::2], strict=True))
    assert args["--tensor-model-parallel-size"] == "8"
    assert args["--num-layers"] == "32"
    assert args["--global-batch-size"] == "256"
    assert found["env"]["PIPELINE_MODEL_PARALLEL_SIZE"] == "2"
    assert (found["order"], found["order_by_flags"]) == ("tp-cp-ep-dp-pp", True)
    assert [node["node_rank"] for node in found["nodes"]] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("order", "flag", "by_flags"),
    [
        ("tp-dp-pp", False, True),
        ("tp-pp-dp", True, True),
        ("tp-cp-ep-pp-dp", True, True),
        ("pp-tp-dp", False, False),
    ],
)
def test_megatron_is_told_the_order_by_a_flag_where_there_is_one(
    yard: Yard, order: str, *, flag: bool, by_flags: bool
) -> None:
    sizes = {"tp": 2, "pp": 2, "dp": 4, "order": order}
    placed(yard, parallelism=sizes, gpus_per_pod=4)
    found = as_format(yard, "megatron")
    assert ("--use-tp-pp-dp-mapping" in found["args"]) is flag
    assert found["order_by_flags"] is by_flags


def test_megatron_is_refused_for_jobs_of_roles(yard: Yard) -> None:
    placed(yard, roles=[{"name": "w", "replicas": 2, "gpus": 8}])
    found = yard.refused(422, "GET", f"{JOB}/placement?format=megatron")
    assert "needs a job with parallelism" in found["format"]


def test_nccl_is_told_rails_and_what_groups_cross(yard: Yard) -> None:
    placed(yard, FABRIC, parallelism={"tp": 8, "pp": 2, "dp": 2})
    found = as_format(yard, "nccl")
    assert found["env"] == {"NCCL_CROSS_NIC": "0", "NCCL_PXN_DISABLE": "0"}
    assert found["pods"][0]["rails"] == list(range(8))
    assert found["groups"]["pp"]["crosses"] == {"block": 0, "leaf": 0, "node": 16}
    assert found["groups"]["tp"]["crosses"]["node"] == 0


def test_nccl_names_adapters_and_dead_rails_that_labels_tell(yard: Yard) -> None:
    adapters = ".".join(f"mlx5_{n}" for n in range(8))
    labels = f"labels: {{podyard.io/ib-hca: {adapters}, podyard.io/dead-rails: '3'}}"
    text = FABRIC.replace("leaf: l1}", f"leaf: l1, {labels}}}").replace(
        "leaf: l2}", f"leaf: l2, {labels}}}"
    )
    placed(yard, text, parallelism={"tp": 8, "dp": 2})
    found = as_format(yard, "nccl")
    assert found["env"]["NCCL_IB_HCA"] == "=" + adapters.replace(".", ",")
    assert found["pods"][0]["dead_rails"] == [3]


def test_nccl_of_a_job_of_roles_has_rails_without_groups(yard: Yard) -> None:
    placed(yard, roles=[{"name": "w", "replicas": 2, "gpus": 8}])
    found = as_format(yard, "nccl")
    assert (found["groups"], found["env"]["NCCL_CROSS_NIC"]) == ({}, "2")
    assert len(found["pods"]) == 2


def test_a_rail_that_a_fault_took_is_in_the_price_and_the_facts(yard: Yard) -> None:
    before = placed(yard, FABRIC, parallelism={"tp": 8, "dp": 2}, model=MODEL)
    node = before["pods"][0]["node"]
    fault = {"code": "rail_down", "rail": 5}
    yard.ok("POST", f"/v1/nodes/{node}/faults", fault)
    after: dict[str, Any] = yard.ok("GET", f"{JOB}/placement")
    assert after["inter_node_s"] > before["inter_node_s"]
    assert after["regret"] > before["regret"]
    assert as_format(yard, "nccl")["pods"][0]["dead_rails"] == [5]
