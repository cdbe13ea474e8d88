"""Every published description goes through the API: it is imported, or refused with its place."""

import re
from pathlib import Path

import pytest

from tests.api.http.yard import Json, Yard, problems
from tests.api.ingest.imports import assert_unchanged_by, domains, export, load, revision
from tests.core.importers.samples import SAMPLES, sample, sample_path

FOLDERS = (
    "cyclecloud-slurm",
    "infiniband_exporter",
    "k8s-nodes",
    "nccl-topology",
    "nvidia-smi",
    "slurm",
    "superbenchmark",
    "topograph",
)

REFUSED = {
    "cyclecloud-slurm": (
        *("guids.txt", "hostnames.txt", "powered_down_hostnames.txt"),
        *("nodes_clusterUUIDs.txt", "nodes_clusterUUIDs_2.txt", "nodes_guids.txt"),
        *("slurm_illegal_block_topology.txt", "topology.txt"),
    ),
    "infiniband_exporter": ("ibnetdiscover-ports-test3.out",),
    "k8s-nodes": (
        *("gfd-expected-output.txt", "gfd-expected-output-mig-mixed.txt"),
        *("gfd-expected-output-mig-single.txt", "gfd-expected-output-vgpu.txt"),
        *("gfd-node-example.txt", "label-keys.yaml", "topograph-nodefeature-2.yaml"),
        *("kwok-node-not-ready.yaml", "kwok-node-pending.yaml"),
        "knavigator-virtual-nodes-values.yaml",
    ),
    "nccl-topology": ("aws-g5.48xl.xml", "azure-ncv4-graph.xml"),
    "slurm": (
        *("guide-03.conf", "guide-04.yaml", "guide-05.yaml", "guide-06.yaml"),
        *("topology-conf-examples.txt", "testcases"),
    ),
    "superbenchmark": ("hostfile.txt", "ibstat.txt"),
    "topograph": ("ibnetdiscover-bad.out", "test-block.json", "test-tree.json"),
}
"""Files that are refused where no format is named: answers, lists of something else, mistakes."""

LARGE = ("routetree-case1", "routetree-case2")
"""Folders of 10,000 nodes each."""

TABLES = (
    "traces/alibaba-lingjun-2023/topo.csv",
    "traces/alibaba-openb-2023/openb_node_list_all_node.csv",
    "traces/alibaba-openb-2023/openb_node_list_gpu_node.csv",
    "traces/alibaba-pai-2020/pai_machine_spec.csv",
)

WITH_ANOTHER = {
    "SHARP map": ("sharp", "cyclecloud-slurm/nodes_guids.txt", "cyclecloud-slurm/topology.txt", 16),
    "fabric without host names": (
        "ibnetdiscover",
        "superbenchmark/ibstat.txt",
        "superbenchmark/ibnetdiscover-hdr.txt",
        10,
    ),
    "switches and nodes": (
        "slurm",
        "slurm/routetree-case3/topology.conf",
        "slurm/routetree-case3/slurm.conf",
        400,
    ),
}
"""Two files of one cluster, sent as one text."""

_PLACE = re.compile(r"\bline \d+|no link between|is in no format|shows no sign|is a mapping")


def files(folder: str) -> list[Path]:
    sample("slurm/guide-00.conf")
    found = sorted((SAMPLES / folder).rglob("*"))
    return [path for path in found if path.is_file() and path.parent.name not in LARGE]


def send(yard: Yard, text: bytes, query: str = "") -> Json | None:
    """The answer, or None where the text was refused with a place and a reason."""
    headers = {"Content-Type": "text/plain"}
    answer = yard.call("POST", f"/v1/inventory?{query}", content=text, headers=headers)
    if answer.status_code == 200:
        return dict(answer.json())
    found = problems(answer, 422)
    assert found
    for path, message in found.items():
        assert message
        assert path or _PLACE.search(message), message
    return None


@pytest.mark.parametrize("folder", FOLDERS)
def test_published_file_is_imported_or_refused_with_its_place(
    small_yard: Yard, folder: str
) -> None:
    """Each import is the same when it is done twice, and so is that of its export."""
    refused = {path.name for path in files(folder) if not is_taken(small_yard, path)}
    bad = {path.name for path in files("slurm/bad-yaml")} if folder == "slurm" else set()
    assert refused == {*REFUSED.get(folder, ()), *bad}


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_published_file_of_ten_thousand_nodes_is_imported(yard: Yard, name: str) -> None:
    for file in ("topology.conf", "slurm.conf"):
        assert is_taken(yard, sample_path(f"slurm/{name}/{file}"))
    assert yard.ok("GET", "/v1/topology")["nodes"] == 10_000


