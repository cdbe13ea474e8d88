"""What a waiting job is told of its start: a forecast at first, a promise when it is its turn."""

from typing import Any

from tests.api.http.yard import Yard

RULE = [{"group": "pp", "within": "rack", "mode": "required"}]
PARALLEL = {"tp": 8, "pp": 4}


def full(yard: Yard, **policy: object) -> None:
    """Three jobs of a rack each that run for hours."""
    yard.load()
    yard.ok("PUT", "/v1/policy", yard.ok("GET", "/v1/policy") | policy)
    for number in range(3):
        yard.submit(f"old-{number}", parallelism=PARALLEL, topology=RULE, duration_s=7_200.0)
        yard.cycle()
    yard.report_all("running")
    yard.cycle()


def job(yard: Yard, name: str = "job") -> dict[str, Any]:
    return yard.ok("GET", f"/v1/namespaces/default/jobs/{name}")


def test_a_large_job_is_promised_its_start_at_once(yard: Yard) -> None:
    full(yard)
    yard.submit(parallelism=PARALLEL, topology=RULE, duration_s=600.0)
    yard.cycle()
    found = job(yard)
    assert (found["state"], found["reason"]) == ("reserved", "reservation")
    assert found["expected_start"] is not None
    assert yard.items("/v1/claims?job=job")


def test_a_small_job_shows_a_forecast_and_nothing_is_kept_for_it_yet(yard: Yard) -> None:
    full(yard, reserve_at_once_share=0.5)
    yard.submit(parallelism=PARALLEL, topology=RULE, duration_s=600.0)
    yard.cycle()
    found = job(yard)
    assert found["state"] == "pending"
    assert found["expected_start"] is not None
    assert yard.items("/v1/claims?job=job") == []
    explained = yard.ok("GET", "/v1/namespaces/default/jobs/job/explain")
    assert explained["expected_start"] == found["expected_start"]
    events = [event["kind"] for event in yard.items("/v1/events?job=job")]
    yard.cycle()
    assert [event["kind"] for event in yard.items("/v1/events?job=job")] == events


def test_a_policy_that_promises_starts_before_the_turn_is_refused(yard: Yard) -> None:
    policy = yard.ok("GET", "/v1/policy")
    wrong = policy | {"reserve_after_run_times": 4.0}
    assert yard.refused(422, "PUT", "/v1/policy", wrong) == {
        "start_by_run_times": "found 3.0; it must lie in reserve_after_run_times, 4, to 1000"
    }
    shares = yard.refused(422, "PUT", "/v1/policy", policy | {"reserve_at_once_share": 2})
    assert list(shares) == ["reserve_at_once_share"]
