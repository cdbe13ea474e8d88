"""Kubernetes nodes: labels to levels, capacity to types, states to taints."""

import json
from typing import Any

import pytest

from scheduler.importers.k8s_labels import DOMAIN_LABELS, LABEL_LEVELS
from scheduler.importers.k8s_nodes import parse, quantity
from scheduler.importers.yaml_text import read
from scheduler.model.node import Taint, TaintEffect
from tests.core.importers.samples import domains, has_words, node, refusal, sample

BLOCK, RACK = "cloud.provider.com/topology-block", "cloud.provider.com/topology-rack"

Json = dict[str, Any]
"""An object as JSON holds it; its shape is what is tested."""


def make_node(
    name: str,
    labels: Json | None = None,
    *,
    capacity: Json | None = None,
    spec: Json | None = None,
    conditions: list[Json] | None = None,
) -> Json:
    usual = {"cpu": "128", "memory": "2Ti", "nvidia.com/gpu": "8"}
    amounts = usual if capacity is None else capacity
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": spec or {},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": conditions or [],
        },
    }


def listed(*nodes: Json) -> str:
    return json.dumps({"kind": "List", "apiVersion": "v1", "items": list(nodes)})


def test_identity_of_a_domain_is_its_path() -> None:
    inventory = parse(
        listed(
            make_node("n1", {BLOCK: "b1", RACK: "r1"}), make_node("n2", {BLOCK: "b2", RACK: "r1"})
        )
    )
    assert domains(inventory, "rack") == {"b1/r1": "n1", "b2/r1": "n2"}


def test_node_list_a_list_of_nodes_and_one_node_are_read_alike() -> None:
    one = make_node("n1", {BLOCK: "b1"})
    texts = [
        json.dumps(one),
        json.dumps([one]),
        listed(one),
        json.dumps({"kind": "NodeList", "items": [one]}),
        f"---\n{json.dumps(one)}\n---\n",
    ]
    assert len({repr(parse(text).nodes) for text in texts}) == 1


def test_objects_of_other_kinds_are_passed_over() -> None:
    inventory = parse(listed(make_node("n1"), {"kind": "Pod", "metadata": {"name": "p"}}))
    assert [record.name for record in inventory.nodes] == ["n1"]


def test_mapping_of_labels_to_levels_can_be_replaced() -> None:
    inventory = parse(
        listed(make_node("n1", {"my/row": "a", "my/frame": "f"})),
        label_levels={"row": ("my/row",), "frame": ("my/other", "my/frame")},
    )
    assert inventory.levels == ("row", "frame", "node")
    assert node(inventory, "n1").places == {"row": "a", "frame": "a/f"}


def test_labels_can_name_sets_of_nodes() -> None:
    inventory = parse(
        listed(make_node("n1", {"my/cdu": "c1"}), make_node("n2", {"my/cdu": "c1"})),
        set_labels={"cdu": "my/cdu"},
    )
    assert inventory.sets == {"cdu": {"c1": ("n1", "n2")}}


def test_level_of_which_no_node_has_a_label_is_left_out() -> None:
    assert parse(listed(make_node("n1", {RACK: "r1"}))).levels == ("rack", "node")


def test_node_without_labels_keeps_a_null_place() -> None:
    inventory = parse(listed(make_node("n1", {RACK: "r1"}), make_node("n2")))
    assert node(inventory, "n2").places == {"rack": None}
    assert has_words(inventory.warnings, "'n2'", "without a label")


def test_clique_goes_before_the_wider_domain() -> None:
    labels = {"nvidia.com/gpu.clique": "u.1", "accelerator.topograph.run/domain": "u"}
    inventory = parse(listed(make_node("n1", labels)))
    assert domains(inventory, "accelerator") == {"u.1": "n1"}
    assert inventory.scale_up == "accelerator"


