"""Models of topograph and the NetQ answers it reads."""

import pytest

from scheduler.importers import slurm_conf
from scheduler.importers.topograph import parse
from tests.core.importers.samples import domains, has_words, node, refusal, sample

MODEL = """
switches:
  core: {switches: [s1, s2]}
  s1: {switches: [l1, l2]}
  s2: {switches: [l3]}
blocks:
- {switch: l1, nodes: ["n[1-2]"], annotations: {accelerator.x/domain: d1}}
- {switch: l2, nodes: ["n[3-4]"], annotations: {accelerator.x/domain: d1}}
- {switch: l3, nodes: ["n5", "n6"], annotations: {accelerator.x/domain: d2}}
"""


def test_scale_up_domains_become_a_level_where_they_nest() -> None:
    inventory = parse(MODEL)
    assert inventory.levels == ("core", "block", "accelerator", "leaf", "node")
    assert inventory.scale_up == "accelerator"
    assert domains(inventory, "accelerator") == {"d1": "n[1-4]", "d2": "n[5-6]"}


def test_scale_up_domain_that_cuts_across_the_leaves_stays_a_named_set() -> None:
    """d2 has half of leaf l2, of which d1 has the other half."""
    text = MODEL.replace('l2, nodes: ["n[3-4]"]', "l2, nodes: [n3]") + (
        "- {switch: l4, nodes: [n4, n7], annotations: {accelerator.x/domain: d2}}\n"
    )
    inventory = parse(text)
    assert inventory.sets["accelerator"] == {
        "d1": ("n1", "n2", "n3"),
        "d2": ("n4", "n5", "n6", "n7"),
    }
    assert domains(inventory, "accelerator")["d1"] == "n[1-3]"


def test_model_without_a_tree_has_its_leaves_alone() -> None:
    inventory = parse("blocks: [{switch: l1, nodes: n1}, {switch: l2, nodes: n2}]")
    assert inventory.levels == ("leaf", "node")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ("empty",)),
        ("text", ("mapping", "text")),
        ("switches: {}", ("blocks", "missing")),
        ("blocks: [{nodes: n1}]", ("blocks[0].switch", "line 1", "missing")),
        ("blocks: [{switch: a, nodes: 'n[1'}]", ("blocks[0].nodes", "n[1")),
        ("blocks:\n- {switch: a, nodes: n1}\n- {switch: a, nodes: n2}", ("line 3", "two blocks")),
        ("blocks: [{switch: a, nodes: n1, colour: red}]", ("colour", "unknown")),
        ("switches: {a: {switches: [a]}}\nblocks: [{switch: a, nodes: n1}]", ("cycle", "'a'")),
        ("switches: {'a b': {}}\nblocks: [{switch: a, nodes: n1}]", ("switches", "'a b'")),
        ('{"provider": {}, "engine": {}}', ("provider", "request")),
        ("[]", ("empty list",)),
        ('[{"DomainUUID": "x"}]', ("[0].Name", "missing")),
        ('[{"Name": "a"}, {"Name": "a"}]', ("[1].Name", "twice")),
        ('[{"links": [{"src": "x", "target": "y"}], "nodes": []}]', ("'x'", "no device")),
    ],
)
def test_bad_model_is_refused_with_its_field(text: str, words: tuple[str, ...]) -> None:
    assert has_words(refusal(lambda: parse(text)), *words)


# --- files of others -------------------------------------------------------------------------


def test_irregular_model_is_read_with_its_empty_and_short_racks() -> None:
    inventory = parse(sample("topograph/dual-xclr-irregular.yaml"))
    assert len(inventory.nodes) == 255
    assert has_words(inventory.warnings, "'rack-1-03'", "'rack-1-13'", "without nodes")
    leaves = domains(inventory, "leaf")
    assert leaves["rack-2-15"] == "node[0271-0275]"
    assert leaves["rack-1-04"] == "node[0028-0030,0032,0034-0036]"
    assert len(leaves) == 29
    assert inventory.levels == ("core", "block", "accelerator", "leaf", "node")


def test_domains_over_three_spines_lie_between_core_and_spine() -> None:
    inventory = parse(sample("topograph/dual-xclr-regular.yaml"))
    assert inventory.levels == ("core", "accelerator", "block", "leaf", "node")
    assert node(inventory, "srv3205").places == {
        "core": "core",
        "accelerator": "nvl-1",
        "block": "spine-3",
        "leaf": "leaf-3-2",
    }
    assert inventory.sets["accelerator-part"]["rack06"][0] == "srv3201"


def test_map_that_topograph_makes_of_a_model_has_the_same_groups() -> None:
    """The published answer for the large model: three levels, twelve leaves of eight."""
    model = parse(sample("topograph/large.yaml"))
    made = slurm_conf.parse(sample("topograph/expected.slinky-oci-sim-tree.conf"))
    for level in ("core", "block", "leaf"):
        assert sorted(domains(model, level).values()) == sorted(domains(made, level).values())


def test_block_map_that_topograph_makes_has_the_models_scale_up_domains() -> None:
    model = parse(sample("topograph/large.yaml"))
    made = slurm_conf.parse(sample("topograph/expected.slinky-dra-block.conf"))
    assert sorted(domains(model, "accelerator").values()) == sorted(domains(made, "block").values())


def test_nvl72_racks_are_read() -> None:
    inventory = parse(sample("topograph/nvl72.yaml"))
    assert domains(inventory, "accelerator")["nvl-2-1"] == "node[2101-2118]"


@pytest.mark.parametrize(
    ("name", "nodes", "leaves"), [("small-tree", 6, 2), ("medium", 8, 4), ("large", 96, 12)]
)
def test_model_has_its_nodes_and_leaves(name: str, nodes: int, leaves: int) -> None:
    inventory = parse(sample(f"topograph/{name}.yaml"))
    assert (len(inventory.nodes), len(domains(inventory, "leaf"))) == (nodes, leaves)


def test_compute_nodes_of_netq_have_a_domain_and_four_gpus() -> None:
    inventory = parse(sample("topograph/computeNodes.json"))
    assert domains(inventory, "accelerator") == {
        "3fbfc98b-7f95-4749-ab11-bd351a2aab3e": "node[1-2]"
    }
    assert [t.gpus for t in inventory.node_types.values()] == [4]


def test_graph_of_netq_has_two_leaves_of_four_hosts() -> None:
    inventory = parse(sample("topograph/topologyGraph.json"))
    assert domains(inventory, "leaf") == {
        "net-unit-l1": "dgx-[01-04]",
        "net-unit-l2": "dgx-[05-08]",
    }
    assert has_words(inventory.warnings, "'net-unit-l2'", "19 uplinks", "28")


@pytest.mark.parametrize("name", ["test-block.json", "test-tree.json"])
def test_request_to_topograph_is_no_model(name: str) -> None:
    text = sample(f"topograph/{name}")
    assert has_words(refusal(lambda: parse(text)), "provider", "request")
