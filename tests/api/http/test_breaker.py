"""What the circuit breaker says of itself, over HTTP."""

from api.clock import ManualClock
from tests.api.http.yard import Json, Yard


def breaker(yard: Yard) -> Json:
    return yard.ok("GET", "/v1/scheduler/breaker")


def metric(yard: Yard) -> str:
    text = yard.call("GET", "/metrics").text
    return next(x for x in text.splitlines() if x.startswith("podyard_breaker_open "))


def test_breaker_is_closed_where_nothing_fails(yard: Yard) -> None:
    assert (breaker(yard)["state"], breaker(yard)["nodes"]) == ("closed", 0)
    yard.load()
    found = breaker(yard)
    assert (found["state"], found["failing"], found["nodes"]) == ("closed", 0, 12)
    assert found["failed"] == []
    assert (found["since"], found["closes_at"], found["reset_at"]) == (None, None, None)


def test_breaker_says_what_failed_what_is_held_and_when_it_closes(yard: Yard) -> None:
    """More than a fifth of 12 nodes is three: the third of them opens it."""
    yard.load()
    assert isinstance(yard.clock, ManualClock)
    yard.submit("one", parallelism={"tp": 8, "dp": 2})
    yard.cycle()
    yard.report_all("running")
    nodes = [str(pod["node"]) for pod in yard.items("/v1/pods?job=one")]
    others = [name for name in ("a1", "b1", "c1", "c4") if name not in nodes]
    stamps = []
    for name in (*others[:2], nodes[0]):
        yard.clock.advance(60.0)
        fault = yard.ok("POST", f"/v1/nodes/{name}/faults", {"code": "node_lost"})
        stamps.append(fault["reported_at"])
    yard.cycle()
    found = breaker(yard)
    assert (found["state"], found["failing"], found["limit"]) == ("open", 3, 0.2)
    assert found["failed"] == sorted([*others[:2], nodes[0]])
    assert found["since"] == stamps[2]
    assert found["held"] == {"jobs": 1, "gpus": 16}
    assert metric(yard).endswith(" 1.0")
    # It closes when the first failure is as old as the window, and not a moment before.
    yard.clock.advance(600.0 - 120.0 - 1.0)
    assert breaker(yard)["state"] == "open"
    yard.clock.advance(1.0)
    assert breaker(yard)["state"] == "closed"


def test_breaker_that_is_reset_lets_gangs_move(yard: Yard) -> None:
    yard.load()
    assert isinstance(yard.clock, ManualClock)
    yard.ok("POST", "/v1/sets/rack/r1/faults", {"code": "power"})
    assert breaker(yard)["state"] == "open"
    yard.clock.advance(1.0)
    reset = yard.ok("POST", "/v1/scheduler/breaker/reset")
    found = breaker(yard)
    assert (found["state"], found["failing"], found["reset_at"]) == ("closed", 0, reset["reset_at"])
    assert metric(yard).endswith(" 0.0")


def test_times_that_lie_behind_the_last_date_are_told_as_that(yard: Yard) -> None:
    yard.load()
    yard.ok("PUT", "/v1/policy", yard.ok("GET", "/v1/policy") | {"breaker_reset_s": 1e300})
    assert breaker(yard)["reset_at"] == "9999-12-31T23:59:59.000Z"
    assert metric(yard).endswith(" 0.0")
