"""Maintenance windows and claims over HTTP."""

from datetime import UTC, datetime, timedelta

import pytest

from api.clock import ManualClock
from tests.api.http.yard import Json, Yard

HERE = "/v1/reservations"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
"""Where a manual clock starts."""


def at(minutes: float) -> str:
    return (NOW + timedelta(minutes=minutes)).isoformat().replace("+00:00", "Z")


def window(**more: object) -> Json:
    body = {"name": "w", "nodes": ["a1"], "starts_at": at(10), "ends_at": at(20)}
    return {key: value for key, value in (body | more).items() if value is not None}


def test_reservation_is_made_read_listed_and_withdrawn(yard: Yard) -> None:
    yard.load()
    made = yard.ok("POST", HERE, window(nodes=["a[1-2]", "a2", "c4"], why="new cables"))
    assert made["nodes"] == ["a1", "a2", "c4"]
    assert (made["starts_at"], made["ends_at"]) == (
        "2026-01-01T00:10:00.000Z",
        "2026-01-01T00:20:00.000Z",
    )
    assert (made["why"], made["state"]) == ("new cables", "planned")
    assert yard.ok("GET", f"{HERE}/w") == made
    assert yard.items(HERE) == [made]
    assert yard.ok("DELETE", f"{HERE}/w") == made
    assert yard.items(HERE) == []
    assert yard.call("GET", f"{HERE}/w").status_code == 404
    assert yard.call("DELETE", f"{HERE}/w").status_code == 404


def test_reservation_without_a_start_starts_now(yard: Yard) -> None:
    yard.load()
    made = yard.ok("POST", HERE, window(starts_at=None))
    assert (made["starts_at"], made["state"]) == ("2026-01-01T00:00:00.000Z", "active")


def test_reservation_of_a_domain_and_of_a_named_set(yard: Yard) -> None:
    text = """\
levels: [rack, node]
scale_up: node
node_types: {small: {gpu: CARD, gpus: 8}}
nodes:
  - {names: "a[1-4]", type: small, rack: r1}
  - {names: "b[1-4]", type: small, rack: r2}
sets:
  power: {shelf-1: "a[1-2]"}
"""
    yard.load(text)
    rack = yard.ok("POST", HERE, window(nodes=None, within={"level": "rack", "domain": "r2"}))
    assert rack["nodes"] == ["b1", "b2", "b3", "b4"]
    node = {"level": "node", "domain": "a4"}
    assert yard.ok("POST", HERE, window(name="n", nodes=None, within=node))["nodes"] == ["a4"]
    shelf = {"kind": "power", "name": "shelf-1"}
    made = yard.ok("POST", HERE, window(name="s", nodes=None, set=shelf))
    assert made["nodes"] == ["a1", "a2"]


def test_time_may_be_of_any_zone(yard: Yard) -> None:
    yard.load()
    made = yard.ok("POST", HERE, window(starts_at="2026-01-01T09:00:00.5+08:00", ends_at=at(70)))
    assert made["starts_at"] == "2026-01-01T01:00:00.500Z"


