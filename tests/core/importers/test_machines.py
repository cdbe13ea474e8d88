"""What is told of a node's hardware becomes its type."""

import pytest

from scheduler.importers.machines import Machine, known_product, node_type_of, type_nodes
from scheduler.importers.options import Options
from scheduler.model.node import NodeType
from scheduler.model.resources import Resources

LEVELS = ("leaf", "node")


@pytest.mark.parametrize(
    ("product", "gpus", "gpu", "built_in"),
    [
        ("NVIDIA-H100-80GB-HBM3", 8, "H100-80GB", "hgx-h100"),
        ("h100", 8, "H100-80GB", "hgx-h100"),
        ("NVIDIA H100 80GB HBM3", 8, "H100-80GB", "hgx-h100"),
        ("h100", 4, "H100-80GB", None),
        ("NVIDIA-H100-PCIe", 8, "H100-PCIe", None),
        ("NVIDIA-H100-NVL", 8, "H100-NVL", None),
        ("NVIDIA-H200", 8, "H200-141GB", "hgx-h200"),
        ("nvidia-h200-141gb", 8, "H200-141GB", "hgx-h200"),
        ("NVIDIA-A100-SXM4-80GB", 8, "A100-80GB", "hgx-a100"),
        ("A100-SXM4-40GB", 8, "A100-40GB", "hgx-a100-40gb"),
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", 7, "A100-SXM4-40GB-MIG-1g.5gb", None),
        ("NVIDIA-GB200", 4, "GB200-186GB", "gb200-tray"),
        ("gb200", 4, "GB200-186GB", "gb200-tray"),
        ("NVIDIA-B200", 8, "B200-180GB", "hgx-b200"),
        ("AMD_Instinct_MI300X_OAM", 8, "MI300X-192GB", "mi300x-8"),
        ("Tesla-T4", 2, "T4", None),
        ("", 8, "GPU", None),
    ],
)
def test_product_is_known_by_the_names_that_systems_give_it(
    product: str, gpus: int, gpu: str, built_in: str | None
) -> None:
    name, found = known_product(product, gpus)
    assert (name, found.name if found else None) == (gpu, built_in)


def test_capacity_that_is_told_goes_before_that_of_the_built_in_type() -> None:
    told = Resources(cpu_milli=190_000, memory_mib=1_945_600)
    found = node_type_of(Machine("NVIDIA-H200", 8, told))
    assert found.name == "hgx-h200-190c-1900g"
    assert found.capacity == told
    assert (found.rails, found.power_w) == (8, 10_200)


def test_cloud_machine_has_the_network_of_its_cloud() -> None:
    found = node_type_of(Machine("", 8, instance="p4d.24xlarge"))
    assert (found.name, found.gpu) == ("p4d.24xlarge", "A100-40GB")
    assert (found.rails, found.nic_gbps) == (4, 100.0)
    assert found.rail_of_gpu == (0, 0, 1, 1, 2, 2, 3, 3)


def test_machines_that_report_nearly_the_same_memory_are_of_one_type() -> None:
    """What a system reports differs a little between equal machines."""
    machines = {
        f"n{i}": Machine("h100", 8, Resources(112_000, 2_063_000 + 7 * i)) for i in range(50)
    }
    typed = type_nodes(machines, Options(), LEVELS)
    (found,) = typed.types.values()
    assert found.capacity.memory_mib == 2_063_000


def test_machines_of_different_memory_are_of_different_types() -> None:
    machines = {
        "n1": Machine("t4", 2, Resources(64_000, 262_144)),
        "n2": Machine("t4", 2, Resources(64_000, 524_288)),
    }
    assert len(type_nodes(machines, Options(), LEVELS).types) == 2


def test_machines_with_other_resources_are_of_different_types() -> None:
    machines = {
        "n1": Machine("t4", 2, Resources(other=(("x.com/nic", 1),))),
        "n2": Machine("t4", 2, Resources(other=(("x.com/nic", 2),))),
    }
    assert len(type_nodes(machines, Options(), LEVELS).types) == 2


def test_same_hardware_has_the_same_type_in_every_import() -> None:
    """Else a second import of one node would make a new type."""
    machine = Machine("h100", 8, Resources(112_000, 2_063_000))
    alone = type_nodes({"n1": machine}, Options(), LEVELS)
    among = type_nodes({"n0": Machine("t4", 1), "n1": machine}, Options(), LEVELS)
    assert alone.type_of["n1"] == among.type_of["n1"]


def test_machine_of_which_nothing_is_told_has_the_type_of_the_import() -> None:
    mine = NodeType("mine", gpu="H100-80GB", gpus=8)
    typed = type_nodes({"n1": Machine(), "n2": Machine("t4", 1)}, Options(node_type=mine), LEVELS)
    assert typed.type_of == {"n1": "mine", "n2": "t4-x1"}
    assert typed.warnings == ()


def test_machine_of_which_nothing_is_told_has_no_gpus_without_such_a_type() -> None:
    typed = type_nodes({"n1": Machine()}, Options(), LEVELS)
    assert typed.types["unknown"].gpus == 0
    assert "'n1'" in typed.warnings[0]


def test_capacity_that_is_told_is_kept_where_the_gpus_are_not() -> None:
    small, big = Resources(64_000, 262_144), Resources(112_000, 2_063_000)
    machines = {"n1": Machine(capacity=small), "n2": Machine(capacity=big)}
    untyped = type_nodes(machines, Options(), LEVELS)
    assert [untyped.types[untyped.type_of[n]].capacity for n in ("n1", "n2")] == [small, big]
    mine = NodeType("mine", gpu="H100-80GB", gpus=8)
    typed = type_nodes(machines, Options(node_type=mine), LEVELS)
    assert typed.type_of == {"n1": "mine-64c-260g", "n2": "mine-112c-2000g"}
    assert typed.types["mine-112c-2000g"].capacity == big
    assert {found.gpus for found in typed.types.values()} == {8}


def test_multi_node_links_are_taken_as_inside_a_node_where_no_level_holds_them() -> None:
    typed = type_nodes({"n1": Machine("gb200", 4)}, Options(), LEVELS)
    assert typed.types["gb200-tray"].scale_up == "node"
    assert "'gb200-tray'" in typed.warnings[0]


def test_multi_node_links_are_inside_the_level_of_their_domains() -> None:
    levels = ("leaf", "accelerator", "node")
    machines = {"n1": Machine("gb200", 4), "n2": Machine("t4", 4), "n3": Machine("gpu", 8)}
    typed = type_nodes(
        machines, Options(), levels, domain_level="accelerator", in_domain=["n1", "n3"]
    )
    assert typed.types["gb200-tray"].scale_up == "accelerator"
    assert typed.types["gpu-x8"].scale_up is None  # The cluster's own.
    assert typed.warnings == ()


def test_type_without_a_node_in_a_domain_has_its_links_inside_each_node() -> None:
    """Else its nodes would have no scale-up domain at all."""
    machines = {"n1": Machine("gb200", 4), "n2": Machine("t4", 4)}
    typed = type_nodes(
        machines, Options(), ("accelerator", "node"), domain_level="accelerator", in_domain=["n1"]
    )
    assert typed.types["t4-x4"].scale_up == "node"
