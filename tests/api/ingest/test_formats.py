"""Formats: named, guessed or refused; options; what each tells and what it leaves alone."""

import json

import pytest

from tests.api.http.yard import Yard
from tests.api.ingest.imports import (
    assert_unchanged_by,
    counts,
    domains,
    export,
    load,
    node,
    refused,
)

TREE = """\
SwitchName=leaf1 Nodes=n[1-4]
SwitchName=leaf2 Nodes=n[5-8]
SwitchName=top Switches=leaf[1-2]
"""
HARDWARE = "NodeName=n[1-8] CPUs=112 RealMemory=2000000 Gres=gpu:h100:8 Feature=fast\n"
TABLE = "host,block,leaf\nn1,b1,l1\nn2,b1,l2\nn3,b2,l1\n"
MODEL = """\
switches:
  top: {switches: [sw1, sw2]}
blocks:
- {switch: sw1, nodes: ["n[1-2]"], annotations: {accelerator.topograph.run/domain: nvl1}}
- {switch: sw2, nodes: ["n[3-4]"], annotations: {accelerator.topograph.run/domain: nvl2}}
"""
DUMP = """\
Switch 36 "S-0000000000000001" # "leaf-1" enhanced port 0 lid 1 lmc 0
[1] "H-00000000000000a1"[1](a1) # "n1 mlx5_0" lid 11 4xNDR
[2] "H-00000000000000a2"[1](a2) # "n2 mlx5_0" lid 12 4xNDR
[3] "H-00000000000000a3"[1](a3) # "n3 mlx5_0" lid 13 4xNDR

Ca 1 "H-00000000000000a1" # "n1 mlx5_0"
[1](a1) "S-0000000000000001"[1] # lid 11 lmc 0 "leaf-1" lid 1 4xNDR

Ca 1 "H-00000000000000a2" # "n2 mlx5_0"
[1](a2) "S-0000000000000001"[2] # lid 12 lmc 0 "leaf-1" lid 1 4xNDR

Ca 1 "H-00000000000000a3" # "n3 mlx5_0"
[1](a3) "S-0000000000000001"[3] # lid 13 lmc 0 "leaf-1" lid 1 4xNDR
"""
SYSTEM = """\
<system version="1"><cpu numaid="0">
<pci busid="0000:01:00.0" class="0x060400"><pci busid="0000:02:00.0" class="0x030200"/>
<pci busid="0000:03:00.0" class="0x020700"><nic><net dev="0" speed="400000"/></nic></pci></pci>
<pci busid="0000:04:00.0" class="0x060400"><pci busid="0000:05:00.0" class="0x030200"/>
<pci busid="0000:06:00.0" class="0x020700"><nic><net dev="1" speed="400000"/></nic></pci></pci>
</cpu></system>
"""
MATRIX = "\tGPU0\tGPU1\tNIC0\nGPU0\t X \tNV18\tPIX\nGPU1\tNV18\t X \tSYS\nNIC0\tPIX\tSYS\t X \n"


def kubernetes(*names: str, **labels: str) -> str:
    """Nodes of 8 H100 with these labels; in a label's name `__` stands for `/`, `_` for `.`."""
    named = {key.replace("__", "/").replace("_", "."): value for key, value in labels.items()}
    named["nvidia.com/gpu.product"] = "NVIDIA-H100-80GB-HBM3"
    capacity = {"cpu": "224", "memory": "2113563904Ki", "nvidia.com/gpu": "8"}
    items = [
        {
            "kind": "Node",
            "metadata": {"name": name, "labels": named | {"kubernetes.io/hostname": name}},
            "status": {"capacity": capacity, "allocatable": capacity},
        }
        for name in names
    ]
    return json.dumps({"kind": "List", "apiVersion": "v1", "items": items})


