import pytest

from scheduler.importers.node_type_data import BUILT_IN
from scheduler.model.node import NodeType

TYPES = sorted(BUILT_IN.values(), key=lambda node_type: node_type.name)


@pytest.mark.parametrize("node_type", TYPES, ids=lambda node_type: node_type.name)
def test_built_in_type_is_consistent_and_has_a_source(node_type: NodeType) -> None:
    assert BUILT_IN[node_type.name] is node_type
    assert len(node_type.rail_of_gpu) == node_type.gpus
    assert all(0 <= rail < node_type.rails for rail in node_type.rail_of_gpu)
    assert bool(node_type.gpu) == bool(node_type.gpus) == bool(node_type.scale_up_gbps)
    assert node_type.capacity.cpu_milli > 0
    assert len(node_type.source) > 40


def test_built_in_types_cover_the_products_asked_for() -> None:
    assert BUILT_IN.keys() >= {
        "dgx-a100",
        "hgx-a100",
        "dgx-a100-40gb",
        "hgx-a100-40gb",
        "dgx-h100",
        "hgx-h100",
        "hgx-h200",
        "dgx-b200",
        "hgx-b200",
        "mi300x-8",
        "gb200-tray",
        "ascend-910c",
        "atlas-900-a3",
        "cpu",
    }


def test_nvl72_is_a_rack_of_18_trays() -> None:
    tray = BUILT_IN["gb200-tray"]
    assert (18 * tray.gpus, tray.scale_up, tray.scale_up_gbps) == (72, "rack", 7_200)


def test_supernode_is_48_nodes_over_its_cabinets() -> None:
    node = BUILT_IN["atlas-900-a3"]
    assert (48 * node.gpus, node.scale_up) == (384, "supernode")


def test_dgx_h100_is_as_the_design_page_has_it() -> None:
    """900 GB/s of NVLink in both directions are 3,600 Gbit/s one way."""
    node_type = BUILT_IN["hgx-h100"]
    assert (node_type.gpu, node_type.gpus, node_type.rails) == ("H100-80GB", 8, 8)
    assert (node_type.nic_gbps, node_type.scale_up_gbps) == (400, 3_600)
    assert node_type.power_w == 10_200
    assert node_type.capacity.cpu_milli == 112_000
    assert node_type.capacity.memory_mib == 2_048 * 1_024
