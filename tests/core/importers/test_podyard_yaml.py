import json
import time

import pytest

from scheduler.errors import InventoryError, Problem
from scheduler.importers.node_type_data import BUILT_IN
from scheduler.importers.podyard_yaml import parse
from scheduler.model.node import FabricLevel, RackRecord, Taint, TaintEffect
from scheduler.model.resources import Resources
from scheduler.topology.build import build

DESIGN = """
cluster: demo
levels: [block, leaf, rack, node]
scale_up: node
node_types:
  hgx-h100: {gpu: H100-80GB, gpus: 8, rails: 8, nic_gbps: 400, power_kw: 10.2, cpus: 112,
             memory_gib: 2048}
nodes:
  - {names: "n[001-004]", type: hgx-h100, block: b1, leaf: l1, rack: r01, labels: {zone: a},
     taints: []}
racks:
  - {names: "r[01-08]", power_kw: 45, cdu: cdu-1}
fabric:
  levels: {leaf: {gbps_per_gpu: 400}, block: {gbps_per_gpu: 400, oversubscription: 1}}
"""


def problems(text: str) -> list[Problem]:
    with pytest.raises(InventoryError) as caught:
        parse(text)
    return list(caught.value.problems)


def with_entry(entry: str, *, head: str = "levels: [rack, node]") -> str:
    """An inventory of one node entry."""
    return f"{head}\nnodes:\n  - {entry}\n"


def node_problem(entry: str) -> Problem:
    """The one problem of an entry, whose line is known."""
    (problem,) = problems(with_entry(entry))
    assert problem.message.startswith("line 3: ")
    return Problem(problem.path, problem.message.removeprefix("line 3: "))


def test_inventory_of_the_design_page_is_read() -> None:
    inventory = parse(DESIGN)
    assert inventory.cluster == "demo"
    assert inventory.levels == ("block", "leaf", "rack", "node")
    assert [node.name for node in inventory.nodes] == ["n001", "n002", "n003", "n004"]
    assert inventory.nodes[0].places == {"block": "b1", "leaf": "l1", "rack": "r01"}
    assert inventory.nodes[0].labels == {"zone": "a"}
    assert inventory.racks[7] == RackRecord("r08", 45_000, "cdu-1")
    assert inventory.fabric["leaf"] == FabricLevel(400.0, 1.0)
    assert list(inventory.node_types) == ["hgx-h100"]
    assert len(build(inventory).topology.nodes) == 4


def test_inventory_may_be_json() -> None:
    value = {
        "levels": ["rack", "node"],
        "nodes": [{"names": ["n[1-2]", "m1"], "type": "dgx-h100", "rack": None}],
    }
    inventory = parse(json.dumps(value))
    assert [node.name for node in inventory.nodes] == ["m1", "n1", "n2"]
    assert inventory.nodes[0].places == {"rack": None}


def test_inventory_of_a_card_is_read() -> None:
    """A type with nothing but GPUs and rails; levels with names of their own."""
    inventory = parse(
        """
        cluster: card
        levels: [domain, rack, node]
        scale_up: node
        node_types: {card-4: {gpu: CARD, gpus: 4, rails: 4}}
        nodes:
        - {type: card-4, names: 'a[0-3]', rack: r1, domain: A}
        """
    )
    assert inventory.node_types["card-4"].gpus == 4
    assert inventory.node_types["card-4"].rail_of_gpu == (0, 1, 2, 3)
    assert inventory.nodes[3].places == {"domain": "A", "rack": "r1"}


def test_what_is_not_written_has_defaults() -> None:
    inventory = parse("nodes: []")
    assert inventory.levels == ("block", "leaf", "rack", "node")
    assert (inventory.cluster, inventory.scale_up) == ("default", "node")
    assert (inventory.nodes, inventory.racks, inventory.sets) == ((), (), {})


def test_null_sections_count_as_missing() -> None:
    text = "nodes: []\ncluster:\nlevels:\nscale_up:\nnode_types:\nracks:\nsets:\nfabric:\n"
    assert parse(text) == parse("nodes: []")


def test_whole_numbers_are_names_as_written() -> None:
    text = with_entry("{names: 007, type: dgx-h100, rack: 12, labels: {row: 3}}")
    (node,) = parse(text).nodes
    assert (node.name, node.places["rack"], node.labels["row"]) == ("007", "12", "3")


