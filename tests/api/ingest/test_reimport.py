"""The same cluster told again: what differs, what stays, and what contradictions cost."""

from dataclasses import dataclass

import pytest

from tests.api.http.yard import Json, Yard
from tests.api.ingest.imports import (
    assert_unchanged_by,
    counts,
    domains,
    export,
    load,
    node,
    refused,
    revision,
)

TREE = """\
SwitchName=leaf1 Nodes=n[1-4]
SwitchName=leaf2 Nodes=n[5-8]
SwitchName=top Switches=leaf[1-2]
NodeName=n[1-8] CPUs=112 RealMemory=2000000 Gres=gpu:h100:8
"""
OURS = """\
levels: [leaf, rack, node]
node_types: {small: {gpu: CARD, gpus: 8}}
nodes:
  - {names: "a[1-4]", type: small, leaf: l1, rack: r1}
  - {names: "b[1-4]", type: small, leaf: l2, rack: r2}
"""


@dataclass(frozen=True, slots=True)
class Gang:
    """A job that runs, as it is before something happens."""

    pods: list[Json]
    job: Json


def run_gang(yard: Yard, nodes: list[str], **fields: object) -> Gang:
    """A gang with one pod of 8 GPUs on each of these nodes."""
    yard.submit("gang", parallelism={"tp": 8, "dp": len(nodes)}, nodes=nodes, **fields)
    yard.cycle()
    pods = yard.items("/v1/pods")
    assert sorted(str(pod["node"]) for pod in pods) == sorted(nodes)
    return Gang(pods, yard.ok("GET", "/v1/namespaces/default/jobs/gang"))


def held(pods: list[Json]) -> list[tuple[object, ...]]:
    return [(pod["name"], pod["node"], pod["gpus"], pod["ranks"], pod["attempt"]) for pod in pods]


def changed(answer: Json) -> dict[object, object]:
    """Node -> what becomes of it."""
    listed = answer["changes"]
    assert isinstance(listed, list)
    return {found["node"]: found["change"] for found in listed}


# -- the difference -----------------------------------------------------------------------------


def test_dry_run_tells_each_field_of_each_node_that_differs_and_writes_nothing(yard: Yard) -> None:
    load(yard, TREE)
    before = revision(yard), export(yard)
    text = TREE.replace("n[1-4]", "n[1-3]").replace("n[5-8]", "n[4-8]").replace("[1-8]", "[1-9]")
    found = load(yard, text, "dry_run=true")
    assert found["changes"] == [
        {
            "node": "n4",
            "change": "updated",
            "fields": [{"field": "leaf", "from": "leaf1", "to": "leaf2"}],
        },
        {
            "node": "n9",
            "change": "created",
            "fields": [{"field": "type", "from": None, "to": "hgx-h100-112c-2000g"}],
        },
    ]
    assert counts(found) == (1, 1, 7, 0, 0)
    assert (revision(yard), export(yard)) == before
    made = load(yard, text)
    assert made["changes"] == found["changes"]
    assert made["revision"] == revision(yard) != before[0]


def test_difference_tells_labels_taints_and_hardware(yard: Yard) -> None:
    load(yard, TREE)
    text = TREE.replace("Gres=gpu:h100:8", "Gres=gpu:h100:8 Feature=fast State=DOWN")
    first = next(iter(load(yard, text, "dry_run=true")["changes"]))  # type: ignore[call-overload]  # plain JSON
    assert {f["field"]: f["from"] for f in first["fields"]} == {
        "labels.slurm.schedmd.com/feature.fast": None,
        "taints": None,
    }
    bigger = OURS.replace("gpus: 8", "gpus: 8, cpus: 64, power_kw: 9")
    load(yard, OURS, "prune=true")
    found = load(yard, bigger, "dry_run=true")
    at = "node_types.small."
    assert found["cluster_changes"] == [
        {"field": f"{at}power_w", "from": "0", "to": "9000"},
        {"field": f"{at}capacity", "from": "0 CPUs, 0 MiB", "to": "64 CPUs, 0 MiB"},
    ]
    assert set(changed(found).values()) == {"updated"}


