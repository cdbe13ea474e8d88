"""Slurm's topology.conf and the node lines of slurm.conf."""

import pytest

from scheduler.importers.options import Options
from scheduler.importers.slurm_conf import parse
from scheduler.model.node import Inventory, NodeType, Taint
from scheduler.model.resources import Resources
from scheduler.topology.build import build
from tests.core.importers.samples import domains, has_words, node, refusal, sample

TREE = """
# Two leaves below a spine.
SwitchName=s0 Nodes=n[1-2]
switchname=s1 NODES=n[3-4] LinkSpeed=900  # as Slurm, in any case
SwitchName=top Switches=s[0-1]
"""

NODES = """
ClusterName=lab
NodeName=DEFAULT CPUs=112 RealMemory=2000000
NodeName=n[1-2] Gres=gpu:h100:8(S:0-1),nvme:2 Feature=ib,hot
NodeName=n[3-4] Gres=gpu:8 State=DRAIN
NodeName=n5
PartitionName=all Nodes=ALL Default=YES
"""


def test_tree_is_read_with_comments_and_keys_in_any_case() -> None:
    inventory = parse(TREE)
    assert inventory.levels == ("block", "leaf", "node")
    assert domains(inventory, "leaf") == {"s0": "n[1-2]", "s1": "n[3-4]"}
    assert domains(inventory, "block") == {"top": "n[1-4]"}


def test_line_that_ends_in_a_backslash_goes_on() -> None:
    inventory = parse("SwitchName=a \\\n Nodes=n1,\\\nn2\n")
    assert domains(inventory, "leaf") == {"a": "n[1-2]"}


def test_quoted_and_spaced_values_are_read() -> None:
    inventory = parse('SwitchName = "a" Nodes= "n1,n2"')
    assert domains(inventory, "leaf") == {"a": "n[1-2]"}


def test_nodes_are_typed_by_their_gres() -> None:
    inventory = parse(TREE + NODES)
    of_one = inventory.node_types[node(inventory, "n1").type]
    assert (of_one.gpu, of_one.gpus, of_one.rails, of_one.nic_gbps) == ("H100-80GB", 8, 8, 400.0)
    assert of_one.capacity == Resources(112_000, 2_000_000, (("nvme", 2),))
    other = inventory.node_types[node(inventory, "n3").type]
    assert (other.gpu, other.gpus) == ("GPU", 8)
    assert inventory.cluster == "lab"


def test_node_without_gres_has_no_gpus_where_others_have_some() -> None:
    inventory = parse(TREE + NODES)
    assert inventory.node_types[node(inventory, "n5").type].gpus == 0


def test_nodes_have_labels_for_features_and_taints_for_states() -> None:
    inventory = parse(TREE + NODES)
    assert node(inventory, "n1").labels == {
        "slurm.schedmd.com/feature.hot": "true",
        "slurm.schedmd.com/feature.ib": "true",
    }
    assert node(inventory, "n3").taints == (Taint("slurm.schedmd.com/state", "DRAIN"),)


def test_node_in_no_switch_has_no_place_and_a_warning() -> None:
    inventory = parse(TREE + NODES)
    assert node(inventory, "n5").places == {"block": None, "leaf": None}
    assert has_words(inventory.warnings, "'n5'", "no switch")


def test_node_that_only_the_map_names_is_left_out_with_a_warning() -> None:
    inventory = parse(TREE, nodes_text="NodeName=n[1-3]")
    assert [n.name for n in inventory.nodes] == ["n1", "n2", "n3"]
    assert has_words(inventory.warnings, "'n4'", "not in slurm.conf")


def test_file_without_hardware_gets_the_type_that_the_import_names() -> None:
    mine = NodeType("mine", gpu="H100-80GB", gpus=8)
    inventory = parse(TREE, Options(node_type=mine))
    assert {n.type for n in inventory.nodes} == {"mine"}
    assert not has_words(inventory.warnings, "GPUs")


