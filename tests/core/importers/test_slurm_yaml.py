"""Slurm's topology.yaml."""

import pytest

from scheduler.importers.slurm_yaml import parse
from tests.core.importers.samples import SAMPLES, domains, has_words, node, refusal, sample

TREE = """
- topology: net
  cluster_default: true
  tree:
    switches:
      - {switch: top, children: "s[1-2]"}
      - {switch: s1, nodes: "n[1-2]"}
      - {switch: s2, nodes: "n[3-4]"}
"""


def test_tree_is_read() -> None:
    inventory = parse(TREE)
    assert inventory.levels == ("block", "leaf", "node")
    assert domains(inventory, "leaf") == {"s1": "n[1-2]", "s2": "n[3-4]"}


def test_one_topology_and_one_switch_may_stand_for_lists() -> None:
    inventory = parse("topology: a\ntree:\n  switches: {switch: s1, nodes: n1}\n")
    assert domains(inventory, "leaf") == {"s1": "n1"}


def test_blocks_are_read_with_their_sizes() -> None:
    inventory = parse(
        "topology: a\nblock:\n  block_sizes: [1, 2]\n  blocks:\n"
        + "".join(f"    - {{block: b{i}, nodes: n{i}}}\n" for i in range(1, 5))
    )
    assert inventory.levels == ("block-2", "block", "node")
    assert domains(inventory, "block-2") == {"b1+b2": "n[1-2]", "b3+b4": "n[3-4]"}


def test_flat_topology_takes_its_nodes_from_slurm_conf() -> None:
    inventory = parse("topology: a\nflat: true", nodes_text="NodeName=n[1-2] Gres=gpu:a100:4")
    assert inventory.levels == ("node",)
    assert [n.name for n in inventory.nodes] == ["n1", "n2"]


def test_topology_can_be_chosen_by_name() -> None:
    text = sample("slurm/slinky-topology.yaml")
    assert domains(parse(text, topology="topo-block"), "block") == {
        "b1": "node[1-2]",
        "b2": "node[3-4]",
    }
    assert has_words(refusal(lambda: parse(text, topology="x")), "'x'", "topo-switch")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", ("list",)),
        ("just text", ("list", "just text")),
        ("topology: a\nflat: true", ("flat", "slurm.conf")),
        ("topology: a\nflat: false", ("no plugin",)),
        ("topology: a\ntree: {}", ("tree", "without switches")),
        ("topology: a\nblock: {}", ("block", "without blocks")),
        ("tree: {switches: []}", ("topology", "missing")),
        ("topology: a\ntree: {switches: [{nodes: n1}]}", ("switches[0].switch", "missing")),
        ("topology: a\ntree: {switches: [{switch: s, colour: red}]}", ("colour", "unknown")),
        ("topology: a\ntree: {switches: [{switch: s, nodes: 'n[1'}]}", ("nodes", "n[1")),
        ("topology: a\ntree: {switches: [{switch: s, nodes: [n1]}]}", ("nodes", "hostlist")),
        (
            "topology: a\nblock: {block_sizes: [x], blocks: [{block: b, nodes: n1}]}",
            ("block_sizes",),
        ),
        ("- 5", ("[0]", "mapping")),
        ("topology: a\ncube: {}", ("cube", "unknown")),
    ],
)
def test_bad_file_is_refused_with_its_field(text: str, words: tuple[str, ...]) -> None:
    assert has_words(refusal(lambda: parse(text)), *words)


def test_root_of_a_published_tree_names_its_children_as_a_range() -> None:
    inventory = parse(sample("slurm/slinky-topology.yaml"))
    assert node(inventory, "node3").places == {"block": "sw_root", "leaf": "s2"}
    assert has_words(inventory.warnings, "topo-switch", "topo-block, topo-flat")


def test_example_of_the_manual_is_read_by_its_default_topology() -> None:
    inventory = parse(sample("slurm/topology-example.yaml"))
    assert domains(inventory, "leaf") == {"s1": "node[01-02]", "s2": "node[03-04]"}


@pytest.mark.parametrize("name", ["guide-04.yaml", "guide-05.yaml", "guide-06.yaml"])
def test_rings_and_tori_are_refused_with_a_clear_word(name: str) -> None:
    text = sample(f"slurm/{name}")
    assert has_words(refusal(lambda: parse(text)), "line 1", "not supported", "tree, block, flat")


BAD_YAML = {
    "block_bad_options": ("BlockSizes", "12", "4"),
    "block_blocks_not_list": ("block.blocks", "a list"),
    "block_not_dict": ("block", "a mapping"),
    "flat_bad_options": ("topology", "no plugin"),
    "flat_bool_mutually_exclusive": ("flat", "one plugin"),
    "flat_dict_mutually_exclusive": ("flat", "one plugin"),
    "ring_bad_options": ("ring", "not supported"),
    "ring_mutually_exclusive": ("ring", "one plugin"),
    "ring_not_dict": ("ring", "a mapping"),
    "ring_rings_not_list": ("ring.rings", "a list"),
    "root_not_list": ("a list", "topology/tree"),
    "torus3d_mutually_exclusive": ("torus3d", "one plugin"),
    "torus3d_not_dict": ("torus3d", "a mapping"),
    "torus3d_placements_not_list": ("torus3d", "not supported"),
    "torus3d_regions_not_list": ("torus3d", "not supported"),
    "torus3d_toruses_not_list": ("torus3d.toruses", "a list"),
    "torus_bad_options": ("torus3d", "not supported"),
    "tree_bad_options": ("Switches", "'sw_root'", "'s3'"),
    "tree_mutually_exclusive": ("one plugin", "tree", "block"),
    "tree_not_dict": ("tree", "a mapping"),
    "tree_switches_not_list": ("tree.switches", "a list"),
}


@pytest.mark.parametrize("name", BAD_YAML)
def test_what_slurm_must_refuse_is_refused_with_line_and_field(name: str) -> None:
    text = sample(f"slurm/bad-yaml/{name}.yaml")
    assert has_words(refusal(lambda: parse(text)), "line ", *BAD_YAML[name])


def test_every_file_that_slurm_must_refuse_is_looked_at() -> None:
    sample("slurm/bad-yaml/root_not_list.yaml")
    there = {path.stem for path in (SAMPLES / "slurm/bad-yaml").iterdir()}
    assert there == set(BAD_YAML)