def test_difference_tells_what_changes_beside_the_nodes(yard: Yard) -> None:
    load(yard, OURS)
    text = OURS + "racks: [{names: r1, power_kw: 45}]\nsets: {pdu: {p: 'a[1-2]'}}\ncluster: lab\n"
    found = load(yard, text, "dry_run=true")
    assert found["changes"] == []
    assert found["cluster_changes"] == [
        {"field": "cluster", "from": "default", "to": "lab"},
        {"field": "racks.r1", "from": None, "to": "45 kW"},
        {"field": "sets.pdu.p", "from": None, "to": "a[1-2]"},
    ]


def test_difference_of_many_nodes_tells_some_and_counts_the_rest(yard: Yard) -> None:
    found = load(yard, "SwitchName=s Nodes=n[1-700]\n", "dry_run=true")
    assert len(list(found["changes"])) == 500  # type: ignore[call-overload]  # plain JSON
    assert (found["changes_left_out"], found["created"]) == (200, 700)


# -- what stays ---------------------------------------------------------------------------------


@pytest.mark.parametrize("query", ["", "prune=true"])
def test_same_text_again_changes_nothing(yard: Yard, query: str) -> None:
    load(yard, TREE)
    assert counts(assert_unchanged_by(yard, TREE, query)) == (0, 0, 8, 0, 0)


def test_node_with_a_live_pod_is_never_pruned_and_is_told(yard: Yard) -> None:
    load(yard, TREE)
    gang = run_gang(yard, ["n1", "n2"])
    rest = TREE.replace("n[1-4]", "n[3-4]").replace("[1-8]", "[3-8]")
    for query in ("prune=true&dry_run=true", "prune=true"):
        found = load(yard, rest, query)
        assert counts(found) == (0, 0, 6, 0, 2)
        assert changed(found) == {"n1": "kept", "n2": "kept"}
        assert found["warnings"] == [
            f"node '{name}' was not given but holds live pods; it stays" for name in ("n1", "n2")
        ]
    assert held(yard.items("/v1/pods")) == held(gang.pods)
    yard.report_all("succeeded", 0)
    assert counts(load(yard, rest, "prune=true"))[3] == 2


def test_gang_keeps_its_gpus_when_the_levels_change_and_its_rules_are_looked_at(yard: Yard) -> None:
    load(yard, OURS)
    rule = {"group": "job", "within": "rack", "mode": "required"}
    gang = run_gang(yard, ["a1", "a2"], topology=[rule])
    assert gang.job["rules_broken"] == []
    rows = """\
levels: [row, shelf, node]
node_types: {small: {gpu: CARD, gpus: 8}}
nodes:
  - {names: "a[1-4]", type: small, row: w1, shelf: s1}
  - {names: "b[1-4]", type: small, row: w1, shelf: null}
"""
    found = load(yard, rows)
    assert {"field": "levels", "from": "leaf, rack, node", "to": "row, shelf, node"} in list(
        found["cluster_changes"]  # type: ignore[call-overload]  # plain JSON
    )
    yard.cycle()
    job = yard.ok("GET", "/v1/namespaces/default/jobs/gang")
    assert (job["state"], job["attempt"]) == (gang.job["state"], gang.job["attempt"])
    assert [(r["group"], r["within"]) for r in list(job["rules_broken"])] == [("job", "rack")]  # type: ignore[call-overload]  # plain JSON
    assert held(yard.items("/v1/pods")) == held(gang.pods)
    assert yard.items("/v1/pods")[0]["domains"] == {"row": "w1", "shelf": "s1"}
    load(yard, OURS)
    yard.cycle()
    assert yard.ok("GET", "/v1/namespaces/default/jobs/gang")["rules_broken"] == []


