"""Dumps of ibnetdiscover: levels, rails, and what is odd in real ones."""

import pytest

from scheduler.importers.guid_hosts import read_hosts
from scheduler.importers.ibnetdiscover import parse, read_fabric
from scheduler.importers.options import Options
from scheduler.model.node import Inventory, NodeType
from scheduler.topology.build import build
from scheduler.topology.dead_rails import DEAD_RAILS
from scheduler.topology.fabric_groups import find_levels
from tests.core.importers.ib_writer import HCA, SWITCH, regular_dump
from tests.core.importers.samples import domains, has_words, node, refusal, sample

FABRIC = "topograph/ibnetdiscover-fabric.out"
TRAY = NodeType("tray", "GB200-186GB", 4, rails=4, rail_of_gpu=(0, 1, 2, 3), nic_gbps=400.0)


def test_levels_are_found_from_the_cables() -> None:
    inventory = parse(regular_dump().text())
    assert inventory.levels == ("core", "block", "leaf", "node")
    assert domains(inventory, "leaf")["leaf-x-01"] == "n[0100-0103]"
    assert len(domains(inventory, "block")) == 2
    assert len(domains(inventory, "core")) == 1


def test_regular_fabric_has_nothing_to_tell_but_the_missing_type() -> None:
    assert parse(regular_dump().text(), Options(node_type=TRAY)).warnings == ()


def test_type_with_another_number_of_rails_is_told() -> None:
    warnings = parse(regular_dump(rails=2).text(), Options(node_type=TRAY)).warnings
    assert has_words(warnings, "'tray'", "4 rails", "make 2")


def test_speed_of_the_network_is_read_from_the_links() -> None:
    """Leaves of 4 NICs of 400 and 4 uplinks of 400: none is lost."""
    fabric = parse(regular_dump(uplinks=2).text(), Options(node_type=TRAY)).fabric
    assert [fabric[level].gbps_per_gpu for level in ("leaf", "block")] == [400.0, 400.0]
    assert fabric["block"].oversubscription == 1.0
    half = parse(regular_dump(uplinks=1).text(), Options(node_type=TRAY)).fabric
    assert half["block"].oversubscription == 2.0


def test_switches_are_named_sets() -> None:
    inventory = parse(regular_dump().text())
    assert inventory.sets["leaf-switch"]["leaf-2-01"] == ("n0100", "n0101", "n0102", "n0103")


def test_top_of_rack_fabric_has_one_switch_per_leaf() -> None:
    inventory = parse(regular_dump(rails=1).text())
    assert set(domains(inventory, "leaf")) == {"leaf-0-00", "leaf-0-01", "leaf-0-10", "leaf-0-11"}


def test_node_across_two_groups_joins_them_not() -> None:
    dump = regular_dump(blocks=1)
    leaf = {name: guid for guid, name in dump.names.items()}
    dump.cable(dump.device(HCA, "odd mlx5_0"), leaf["leaf-0-00"])
    dump.cable(dump.device(HCA, "odd mlx5_1"), leaf["leaf-1-00"])
    dump.cable(dump.device(HCA, "odd mlx5_2"), leaf["leaf-2-01"])
    inventory = parse(dump.text())
    assert len(domains(inventory, "leaf")) == 2
    assert node(inventory, "odd").places["leaf"] == "leaf-x-00"
    assert has_words(inventory.warnings, "'odd'", "'leaf-x-00'", "'mlx5_2'", "'leaf-2-01'")


def test_host_on_half_of_the_rails_is_no_compute_node() -> None:
    dump = regular_dump(blocks=1)
    leaf = {name: guid for guid, name in dump.names.items()}
    for rail in range(2):
        dump.cable(dump.device(HCA, f"ufm mlx5_{rail}"), leaf[f"leaf-{rail}-00"])
    inventory = parse(dump.text(), Options(node_type=TRAY))
    assert node(inventory, "ufm").type == "unknown"
    assert node(inventory, "n0000").type == "tray"
    assert has_words(inventory.warnings, "'ufm'", "no compute node")


def test_host_on_a_spine_makes_no_leaf_of_it() -> None:
    dump = regular_dump(blocks=1, nodes=8)
    spine = next(guid for guid, name in dump.names.items() if name == "spine-0-0")
    dump.cable(dump.device(HCA, "ufm mlx5_0"), spine)
    inventory = parse(dump.text())
    assert set(node(inventory, "ufm").places.values()) == {None}
    assert has_words(inventory.warnings, "'ufm'", "'spine-0-0'", "joins leaf switches")


