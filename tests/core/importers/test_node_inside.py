"""NCCL topology files and `nvidia-smi topo -m`: the inside of a node type."""

import pytest

from scheduler.importers import nccl_xml, nvidia_smi
from scheduler.importers.node_type_data import BUILT_IN
from scheduler.importers.options import Options
from scheduler.model.node import Inventory, NodeType
from tests.core.importers.samples import has_words, refusal, sample

TABLE = """
\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity
GPU0\t X \tNV4\tPXB\tSYS\t0-7
GPU1\tNV4\t X \tSYS\tPXB\t8-15
NIC0\tPXB\tSYS\t X \tSYS
NIC1\tSYS\tPXB\tSYS\t X
"""

SWITCHES = """<system version="1"><cpu>
  <pci busid="0000:01" class="0x060400"><pci busid="0000:0b" class="0x030200"/>
    <pci busid="0000:0a" class="0x030200"/><pci busid="0000:0c" class="0x020700"/></pci>
  <pci busid="0000:02" class="0x060400"><pci busid="0000:1a" class="0x030200"/>
    <pci busid="0000:1c" class="0x020700"/></pci>
</cpu></system>"""


def found_type(inventory: Inventory) -> NodeType:
    (found,) = inventory.node_types.values()
    assert inventory.nodes == ()
    return found


# --- nvidia-smi ------------------------------------------------------------------------------


def test_gpu_takes_the_rail_of_its_nearest_nic() -> None:
    found = found_type(nvidia_smi.parse(TABLE))
    assert (found.gpus, found.rails, found.rail_of_gpu) == (2, 2, (0, 1))


def test_links_give_the_bandwidth_of_the_scale_up_domain() -> None:
    """Four NVLinks of 200 Gbit/s each way."""
    assert found_type(nvidia_smi.parse(TABLE)).scale_up_gbps == 800.0


def test_table_with_colours_is_read() -> None:
    """The header is underlined on a terminal."""
    text = TABLE.replace("\tGPU0\tGPU1", "\t\x1b[4mGPU0\tGPU1", 1).replace("Affinity", "\x1b[0m")
    assert found_type(nvidia_smi.parse(text)).rails == 2
    assert found_type(nvidia_smi.parse(text.encode())).rails == 2


def test_what_the_import_says_of_the_type_stays() -> None:
    named = Options(node_type=BUILT_IN["hgx-h200"])
    found = found_type(nvidia_smi.parse(sample("nvidia-smi/topo-m.h200-12nic.txt"), named))
    assert (found.name, found.gpu, found.nic_gbps) == ("hgx-h200", "H200-141GB", 400.0)
    assert (found.rails, found.rail_of_gpu) == (8, tuple(range(8)))


def test_type_with_another_number_of_gpus_is_refused() -> None:
    named = Options(node_type=BUILT_IN["hgx-h200"])
    assert has_words(refusal(lambda: nvidia_smi.parse(TABLE, named)), "8 GPUs", "2 were found")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ("no line of columns",)),
        ("GPU0 X NV1\n", ("no line of columns",)),
        (TABLE.replace("\tPXB\tSYS\t0-7", ""), ("GPU0", "line 3", "2 cells", "4")),
        (TABLE.replace("NV4\tPXB", "NV4\tFAR"), ("GPU0", "line 3", "FAR", "PXB")),
        (TABLE.replace("GPU1\tNV4", "GPU9\tNV4"), ("GPU1", "no row")),
        (TABLE + TABLE.splitlines()[2], ("GPU0", "two rows")),
        ("GPU0 GPU0 CPU Affinity\n", ("line 1", "twice")),
    ],
)
def test_bad_table_is_refused_with_its_row(text: str, words: tuple[str, ...]) -> None:
    assert has_words(refusal(lambda: nvidia_smi.parse(text)), *words)