def test_gang_that_no_longer_lies_in_one_rack_is_told_and_left_alone(yard: Yard) -> None:
    load(yard, OURS)
    rule = {"group": "job", "within": "rack", "mode": "required"}
    gang = run_gang(yard, ["a1", "a2"], topology=[rule])
    moved = """\
levels: [leaf, rack, node]
nodes: [{names: a1, type: small, leaf: l2, rack: r2}]
node_types: {small: {gpu: CARD, gpus: 8}}
"""
    load(yard, moved)
    yard.cycle()
    job = yard.ok("GET", "/v1/namespaces/default/jobs/gang")
    assert (job["rules_broken"], job["state"]) == (
        [{"group": "job", "within": "rack"}],
        gang.job["state"],
    )
    assert held(yard.items("/v1/pods")) == held(gang.pods)


def test_type_with_fewer_gpus_does_not_take_those_in_use(yard: Yard) -> None:
    load(yard, TREE)
    gang = run_gang(yard, ["n1"])
    found = load(yard, TREE.replace("h100:8", "h100:4"))
    assert (found["updated"], found["kept"]) == (7, 1)
    assert changed(found)["n1"] == "kept"
    assert (node(yard, "n1")["gpus"], node(yard, "n2")["gpus"]) == (8, 4)
    assert held(yard.items("/v1/pods")) == held(gang.pods)


def test_cordon_outlives_a_change_of_format(yard: Yard) -> None:
    load(yard, TREE)
    yard.ok("POST", "/v1/nodes/n1/cordon", {"reason": "fan"})
    load(yard, "host,rack\n" + "".join(f"n{i},r1\n" for i in range(1, 9)), "format=csv")
    shown = node(yard, "n1")
    assert (shown["domains"], shown["gpus"]) == ({"rack": "r1"}, 8)
    assert shown["cordoned"] is not None


# -- what contradicts itself --------------------------------------------------------------------


def test_domain_that_became_ambiguous_costs_only_itself(yard: Yard) -> None:
    load(yard, OURS)
    found = load(yard, OURS.replace("leaf: l2, rack: r2", "leaf: l2, rack: r1"))
    (warning,) = list(found["warnings"])  # type: ignore[call-overload]  # plain JSON
    assert all(word in warning for word in ("rack 'r1'", "'l1'", "'l2'"))
    assert domains(yard, "leaf") == {"l1": 4, "l2": 4}
    assert domains(yard, "rack") == {}
    assert node(yard, "a1")["domains"] == {"leaf": "l1", "rack": None}
    # The nodes take jobs as before, only not by a rule about that rack.
    run_gang(yard, ["a1", "b1"])
    assert domains(yard, "rack") == {}
    load(yard, OURS)
    assert domains(yard, "rack") == {"r1": 4, "r2": 4}


def test_export_of_contradictions_brings_them_back(yard: Yard) -> None:
    found = load(yard, OURS.replace("leaf: l2, rack: r2", "leaf: l2, rack: r1"))
    again = assert_unchanged_by(yard, export(yard))
    assert again["warnings"] == found["warnings"] != []
    assert assert_unchanged_by(yard, export(yard), "prune=true")["warnings"] == found["warnings"]


def test_export_of_places_at_levels_that_are_gone_changes_nothing(yard: Yard) -> None:
    load(yard, OURS)
    load(yard, "levels: [row, node]\nnodes: [{names: a1, type: hgx-h100, row: w}]\n")
    assert_unchanged_by(yard, export(yard))
    assert_unchanged_by(yard, export(yard), "prune=true")


def test_nodes_of_several_types_in_a_rack_are_told(yard: Yard) -> None:
    text = OURS.replace("type: small, leaf: l2, rack: r2", "type: hgx-h100, leaf: l1, rack: r1")
    found = load(yard, text)
    assert found["warnings"] == ["rack 'r1' holds nodes of 2 types: 4 of 'hgx-h100', 4 of 'small'"]


def test_import_that_is_refused_writes_nothing(yard: Yard) -> None:
    load(yard, TREE)
    before = revision(yard), export(yard)
    assert refused(yard, TREE.replace("NodeName=n[1-8]", "NodeName=n[1-8"))
    assert refused(yard, TREE + "SwitchName=top Switches=leaf1\n")
    assert (revision(yard), export(yard)) == before
