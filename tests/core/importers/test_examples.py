from pathlib import Path

import pytest

from scheduler.importers.podyard_yaml import parse, render
from scheduler.model.node import Inventory
from scheduler.topology.build import build
from scheduler.topology.tree import Topology
from tests.core.topology.regular import check_regular

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.yaml"))


def example(name: str) -> tuple[Inventory, Topology]:
    (path,) = [path for path in EXAMPLES if path.stem == name]
    inventory = parse(path.read_bytes())
    return inventory, build(inventory).topology


def domains(topology: Topology) -> dict[str, int]:
    return {level.name: len(level.names) for level in topology.levels}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_is_read_built_and_rendered_without_a_warning(path: Path) -> None:
    inventory = parse(path.read_bytes())
    built = build(inventory)
    check_regular(built.topology)
    assert built.warnings == ()
    assert parse(render(inventory)) == inventory


def test_superpod_has_four_leaves_of_eight_racks_of_four_nodes() -> None:
    inventory, topology = example("h100-superpod")
    assert domains(topology) == {"block": 1, "leaf": 4, "rack": 32, "node": 128}
    assert {node.type for node in inventory.nodes} == {"dgx-h100"}
    leaf, rack = topology.levels[1:3]
    assert [high - low for low, high in zip(leaf.node_lo, leaf.node_hi, strict=True)] == [32] * 4
    assert [high - low for low, high in zip(rack.node_lo, rack.node_hi, strict=True)] == [4] * 32


def test_nvl72_row_has_four_scale_up_domains_of_72_gpus() -> None:
    _, topology = example("nvl72-row")
    assert domains(topology) == {"block": 1, "leaf": 1, "rack": 4, "node": 72}
    assert topology.scale_up_level(topology.types[0]) == "rack"
    assert sum(node_type.gpus for node_type in topology.types) == 4 * 72


def test_ascend_supernode_has_384_processors_in_twelve_cabinets() -> None:
    _, topology = example("ascend-384")
    assert domains(topology) == {"block": 1, "supernode": 1, "cabinet": 12, "node": 48}
    assert topology.scale_up_level(topology.types[0]) == "supernode"
    assert sum(node_type.gpus for node_type in topology.types) == 384


def test_small_lab_mixes_types_and_has_a_node_without_a_rack() -> None:
    _, topology = example("small-lab")
    desk = topology.node_index["desk1"]
    assert topology.domains_of(desk) == {"leaf": "l1", "rack": None}
    assert len({node_type.name for node_type in topology.types}) == 4