def is_taken(yard: Yard, path: Path) -> bool:
    """Whether a file is imported; then it changes nothing more, nor does what is written of it."""
    before = revision(yard)
    text = path.read_bytes()
    if send(yard, text, "prune=true") is None:
        assert revision(yard) == before
        return False
    assert_unchanged_by(yard, text, "prune=true")
    assert_unchanged_by(yard, export(yard), "prune=true")
    return True


@pytest.mark.parametrize("name", TABLES)
def test_published_table_of_hosts_is_imported(small_yard: Yard, name: str) -> None:
    text = sample_path(name).read_bytes()
    answer = load(small_yard, text)
    assert answer["format"] == "csv"
    assert answer["created"] == text.count(b"\n") - 1
    assert_unchanged_by(small_yard, text)
    assert_unchanged_by(small_yard, export(small_yard))


@pytest.mark.parametrize("name", WITH_ANOTHER)
def test_two_published_files_of_one_cluster_are_read_as_one(small_yard: Yard, name: str) -> None:
    kind, first, second, nodes = WITH_ANOTHER[name]
    text = sample_path(first).read_bytes() + b"\n" + sample_path(second).read_bytes()
    assert load(small_yard, text, f"format={kind}&gpus=8")["created"] == nodes
    assert_unchanged_by(small_yard, export(small_yard))


LINGJUN = "traces/alibaba-lingjun-2023/topo.csv"
SIZES = (1, 2, 3, 7, 8, 9, 16, 31, 32, 64, 100, 128, 200, 256)


def test_lingjun_fabric_takes_gangs_of_every_size(yard: Yard) -> None:
    """847 hosts; 48 names of switches stand for 119 places, and each is one."""
    load(yard, sample_path(LINGJUN).read_bytes(), "node_type=hgx-h100")
    leaves, blocks = domains(yard, "leaf"), domains(yard, "block")
    assert (len(leaves), sum(map(int, map(str, leaves.values())))) == (119, 847)
    for size in SIZES:
        body = {"name": f"g{size}", "parallelism": {"tp": 8, "dp": size}}
        found = yard.ok("POST", "/v1/jobs?dry_run=true", body)
        assert found["fits"] is True
        places = spans(found)
        assert sum(places["nodes"].values()) == size
        for level, known in (("leaf", leaves), ("block", blocks)):
            if size <= max(int(str(nodes)) for nodes in known.values()):
                assert len(places[level]) == 1, f"{size} nodes in {places[level]}"


def spans(answer: Json) -> dict[str, dict[str, int]]:
    """For `nodes`, `leaf` and `block`: name -> pods there."""
    found: dict[str, dict[str, int]] = {"nodes": {}, "leaf": {}, "block": {}}
    for pod in answer["placement"]["pods"]:  # type: ignore[index]  # plain JSON
        for key, name in (("nodes", pod["node"]), *pod["domains"].items()):
            if key in found:
                found[key][name] = found[key].get(name, 0) + 1
    return found


def test_lingjun_fabric_runs_gangs_beside_one_another(yard: Yard) -> None:
    load(yard, sample_path(LINGJUN).read_bytes(), "gpus=8")
    for size in (256, 128, 64, 32, 16, 8, 4, 2, 1):
        yard.submit(f"g{size}", parallelism={"tp": 8, "dp": size})
    yard.cycle()
    states = [job["state"] for job in yard.items("/v1/jobs")]
    assert states == ["bound"] * 9


@pytest.mark.parametrize(
    ("name", "levels"),
    [
        ("slurm/routetree-case3/topology.conf", ["core", "block", "leaf"]),
        ("topograph/ibnetdiscover-fabric.out", ["block", "leaf"]),
        ("topograph/nvl72.yaml", ["core", "block", "leaf", "accelerator"]),
        ("slurm/block/topology.conf", ["block-16", "block-8", "block"]),
    ],
)
def test_gang_lies_as_close_together_as_an_imported_map_allows(
    yard: Yard, name: str, levels: list[str]
) -> None:
    """Two nodes of the innermost level, though nothing but the map says what is costly."""
    load(yard, sample_path(name).read_bytes(), "gpus=8")
    assert yard.ok("GET", "/v1/topology")["levels"] == [*levels, "node"]
    body = {"name": "pair", "parallelism": {"tp": 8, "dp": 2}}
    pods = yard.ok("POST", "/v1/jobs?dry_run=true", body)["placement"]["pods"]  # type: ignore[index]  # plain JSON
    assert len({pod["domains"][levels[-1]] for pod in pods}) == 1
