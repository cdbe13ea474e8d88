"""Faults of nodes and sets over HTTP."""

import pytest

from tests.api.http.yard import Yard

FAULTS = "/v1/nodes/a1/faults"


def test_lost_node_is_fenced_and_healthy_again_when_the_fault_is_cleared(yard: Yard) -> None:
    yard.load()
    fault = yard.ok("POST", FAULTS, {"code": "node_lost", "message": "no answer"})
    assert (fault["node"], fault["code"], fault["action"]) == ("a1", "node_lost", "replace")
    node = yard.ok("GET", "/v1/nodes/a1")
    assert (node["health"], node["fenced"]) == ("lost", True)
    assert node["why"] == "fault node_lost: no answer"
    assert node["since"] == fault["at"] == "2026-01-01T00:00:00.000Z"
    faults = node["faults"]
    assert isinstance(faults, list)
    assert [f["id"] for f in faults] == [fault["id"]]
    over = yard.ok("DELETE", f"{FAULTS}/{fault['id']}")
    assert over["cleared_at"] == "2026-01-01T00:00:00.000Z"
    assert yard.ok("DELETE", f"{FAULTS}/{fault['id']}") == over
    node = yard.ok("GET", "/v1/nodes/a1")
    assert (node["health"], node["fenced"], node["faults"]) == ("healthy", False, [])


def test_the_same_fault_again_is_the_same_while_it_is_open(yard: Yard) -> None:
    yard.load()
    first = yard.call("POST", FAULTS, {"xid": 79, "gpus": [3]})
    again = yard.call("POST", FAULTS, {"code": "xid_79", "gpus": [3]})
    other = yard.call("POST", FAULTS, {"xid": 79, "gpus": [4]})
    assert [a.status_code for a in (first, again, other)] == [201, 200, 201]
    assert first.json() == again.json()
    yard.ok("DELETE", f"{FAULTS}/{first.json()['id']}")
    assert yard.ok("GET", "/v1/nodes/a1")["health"] == "out"
    yard.ok("DELETE", f"{FAULTS}/{other.json()['id']}")
    assert yard.ok("GET", "/v1/nodes/a1")["health"] == "healthy"
    assert yard.call("POST", FAULTS, {"xid": 79, "gpus": [3]}).status_code == 201


def test_faults_are_listed_by_node_code_and_whether_they_are_open(yard: Yard) -> None:
    yard.load()
    lost = yard.ok("POST", FAULTS, {"code": "node_lost"})
    noted = yard.ok("POST", "/v1/nodes/b1/faults", {"xid": 63, "gpus": [0]})
    rail = yard.ok("POST", "/v1/nodes/b1/faults", {"code": "rail_down", "rail": 5})

    def ids(query: str) -> list[object]:
        return [fault["id"] for fault in yard.items(f"/v1/faults{query}")]

    assert ids("") == [lost["id"], noted["id"], rail["id"]]
    assert ids("?node=b1") == [noted["id"], rail["id"]]
    assert ids("?code=node_lost") == [lost["id"]]
    assert ids("?open=true") == [lost["id"], rail["id"]]
    assert ids("?open=false") == [noted["id"]]
    assert [f["id"] for f in yard.items("/v1/nodes/b1/faults")] == [noted["id"], rail["id"]]
    page = yard.ok("GET", "/v1/faults?limit=1")
    assert ids(f"?limit=1&cursor={page['next']}") == [noted["id"]]
    assert yard.ok("GET", f"/v1/nodes/b1/faults/{rail['id']}") == rail


def test_xid_that_the_table_lacks_is_noted(yard: Yard) -> None:
    yard.load()
    fault = yard.ok("POST", FAULTS, {"xid": 777})
    assert (fault["code"], fault["action"]) == ("xid_777", "note")
    assert fault["cleared_at"] == fault["reported_at"]
    assert yard.ok("GET", "/v1/nodes/a1")["health"] == "healthy"