def test_two_hosts_of_one_name_are_left_out() -> None:
    dump = regular_dump(blocks=1)
    leaf = {name: guid for guid, name in dump.names.items()}
    dump.cable(dump.device(HCA, "n0000 mlx5_0"), leaf["leaf-0-01"])
    inventory = parse(dump.text())
    assert "n0000" not in [record.name for record in inventory.nodes]
    assert has_words(inventory.warnings, "'n0000'", "two adapters of one name")


def test_adapter_with_two_ports_has_two_nics() -> None:
    dump = regular_dump(blocks=1, leaf_groups=1, rails=2, nodes=2)
    leaf = {name: guid for guid, name in dump.names.items()}
    both = dump.device(HCA, "dual mlx5_0")
    dump.cable(both, leaf["leaf-0-00"])
    dump.cable(both, leaf["leaf-1-00"])
    fabric = read_fabric(dump.text()).fabric
    assert [nic.name for nic in fabric.nics["dual"]] == ["mlx5_0/p1", "mlx5_0/p2"]


def test_switches_of_one_name_are_told_apart_by_guid() -> None:
    dump = regular_dump(blocks=1, leaf_groups=1, rails=2)
    for guid, name in dump.names.items():
        if name.startswith("leaf"):
            dump.names[guid] = "Quantum Mellanox Technologies"
    fabric = read_fabric(dump.text()).fabric
    assert sum(name.startswith("S-aa") for name in fabric.switches) == 2


def test_link_to_a_switch_without_a_record_is_left_out_with_a_warning() -> None:
    dump = regular_dump(blocks=1)
    ghost = dump.device(SWITCH, "ghost")
    leaf = next(guid for guid, name in dump.names.items() if name == "leaf-0-00")
    dump.cable(leaf, ghost)
    records = dump.text().split("\n\n")
    text = "\n\n".join(r for r in records if f'Switch\t65 "S-{ghost:016x}"' not in r)
    inventory = parse(text)
    assert has_words(inventory.warnings, "links to nowhere", "'MF0;ghost:MQM9701/U1'")
    assert len(domains(inventory, "leaf")) == 2


def test_link_that_only_one_end_reports_is_told() -> None:
    lines = regular_dump(blocks=1).text().splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("[1]") and "core-0" in line)
    del lines[at]
    assert has_words(parse("\n".join(lines)).warnings, "only one end reports")


@pytest.mark.parametrize("share", [0.3, 0.5, 0.7, 0.9])
def test_dump_that_was_cut_off_is_refused(share: float) -> None:
    text = regular_dump(blocks=3, nodes=8).text()
    found = refusal(lambda: parse(text[: int(len(text) * share)]))
    assert has_words(found, "cut off") or has_words(found, "last line")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ("empty",)),
        ("# only a comment\n", ("empty",)),
        ("hello\n", ("line 1", "hello")),
        ('[1]\t"S-01"[2]\t\t# "a" lid 1 4xNDR\n', ("line 1", "before the first device")),
        ('Switch 65 "S-01" # "a"\n', ("line 1", "'a'", "no ports")),
        ("vendid=0x2c9\n", ("line 1", "no device")),
        ('Ca 1 "H-01" # "a b1"\n[1](1) "S-02"[1] # "s" 4xNDR\n' * 2, ("line 3", "twice", "line 1")),
        ("SW 1 2 0x01 4x NDR - CA 3\n", ("line 1", "other end")),
        ("SW 1 2 0x01 4x NDR\nhello\n", ("line 2", "hello")),
    ],
)
def test_bad_dump_is_refused_with_its_line(text: str, words: tuple[str, ...]) -> None:
    assert has_words(refusal(lambda: parse(text)), *words)


# --- files of others -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fabric() -> Inventory:
    return parse(sample(FABRIC), Options(node_type=TRAY))


def test_real_fabric_has_eight_rail_groups_under_one_set_of_spines(fabric: Inventory) -> None:
    assert fabric.levels == ("block", "leaf", "node")
    leaves = domains(fabric, "leaf")
    assert len(leaves) == 8
    assert leaves["A09-IBLEAF-x-03"] == "a07-su03-n[01-18]"
    assert len(domains(fabric, "block")) == 1


def test_hosts_named_in_two_ways_have_the_same_rails() -> None:
    """`host mlx5_N` in one group, `host HCA-N` in the others; both have rails 0 to 3."""
    found = find_levels(read_fabric(sample(FABRIC)).fabric)
    rails = {
        nic.name: nic.rail
        for name in ("a08-su04-n01", "a07-su03-n01")
        for nic in found.fabric.nics[name]
    }
    assert rails == {
        "mlx5_0": 0,
        "mlx5_1": 1,
        "mlx5_4": 2,
        "mlx5_5": 3,
        "HCA-1": 0,
        "HCA-2": 1,
        "HCA-5": 2,
        "HCA-6": 3,
    }