def test_file_without_hardware_gives_nodes_without_gpus_and_a_warning() -> None:
    inventory = parse(TREE)
    assert [t.gpus for t in inventory.node_types.values()] == [0]
    assert has_words(inventory.warnings, "GPUs", "'n1'", "name a node type")


def test_nodes_alone_make_a_flat_inventory() -> None:
    inventory = parse(NODES)
    assert inventory.levels == ("node",)
    assert len(inventory.nodes) == 5


def test_future_node_is_left_out() -> None:
    inventory = parse("NodeName=n1\nNodeName=n[2-3] State=FUTURE")
    assert [n.name for n in inventory.nodes] == ["n1"]
    assert has_words(inventory.warnings, "n[2-3]", "FUTURE")


def test_several_gpu_models_of_one_node_are_named_together() -> None:
    inventory = parse("NodeName=n1 Gres=gpu:a30:2,gpu:v100:2")
    (found,) = inventory.node_types.values()
    assert (found.gpu, found.gpus) == ("a30+v100", 4)
    assert has_words(inventory.warnings, "line 1", "a30", "v100")


def test_cpus_are_counted_from_sockets_where_they_are_not_told() -> None:
    inventory = parse("NodeName=n1 Sockets=2 CoresPerSocket=56 ThreadsPerCore=2")
    (found,) = inventory.node_types.values()
    assert found.capacity.cpu_milli == 224_000


def test_sizes_of_blocks_make_levels_of_joined_blocks() -> None:
    text = "".join(f"BlockName=b{i} Nodes=n{i}[0-3]\n" for i in range(1, 5)) + "BlockSizes=4,8,16\n"
    inventory = parse(text)
    assert inventory.levels == ("block-8", "block", "node")
    assert set(domains(inventory, "block-8")) == {"b1+b2", "b3+b4"}


def test_gb200_nodes_talk_inside_their_block() -> None:
    text = "BlockName=b1 Nodes=n[1-18]\nBlockSizes=18\nNodeName=n[1-18] Gres=gpu:gb200:4\n"
    (found,) = parse(text).node_types.values()
    assert (found.gpus, found.scale_up) == (4, "block")


def test_block_with_fewer_nodes_than_the_size_is_told() -> None:
    inventory = parse("BlockName=b1 Nodes=n[1-3]\nBlockName=b2 Nodes=n[4-7]\nBlockSizes=4")
    assert has_words(inventory.warnings, "'b1'", "3 nodes", "size 4")


