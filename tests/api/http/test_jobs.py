"""Jobs over HTTP: submit, list, read, cancel."""

import pytest

from tests.api.http.yard import Yard, problems


def test_submitted_job_is_answered_with_201_and_its_defaults(yard: Yard) -> None:
    yard.load()
    answer = yard.call("POST", "/v1/jobs", {"name": "a", "parallelism": {"tp": 8, "dp": 2}})
    job = answer.json()
    assert answer.status_code == 201
    assert (job["namespace"], job["queue"], job["state"]) == ("default", "default", "pending")
    assert (job["members"], job["minimum"], job["gpus"], job["gpus_per_pod"]) == (2, 2, 16, 8)
    assert job["spec"]["parallelism"]["order"] == "tp-cp-ep-dp-pp"


def test_job_of_roles_shows_its_minimum(yard: Yard) -> None:
    yard.load()
    roles = [{"name": "w", "replicas": 4, "gpus": 8, "parts": {"size": 2, "count": 2, "min": 1}}]
    job = yard.submit(roles=roles)
    assert (job["members"], job["minimum"], job["gpus"]) == (4, 2, 32)


def test_job_is_bound_by_the_next_cycle_and_runs_when_its_pods_do(yard: Yard) -> None:
    yard.load()
    yard.submit()
    yard.cycle()
    path = "/v1/namespaces/default/jobs/job"
    bound = yard.ok("GET", path)
    assert (bound["state"], bound["attempt"], bound["node_type"]) == ("bound", 1, "small")
    assert bound["bound_at"] == "2026-01-01T00:00:00.000Z"
    yard.report_all("running")
    assert (yard.ok("GET", path)["state"], yard.ok("GET", path)["running"]) == ("running", 4)
    yard.report_all("succeeded", 0)
    ended = yard.ok("GET", path)
    assert (ended["state"], ended["running"]) == ("succeeded", 0)
    assert yard.ok("GET", "/v1/overview")["gpus"] == {
        "total": 96,
        "used": 0,
        "free": 96,
        "aside": 0,
    }


def test_job_may_be_sent_as_yaml(yard: Yard) -> None:
    yard.load()
    text = "name: a\nparallelism: {tp: 8}\nmodel: {params: 70e9, layers: 8, hidden: 64, seq: 8}\n"
    answer = yard.call(
        "POST", "/v1/jobs", content=text, headers={"Content-Type": "application/yaml"}
    )
    assert answer.status_code == 201
    assert answer.json()["spec"]["model"]["params"] == 70e9


def test_dry_run_says_where_and_writes_nothing(yard: Yard) -> None:
    yard.load()
    before = yard.ok("GET", "/v1/overview")["revision"]
    body = {"name": "a", "parallelism": {"tp": 8, "pp": 4}}
    found = yard.ok("POST", "/v1/jobs?dry_run=true", body)
    assert (found["fits"], found["when"]) == (True, "now")
    placement = found["placement"]
    assert isinstance(placement, dict)
    assert [pod["node"] for pod in placement["pods"]] == ["c1", "c2", "c3", "c4"]
    assert yard.ok("GET", "/v1/overview")["revision"] == before
    assert yard.items("/v1/jobs") == []


def test_dry_run_says_why_not_now(yard: Yard) -> None:
    yard.load()
    for node in ("a1", "b1", "c1"):
        yard.ok("POST", f"/v1/nodes/{node}/cordon", {})
    rule = {"group": "job", "within": "rack", "mode": "required"}
    body = {"name": "a", "parallelism": {"tp": 8, "pp": 4}, "topology": [rule]}
    found = yard.ok("POST", "/v1/jobs?dry_run=true", body)
    assert (found["fits"], found["when"], found["code"]) == (False, "not_now", "rule")
    assert found["rule"] == rule
    assert found["nearest"] == {
        "level": "rack",
        "domain": "r1",
        "lacks": {"nodes": 1, "gpus": 8},
    }
    assert found["set_aside"] == {"cordoned": 3}


def test_dry_run_says_never_without_refusing(yard: Yard) -> None:
    yard.load()
    body = {"name": "a", "parallelism": {"tp": 8, "dp": 13}}
    found = yard.ok("POST", "/v1/jobs?dry_run=true", body)
    assert (found["fits"], found["when"]) == (False, "never")


def test_job_that_never_fits_is_refused_with_the_rule_that_binds(yard: Yard) -> None:
    yard.load()
    rule = {"group": "job", "within": "rack", "mode": "required"}
    body = {"name": "a", "parallelism": {"tp": 8, "dp": 5}, "topology": [rule]}
    found = yard.refused(422, "POST", "/v1/jobs", body)
    assert list(found) == ["topology[0].within"]
    assert "never fits" in found["topology[0].within"]