def test_type_is_made_of_product_count_and_allocatable_capacity() -> None:
    one = make_node("n1", {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"})
    one["status"]["allocatable"] = {"cpu": "120500m", "memory": "1Ti", "nvidia.com/gpu": "8"}
    (found,) = parse(listed(one)).node_types.values()
    assert (found.gpu, found.gpus, found.rails) == ("H100-80GB", 8, 8)
    assert (found.capacity.cpu_milli, found.capacity.memory_mib) == (120_500, 1_048_576)


@pytest.mark.parametrize(
    ("resource", "gpu"),
    [
        ("nvidia.com/gpu", "GPU"),
        ("amd.com/gpu", "GPU"),
        ("huawei.com/Ascend910", "Ascend910"),
        ("habana.ai/gaudi", "GPU"),
    ],
)
def test_gpus_of_every_maker_are_counted(resource: str, gpu: str) -> None:
    (found,) = parse(listed(make_node("n1", capacity={resource: "8"}))).node_types.values()
    assert (found.gpu, found.gpus) == (gpu, 8)


def test_other_resources_are_kept_by_name() -> None:
    capacity = {"nvidia.com/gpu": 8, "rdma/ib": "16", "pods": "110", "hugepages-1Gi": "0"}
    (found,) = parse(listed(make_node("n1", capacity=capacity))).node_types.values()
    assert found.capacity.other == (("rdma/ib", 16),)


def test_capacity_goes_before_the_label_of_the_count() -> None:
    labels = {"nvidia.com/gpu.count": "8"}
    inventory = parse(listed(make_node("n1", labels, capacity={"nvidia.com/gpu": "0"})))
    assert [t.gpus for t in inventory.node_types.values()] == [0]
    assert has_words(inventory.warnings, "'n1'", "offers none")


def test_gpus_offered_in_shares_are_counted_whole() -> None:
    labels = {"nvidia.com/gpu.replicas": "4"}
    inventory = parse(listed(make_node("n1", labels, capacity={"nvidia.com/gpu": "32"})))
    assert [t.gpus for t in inventory.node_types.values()] == [8]
    assert has_words(inventory.warnings, "'n1'", "4 shares")


def test_gpus_that_are_not_allocatable_are_told() -> None:
    one = make_node("n1")
    one["status"]["allocatable"] = {"nvidia.com/gpu": "7"}
    assert has_words(parse(listed(one)).warnings, "'n1'", "1 of 8 GPUs")


def test_cordoned_and_silent_nodes_have_the_taints_that_kubernetes_gives_them() -> None:
    inventory = parse(
        listed(
            make_node("n1", spec={"unschedulable": True}),
            make_node("n2", conditions=[{"type": "Ready", "status": "Unknown"}]),
            make_node("n3", conditions=[{"type": "Ready", "status": "False"}]),
            make_node("n4", conditions=[{"type": "Ready", "status": "True"}]),
        )
    )
    assert node(inventory, "n1").taints == (Taint("node.kubernetes.io/unschedulable"),)
    assert node(inventory, "n2").taints == (Taint("node.kubernetes.io/unreachable"),)
    assert node(inventory, "n3").taints == (Taint("node.kubernetes.io/not-ready"),)
    assert node(inventory, "n4").taints == ()


def test_taints_are_read() -> None:
    taints = [
        {"key": "a", "value": "b", "effect": "NoExecute"},
        {"key": "c", "effect": "NoSchedule"},
    ]
    inventory = parse(listed(make_node("n1", spec={"taints": taints})))
    assert node(inventory, "n1").taints == (
        Taint("a", "b", TaintEffect.NO_EXECUTE),
        Taint("c", "", TaintEffect.NO_SCHEDULE),
    )


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("8", 8),
        ("500m", 0.5),
        ("64000m", 64),
        ("2Ti", 2 * 2**40),
        ("1.5Gi", 1.5 * 2**30),
        ("87527780Ki", 87527780 * 2**10),
        ("3e2", 300),
        ("12E", None),
        ("-1", None),
        ("1x", None),
        ("Mi", None),
        ("", None),
        ("1KiB", None),
        ("9" * 400, None),
    ],
)
def test_quantity_is_read_as_kubernetes_writes_it(text: str, amount: float | None) -> None:
    assert quantity(text) == amount


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ("nothing",)),
        ("text", ("line 1", "object", "text")),
        ("kind: Pod", ("kind", "no object describes a node", "1 Pod")),
        ("kind: Node", ("metadata.name", "missing")),
        (listed(make_node("a"), make_node("a")), ("items[1]", "'a'", "twice", "items[0]")),
        (listed(make_node("n 1")), ("items[0].metadata.name", "n 1")),
        (listed(make_node("n", {"k": "v" * 253})), ("metadata.labels.k", "63")),
        (listed(make_node("n", {"a b": "v"})), ("metadata.labels.a b",)),
        (listed(make_node("n", {"k": ["v"]})), ("metadata.labels.k", "text")),
        (listed(make_node("n", {f"k{i}": "v" for i in range(3_000)})), ("metadata.labels", "2000")),
        (listed(make_node("n", capacity={"cpu": "many"})), ("status.capacity.cpu", "many")),
        (listed(make_node("n", capacity={"nvidia.com/gpu": "63"})), ("status.capacity", "63")),
        (listed(make_node("n", capacity={"nvidia.com/gpu": "-8"})), ("nvidia.com/gpu", "-8")),
        (listed(make_node("n", spec={"unschedulable": "no"})), ("spec.unschedulable", "true")),
        (
            listed(make_node("n", spec={"taints": [{"key": "a", "effect": "x"}]})),
            ("taints[0]", "x"),
        ),
        (listed(make_node("n", spec={"taints": "x"})), ("spec.taints", "list")),
        ("kind: Node\nmetadata: {name: a\n", ("line",)),
    ],
)
def test_bad_objects_are_refused_with_their_field(text: str, words: tuple[str, ...]) -> None:
    assert has_words(refusal(lambda: parse(text)), *words)