def test_empty_node_that_is_to_be_reset_is_tested_until_the_fault_is_cleared(yard: Yard) -> None:
    yard.load()
    fault = yard.ok("POST", FAULTS, {"xid": 48, "gpus": [1]})
    node = yard.ok("GET", "/v1/nodes/a1")
    assert node["health"] == "testing"
    assert isinstance(node["draining"], dict)
    assert node["draining"]["by"] == "fault"
    yard.ok("DELETE", f"{FAULTS}/{fault['id']}")
    node = yard.ok("GET", "/v1/nodes/a1")
    assert (node["health"], node["draining"]) == ("healthy", None)


def test_fault_of_a_set_is_one_of_each_of_its_nodes(yard: Yard) -> None:
    yard.load()
    found = yard.ok("POST", "/v1/sets/rack/r1/faults", {"code": "rail_down", "rail": 5})
    assert found["created"] == 4
    faults = found["items"]
    assert isinstance(faults, list)
    assert [f["node"] for f in faults] == ["a1", "a2", "a3", "a4"]
    assert faults[0]["set"] == {"kind": "rack", "name": "r1"}
    again = yard.ok("POST", "/v1/sets/rack/r1/faults", {"code": "rail_down", "rail": 5})
    assert again == found | {"created": 0}
    assert yard.ok("POST", "/v1/sets/cdu/cdu-1/faults", {"code": "thermal"})["created"] == 4


@pytest.mark.parametrize(
    ("body", "path", "says"),
    [
        ({"code": "on_fire"}, "code", "xid_<number>, node_lost, power"),
        ({}, "code", "is required, or xid"),
        ({"code": "xid_0"}, "code", "found 'xid_0'"),
        ({"code": "xid_79", "xid": 48}, "xid", "found 48; code xid_79 says otherwise"),
        ({"xid": 0}, "xid", "at least 1"),
        ({"xid": 79, "gpus": [8]}, "gpus", "found 8; those of node 'a1' are 0 to 7"),
        ({"xid": 79, "gpus": [3, 3]}, "gpus", "names a GPU twice"),
        ({"xid": 79, "gpus": [-1]}, "gpus[0]", "at least 0"),
        ({"code": "rail_down"}, "rail", "is required by code rail_down"),
        ({"code": "rail_down", "rail": 8}, "rail", "found 8; those of node 'a1' are 0 to 7"),
        ({"code": "thermal", "rail": 1}, "rail", "is not about a rail"),
        ({"code": "thermal", "at": "2027-01-01T00:00:00Z"}, "at", "lies ahead"),
        ({"code": "thermal", "at": "yesterday"}, "at", "as in 2026"),
        ({"code": "thermal", "detail": "x"}, "detail", "unknown field"),
    ],
)
def test_wrong_report_is_refused_with_what_is_allowed(
    yard: Yard, body: dict[str, object], path: str, says: str
) -> None:
    yard.load()
    found = yard.refused(422, "POST", FAULTS, body)
    assert says in found[path]
    assert yard.items("/v1/faults") == []


def test_what_is_not_there_is_named(yard: Yard) -> None:
    yard.load()
    body = {"code": "node_lost"}
    assert "nope" in yard.refused(404, "POST", "/v1/nodes/nope/faults", body)[""]
    assert "nope" in yard.refused(404, "GET", "/v1/nodes/nope/faults")[""]
    assert "nope" in yard.refused(404, "DELETE", "/v1/nodes/nope/faults/1")[""]
    assert "a1/99" in yard.refused(404, "DELETE", f"{FAULTS}/99")[""]
    assert "a1/99" in yard.refused(404, "GET", f"{FAULTS}/99")[""]
    fault = yard.ok("POST", FAULTS, body)
    yard.refused(404, "DELETE", f"/v1/nodes/a2/faults/{fault['id']}")
    said = yard.refused(404, "POST", "/v1/sets/shelf/s1/faults", body)[""]
    assert "leaf, rack, node, cdu, scale_up" in said
    assert "no rack 'r9'" in yard.refused(404, "POST", "/v1/sets/rack/r9/faults", body)[""]


def test_reset_of_the_breaker_is_a_time_in_the_policy(yard: Yard) -> None:
    yard.clock.advance(100)  # type: ignore[attr-defined]  # a manual clock here
    assert yard.ok("POST", "/v1/scheduler/breaker/reset")["reset_at"] == "2026-01-01T00:01:40.000Z"
    assert yard.ok("GET", "/v1/policy")["breaker_reset_s"] == yard.clock.now_s()
