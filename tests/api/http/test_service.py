"""Events, policy, clock, health, metrics, docs."""

import pytest

from api.clock import SystemClock
from api.store.engine import Database
from api.store.events import trim_history
from tests.api.http.contract import Contract
from tests.api.http.yard import Yard

POLICY = {
    "suspect_after_s": 30.0,
    "lost_after_s": 300.0,
    "breaker_share": 0.2,
    "reserve_after_s": 600.0,
    "reserve_after_run_times": 1.0,
    "start_by_run_times": 3.0,
    "reserve_run_s_max": 21600.0,
    "reserve_at_once_share": 0.1,
    "order": "fair_share",
    "ageing": 0.2,
    "assumed_duration_s": 86400.0,
    "min_run_s": 0.0,
    "spare_evicted_s": 300.0,
    "restart_cost_s": 300.0,
    "evict_share": 1.0,
    "breaker_window_s": 600.0,
    "breaker_reset_s": 0.0,
    "crash_loop_s": 300.0,
    "spare_pool": {},
    "lend_spares": True,
    "lemon_faults": 3,
    "lemon_factor": 5.0,
    "lemon_window_s": 2592000.0,
    "quarantine_s": 3600.0,
    "flap_count": 3,
    "flap_window_s": 3600.0,
    "escalate_nodes": 3,
    "priorities": {},
    "never_preempt": [],
    "paused": False,
}


def test_events_have_rising_revisions_and_resume_anywhere(yard: Yard) -> None:
    yard.load()
    yard.submit()
    yard.cycle()
    every = yard.items("/v1/events")
    revisions = [event["revision"] for event in every]
    assert [int(str(r)) for r in revisions] == sorted({int(str(r)) for r in revisions})
    assert yard.items(f"/v1/events?since={revisions[0]}") == every[1:]
    page = yard.ok("GET", "/v1/events?limit=1")
    assert yard.items(f"/v1/events?cursor={page['next']}") == every[1:]


def test_events_ahead_are_refused(yard: Yard) -> None:
    assert "ahead" in yard.refused(400, "GET", "/v1/events?since=1000000")[""]


def test_events_that_are_no_longer_kept_are_gone(yard: Yard) -> None:
    yard.load()
    yard.submit()
    yard.cycle()
    trim_history(yard.database, keep=1, now_s=0.0)
    assert "oldest start is 2" in yard.refused(410, "GET", "/v1/events?since=1")[""]
    assert [event["revision"] for event in yard.items("/v1/events?since=2")] == [3]
    of_job = yard.items("/v1/namespaces/default/jobs/job/events")
    assert [event["kind"] for event in of_job] == ["job.bound"]


def test_policy_is_replaced_as_a_whole(yard: Yard) -> None:
    assert yard.ok("GET", "/v1/policy") == POLICY
    changed = POLICY | {"suspect_after_s": 5.0, "breaker_share": 1.0}
    assert yard.ok("PUT", "/v1/policy", changed) == changed
    assert yard.ok("GET", "/v1/policy") == changed


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"suspect_after_s": 0}, "suspect_after_s"),
        ({"breaker_share": 1.5}, "breaker_share"),
        ({"order": "random"}, "order"),
        ({"nonsense": 1}, "nonsense"),
        ({"suspect_after_s": 400.0}, "lost_after_s"),
    ],
)
def test_policy_out_of_range_is_refused(
    any_yard: Yard, changes: dict[str, object], path: str
) -> None:
    assert list(any_yard.refused(422, "PUT", "/v1/policy", POLICY | changes)) == [path]


def test_part_of_a_policy_is_refused(any_yard: Yard) -> None:
    found = any_yard.refused(422, "PUT", "/v1/policy", {"paused": True})
    assert set(found) == set(POLICY) - {"paused"}


def test_manual_clock_moves_when_told(yard: Yard) -> None:
    assert yard.ok("POST", "/v1/test/clock", {"advance_s": 90.5}) == {
        "now": "2026-01-01T00:01:30.500Z"
    }


@pytest.mark.parametrize("advance_s", [-1, "1", None, 1e10])
def test_clock_is_not_moved_by_nonsense(any_yard: Yard, advance_s: object) -> None:
    found = any_yard.refused(422, "POST", "/v1/test/clock", {"advance_s": advance_s})
    assert list(found) == ["advance_s"]


def test_system_clock_cannot_be_moved(database: Database, contract: Contract) -> None:
    with Yard(database, contract, SystemClock()) as yard:
        assert yard.call("POST", "/v1/test/clock", {"advance_s": 1}).status_code == 404


def test_service_is_alive_and_ready(yard: Yard) -> None:
    assert yard.ok("GET", "/healthz") == {"status": "ok"}
    assert yard.ok("GET", "/readyz") == {
        "status": "ready",
        "checks": {"database": "ok", "runner": "ok"},
    }


def test_metrics_count_requests_by_route_and_show_the_store(yard: Yard) -> None:
    yard.load()
    yard.submit()
    yard.call("GET", "/v1/namespaces/default/jobs/nope")
    text = yard.call("GET", "/metrics").text
    route = 'route="/v1/namespaces/{namespace}/jobs/{name}",status="404"'
    assert f'podyard_http_request_duration_seconds_count{{method="GET",{route}}} 1.0' in text
    assert 'podyard_gangs{state="pending"} 1.0' in text
    assert 'podyard_gpus{state="free"} 96.0' in text
    assert "podyard_revision 2.0" in text


def test_docs_load_nothing_and_run_nothing(any_yard: Yard) -> None:
    page = any_yard.client.get("/docs")
    assert page.status_code == 200
    assert "<script" not in page.text.lower()
    assert "javascript:" not in page.text.lower()
    assert 'src="' not in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "/v1/namespaces/{namespace}/jobs/{name}/placement" in page.text


def test_answers_are_not_framed_sniffed_or_kept(any_yard: Yard) -> None:
    headers = any_yard.client.get("/v1/jobs").headers
    assert headers["x-content-type-options"] == "nosniff"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["cache-control"] == "no-store"
