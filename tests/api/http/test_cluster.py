"""The map over HTTP: import, topology, domains, racks, overview."""

import json
from typing import Any

import pytest

from tests.api.http.yard import RACKS, Yard, problems

YAML = {"Content-Type": "application/yaml"}


def test_import_counts_what_it_changed(yard: Yard) -> None:
    first = yard.load()
    assert (first["created"], first["warnings"]) == (12, [])
    again = yard.load()
    assert (again["created"], again["updated"], again["unchanged"]) == (0, 0, 12)
    assert again["revision"] == first["revision"]


def test_dry_run_of_an_import_writes_nothing(yard: Yard) -> None:
    assert yard.load(query="?dry_run=true")["created"] == 12
    assert yard.items("/v1/nodes") == []


def test_prune_removes_what_is_not_named(yard: Yard) -> None:
    yard.load()
    rest = RACKS.replace('  - {names: "b[1-4]", type: small, rack: r2, leaf: l1}\n', "")
    assert yard.load(rest)["removed"] == 0
    assert yard.load(rest, "?prune=true")["removed"] == 4
    assert len(yard.items("/v1/nodes")) == 8


def test_node_that_holds_a_pod_outlives_a_prune(yard: Yard) -> None:
    yard.load()
    yard.submit(parallelism={"tp": 8}, nodes=["b1"])
    yard.cycle()
    rest = RACKS.replace('  - {names: "b[1-4]", type: small, rack: r2, leaf: l1}\n', "")
    found = yard.load(rest, "?prune=true")
    assert (found["removed"], found["kept"]) == (3, 1)
    assert "b1" in str(found["warnings"])


@pytest.mark.parametrize("kind", ["application/json", "text/plain", "text/yaml"])
def test_inventory_may_be_json_or_text(yard: Yard, kind: str) -> None:
    inventory = {
        "levels": ["rack", "node"],
        "node_types": {"t": {"gpu": "G", "gpus": 4}},
        "nodes": [{"names": "n[1-2]", "type": "t", "rack": "r"}],
    }
    answer = yard.call(
        "POST", "/v1/inventory", content=json.dumps(inventory), headers={"Content-Type": kind}
    )
    assert answer.json()["created"] == 2


BAD_INVENTORIES = {
    "a node twice": ('  - {names: "a1", type: small, rack: r1, leaf: l1}', "nodes[3]", "a1"),
    "an unknown type": ("  - {names: x, type: big, rack: r1, leaf: l1}", "nodes[3].type", "big"),
    "an unknown field": (
        "  - {names: x, type: small, rack: r1, leaf: l1, rak: r1}",
        "nodes[3].rak",
        "rak",
    ),
    "10^8 names": (
        '  - {names: "x[1-100000000]", type: small, rack: r1, leaf: l1}',
        "nodes[3].names",
        "100000000",
    ),
    "a malformed hostlist": (
        '  - {names: "x[1-", type: small, rack: r1, leaf: l1}',
        "nodes[3].names",
        "x[1-",
    ),
}


@pytest.mark.parametrize("case", BAD_INVENTORIES)
def test_bad_record_is_named_and_nothing_is_written(yard: Yard, case: str) -> None:
    line, path, word = BAD_INVENTORIES[case]
    text = RACKS.replace("racks:\n", f"{line}\nracks:\n")
    found = problems(yard.call("POST", "/v1/inventory", content=text, headers=YAML), 422)
    assert [p for p in found if p.startswith(path)], found
    assert word in str(found)
    assert yard.items("/v1/nodes") == []