def test_levels_can_be_named_by_the_import() -> None:
    inventory = parse(TREE, Options(level_names=("tor", "pod"), scale_up="tor"))
    assert (inventory.levels, inventory.scale_up) == (("pod", "tor", "node"), "tor")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hello", ("line 1", "Key=Value", "hello")),
        ("", ("SwitchName", "NodeName")),
        ("\n\nSwitchName=a Nodes=n[1-", ("Nodes", "line 3", "n[1-")),
        ("SwitchName=a Node=n1", ("Node", "line 1", "nodes")),
        ("SwitchName=a Nodes=n1 Nodes=n2", ("Nodes", "line 1", "twice")),
        ("SwitchName=a Switches=b", ("Switches", "line 1", "'b'")),
        ("SwitchName=a Switches=b\nSwitchName=b Switches=a", ("cycle", "line 1", "line 2")),
        ("SwitchName=a[1-2] Nodes=n1", ("SwitchName", "line 1", "a[1-2]")),
        ("SwitchName=a Nodes=n!1", ("Nodes", "line 1", "n!1")),
        ("SwitchName=a Nodes=n[1-999999999]", ("Nodes", "line 1", "200000")),
        ("NodeName=n1 Gres=gpu:h100:99", ("Gres", "line 1", "99")),
        ("NodeName=n1 Gres=gpu:a:b:c", ("Gres", "line 1", "gpu:a:b:c")),
        ("NodeName=n1 CPUs=many", ("line 1", "many")),
        ("NodeName=n1 Color=red", ("Color", "line 1")),
        ("NodeName=n1\n\nNodeName=n[1-2]", ("NodeName", "line 3", "lines 1 and 3")),
        ("BlockName=a Nodes=n1\nBlockSizes=4,12", ("BlockSizes", "line 2", "12", "4")),
        ("BlockName=a Nodes=n1\nBlockName=a Nodes=n2", ("BlockName", "line 2", "line 1")),
        ("BlockName=a Nodes=n1\nBlockSizes=x", ("BlockSizes", "line 2", "x")),
        ("BlockName=a", ("Nodes", "line 1", "'a'")),
        ("BlockSizes=4", ("BlockName", "line 1", "without a block")),
        ("SwitchName=a Nodes=n1\nBlockName=b Nodes=n1", ("line 2", "tree", "block")),
        ("RingName=r Nodes=n[1-8]", ("RingName", "line 1", "not supported")),
        ("Include other.conf\nNodeName=n1", ("Include", "line 1")),
        ("SwitchName=a Nodes=" + "n" * 1_000_001, ("line 1", "1000000")),
        (b"SwitchName=a\n\xff", ("line 2", "UTF-8")),
        ("SwitchName=a\x00", ("line 1", "U+0000")),
    ],
)
def test_bad_file_is_refused_with_line_and_field(text: str | bytes, words: tuple[str, ...]) -> None:
    assert has_words(refusal(lambda: parse(text)), *words)


def test_many_problems_are_told_at_once_and_bounded() -> None:
    found = refusal(lambda: parse("SwitchName=a Nodes=n[\n" * 500))
    assert len(found) == 51


def test_repeated_ranges_name_a_node_once() -> None:
    inventory = parse("SwitchName=a Nodes=n[1-3,2-4],n1")
    assert domains(inventory, "leaf") == {"a": "n[1-4]"}


def test_wrong_options_are_refused() -> None:
    assert has_words(refusal(lambda: parse(TREE, Options(scale_up="rack"))), "rack", "block, leaf")
    assert has_words(refusal(lambda: parse(TREE, Options(level_names=("node",)))), "node")
    assert has_words(refusal(lambda: parse(TREE, Options(level_names=("a", "a")))), "twice")


# --- files of others -------------------------------------------------------------------------


def counts(inventory: Inventory) -> list[int]:
    return [len(level.names) for level in build(inventory).topology.levels]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("routetree-case1", [1, 2, 26, 500, 10_000]),
        ("routetree-case2", [1, 14, 26, 500, 10_000]),
        ("routetree-case3", [1, 2, 20, 400]),
        ("routetree-case4", [2, 20, 400]),
        ("routetree-case5", [2, 20, 401]),
        ("routetree-case6", [3, 5, 40]),
    ],
)
def test_maps_of_slurms_own_tests_are_read_with_their_nodes(name: str, found: list[int]) -> None:
    conf = sample(f"slurm/{name}/slurm.conf")
    inventory = parse(sample(f"slurm/{name}/topology.conf"), nodes_text=conf)
    # The node of case 5 that is in no switch has blank domains of its own.
    blank = 1 if name == "routetree-case5" else 0
    assert counts(inventory) == [n + blank for n in found[:-1]] + found[-1:]


def test_group_directly_below_the_root_keeps_its_name_where_a_level_is_skipped() -> None:
    inventory = parse(sample("slurm/routetree-case2/topology.conf"))
    assert node(inventory, "peta15000").places == {
        "tier-4": "root",
        "core": "grp23",
        "block": "grp23",
        "leaf": "leaf350",
    }


def test_trunks_without_a_common_root_stay_apart() -> None:
    inventory = parse(sample("slurm/routetree-case6/topology.conf"))
    assert set(domains(inventory, "block")) == {"spineA", "spineB", "leafC"}