def test_nodes_are_in_natural_order_whatever_the_order_of_entries() -> None:
    entries = [f"{{names: n{i}, type: dgx-h100, rack: r1}}" for i in (10, 9, 1)]
    inventory = parse("levels: [rack, node]\nnodes:\n" + "".join(f"- {e}\n" for e in entries))
    assert [node.name for node in inventory.nodes] == ["n1", "n9", "n10"]


def test_labels_and_taints_are_as_in_kubernetes() -> None:
    (node,) = parse(
        with_entry(
            "{names: n1, type: cpu, rack: r1, labels: {example.org/zone: a, empty: ''}, taints: ["
            "{key: z, value: x, effect: NoExecute}, {key: a}, {key: z, effect: PreferNoSchedule}]}"
        )
    ).nodes
    assert node.labels == {"empty": "", "example.org/zone": "a"}
    assert node.taints == (
        Taint("a", "", TaintEffect.NO_SCHEDULE),
        Taint("z", "", TaintEffect.PREFER_NO_SCHEDULE),
        Taint("z", "x", TaintEffect.NO_EXECUTE),
    )


def test_sets_are_read_by_kind_and_name() -> None:
    inventory = parse("nodes: []\nsets: {ups: {a: 'n[1-2],n1', b: [n3, 'n[4-5]'], c: []}}")
    assert inventory.sets == {"ups": {"a": ("n1", "n2"), "b": ("n3", "n4", "n5"), "c": ()}}


def test_aliases_share_what_entries_have_in_common() -> None:
    inventory = parse(
        "levels: [rack, node]\nnodes:\n"
        "- {names: n1, type: cpu, rack: r1, labels: &common {zone: a}}\n"
        "- {names: n2, type: cpu, rack: r1, labels: *common}\n"
    )
    assert inventory.nodes[1].labels == {"zone": "a"}


def test_built_in_type_is_changed_field_by_field() -> None:
    text = with_entry(
        "{names: n1, type: gb200-tray, rack: r1}",
        head="levels: [rack, node]\nnode_types: {gb200-tray: {power_kw: 6, scale_up: null}}",
    )
    node_type = parse(text).node_types["gb200-tray"]
    assert (node_type.power_w, node_type.scale_up) == (6_000, None)
    assert node_type.scale_up_gbps == BUILT_IN["gb200-tray"].scale_up_gbps


def test_type_of_ones_own_has_every_field() -> None:
    text = """
    nodes: []
    node_types:
      mine:
        gpu: X1
        gpus: 4
        rails: 2
        rail_of_gpu: [0, 0, 1, 1]
        nic_gbps: 200
        scale_up: rack
        scale_up_gbps: 800.5
        power_kw: 2.5
        cpus: 64.5
        memory_gib: 512
        nvme_gb: 1000
        resources: {example.org/fpga: 2, licence: 0}
        source: the label on its back
    """
    node_type = parse(text).node_types["mine"]
    assert (node_type.gpu, node_type.gpus, node_type.rails) == ("X1", 4, 2)
    assert node_type.rail_of_gpu == (0, 0, 1, 1)
    assert (node_type.nic_gbps, node_type.scale_up, node_type.scale_up_gbps) == (200, "rack", 800.5)
    assert (node_type.power_w, node_type.nvme_gb) == (2_500, 1_000)
    assert node_type.capacity == Resources(64_500, 512 * 1_024, (("example.org/fpga", 2),))
    assert node_type.source == "the label on its back"