def test_wrong_name_of_a_level_is_refused() -> None:
    text = listed(make_node("n1"))
    for name in ("node", "type", "a b"):
        assert has_words(refusal(lambda name=name: parse(text, label_levels={name: ()})), name)  # type: ignore[misc] # binds the loop's value


# --- files of others -------------------------------------------------------------------------


def test_default_table_knows_every_documented_label_in_its_order() -> None:
    levels = list(LABEL_LEVELS)
    level_of = {key: levels.index(level) for level, keys in LABEL_LEVELS.items() for key in keys}
    left = {"kubernetes.io/hostname", "cloud.google.com/gce-topology-host"}
    left |= {*DOMAIN_LABELS, "accelerator.topograph.run/sub-domain"}
    document = read(sample("k8s-nodes/label-keys.yaml")).value
    assert isinstance(document, list)
    for origin in document:
        assert isinstance(origin, dict)
        keys = origin.get("closest_first")
        if not isinstance(keys, list):
            continue
        known = [str(key) for key in keys if key not in left]
        assert all(key in level_of for key in known)
        assert [level_of[k] for k in known] == sorted((level_of[k] for k in known), reverse=True)


def test_racks_of_kueues_example_are_kept_apart() -> None:
    inventory = parse(sample("k8s-nodes/kueue-kind-cluster.yaml"))
    assert domains(inventory, "rack") == {
        "b1/r1": "kind-worker,kind-worker2",
        "b1/r2": "kind-worker[3-4]",
        "b2/r1": "kind-worker[5-6]",
        "b2/r2": "kind-worker[7-8]",
    }


@pytest.mark.parametrize(
    ("name", "levels", "leaf_of_n5"),
    [
        ("tree", ("core", "block", "leaf", "node"), "sw31/sw22/sw13"),
        ("tree-nvlink", ("core", "block", "accelerator", "leaf", "node"), "sw31/sw21/sw12"),
    ],
)
def test_knavigators_tree_is_read(name: str, levels: tuple[str, ...], leaf_of_n5: str) -> None:
    inventory = parse(sample(f"k8s-nodes/knavigator-12-nodes-{name}.yaml"))
    assert inventory.levels == levels
    assert node(inventory, "n5").places["leaf"] == leaf_of_n5
    assert inventory.node_types[node(inventory, "n5").type].gpu == "A100-80GB"
    busy = [record.name for record in inventory.nodes if record.taints]
    assert busy == (["n1", "n3", "n6", "n11", "n12"] if name == "tree" else [])


