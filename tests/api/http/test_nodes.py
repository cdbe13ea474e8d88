"""Nodes over HTTP."""

import pytest

from tests.api.http.yard import Yard


def names(yard: Yard, query: str = "") -> list[object]:
    return [node["name"] for node in yard.items(f"/v1/nodes{query}")]


def test_node_shows_what_it_has_and_where_it_is(yard: Yard) -> None:
    yard.load()
    node = yard.ok("GET", "/v1/nodes/c1")
    assert node | {"revision": 0} == {
        "name": "c1",
        "type": "small",
        "gpu": "CARD",
        "gpus": 8,
        "gpus_free": 8,
        "cpus": 0.0,
        "memory_gib": 0.0,
        "health": "healthy",
        "why": "",
        "since": None,
        "fenced": False,
        "has_agent": False,
        "faults": [],
        "lemon": False,
        "quarantined_until": None,
        "mismatch": "",
        "cordoned": None,
        "draining": None,
        "domains": {"leaf": "l2", "rack": "r3"},
        "labels": {"zone": "c"},
        "taints": [],
        "pods": 0,
        "revision": 0,
    }


def test_nodes_are_filtered_by_domain_health_type_and_name(yard: Yard) -> None:
    yard.load()
    assert names(yard, "?domain=rack:r2") == ["b1", "b2", "b3", "b4"]
    assert names(yard, "?name=*3") == ["a3", "b3", "c3"]
    assert names(yard, "?name=a?&domain=leaf:l1") == ["a1", "a2", "a3", "a4"]
    assert names(yard, "?health=lost") == []
    assert len(names(yard, "?health=healthy&type=small")) == 12
    assert names(yard, "?type=large") == []
    assert "leaf/nope" in yard.refused(404, "GET", "/v1/nodes?domain=leaf:nope")[""]


def test_filtered_nodes_come_in_full_pages(yard: Yard) -> None:
    yard.load()
    first = yard.ok("GET", "/v1/nodes?name=*4&limit=2")
    second = yard.ok("GET", f"/v1/nodes?name=*4&limit=2&cursor={first['next']}")
    assert isinstance(first["items"], list)
    assert isinstance(second["items"], list)
    assert [node["name"] for node in first["items"]] == ["a4", "b4"]
    assert [node["name"] for node in second["items"]] == ["c4"]


@pytest.mark.parametrize("text", ["r1", "rak:r1", ":r1"])
def test_malformed_domain_filter_names_the_levels(any_yard: Yard, text: str) -> None:
    found = any_yard.refused(422, "GET", f"/v1/nodes?domain={text}")
    assert "leaf, rack, node" in found["domain"]


def test_cordoned_node_says_why_and_takes_no_pods(yard: Yard) -> None:
    yard.load()
    node = yard.ok("POST", "/v1/nodes/a1/cordon", {"reason": "fan"})
    assert node["cordoned"] == {"reason": "fan", "by": "", "at": "2026-01-01T00:00:00.000Z"}
    yard.submit(parallelism={"tp": 8}, nodes=["a1"])
    yard.cycle()
    assert yard.ok("GET", "/v1/namespaces/default/jobs/job")["state"] == "pending"
    assert yard.ok("POST", "/v1/nodes/a1/uncordon", {})["cordoned"] is None
    yard.cycle()
    assert yard.ok("GET", "/v1/namespaces/default/jobs/job")["state"] == "bound"


def test_cordon_needs_no_body(yard: Yard) -> None:
    yard.load()
    assert yard.ok("POST", "/v1/nodes/a1/cordon")["cordoned"] is not None
    assert yard.ok("POST", "/v1/nodes/a1/uncordon")["cordoned"] is None


def test_node_that_does_not_exist_is_named(any_yard: Yard) -> None:
    for method, path in (("GET", ""), ("POST", "/cordon"), ("POST", "/uncordon")):
        assert "nope" in any_yard.refused(404, method, f"/v1/nodes/nope{path}")[""]