@pytest.mark.parametrize(
    ("gpus", "rails", "table"),
    [
        (8, 8, tuple(range(8))),
        (8, 4, (0, 0, 1, 1, 2, 2, 3, 3)),
        (4, 8, (0, 1, 2, 3)),
        (2, 0, (0, 1)),
    ],
)
def test_rails_follow_the_gpus_where_no_table_is_given(
    gpus: int, rails: int, table: tuple[int, ...]
) -> None:
    text = f"nodes: []\nnode_types: {{t: {{gpu: X, gpus: {gpus}, rails: {rails}}}}}"
    assert parse(text).node_types["t"].rail_of_gpu == table


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        ("", "", "the text is empty"),
        ("12", "", "an inventory is a mapping; found 12"),
        ("[]", "", "an inventory is a mapping; found a list"),
        ("{}", "nodes", "missing; write `nodes: []` for none"),
        ("nodes: {}", "nodes", "line 1: must be a list of mappings; found a mapping"),
        ("nodes: [n1]", "nodes[0]", "line 1: must be a mapping; found 'n1'"),
        ("nodes: []\nnode: []", "node", "unknown field; allowed are cluster, levels, scale_up,"),
        ("nodes: []\ncluster: [a]", "cluster", "must be a name, in quotes if it looks like"),
        ("nodes: []\ncluster: a b", "cluster", "'a b' is not a name; it has letters, digits"),
        ("nodes: []\nscale_up: row", "scale_up", "'row' is not among the levels block, leaf, rack"),
        ("nodes: []\nlevels: rack", "levels", "the last level is 'node'; found rack"),
        ("nodes: []\nlevels: []", "levels", "the last level is 'node'; found none"),
        ("nodes: []\nlevels: [node, rack]", "levels", "the last level is 'node'; found node, rack"),
        ("nodes: []\nlevels: [r, r, node]", "levels", "'r' comes twice"),
        ("nodes: []\nlevels: [a/b, node]", "levels", "'a/b' is not a name"),
        ("nodes: []\nlevels: [1.5, node]", "levels", "must be text or a list of texts"),
        ("nodes: []\nlevels: {a: b}", "levels", "must be text or a list of texts; found a mapping"),
        ("nodes: []\nlevels: [type, node]", "levels", "'type' cannot name a level"),
        ("nodes: []\nlevels: [scale_up, node]", "levels", "'scale_up' cannot name a level"),
        (
            f"nodes: []\nlevels: [{', '.join(f'l{i}' for i in range(16))}, node]",
            "levels",
            "there are 17 levels; at most 16 are allowed",
        ),
        ("nodes: []\nnode_types: [a]", "node_types", "must be a mapping; found a list"),
        ("nodes: []\nnode_types: {a: 1}", "node_types.a", "must be a mapping; found 1"),
        ("nodes: []\nracks: 1", "racks", "must be a list of mappings; found 1"),
        ("nodes: []\nracks: [{}]", "racks[0].names", "missing; names are a hostlist or a list"),
        (
            "nodes: []\nracks: [{names: a, kw: 1}]",
            "racks[0].kw",
            "unknown field; allowed are names",
        ),
        (
            "nodes: []\nracks: [{names: a, power_kw: -1}]",
            "racks[0].power_kw",
            "must be a number from 0 to 10000; found -1",
        ),
        ("nodes: []\nracks: [{names: a, cdu: [b]}]", "racks[0].cdu", "must be a name or null"),
        ("nodes: []\nracks: [{names: 'a;b'}]", "racks[0].names", "'a;b' is not a name"),
        (
            "nodes: []\nracks: [{names: 'r[1-3]'}, {names: 'r[2-3]'}]",
            "racks[1].names",
            "rack 'r2' and 1 more are in racks[0] and racks[1]; a rack has one entry",
        ),
        ("nodes: []\nsets: [a]", "sets", "must be a mapping; found a list"),
        ("nodes: []\nsets: {ups: a}", "sets.ups", "must be a mapping; found 'a'"),
        ("nodes: []\nsets: {ups: {a: 'n['}}", "sets.ups.a", "hostlist 'n['"),
        ("nodes: []\nsets: {ups: {a: }}", "sets.ups.a", "missing; names are a hostlist"),
        ("nodes: []\nsets: {ups: {a b: n1}}", "sets.ups.a b", "'a b' is not a name"),
        ("nodes: []\nsets: {'': {a: n1}}", "sets.", "'' is not a name"),
        ("nodes: []\nsets: {ups: {a: 'n[1-2000000]'}}", "sets.ups.a", "at most 300000 are"),
        ("nodes: []\nfabric: {level: {}}", "fabric.level", "unknown field; allowed are levels"),
        (
            "nodes: []\nfabric: {levels: {spine: {gbps_per_gpu: 1}}}",
            "fabric.levels.spine",
            "'spine' is not among the levels block, leaf, rack, node",
        ),
        (
            "nodes: []\nfabric: {levels: {leaf: {}}}",
            "fabric.levels.leaf.gbps_per_gpu",
            "missing; write one GPU's bandwidth",
        ),
        (
            "nodes: []\nfabric: {levels: {leaf: {gbps_per_gpu: 0}}}",
            "fabric.levels.leaf.gbps_per_gpu",
            "must be a number from 0.001 to 1e+06; found 0",
        ),
        (
            "nodes: []\nfabric: {levels: {leaf: {gbps_per_gpu: 1, oversubscription: 0.5}}}",
            "fabric.levels.leaf.oversubscription",
            "must be a number from 1 to 1000; found 0.5",
        ),
        (
            "nodes: []\nfabric: {levels: {leaf: {gbps_per_gpu: 1, mtu: 9000}}}",
            "fabric.levels.leaf.mtu",
            "unknown field; allowed are gbps_per_gpu, oversubscription",
        ),
    ],
)
def test_inventory_is_refused_at_the_path_of_the_field(text: str, path: str, message: str) -> None:
    (problem,) = problems(text)
    assert problem.path == path
    assert message in problem.message