def test_odd_nodes_of_our_own_file_cost_only_themselves() -> None:
    inventory = parse(sample("k8s-nodes/own-vendor-label-nodes.yaml"))
    assert len(inventory.nodes) == 40
    places = {record.name: record.places for record in inventory.nodes}
    assert set(places["odd-no-topology"].values()) == {None}
    assert places["odd-half-labels"]["leaf"] is None
    assert places["odd-half-labels"]["block"] == "edbab45572c72a5d9440b40bcc0500c0"
    assert places["odd-other-parent"]["leaf"] == "sw31/sw22/sw11"
    assert places["bare-0"]["leaf"] == "sw31/sw21/sw11"
    assert places["odd-empty-value"]["leaf"] is None
    assert places["odd-long-value"]["leaf"] == "spine-1/x3e4f1a2b3c4d5e6f"
    types = {record.name: inventory.node_types[record.type] for record in inventory.nodes}
    assert types["odd-zero-gpu"].gpus == 0
    assert (types["p5-0"].gpu, types["oci-bm-0"].gpu) == ("H100-80GB", "H100-80GB")
    taints = {record.name: [t.key for t in record.taints] for record in inventory.nodes}
    assert taints["bare-1"] == ["nvidia.com/gpu"]
    assert taints["bare-2"] == ["node.kubernetes.io/unreachable"]
    assert taints["bare-3"] == ["node.kubernetes.io/unschedulable"]
    assert places["gb200-r1-t3"]["accelerator"] == "c7c09222-13c7-553c-8cc4-ad835a142185.32766"
    assert types["gb200-r1-t3"].scale_up == "accelerator"


def test_production_nodes_of_one_cluster_have_eight_types() -> None:
    inventory = parse(sample("k8s-nodes/openb-gpu-nodes-first120.yaml"))
    assert len(inventory.nodes) == 120
    assert len(inventory.node_types) == 8


def test_node_cut_into_slices_offers_no_whole_gpu() -> None:
    inventory = parse(sample("k8s-nodes/real-gpu-node-1.yaml"))
    (found,) = inventory.node_types.values()
    assert (found.gpus, found.capacity.other) == (0, (("nvidia.com/mig-7g.40gb", 1),))


def test_real_node_with_two_gpus_is_read() -> None:
    inventory = parse(sample("k8s-nodes/real-gpu-node-2.yaml"))
    (found,) = inventory.node_types.values()
    assert (found.gpu, found.gpus, found.capacity.cpu_milli) == ("T4", 2, 32_000)


def test_slinky_annotation_names_the_leaf_and_a_set() -> None:
    inventory = parse(sample("k8s-nodes/slinky-nodes-annotations.yaml"))
    assert domains(inventory, "leaf") == {"s1": "node[1-2]", "s2": "node[3-4]"}
    assert inventory.sets["topo-block"] == {"b1": ("node1", "node2"), "b2": ("node3", "node4")}


def test_node_feature_of_topograph_is_read_and_its_group_refused() -> None:
    inventory = parse(sample("k8s-nodes/topograph-nodefeature-1.yaml"))
    assert node(inventory, "node-a").places == {
        "core": "core-1",
        "block": "core-1/spine-2",
        "leaf": "core-1/spine-2/leaf-12",
        "accelerator": "nvl3",
    }
    text = sample("k8s-nodes/topograph-nodefeature-2.yaml")
    assert has_words(refusal(lambda: parse(text)), "kind", "NodeFeatureGroup")


@pytest.mark.parametrize(
    ("name", "nodes"),
    [
        ("knavigator-gang-nodes.yaml", 32),
        ("knavigator-virtual-nodes-values.yaml", 6),
        ("kwok-node.yaml", 1),
        ("kwok-virtual-dgx-node.yaml", 1),
        ("real-gpu-node-3.yaml", 1),
    ],
)
def test_other_descriptions_of_nodes_are_read(name: str, nodes: int) -> None:
    assert len(parse(sample(f"k8s-nodes/{name}")).nodes) == nodes


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gfd-expected-output.txt", ("line 1", "object")),
        ("gfd-expected-output-mig-mixed.txt", ("line 1", "object")),
        ("gfd-expected-output-mig-single.txt", ("line 1", "object")),
        ("gfd-expected-output-vgpu.txt", ("line 1", "object")),
        ("gfd-node-example.txt", ("line 2",)),
        ("kwok-node-not-ready.yaml", ("line 1", "metadata.name", "missing")),
        ("kwok-node-pending.yaml", ("line 1", "metadata.name", "missing")),
        ("label-keys.yaml", ("kind", "no object describes a node")),
    ],
)
def test_what_describes_no_node_is_refused(name: str, words: tuple[str, ...]) -> None:
    text = sample(f"k8s-nodes/{name}")
    assert has_words(refusal(lambda: parse(text)), *words)