def test_group_that_lacks_a_leaf_switch_keeps_the_numbers_of_its_rails() -> None:
    found = find_levels(read_fabric(sample(FABRIC)).fabric)
    assert found.groups["A09-IBLEAF-x-01"].rails == (0, 1, 3)


def test_adapters_without_a_name_are_left_out_and_counted(fabric: Inventory) -> None:
    assert has_words(fabric.warnings, "69 adapters", "do not name their host")


def test_aggregation_ports_are_no_hosts(fabric: Inventory) -> None:
    assert not has_words([record.name for record in fabric.nodes], "Aggregation")
    assert not has_words(fabric.warnings, "Aggregation")


def test_hosts_that_have_no_name_yet_are_left_out(fabric: Inventory) -> None:
    names = {record.name for record in fabric.nodes}
    assert not names & {"localhost", "ubuntu"}
    assert has_words(fabric.warnings, "3 adapters", "'localhost'")


def test_swapped_cables_and_missing_uplinks_of_the_real_fabric_are_found(fabric: Inventory) -> None:
    assert has_words(fabric.warnings, "'HCA-6'", "'b08-su08-n01'", "'B09-IBLEAF-03-08'")
    assert has_words(fabric.warnings, "'A09-IBLEAF-01-02'", "14 uplinks", "18")
    assert has_words(fabric.warnings, "'A09-IBLEAF-x-01'", "no leaf switch", "rail 2")
    assert node(fabric, "B11-P1-CUFM-02").type == "unknown"


def test_cut_off_sample_is_refused_with_its_line() -> None:
    text = sample("topograph/ibnetdiscover-bad.out")
    assert has_words(refusal(lambda: parse(text)), "line 10", "'gb200-n01-c1 HCA-1'", "cut off")


def test_small_fabric_with_a_director_switch_has_three_levels() -> None:
    inventory = parse(sample("superbenchmark/ibnetdiscover-hdr.txt"))
    assert inventory.levels == ("core", "block", "leaf", "node")
    blocks = {name: found.count(",") + 1 for name, found in domains(inventory, "block").items()}
    assert blocks == {"sw-0908-01ib1-A/L01": 6, "sw-0908-01ib1-A/L02": 4}
    assert inventory.fabric["leaf"].gbps_per_gpu == 200.0


def test_join_by_guid_loses_no_host_where_leading_zeros_are_lost() -> None:
    hosts = read_hosts(sample("superbenchmark/ibstat.txt"))
    inventory = parse(sample("superbenchmark/ibnetdiscover-hdr.txt"), hosts=hosts)
    wanted = sample("superbenchmark/hostfile.txt").split()
    assert [record.name for record in inventory.nodes] == sorted(wanted)
    assert all(record.places["leaf"] for record in inventory.nodes)


def test_dead_ports_are_no_links() -> None:
    inventory = parse(sample("infiniband_exporter/ibnetdiscover-ports-test.out"))
    assert domains(inventory, "leaf") == {"ib-i1l1s01": "o[0001-0002]", "ib-i4l1s01": "p0001"}
    assert has_words(inventory.warnings, "2 ports without a working link", "port 37", "port 80")


def test_name_with_blanks_around_it_is_read() -> None:
    inventory = parse(sample("infiniband_exporter/ibnetdiscover-ports-test2.out"))
    assert domains(inventory, "leaf") == {"RK0405-leaf-IB01": "worker20"}


def test_ports_without_any_link_are_refused() -> None:
    text = sample("infiniband_exporter/ibnetdiscover-ports-test3.out")
    assert has_words(refusal(lambda: parse(text)), "no link between a node and a switch")


def test_a_dead_link_is_a_dead_rail_of_its_node() -> None:
    dump = regular_dump()
    names = {guid: name for guid, name in dump.names.items() if name == "n0102 mlx5_2"}
    dump.cables = [c for c in dump.cables if not names.keys() & {c[0].guid, c[1].guid}]
    inventory = parse(dump.text(), Options(node_type=TRAY))
    labels = {record.name: record.labels for record in inventory.nodes if record.labels}
    assert labels == {"n0102": {DEAD_RAILS: "2"}}
    topology = build(inventory).topology
    assert topology.dead_rails == {topology.node_index["n0102"]: 0b100}