@pytest.mark.parametrize(
    ("fields", "path", "message"),
    [
        ("{}", "gpus", "missing; write how many GPUs a node of type 't' has, or 0"),
        ("{gpus: 1}", "gpu", "a type with 1 GPUs names its model"),
        ("{gpu: X, gpus: 0}", "gpu", "a type with 0 GPUs has no model"),
        ("{gpu: X, gpus: 63}", "gpus", "must be a whole number from 0 to 62; found 63"),
        ("{gpu: X, gpus: -1}", "gpus", "must be a whole number from 0 to 62; found -1"),
        ("{gpu: X, gpus: 1.5}", "gpus", "must be a whole number from 0 to 62; found 1.5"),
        ("{gpu: X, gpus: true}", "gpus", "must be a whole number from 0 to 62; found true"),
        ("{gpu: X, gpus: '8'}", "gpus", "must be a whole number from 0 to 62; found '8'"),
        ("{gpu: X, gpus: 08}", "gpus", "must be a whole number from 0 to 62; found '08'"),
        ("{gpu: [X], gpus: 1}", "gpu", "must be printable text of at most 1000 characters"),
        ('{gpu: "a\\tb", gpus: 1}', "gpu", "must be printable text of at most 1000 characters"),
        ("{gpu: X, gpus: 2, rails: 99}", "rails", "must be a whole number from 0 to 62; found 99"),
        ("{gpu: X, gpus: 2, rail_of_gpu: 1}", "rail_of_gpu", "must be a list of 2 whole numbers"),
        ("{gpu: X, gpus: 2, rail_of_gpu: [0]}", "rail_of_gpu", "from 0 to 61"),
        ("{gpu: X, gpus: 2, rails: 2, rail_of_gpu: [0, 2]}", "rail_of_gpu", "from 0 to 1"),
        ("{gpu: X, gpus: 2, rail_of_gpu: [0, true]}", "rail_of_gpu", "must be a list of 2 whole"),
        ("{gpus: 0, nic_gbps: -1}", "nic_gbps", "must be a number from 0 to 1e+06; found -1"),
        ("{gpus: 0, nic_gbps: NaN}", "nic_gbps", "must be a number from 0 to 1e+06; found 'NaN'"),
        ("{gpus: 0, nic_gbps: true}", "nic_gbps", "must be a number from 0 to 1e+06; found true"),
        ("{gpus: 0, scale_up_gbps: 1e300}", "scale_up_gbps", "from 0 to 1e+06; found 1e+300"),
        ("{gpus: 0, scale_up: [a]}", "scale_up", "must be a name, in quotes if it looks like"),
        ("{gpus: 0, scale_up: row}", "scale_up", "the GPUs of type 't' talk inside one 'row'"),
        ("{gpus: 0, power_kw: lots}", "power_kw", "must be a number from 0 to 1000; found 'lots'"),
        ("{gpus: 0, cpus: -1}", "cpus", "must be a number from 0 to 100000; found -1"),
        ("{gpus: 0, memory_gib: 1e9}", "memory_gib", "must be a number from 0 to 1e+06; found"),
        ("{gpus: 0, nvme_gb: 0.5}", "nvme_gb", "must be a whole number from 0 to"),
        ("{gpus: 0, resources: [a]}", "resources", "must be a mapping; found a list"),
        ("{gpus: 0, resources: {a: -1}}", "resources.a", "must be a whole number from 0 to"),
        ("{gpus: 0, resources: {a b: 1}}", "resources.a b", "'a b' is not a label's key"),
        ("{gpus: 0, source: " + "x" * 1_001 + "}", "source", "of at most 1000 characters"),
        ("{gpus: 0, cores: 4}", "cores", "unknown field; allowed are gpu, gpus, rails,"),
    ],
)
def test_node_type_is_refused_at_the_path_of_the_field(
    fields: str, path: str, message: str
) -> None:
    (problem,) = problems(f"nodes: []\nnode_types:\n  t: {fields}\n")
    assert problem.path == f"node_types.t.{path}"
    assert message in problem.message