def test_node_outside_the_map_has_no_place() -> None:
    conf = sample("slurm/routetree-case5/slurm.conf")
    inventory = parse(sample("slurm/routetree-case5/topology.conf"), nodes_text=conf)
    assert set(node(inventory, "peta99999").places.values()) == {None}
    assert has_words(inventory.warnings, "'peta99999'", "no switch")


def test_leaves_with_four_parents_make_one_block_of_them() -> None:
    inventory = parse(sample("slurm/guide-01.conf"))
    assert domains(inventory, "block") == {"s4+s5+s6+s7": "tux[0-15]"}
    assert domains(inventory, "leaf")["s3"] == "tux[12-15]"
    assert has_words(inventory.warnings, "'s0'", "'s4' (line 7)", "'s7' (line 10)")


def test_oddities_of_public_sites_are_told_and_cost_no_other_node() -> None:
    inventory = parse(sample("slurm/public-sites.conf"))
    assert inventory.levels == ("leaf", "node")
    assert node(inventory, "pod-n051").places == {"leaf": None}
    assert has_words(inventory.warnings, "'pod-n051'", "'s2' (line 9)", "'s4' (line 11)")
    assert has_words(inventory.warnings, "'n019', 'n020'", "lost its prefix")
    assert domains(inventory, "leaf")["s3"] == "pod-n[040,060,062-077]"


def test_node_of_a_public_site_in_no_switch_is_found_with_the_nodes_file() -> None:
    text = sample("slurm/public-sites.conf")
    inventory = parse(text, nodes_text="NodeName=pod-n[001-080] Gres=gpu:h100:8")
    assert node(inventory, "pod-n059").places == {"leaf": None}
    assert has_words(inventory.warnings, "'n019', 'n020'", "not in slurm.conf")


def test_blocks_below_the_block_size_leave_no_block() -> None:
    text = sample("cyclecloud-slurm/slurm_illegal_block_topology.txt")
    assert has_words(refusal(lambda: parse(text)), "BlockName", "line 17", "comment")


def test_one_block_below_the_block_size_is_absent() -> None:
    inventory = parse(sample("cyclecloud-slurm/slurm_illegal_block_topology_2.txt"))
    assert counts(inventory) == [3, 54]


def test_block_map_of_four_nvlink_domains_is_read() -> None:
    inventory = parse(sample("cyclecloud-slurm/block_topology.txt"))
    assert counts(inventory) == [4, 72]
    found = domains(inventory, "block")["block_5e797fc6-0f46-421a-8724-0e102c0f723c"]
    assert found.startswith("hpcbench-hpc-[1,5,9,13,")


def test_map_with_cycles_of_switches_is_refused() -> None:
    text = sample("cyclecloud-slurm/topology.txt")
    found = refusal(lambda: parse(text))
    assert has_words(found, "cycle", "'ibsw14' (line 14)", "'ibsw47' (line 47)")


def test_examples_of_the_manual_are_three_files_and_refused_as_one() -> None:
    text = sample("slurm/topology-conf-examples.txt")
    assert has_words(refusal(lambda: parse(text)), "tree", "line 7", "block", "line 18", "ring")


def test_block_sizes_of_slurms_test_join_blocks() -> None:
    inventory = parse(sample("slurm/block/topology.conf"))
    assert counts(inventory) == [2, 4, 8, 32]
    assert domains(inventory, "block-16")["b1+b2+b3+b4"] == "node[01-16]"


@pytest.mark.parametrize(
    "name", ["expected.slinky-dra-block.conf", "expected.slinky-oci-sim-tree.conf"]
)
def test_maps_that_topograph_writes_are_read(name: str) -> None:
    inventory = parse(sample(f"topograph/{name}"))
    assert len(inventory.nodes) == 96
    assert len(domains(inventory, inventory.levels[-2])) == 12