def test_job_that_never_fits_waits_when_it_says_so(yard: Yard) -> None:
    yard.load()
    body = {"name": "a", "parallelism": {"tp": 8, "dp": 13}, "if_never_fits": "wait"}
    assert yard.call("POST", "/v1/jobs", body).status_code == 201
    yard.cycle()
    job = yard.ok("GET", "/v1/namespaces/default/jobs/a")
    assert (job["state"], job["reason"], job["never"]) == ("pending", "room", True)


def test_name_in_use_is_a_conflict(yard: Yard) -> None:
    yard.load()
    yard.submit()
    body = {"name": "job", "parallelism": {"tp": 8}}
    assert list(yard.refused(409, "POST", "/v1/jobs", body)) == ["name"]


def test_same_key_is_one_job(yard: Yard) -> None:
    yard.load()
    key = {"Idempotency-Key": "k-1"}
    body = {"name": "a", "parallelism": {"tp": 8}, "labels": {}}
    first = yard.call("POST", "/v1/jobs", body, headers=key)
    reordered = dict(reversed(body.items()))
    second = yard.call("POST", "/v1/jobs", reordered, headers=key)
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["uid"] == second.json()["uid"]


def test_same_key_with_another_body_is_a_conflict(yard: Yard) -> None:
    yard.load()
    key = {"Idempotency-Key": "k-1"}
    yard.call("POST", "/v1/jobs", {"name": "a", "parallelism": {"tp": 8}}, headers=key)
    answer = yard.call("POST", "/v1/jobs", {"name": "a", "parallelism": {"tp": 4}}, headers=key)
    assert list(problems(answer, 409)) == ["Idempotency-Key"]


@pytest.mark.parametrize("key", ["", "a b", "x" * 256, "ü"])
def test_malformed_key_is_refused(any_yard: Yard, key: str) -> None:
    headers = [(b"Idempotency-Key", key.encode()), (b"Content-Type", b"application/json")]
    answer = any_yard.client.post("/v1/jobs", content=b'{"name": "a"}', headers=headers)
    assert "Idempotency-Key" in problems(answer, 422)


def test_unknown_queue_is_named(yard: Yard) -> None:
    yard.load()
    body = {"name": "a", "queue": "nope", "parallelism": {"tp": 8}}
    assert "nope" in yard.refused(422, "POST", "/v1/jobs", body)["queue"]


def test_jobs_are_listed_by_age_in_pages_and_by_filter(yard: Yard) -> None:
    yard.load()
    for index in range(5):
        yard.submit(f"j{index}", namespace=f"ns{index % 2}", parallelism={"tp": 8})
    second = f"/v1/jobs?limit=3&cursor={yard.ok('GET', '/v1/jobs?limit=3')['next']}"
    assert yard.ok("GET", second)["next"] is None
    found = [*yard.items("/v1/jobs?limit=3"), *yard.items(second)]
    assert [job["name"] for job in found] == [f"j{index}" for index in range(5)]
    assert len(yard.items("/v1/jobs?namespace=ns1")) == 2
    assert len(yard.items("/v1/jobs?state=pending&queue=default")) == 5
    assert yard.items("/v1/jobs?state=running") == []


def test_pending_job_is_cancelled_and_its_record_deleted_by_a_second_delete(yard: Yard) -> None:
    yard.load()
    yard.submit()
    path = "/v1/namespaces/default/jobs/job"
    yard.ok("DELETE", path)
    yard.cycle()
    assert yard.ok("GET", path)["state"] == "cancelled"
    assert yard.call("DELETE", path).status_code == 200
    assert yard.call("GET", path).status_code == 404
    assert yard.call("DELETE", path).status_code == 404


def test_running_job_frees_its_gpus_when_cancelled(yard: Yard) -> None:
    yard.load()
    yard.submit()
    yard.cycle()
    yard.report_all("running")
    yard.ok("DELETE", "/v1/namespaces/default/jobs/job")
    yard.cycle()
    assert yard.ok("GET", "/v1/namespaces/default/jobs/job")["state"] == "cancelled"
    assert yard.ok("GET", "/v1/nodes/c1")["gpus_free"] == 8


def test_job_that_does_not_exist_is_named(any_yard: Yard) -> None:
    for path in ("", "/placement", "/explain", "/events"):
        found = any_yard.refused(404, "GET", f"/v1/namespaces/ns/jobs/nope{path}")
        assert "ns/nope" in found[""]