@pytest.mark.parametrize(
    ("more", "path", "said"),
    [
        ({"nodes": None}, "nodes", "exactly one of"),
        ({"nodes": []}, "nodes", "exactly one of"),
        ({"within": {"level": "rack", "domain": "r1"}}, "nodes", "exactly one of"),
        ({"nodes": ["a1", "x9"]}, "nodes[1]", "node 'x9' does not exist"),
        ({"nodes": ["a[1-"]}, "nodes[0]", ""),
        ({"nodes": [""]}, "nodes[0]", ""),
        ({"nodes": ["a[1-999999999]"]}, "nodes[0]", ""),
        (
            {"nodes": None, "within": {"level": "row", "domain": "r1"}},
            "within.level",
            "the levels are leaf, rack, node",
        ),
        (
            {"nodes": None, "within": {"level": "rack", "domain": "r9"}},
            "within.domain",
            "no such rack",
        ),
        ({"nodes": None, "within": {"level": "rack", "domain": ""}}, "within.domain", ""),
        ({"nodes": None, "set": {"kind": "power", "name": "x"}}, "set.kind", "kinds of sets"),
        ({"starts_at": at(20), "ends_at": at(10)}, "ends_at", "later than starts_at"),
        ({"starts_at": at(10), "ends_at": at(10)}, "ends_at", "later than starts_at"),
        ({"starts_at": at(-1)}, "starts_at", "in the past"),
        ({"starts_at": at(-20), "ends_at": at(-10)}, "starts_at", "in the past"),
        ({"starts_at": "tomorrow"}, "starts_at", "a time is written as in"),
        ({"starts_at": "2026-02-30T00:00:00Z"}, "starts_at", "no such time in the calendar"),
        ({"starts_at": "2026-01-01T00:00:00"}, "starts_at", "a time is written as in"),
        ({"ends_at": 17}, "ends_at", "must be a text"),
        ({"ends_at": None}, "ends_at", "is required"),
        ({"name": "two words"}, "name", "a name has"),
        ({"job": "x"}, "job", "unknown field"),
    ],
)
def test_reservation_that_makes_no_sense_is_refused(
    yard: Yard, more: Json, path: str, said: str
) -> None:
    yard.load()
    told = yard.refused(422, "POST", HERE, window(**more))
    assert said in told[path]
    assert yard.items(HERE) == []


def test_reservation_over_another_on_the_same_node_is_refused(yard: Yard) -> None:
    yard.load()
    yard.ok("POST", HERE, window(nodes=["a[1-3]"]))
    for starts, ends in ((0, 11), (12, 13), (19, 30), (5, 25)):
        body = window(name="x", nodes=["a3", "a4"], starts_at=at(starts), ends_at=at(ends))
        told = yard.refused(409, "POST", HERE, body)
        assert told == {
            "nodes": "node 'a3' is reserved by 'w' at that time; a node has one reservation at a "
            "time"
        }
    yard.ok("POST", HERE, window(name="later", starts_at=at(20), ends_at=at(30)))
    yard.ok("POST", HERE, window(name="before", starts_at=at(0), ends_at=at(10)))
    yard.ok("POST", HERE, window(name="beside", nodes=["a4"]))


def test_name_of_a_reservation_is_used_once(yard: Yard) -> None:
    yard.load()
    yard.ok("POST", HERE, window())
    told = yard.refused(409, "POST", HERE, window(nodes=["c1"]))
    assert told == {"name": "reservation 'w' exists; choose another name"}


def test_reservations_are_listed_in_pages(yard: Yard) -> None:
    yard.load()
    for number in range(1, 4):
        yard.ok("POST", HERE, window(name=f"w{number}", nodes=[f"a{number}"]))
    page = yard.ok("GET", f"{HERE}?limit=2")
    assert len(list(str(page["next"]))) > 0
    rest = yard.items(f"{HERE}?limit=2&cursor={page['next']}")
    assert [item["name"] for item in rest] == ["w3"]
    assert "cursor" in yard.refused(422, "GET", f"{HERE}?cursor=x")[""]


def test_reservation_shows_when_it_is_active_and_over(yard: Yard) -> None:
    yard.load()
    yard.ok("POST", HERE, window())
    assert isinstance(yard.clock, ManualClock)
    found = []
    for minutes in (9, 1, 10):
        yard.clock.advance(minutes * 60)
        found.append(yard.ok("GET", f"{HERE}/w")["state"])
    assert found == ["planned", "active", "over"]


def test_withdrawal_and_making_are_told(yard: Yard) -> None:
    yard.load()
    yard.ok("POST", HERE, window(why="new cables"))
    yard.ok("DELETE", f"{HERE}/w")
    told = yard.items("/v1/events?since=0&kind=reservation")
    assert [(e["kind"], e["message"]) for e in told] == [
        ("reservation.created", "1 nodes: new cables"),
        ("reservation.deleted", "1 nodes: new cables"),
    ]


def test_nothing_is_claimed_at_first(yard: Yard) -> None:
    yard.load()
    assert yard.items("/v1/claims") == []
    assert yard.items("/v1/claims?namespace=default&job=x&node=a1") == []
