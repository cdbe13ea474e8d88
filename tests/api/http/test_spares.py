"""What is kept spare and what would be enough, over HTTP."""

import pytest

from api.clock import ManualClock
from scheduler.recover.spares import spares_needed
from tests.api.http.yard import Json, Yard

DAY_S = 86_400.0


def spares(yard: Yard) -> Json:
    return yard.ok("GET", "/v1/spares")


def test_nothing_is_needed_where_nothing_was_seen_to_fail(yard: Yard) -> None:
    assert spares(yard)["need"] == 0
    yard.load()
    found = spares(yard)
    assert (found["nodes"], found["faults"], found["need"]) == (12, 0, 0)
    assert found["is_assumed"] is True
    assert found["pools"] == []


def test_need_follows_from_the_faults_and_repairs_that_were_seen(yard: Yard) -> None:
    """Two of 12 nodes in 10 days, one of them back after half a day: 1 / 60 a node and day."""
    yard.load()
    assert isinstance(yard.clock, ManualClock)
    yard.clock.advance(5 * DAY_S)
    fault = yard.ok("POST", "/v1/nodes/a1/faults", {"code": "node_lost"})
    yard.ok("POST", "/v1/sets/rack/r2/faults", {"code": "switch_down"})
    yard.ok("POST", "/v1/nodes/a3/faults", {"xid": 31})
    yard.clock.advance(DAY_S / 2)
    yard.ok("DELETE", f"/v1/nodes/a1/faults/{fault['id']}")
    yard.clock.advance(4.5 * DAY_S)
    yard.ok("POST", "/v1/nodes/c1/faults", {"xid": 79})
    policy = yard.ok("GET", "/v1/policy")
    yard.ok("PUT", "/v1/policy", policy | {"spare_pool": {"rack": 1}})
    found = spares(yard)
    assert (found["faults"], found["repairs"], found["repair_s"]) == (2, 1, DAY_S / 2)
    rate = found["faults_per_node_day"]
    assert isinstance(rate, float)
    assert rate == pytest.approx(1 / 60)
    assert found["need"] == spares_needed(12, 1 / 60, DAY_S / 2)
    need = spares_needed(4, 1 / 60, DAY_S / 2)
    pool = {"level": "rack", "nodes": 4, "wanted": 1, "kept": 0, "lent": 0, "need": need}
    assert found["pools"] == [
        pool | {"domain": f"r{n}", "free": free} for n, free in ((1, 4), (2, 0), (3, 3))
    ]
    yard.cycle()
    assert spares(yard)["pools"] == [
        pool | {"domain": f"r{n}", "kept": kept, "free": free}
        for n, kept, free in ((1, 1, 3), (2, 0, 0), (3, 1, 2))
    ]
    claims = [c for c in yard.items("/v1/claims") if c["why"] == "pool"]
    assert [(c["pool"], c["job"], c["reservation"]) for c in claims] == [
        ("rack/r1", None, None),
        ("rack/r3", None, None),
    ]
    assert found["levels"] == [
        {"level": "leaf", "domains": 2, "nodes": 8, "need": spares_needed(8, 1 / 60, DAY_S / 2)},
        {"level": "rack", "domains": 3, "nodes": 4, "need": need},
    ]


def test_spares_of_jobs_are_counted(yard: Yard) -> None:
    yard.load()
    yard.submit("one", parallelism={"tp": 8, "dp": 2}, spares=1)
    yard.cycle(2)
    assert spares(yard)["claimed"] == 1
    (claim,) = [c for c in yard.items("/v1/claims") if c["why"] == "spare"]
    assert claim["job"] == "default/one"


def job(yard: Yard, name: str) -> Json:
    return yard.ok("GET", f"/v1/namespaces/default/jobs/{name}")


def test_a_spare_is_lent_and_called_back_with_one_transaction(yard: Yard) -> None:
    yard.load()
    for name in ("b1", "b2", "b3", "b4", "c1", "c2", "c3", "c4", "a4"):
        yard.ok("POST", f"/v1/nodes/{name}/cordon")
    failure = {"scope": "pod"}
    yard.submit("one", parallelism={"tp": 8, "dp": 2}, spares=1, failure=failure, preemptible=False)
    yard.cycle(2)
    (claim,) = [c for c in yard.items("/v1/claims") if c["why"] == "spare"]
    yard.submit("keeps", parallelism={"tp": 8}, preemptible=False)
    yard.submit("borrows", parallelism={"tp": 8})
    yard.cycle(2)
    assert job(yard, "keeps")["state"] == "pending"
    assert job(yard, "borrows")["state"] == "bound"
    assert (spares(yard)["claimed"], spares(yard)["lent"]) == (1, 1)
    lost = next(p for p in yard.items("/v1/pods?job=one") if p["index"] == 1)
    yard.ok("POST", f"/v1/nodes/{lost['node']}/faults", {"code": "node_lost"})
    before = yard.ok("GET", "/v1/overview")["revision"]
    yard.cycle()
    told = {e["kind"] for e in yard.items(f"/v1/events?since={before}")}
    assert {"job.recovering", "job.evicting"} <= told
    assert "needed by the job that it is kept for" in str(job(yard, "borrows")["message"])
    (kept,) = [c for c in yard.items("/v1/claims") if c["why"] == "recovery"]
    assert (kept["node"], kept["job"]) == (claim["node"], "default/one")
    path = "/v1/namespaces/default/pods/borrows-0/status"
    yard.ok("POST", path, {"attempt": 1, "state": "stopped"})
    yard.cycle(2)
    (again,) = [p for p in yard.items("/v1/pods?job=one") if p["index"] == 1]
    assert (again["node"], again["attempt"]) == (claim["node"], 2)
    assert job(yard, "borrows")["state"] == "pending"