def test_malformed_type_name_is_refused() -> None:
    (problem,) = problems("nodes: []\nnode_types: {a b: {gpus: 0}}")
    assert problem.path == "node_types.a b"


@pytest.mark.parametrize(
    ("entry", "path", "message"),
    [
        ("{type: cpu, rack: r1}", "names", "missing; names are a hostlist or a list of them"),
        ("{names: [], type: cpu, rack: r1}", "names", "missing; names are a hostlist"),
        ("{names: 'n[', type: cpu, rack: r1}", "names", "expected a number at position 3"),
        ("{names: [n1, 'n[2'], type: cpu, rack: r1}", "names", "bracket at position 2 is not"),
        ("{names: [1.5], type: cpu, rack: r1}", "names", "must be text or a list of texts"),
        ("{names: n$, type: cpu, rack: r1}", "names", "'n$' is not a name"),
        ("{names: -n, type: cpu, rack: r1}", "names", "'-n' is not a name"),
        ("{names: n., type: cpu, rack: r1}", "names", "'n.' is not a name"),
        ("{names: a/b, type: cpu, rack: r1}", "names", "'a/b' is not a name"),
        ("{names: nä, type: cpu, rack: r1}", "names", "'nä' is not a name"),
        ("{names: " + "n" * 254 + ", type: cpu, rack: r1}", "names", "a name of 254 characters"),
        ("{names: 'n[1-2],n1', type: cpu, rack: r1}", "names", "'n1' comes twice in nodes[0]"),
        ("{names: n1, rack: r1}", "type", "missing; known types are dgx-a100, hgx-a100,"),
        (
            "{names: n1, type: dgx, rack: r1}",
            "type",
            "unknown type 'dgx'; known types are dgx-a100",
        ),
        (
            "{names: n1, type: cpu}",
            "rack",
            "missing; name the rack of these nodes, or write `rack: ",
        ),
        ("{names: n1, type: cpu, rack: ''}", "rack", "'' is not a name"),
        ("{names: n1, type: cpu, rack: [r1]}", "rack", "must be a name or null"),
        ("{names: n1, type: cpu, rack: 1.10}", "rack", "in quotes if it looks like something else"),
        ("{names: n1, type: cpu, rack: true}", "rack", "in quotes if it looks like something else"),
        (
            "{names: n1, type: cpu, rack: " + "r" * 254 + "}",
            "rack",
            "has 254 characters; at most 253",
        ),
        ("{names: n1, type: cpu, rack: r1, leaf: l1}", "leaf", "unknown field; allowed are names,"),
        ("{names: n1, type: cpu, rack: r1, node: n1}", "node", "unknown field; allowed are names,"),
        ("{names: n1, type: cpu, rack: r1, labels: [a]}", "labels", "must be a mapping; found a"),
        (
            "{names: n1, type: cpu, rack: r1, labels: {-a: b}}",
            "labels",
            "'-a' is not a label's key",
        ),
        (
            "{names: n1, type: cpu, rack: r1, labels: {a: b c}}",
            "labels.a",
            "'b c' is not a label's",
        ),
        (
            "{names: n1, type: cpu, rack: r1, labels: {a: true}}",
            "labels.a",
            "must be text, in quotes",
        ),
        (
            "{names: n1, type: cpu, rack: r1, labels: {a: }}",
            "labels.a",
            "text, in quotes; found null",
        ),
        ("{names: n1, type: cpu, rack: r1, taints: a}", "taints", "must be a list of mappings"),
        ("{names: n1, type: cpu, rack: r1, taints: [a]}", "taints[0]", "must be a mapping; found"),
        ("{names: n1, type: cpu, rack: r1, taints: [{}]}", "taints[0].key", "missing"),
        (
            "{names: n1, type: cpu, rack: r1, taints: [{key: a b}]}",
            "taints[0].key",
            "'a b' is not a label's key",
        ),
        (
            "{names: n1, type: cpu, rack: r1, taints: [{key: a, value: b c}]}",
            "taints[0].value",
            "'b c' is not a label's value",
        ),
        (
            "{names: n1, type: cpu, rack: r1, taints: [{key: a, effect: No}]}",
            "taints[0].effect",
            "'No' is none of NoSchedule, PreferNoSchedule, NoExecute",
        ),
        (
            "{names: n1, type: cpu, rack: r1, taints: [{key: a, op: b}]}",
            "taints[0].op",
            "unknown field; allowed are key, value, effect",
        ),
        (
            "{names: n1, type: cpu, rack: r1, taints: [{key: a}, {key: a, value: b}]}",
            "taints[1].key",
            "the taint 'a' with effect 'NoSchedule' comes twice",
        ),
    ],
)
def test_node_entry_is_refused_at_the_path_of_the_field(
    entry: str, path: str, message: str
) -> None:
    problem = node_problem(entry)
    assert problem.path == f"nodes[0].{path}"
    assert message in problem.message


