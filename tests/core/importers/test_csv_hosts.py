"""Host lists as tables."""

import pytest

from scheduler.importers import slurm_conf
from scheduler.importers.csv_hosts import parse
from tests.core.importers.samples import domains, has_words, node, refusal, sample


def test_same_rack_name_in_two_blocks_is_two_racks() -> None:
    inventory = parse("host,block,rack\nn1,b1,r1\nn2,b2,r1\n")
    assert inventory.levels == ("block", "rack", "node")
    assert domains(inventory, "rack") == {"b1/r1": "n1", "b2/r1": "n2"}
    assert has_words(inventory.warnings, "'r1'", "'b1/r1'", "'b2/r1'")


def test_columns_are_nested_by_what_they_are_and_not_by_their_order() -> None:
    inventory = parse("rack;hostname;dc;spine\nr1;n1;d1;s1\n")
    assert inventory.levels == ("zone", "block", "rack", "node")


def test_empty_cell_is_no_place() -> None:
    inventory = parse("host,block,rack\nn1,b1,\nn2,,r1\nn3,,\n")
    assert node(inventory, "n1").places == {"block": "b1", "rack": None}
    assert node(inventory, "n2").places == {"block": None, "rack": "r1"}
    assert node(inventory, "n3").places == {"block": None, "rack": None}


def test_hardware_columns_make_node_types() -> None:
    inventory = parse(
        "host\tgpu_model\tgpus\tcpus\tmemory_gib\nn1\tH100\t8\t96\t2000\nn2\t\t0\t64\t512\n"
    )
    gpu_type = inventory.node_types[node(inventory, "n1").type]
    assert (gpu_type.gpu, gpu_type.gpus, gpu_type.capacity.cpu_milli) == ("H100-80GB", 8, 96_000)
    assert inventory.node_types[node(inventory, "n2").type].gpus == 0


def test_columns_can_be_named_by_the_import() -> None:
    inventory = parse(
        "Server,Row,Frame,Note\nn1,a,f1,x\n",
        columns={"Server": "host", "Row": "row", "Frame": "frame"},
    )
    assert inventory.levels == ("row", "frame", "node")
    assert node(inventory, "n1").places == {"row": "a", "frame": "a/f1"}
    assert has_words(inventory.warnings, "'Note'", "not used")


def test_lines_of_host_and_domain_need_no_header() -> None:
    inventory = parse("n1: d1\nn2: d1\nn3: d2\n")
    assert domains(inventory, "accelerator") == {"d1": "n[1-2]", "d2": "n3"}


def test_quoted_cells_are_read() -> None:
    inventory = parse('"host","rack"\n"n1","r1"\n')
    assert domains(inventory, "rack") == {"r1": "n1"}


def test_too_long_a_path_is_shortened_and_stays_unique() -> None:
    long = "b" * 200
    inventory = parse(f"host,block,rack\nn1,{long}1,{'r' * 100}\nn2,{long}2,{'r' * 100}\n")
    names = [record.places["rack"] or "" for record in inventory.nodes]
    assert len(set(names)) == 2
    assert all(len(name) <= 253 for name in names)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ("empty",)),
        ("a,b\n1,2\n", ("line 1", "no column names the hosts", "'a'", "hostname")),
        ("host,rack\n", ("no hosts",)),
        ("host,rack\nn1\n", ("line 2", "1 cells", "2")),
        ("host\nn1\nn1\n", ("host", "line 3", "lines 2 and 3")),
        ("host,host\nn1,n1\n", ("host", "line 1")),
        ("host\nn 1\n", ("host", "line 2", "n 1")),
        ("host,rack\nn1,r!\n", ("rack", "line 2", "r!")),
        ("host,gpus\nn1,many\n", ("gpus", "line 2", "many")),
        ("host,gpus\nn1,-8\n", ("gpus", "line 2", "-8")),
        ("host,gpus\nn1,99\n", ("gpus", "line 2", "99")),
        ("host,gpus\nn1,nan\n", ("gpus", "line 2", "nan")),
        ("n1: d1\nn2\n", ("line 2", "host: domain")),
        ("n1: d1\nn1: d1\n", ("host", "line 2")),
    ],
)
def test_bad_table_is_refused_with_line_and_column(text: str, words: tuple[str, ...]) -> None:
    assert has_words(refusal(lambda: parse(text)), *words)