@pytest.mark.parametrize(
    ("text", "name", "nodes"),
    [
        (TREE, "slurm", 8),
        (HARDWARE, "slurm", 8),
        ('- topology: t\n  tree:\n    switches: [{switch: s, nodes: "n[1-4]"}]\n', "slurm", 4),
        (TABLE, "csv", 3),
        (MODEL, "topograph", 4),
        (DUMP, "ibnetdiscover", 3),
        (kubernetes("n1", "n2"), "kubernetes", 2),
        (SYSTEM, "nccl", 0),
        (MATRIX, "nvidia-smi", 0),
        ("levels: [node]\nnodes: [{names: a, type: hgx-h100}]\n", "podyard", 1),
    ],
    ids=lambda given: given[:12] if isinstance(given, str) else "",
)
def test_format_is_guessed_and_gives_the_same_when_it_is_named(
    yard: Yard, text: str, name: str, nodes: int
) -> None:
    found = load(yard, text)
    assert (found["format"], found["created"]) == (name, nodes)
    assert_unchanged_by(yard, text, f"format={name}")
    assert_unchanged_by(yard, export(yard))


def test_text_with_signs_of_several_formats_is_refused_with_their_names(any_yard: Yard) -> None:
    found = refused(any_yard, "blocks:\n- a\nkind: Node\n")
    assert list(found) == ["format"]
    assert all(f"{name}: " in found["format"] for name in ("topograph", "kubernetes"))
    assert "slurm" not in found["format"]


def test_text_without_signs_is_told_all_formats(any_yard: Yard) -> None:
    found = refused(any_yard, "host-1\nhost-2\n")
    assert all(f"{name}: " in found["format"] for name in ("podyard", "slurm", "csv", "sharp"))


def test_option_that_a_format_has_no_use_for_is_refused(any_yard: Yard) -> None:
    found = refused(any_yard, TREE, "columns=a:host&label_levels=rack:x")
    assert found == {
        "columns": "'slurm' has no use for it; it is for csv",
        "label_levels": "'slurm' has no use for it; it is for kubernetes",
    }
    assert list(refused(any_yard, "levels: [node]\nnodes: []\n", "gpus=8")) == ["gpus"]


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("node_type=nonesuch", "node_type"),
        ("node_type=hgx-h100&gpus=4", "gpus"),
        ("node_type=hgx-h100&gpu=MI300X", "gpu"),
        ("gpu=H100", "gpu"),
        ("gpus=63", "gpus"),
        ("scale_up=rack", "scale_up"),
        ("level_names=leaf,leaf", "level_names"),
        ("level_names=node", "level_names"),
        ("cluster=-", "cluster"),
    ],
)
def test_option_that_is_wrong_is_refused_by_its_name(any_yard: Yard, query: str, path: str) -> None:
    assert list(refused(any_yard, TREE, query)) == [path]


@pytest.mark.parametrize("written", ["rack", "rack:", ":x", "rack:a,b"])
def test_mapping_that_is_no_mapping_is_refused(any_yard: Yard, written: str) -> None:
    found = refused(any_yard, kubernetes("n1"), f"label_levels={written}")
    assert "name:value" in found["label_levels"]


@pytest.mark.parametrize(
    ("query", "kind", "gpu", "gpus"),
    [
        ("node_type=hgx-h100", "hgx-h100", "H100-80GB", 8),
        ("gpus=8", "gpu-x8", "GPU", 8),
        ("gpus=8&gpu=H100", "hgx-h100", "H100-80GB", 8),
        ("node_type=ours&gpus=4&gpu=CARD", "ours", "CARD", 4),
        ("gpus=0", "no-gpu", None, 0),
        ("", "unknown", None, 0),
    ],
)
def test_hardware_that_a_text_does_not_tell_is_told_beside_it(
    yard: Yard, query: str, kind: str, gpu: str | None, gpus: int
) -> None:
    found = load(yard, TREE, query)
    shown = node(yard, "n1")
    assert (shown["type"], shown["gpu"], shown["gpus"]) == (kind, gpu, gpus)
    assert [w for w in found["warnings"] if "name a node type" in w] == (  # type: ignore[attr-defined]  # plain JSON
        []
        if query
        else [
            "nothing says what GPUs there are in nodes 'n1', 'n2', 'n3' and 5 more: taken as none; "
            "name a node type for them"
        ]
    )


def test_type_of_the_cluster_goes_before_the_built_in_one(yard: Yard) -> None:
    text = "levels: [node]\nnode_types: {hgx-h100: {cpus: 7}}\nnodes: []\n"
    load(yard, text)
    load(yard, TREE, "node_type=hgx-h100")
    assert node(yard, "n1")["cpus"] == 7


