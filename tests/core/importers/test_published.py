"""Every published file is read, or refused with a place and a reason; gangs are placed on some."""

import time
from pathlib import Path

import pytest

from scheduler.cluster.world import World
from scheduler.errors import InventoryError
from scheduler.importers import csv_hosts, detect, k8s_nodes, podyard_yaml
from scheduler.importers.node_type_data import BUILT_IN
from scheduler.importers.options import Options
from scheduler.model.placement import Placement
from scheduler.place.admit import dry_run
from scheduler.topology.build import build
from tests.core.gangs import nodes_of, occupy, role, role_gang
from tests.core.importers.samples import SAMPLES, sample

REFUSED = {
    "cyclecloud-slurm": {
        *("guids.txt", "hostnames.txt", "powered_down_hostnames.txt"),
        *("nodes_clusterUUIDs.txt", "nodes_clusterUUIDs_2.txt", "nodes_guids.txt"),
        *("slurm_illegal_block_topology.txt", "topology.txt"),
    },
    "infiniband_exporter": {"ibnetdiscover-ports-test3.out"},
    "k8s-nodes": {
        *("gfd-expected-output.txt", "gfd-expected-output-mig-mixed.txt"),
        *("gfd-expected-output-mig-single.txt", "gfd-expected-output-vgpu.txt"),
        *("gfd-node-example.txt", "label-keys.yaml", "topograph-nodefeature-2.yaml"),
        *("kwok-node-not-ready.yaml", "kwok-node-pending.yaml"),
        "knavigator-virtual-nodes-values.yaml",
    },
    "nccl-topology": {"aws-g5.48xl.xml", "azure-ncv4-graph.xml"},
    "nvidia-smi": set(),
    "slurm": {
        *("guide-03.conf", "guide-04.yaml", "guide-05.yaml", "guide-06.yaml"),
        *("topology-conf-examples.txt", "testcases"),
    },
    "superbenchmark": {"hostfile.txt", "ibstat.txt"},
    "topograph": {"ibnetdiscover-bad.out", "test-block.json", "test-tree.json"},
}
"""Files that are refused without a format's name, by folder: answers, lists of something else, and
what has an error. Lists in no known format are read, where they are of use, once it is named."""


def files(folder: str) -> list[Path]:
    sample("slurm/guide-00.conf")
    return [path for path in sorted((SAMPLES / folder).rglob("*")) if path.is_file()]


@pytest.mark.parametrize("folder", REFUSED)
def test_published_file_is_read_or_refused_with_place_and_reason(folder: str) -> None:
    refused: set[str] = set()
    for path in files(folder):
        try:
            inventory = detect.parse(path.read_bytes())
        except InventoryError as error:
            refused.add(path.name)
            for problem in error.problems:
                assert problem.message
                assert problem.path or "line" in problem.message or "no link" in problem.message
        else:
            assert build(inventory).topology.node_count == len(inventory.nodes)
    bad = {path.name for path in files("slurm/bad-yaml")} if folder == "slurm" else set()
    assert refused == REFUSED[folder] | bad


@pytest.mark.parametrize("folder", REFUSED)
def test_inventory_of_a_published_file_can_be_written_down_and_read_again(folder: str) -> None:
    for path in files(folder):
        try:
            inventory = detect.parse(path.read_bytes())
        except InventoryError:
            continue
        again = podyard_yaml.parse(podyard_yaml.render(inventory))
        assert again.nodes == inventory.nodes
        assert dict(again.node_types) == dict(inventory.node_types)
        assert (again.levels, again.fabric) == (inventory.levels, inventory.fabric)
        assert again.sets == inventory.sets


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 16, 31, 64, 100, 128, 256])
def test_lingjun_fabric_takes_gangs_of_every_size(size: int) -> None:
    """A gang that fits one access switch, or one aggregation switch, lies in one."""
    text = sample("traces/alibaba-lingjun-2023/topo.csv")
    inventory = csv_hosts.parse(text, Options(node_type=BUILT_IN["hgx-h100"]))
    topology = build(inventory).topology
    found = dry_run(World(topology), role_gang(role(replicas=size, gpus=8)))
    assert isinstance(found, Placement)
    nodes = [topology.node_index[name] for name in nodes_of(topology, found)]
    assert len(set(nodes)) == size
    for level in ("leaf", "block"):
        depth = topology.level_index[level]
        row = topology.levels[depth]
        sizes = [hi - lo for lo, hi in zip(row.node_lo, row.node_hi, strict=True)]
        if size <= max(sizes):
            assert len({topology.place[depth][node] for node in nodes}) == 1


def test_best_nodes_of_the_published_tree_are_chosen() -> None:
    """Its description: with five of twelve busy, a job of three belongs on n5, n7 and n8."""
    inventory = k8s_nodes.parse(sample("k8s-nodes/knavigator-12-nodes-tree.yaml"))
    world = World(build(inventory).topology)
    for record in inventory.nodes:
        if record.taints:
            occupy(world, record.name)
    found = dry_run(world, role_gang(role(replicas=3, gpus=8)))
    assert isinstance(found, Placement)
    assert set(nodes_of(world.topology, found)) == {"n5", "n7", "n8"}


@pytest.mark.slow
def test_file_of_ten_thousand_nodes_is_read_in_ten_seconds() -> None:
    for name in ("routetree-case1", "routetree-case2"):
        text = sample(f"slurm/{name}/topology.conf") + sample(f"slurm/{name}/slurm.conf")
        started = time.perf_counter()
        assert build(detect.parse(text)).topology.node_count == 10_000
        assert time.perf_counter() - started < 10