def test_node_in_two_entries_is_refused_with_both() -> None:
    (problem,) = problems(
        "levels: [rack, node]\nnodes:\n"
        "- {names: 'n[1-5]', type: cpu, rack: r1}\n"
        "- {names: n9, type: cpu, rack: r1}\n"
        "- {names: 'n[4-6]', type: cpu, rack: r2}\n"
    )
    assert problem.path == "nodes[2].names"
    assert "node 'n4' and 1 more are in nodes[0] and nodes[2]; a node has one" in problem.message


def test_scale_up_level_of_a_built_in_type_must_be_there() -> None:
    text = with_entry("{names: n1, type: gb200-tray, leaf: l1}", head="levels: [leaf, node]")
    (problem,) = problems(text)
    assert problem.path == "node_types.gb200-tray.scale_up"
    assert "talk inside one 'rack', which is not among the levels leaf, node" in problem.message
    assert "node_types: {gb200-tray: {scale_up: node}}" in problem.message


def test_every_problem_is_told_at_once() -> None:
    found = problems(
        "cluster: a b\nlevels: [rack, node]\nnodes:\n"
        "- {names: n1, type: no-such, rack: r1}\n"
        "- {names: n1, type: cpu}\n"
        "racks: [{names: r1, power_kw: x}]\n"
    )
    assert [problem.path for problem in found] == [
        "nodes[0].type",
        "nodes[1].names",
        "nodes[1].rack",
        "cluster",
        "racks[0].power_kw",
    ]


def test_no_more_than_fifty_problems_are_told() -> None:
    entries = "".join(f"- {{names: n{i}, type: cpu}}\n" for i in range(100))
    found = problems(f"levels: [rack, node]\nnodes:\n{entries}")
    assert len(found) == 51
    assert found[49].path == "nodes[49].rack"
    assert found[50].path == ""


@pytest.mark.parametrize(
    "names",
    ["n[0-99999999]", "[n[0-99999999], n1]", "n[1-1000]x[1-1000]x[1-1000]"],
)
def test_hostlist_of_a_hundred_million_names_is_refused_at_once(names: str) -> None:
    start = time.perf_counter()
    problem = node_problem(f"{{names: '{names}', type: cpu, rack: r1}}")
    assert time.perf_counter() - start < 2
    assert problem.path == "nodes[0].names"


def test_nodes_of_all_entries_are_counted_together() -> None:
    entries = "".join(f"- {{names: 'n{i}-[1-90000]', type: cpu, rack: r1}}\n" for i in range(3))
    (problem,) = problems(f"levels: [rack, node]\nnodes:\n{entries}")
    assert problem.path == "nodes[2].names"
    assert "stands for 90000 names beside 180000 before it; at most 200000" in problem.message


def test_ten_thousand_entries_are_read_in_ten_seconds() -> None:
    entries = "".join(
        f"- {{names: n{i}, type: dgx-h100, block: b1, leaf: l{i // 32}, rack: r{i // 4}}}\n"
        for i in range(10_000)
    )
    start = time.perf_counter()
    inventory = parse("nodes:\n" + entries)
    assert time.perf_counter() - start < 10
    assert len(inventory.nodes) == 10_000