@pytest.mark.parametrize(
    ("name", "rails", "rail_of_gpu", "gbps"),
    [
        ("h200-12nic", 8, (0, 1, 2, 3, 4, 5, 6, 7), 3600.0),
        ("l40s-pcie", 1, (0,) * 8, 0.0),
        ("titanv-pcie", 0, (0, 1, 2, 3, 4, 5, 6, 7), 0.0),
        ("v100-cube-mesh", 2, (0, 0, 0, 0, 1, 1, 1, 1), 1200.0),
    ],
)
def test_tables_in_four_layouts_are_read(
    name: str, rails: int, rail_of_gpu: tuple[int, ...], gbps: float
) -> None:
    found = found_type(nvidia_smi.parse(sample(f"nvidia-smi/topo-m.{name}.txt")))
    assert (found.gpus, found.rails, found.rail_of_gpu) == (8, rails, rail_of_gpu)
    assert found.scale_up_gbps == gbps


def test_mesh_without_a_link_between_all_is_told() -> None:
    inventory = nvidia_smi.parse(sample("nvidia-smi/topo-m.v100-cube-mesh.txt"))
    assert has_words(inventory.warnings, "some pairs", "PCIe")


# --- NCCL ------------------------------------------------------------------------------------


def test_gpus_behind_one_switch_share_its_nic_in_the_order_of_the_bus() -> None:
    found = found_type(nccl_xml.parse(SWITCHES))
    assert (found.gpus, found.rails, found.rail_of_gpu) == (3, 2, (0, 0, 1))


def test_two_gpus_and_two_nics_behind_one_switch_have_one_each() -> None:
    found = found_type(nccl_xml.parse(sample("nccl-topology/oci-topo-flattened.xml")))
    assert (found.gpus, found.rails, found.rail_of_gpu) == (8, 8, tuple(range(8)))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ("not XML",)),
        ("<system>", ("line 1", "not XML")),
        ("<graphs/>", ("line 1", "<graphs>", "<system>")),
        ("<system/>", ("class", "no GPU")),
        ('<!DOCTYPE a [<!ENTITY b "c">]><system>&b;</system>', ("line 1", "not allowed")),
        ('<!DOCTYPE a SYSTEM "file:///etc/passwd"><system/>', ("line 1", "not allowed")),
        ("<a>" * 40 + "</a>" * 40, ("32",)),
        ("<system>" + "<pci/>" * 30_000 + "</system>", ("20000",)),
        ("<system><pci busid='1'/></system>", ("class", "no class")),
    ],
)
def test_bad_file_is_refused(text: str, words: tuple[str, ...]) -> None:
    assert has_words(refusal(lambda: nccl_xml.parse(text)), *words)


@pytest.mark.parametrize(
    ("name", "gpus", "rails", "nic_gbps", "gbps"),
    [
        ("aws-p4d-24xl", 8, 4, 0.0, 0.0),
        ("aws-p4de-24xl", 8, 4, 0.0, 0.0),
        ("azure-ncv4-topo", 4, 1, 100.0, 0.0),
        ("azure-ndv2-topo", 8, 1, 0.0, 0.0),
        ("azure-ndv4-topo", 8, 8, 0.0, 0.0),
        ("azure-ndv5-topo", 8, 8, 0.0, 0.0),
        ("oci-H100-topology", 8, 8, 360.0, 3600.0),
        ("oci-H100-topology-kubernetes", 8, 8, 400.0, 3600.0),
        ("oci-topo-flattened", 8, 8, 0.0, 0.0),
        ("oci-topo-flattened-b4", 8, 8, 0.0, 0.0),
    ],
)
def test_topologies_of_clouds_are_read(
    name: str, gpus: int, rails: int, nic_gbps: float, gbps: float
) -> None:
    found = found_type(nccl_xml.parse(sample(f"nccl-topology/{name}.xml")))
    assert (found.gpus, found.rails) == (gpus, rails)
    assert (found.nic_gbps, found.scale_up_gbps) == (nic_gbps, gbps)
    assert len(found.rail_of_gpu) == gpus


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("aws-g5.48xl", ("class", "line 14", "no class")),
        ("azure-ncv4-graph", ("line 1", "<graphs>")),
    ],
)
def test_files_that_show_no_gpu_are_refused(name: str, words: tuple[str, ...]) -> None:
    text = sample(f"nccl-topology/{name}.xml")
    assert has_words(refusal(lambda: nccl_xml.parse(text)), *words)