def test_wrong_column_of_the_import_is_refused() -> None:
    found = refusal(lambda: parse("host\nn1\n", columns={"server": "host"}))
    assert has_words(found, "columns", "'server'", "'host'")
    found = refusal(lambda: parse("h,t\nn1,a\n", columns={"h": "host", "t": "type"}))
    assert has_words(found, "columns", "type")


# --- files of others -------------------------------------------------------------------------


def test_lingjun_fabric_keeps_switches_of_one_name_apart() -> None:
    """48 names of access switches stand for 119 places."""
    inventory = parse(sample("traces/alibaba-lingjun-2023/topo.csv"))
    assert len(inventory.nodes) == 847
    leaves = domains(inventory, "leaf")
    assert len(leaves) == 119
    assert len({(path or "").rpartition("/")[2] for path in leaves}) == 48
    assert len(domains(inventory, "core")) == 1
    sizes = [sum(r.places["leaf"] == leaf for r in inventory.nodes) for leaf in leaves]
    assert (max(set(sizes), key=sizes.count), max(sizes)) == (8, 8)
    assert min(sizes) < 8
    assert has_words(inventory.warnings, "42 names", "'G6/P8/S1'")


def test_domains_by_cluster_uuid_match_the_published_block_map() -> None:
    found = parse(sample("cyclecloud-slurm/nodes_clusterUUIDs.txt"))
    made = slurm_conf.parse(sample("cyclecloud-slurm/block_topology.txt"))
    expected = {
        (name or "").removeprefix("block_"): nodes for name, nodes in domains(made, "block").items()
    }
    assert domains(found, "accelerator") == expected


def test_domain_of_four_absent_nodes_has_fourteen() -> None:
    found = parse(sample("cyclecloud-slurm/nodes_clusterUUIDs_2.txt"))
    sizes: dict[str | None, int] = {}
    for record in found.nodes:
        domain = record.places["accelerator"]
        sizes[domain] = sizes.get(domain, 0) + 1
    assert sorted(sizes.values()) == [14, 18, 18, 18]


@pytest.mark.parametrize(
    ("name", "nodes", "gpus"),
    [
        ("alibaba-openb-2023/openb_node_list_all_node.csv", 1523, 6212),
        ("alibaba-openb-2023/openb_node_list_gpu_node.csv", 1213, 6212),
        ("alibaba-pai-2020/pai_machine_spec.csv", 1897, 6742),
        ("alibaba-spot-2026/node_info_df.csv", 4278, None),
    ],
)
def test_node_lists_of_traces_are_read(name: str, nodes: int, gpus: int | None) -> None:
    inventory = parse(sample(f"traces/{name}"))
    assert len(inventory.nodes) == nodes
    total = sum(inventory.node_types[record.type].gpus for record in inventory.nodes)
    assert total == gpus if gpus is not None else total > 0


@pytest.mark.parametrize(
    "name",
    [
        "acme/kalos_jobs.csv",
        "alibaba-openb-2023/openb_pod_list_default.csv",
        "alibaba-dlrm-2025/disaggregated_DLRM_trace.head8000.csv",
        "tiresias/cluster_spec.csv",
        "philly/philly_vc.csv",
    ],
)
def test_lists_of_jobs_and_shapes_are_refused(name: str) -> None:
    text = sample(f"traces/{name}")
    assert has_words(refusal(lambda: parse(text)), "line 1", "no column names the hosts")


def test_table_of_adapters_is_no_list_of_hosts() -> None:
    text = sample("cyclecloud-slurm/nodes_guids.txt")
    assert has_words(refusal(lambda: parse(text)), "host", "line 2", "lines 1 and 2")