def test_node_without_the_place_of_a_level_is_taken_with_null(yard: Yard) -> None:
    yard.load(RACKS.replace("rack: r3, leaf: l2", "leaf: l2, rack: null"))
    assert yard.ok("GET", "/v1/nodes/c1")["domains"] == {"leaf": "l2", "rack": None}


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{c}: &{c} [{','.join([f'*{p}'] * 9)}]\n" for p, c in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize("text", [BOMB, "[" * 100_000, "nodes: [\n", "a: 1\na: 2\n", "\x00", ""])
def test_hostile_text_is_refused_fast(any_yard: Yard, text: str) -> None:
    answer = any_yard.call("POST", "/v1/inventory", content=text.encode(), headers=YAML)
    assert problems(answer, 422)


@pytest.mark.parametrize("text", [BOMB, "[" * 100_000, "name: [\n", "name: a\nname: b\n", "\x00"])
def test_hostile_yaml_job_is_refused_fast(any_yard: Yard, text: str) -> None:
    answer = any_yard.call("POST", "/v1/jobs", content=text.encode(), headers=YAML)
    assert answer.status_code in {400, 422}
    assert problems(answer, answer.status_code)


def test_unknown_format_names_the_known_ones(any_yard: Yard) -> None:
    answer = any_yard.call("POST", "/v1/inventory?format=nope", content=RACKS, headers=YAML)
    assert "podyard" in problems(answer, 422)["format"]


def test_topology_is_a_tree_with_what_is_free(yard: Yard) -> None:
    yard.load()
    yard.submit(parallelism={"tp": 8}, nodes=["a1"])
    yard.cycle()
    yard.ok("POST", "/v1/nodes/b1/cordon", {})
    found: dict[str, Any] = yard.ok("GET", "/v1/topology")
    assert (found["cluster"], found["levels"]) == ("test", ["leaf", "rack", "node"])
    assert found["levels_detail"] == [
        {"name": "leaf", "domains": 2},
        {"name": "rack", "domains": 3},
        {"name": "node", "domains": 12},
    ]
    leaf = found["tree"][0]
    assert (leaf["name"], leaf["nodes"], leaf["gpus"], leaf["gpus_free"]) == ("l1", 8, 64, 48)
    assert [(rack["name"], rack["gpus_free"]) for rack in leaf["children"]] == [
        ("r1", 24),
        ("r2", 24),
    ]
    assert leaf["children"][0]["children"] == []


def test_empty_service_has_an_empty_map(yard: Yard) -> None:
    assert yard.ok("GET", "/v1/topology")["nodes"] == 0
    assert yard.items("/v1/racks") == []
    assert yard.ok("GET", "/v1/overview")["jobs"] == {}


def test_domains_count_nodes_gpus_jobs_and_health(yard: Yard) -> None:
    yard.load()
    yard.submit(parallelism={"tp": 4, "dp": 2}, nodes=["a1", "a2"])
    yard.cycle()
    yard.ok("POST", "/v1/nodes/a2/cordon", {})
    found = yard.items("/v1/domains?level=rack")[0]
    assert found == {
        "level": "rack",
        "name": "r1",
        "parent": "l1",
        "nodes": 4,
        "nodes_free": 2,
        "gpus": 32,
        "gpus_free": 16,
        "jobs": 1,
        "health": {"healthy": 4},
    }


def test_domains_come_in_pages(yard: Yard) -> None:
    yard.load()
    first = yard.ok("GET", "/v1/domains?level=node&limit=8")
    rest = yard.items(f"/v1/domains?level=node&limit=8&cursor={first['next']}")
    assert [domain["name"] for domain in rest] == ["c1", "c2", "c3", "c4"]


def test_unknown_level_names_the_levels(any_yard: Yard) -> None:
    assert "leaf, rack, node" in any_yard.refused(422, "GET", "/v1/domains?level=rak")["level"]
    assert "required" in any_yard.refused(422, "GET", "/v1/domains")["level"]


def test_racks_show_their_power(yard: Yard) -> None:
    yard.load()
    yard.submit(parallelism={"tp": 8}, nodes=["a1"])
    yard.cycle()
    first, second, _ = yard.items("/v1/racks")
    assert (first["power_kw"], first["power_used_kw"], first["cdu"]) == (45.0, 10.0, "cdu-1")
    assert (second["power_kw"], second["power_used_kw"], second["cdu"]) == (None, 0.0, None)


def test_overview_adds_up(yard: Yard) -> None:
    yard.load()
    yard.submit(parallelism={"tp": 8}, nodes=["a1"])
    yard.cycle()
    yard.ok("POST", "/v1/nodes/b1/cordon", {})
    found = yard.ok("GET", "/v1/overview")
    assert found["nodes"] == {"total": 12, "usable": 11, "free": 10}
    assert found["gpus"] == {"total": 96, "used": 8, "free": 80, "aside": 8}
    assert (found["health"], found["aside"]) == ({"healthy": 12}, {"cordoned": 1})
    assert found["jobs"] == {"bound": 1}