def test_levels_are_named_from_the_nodes_outwards(yard: Yard) -> None:
    load(yard, TREE, "level_names=tor,row&cluster=lab&scale_up=tor")
    topology = yard.ok("GET", "/v1/topology")
    assert (topology["levels"], topology["cluster"], topology["scale_up"]) == (
        ["row", "tor", "node"],
        "lab",
        "tor",
    )


def test_labels_of_kubernetes_name_the_levels_that_the_request_says(yard: Yard) -> None:
    text = kubernetes("n1", "n2", ex_org__row="w1", ex_org__box="x1", ex_org__cdu="c1")
    levels = "row:ex.org/row,rack:ex.org/none,rack:ex.org/box"
    load(yard, text, f"label_levels={levels}&label_sets=cdu:ex.org/cdu")
    assert node(yard, "n1")["domains"] == {"row": "w1", "rack": "w1/x1"}
    assert "cdu: {c1: 'n[1-2]'}" in export(yard)


def test_scale_up_domain_of_kubernetes_may_have_a_label_of_its_own(yard: Yard) -> None:
    text = kubernetes("n1", "n2", ex_org__row="w1", ex_org__nvl="d1")
    load(yard, text, "label_levels=row:ex.org/row,accelerator:ex.org/nvl")
    topology = yard.ok("GET", "/v1/topology")
    assert (topology["levels"], topology["scale_up"]) == (
        ["row", "accelerator", "node"],
        "accelerator",
    )


def test_columns_of_a_table_mean_what_the_request_says(yard: Yard) -> None:
    load(yard, "Machine,Row,Cards\nn1,w1,4\n", "format=csv&columns=machine:host,row:row,cards:gpus")
    shown = node(yard, "n1")
    assert (shown["domains"], shown["gpus"]) == ({"row": "w1"}, 4)


def test_lines_name_the_hosts_of_adapters_that_do_not(yard: Yard) -> None:
    dump = DUMP.replace("n1 mlx5_0", "MT4129 ConnectX7")
    found = load(yard, dump)
    assert found["created"] == 2
    found = load(yard, f"n9: 0xa1\n{dump}")
    assert counts(found)[:3] == (1, 0, 2)


def test_sharp_map_is_read_with_the_hosts_of_its_adapters(yard: Yard) -> None:
    sharp = "n1: 0xa1\nn2: 0xa2\nSwitchName=s1 Nodes=0xa1,0xa2\nSwitchName=s2 Switches=s1\n"
    found = load(yard, sharp, "format=sharp&gpus=8")
    assert counts(found)[0] == 2
    assert domains(yard, "leaf") == {"s1": 2}


def test_one_of_several_topologies_is_chosen_by_its_name(yard: Yard) -> None:
    text = """\
- {topology: one, cluster_default: true, tree: {switches: [{switch: a, nodes: n1}]}}
- {topology: two, tree: {switches: [{switch: b, nodes: n1}]}}
"""
    load(yard, text)
    assert domains(yard, "leaf") == {"a": 1}
    load(yard, text, "topology=two")
    assert domains(yard, "leaf") == {"b": 1}
    assert refused(yard, text, "topology=three")


# -- two formats for one cluster ----------------------------------------------------------------


def test_places_and_hardware_may_come_from_two_files_in_either_order(yard: Yard) -> None:
    for first, second in ((TREE, HARDWARE), (HARDWARE, TREE)):
        load(yard, first)
        load(yard, second)
        shown = node(yard, "n5")
        assert (shown["gpus"], shown["cpus"]) == (8, 112)
        assert shown["domains"] == {"block": "top", "leaf": "leaf2"}
        assert list(shown["labels"].values()) == ["true"]  # type: ignore[attr-defined]  # plain JSON
        for text in (first, second):
            assert_unchanged_by(yard, text)
        load(yard, "levels: [node]\nnodes: []\n", "prune=true")


def test_table_of_cables_leaves_alone_what_kubernetes_told(yard: Yard) -> None:
    hosts = kubernetes("n1", "n2", ex_org__team="a")
    load(yard, hosts)
    before = node(yard, "n1")
    found = load(yard, DUMP)
    assert counts(found) == (1, 2, 0, 0, 0)
    after = node(yard, "n1")
    assert after["domains"] == {"leaf": "leaf-1"}
    assert {k: after[k] for k in ("gpu", "gpus", "labels", "type")} == {
        k: before[k] for k in ("gpu", "gpus", "labels", "type")
    }
    # Only the node that nobody else told of has hardware that is not known.
    assert "in node 'n3': taken as none" in str(found["warnings"])
    for text in (hosts, DUMP, hosts):
        assert_unchanged_by(yard, text)


def test_levels_of_the_later_format_count(yard: Yard) -> None:
    load(yard, kubernetes("n1", "n2", topology_kubernetes_io__zone="z1"))
    assert node(yard, "n1")["domains"] == {"zone": "z1"}
    load(yard, TREE)
    assert node(yard, "n1")["domains"] == {"block": "top", "leaf": "leaf1"}
    load(yard, kubernetes("n1", "n2", topology_kubernetes_io__zone="z1"))
    assert node(yard, "n1")["domains"] == {"zone": "z1"}


def test_scale_up_domains_that_another_format_knows_nothing_of_do_not_stop_it(yard: Yard) -> None:
    clique = {"ex_org__row": "w1", "nvidia_com__gpu_clique": "u.0"}
    tray = kubernetes("n1", "n2", **clique).replace("H100-80GB-HBM3", "GB200")
    tray = tray.replace('"nvidia.com/gpu": "8"', '"nvidia.com/gpu": "4"')
    load(yard, tray)
    assert yard.ok("GET", "/v1/topology")["scale_up"] == "accelerator"
    found = load(yard, TREE)
    assert "talked inside one 'accelerator', which is no level any more" in str(found["warnings"])
    assert_unchanged_by(yard, TREE)
    # A model that knows the domains puts them right again, though it knows no hardware.
    load(yard, MODEL)
    assert "scale_up: accelerator" in export(yard).split("nodes:")[0].split("node_types:")[1]


def test_type_measured_on_a_node_changes_the_type_and_nothing_else(yard: Yard) -> None:
    load(yard, TREE, "node_type=pair&gpus=2")
    for text, name in ((SYSTEM, "nccl"), (MATRIX, "nvidia-smi")):
        found = load(yard, text, f"node_type=pair&format={name}")
        assert counts(found)[1] == 8, found
        assert node(yard, "n1")["domains"] == {"block": "top", "leaf": "leaf1"}
        assert yard.ok("GET", "/v1/topology")["cluster"] == "default"
        assert_unchanged_by(yard, text, f"node_type=pair&format={name}")
    assert "has 8 GPUs; 2 were found" in str(refused(yard, SYSTEM, "node_type=hgx-h100"))


def test_pruning_with_another_format_keeps_what_that_cannot_tell(yard: Yard) -> None:
    text = """\
levels: [block, leaf, node]
nodes: [{names: "n[1-9]", type: hgx-h100, block: top, leaf: leaf1}]
racks: [{names: r1, power_kw: 45}]
sets: {cdu: {c1: "n[1-9]"}, pdu: {p1: n9}}
fabric: {levels: {leaf: {gbps_per_gpu: 400}}}
"""
    load(yard, text)
    found = load(yard, TREE, "prune=true")
    assert (found["removed"], found["warnings"]) == (1, ["rack 'r1' without nodes"])
    kept = export(yard)
    assert "cdu: {c1: 'n[1-8]'}" in kept
    assert "pdu" not in kept
    assert "power_kw: 45" in kept
    assert "gbps_per_gpu: 400" in kept
    assert_unchanged_by(yard, TREE, "prune=true")


def test_name_of_the_cluster_stays_where_a_text_has_none(yard: Yard) -> None:
    load(yard, "cluster: ours\nlevels: [node]\nnodes: []\n")
    load(yard, TREE)
    assert yard.ok("GET", "/v1/topology")["cluster"] == "ours"
    load(yard, f"ClusterName=theirs\n{HARDWARE}")
    assert yard.ok("GET", "/v1/topology")["cluster"] == "theirs"
