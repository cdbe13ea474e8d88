"""One job more closely: placement, why it is not placed, events."""

from typing import Any

from tests.api.http.yard import Yard

JOB = "/v1/namespaces/default/jobs/job"


def placed(yard: Yard, **fields: object) -> dict[str, Any]:
    yard.load()
    yard.ok("POST", "/v1/jobs", {"name": "job"} | fields)
    yard.cycle()
    return yard.ok("GET", f"{JOB}/placement")


def test_placement_has_pods_ranks_and_domains(yard: Yard) -> None:
    found = placed(yard, parallelism={"tp": 8, "pp": 4})
    assert (found["job"], found["attempt"], found["search"]) == ("default/job", 1, "exact")
    assert [pod["node"] for pod in found["pods"]] == ["c1", "c2", "c3", "c4"]
    assert found["pods"][1] == {
        "name": "job-1",
        "role": "rank",
        "index": 1,
        "node": "c2",
        "gpus": [0, 1, 2, 3, 4, 5, 6, 7],
        "ranks": [8, 9, 10, 11, 12, 13, 14, 15],
        "domains": {"leaf": "l2", "rack": "r3"},
    }


def test_placement_counts_the_groups_of_each_axis(yard: Yard) -> None:
    """tp fills a node; pp has 4 nodes of a rack; dp pairs two such racks of the leaf."""
    found = placed(
        yard,
        parallelism={"tp": 8, "pp": 4, "dp": 2},
        topology=[{"group": "pp", "within": "rack", "mode": "required"}],
    )["groups"]
    assert set(found) == {"tp", "pp", "dp", "job"}
    assert (found["tp"]["count"], found["tp"]["size"]) == (8, 8)
    assert found["tp"]["spans"]["node"] == {"max": 1, "mean": 1.0, "one": 8, "least_possible": 1}
    assert (found["pp"]["count"], found["pp"]["size"]) == (16, 4)
    assert found["pp"]["spans"]["rack"] == {"max": 1, "mean": 1.0, "one": 16, "least_possible": 1}
    assert found["dp"]["spans"]["rack"] == {"max": 2, "mean": 2.0, "one": 0, "least_possible": 1}
    assert found["dp"]["spans"]["leaf"]["max"] == 1
    assert all(group["rail_true"] for group in found.values())
    assert found["dp"]["rail_true_groups"] == 32
    assert (found["job"]["count"], found["job"]["size"]) == (1, 64)


def test_placement_of_roles_counts_each_role(yard: Yard) -> None:
    roles = [{"name": "w", "replicas": 2, "gpus": 8}, {"name": "ps", "replicas": 1, "cpu": 4}]
    found = placed(yard, roles=roles)
    assert [pod["name"] for pod in found["pods"]] == ["job-w-0", "job-w-1", "job-ps-0"]
    assert set(found["groups"]) == {"w", "ps", "job"}
    assert found["groups"]["w"]["size"] == 16


def test_pending_job_has_no_placement(yard: Yard) -> None:
    yard.load()
    yard.submit()
    assert "pending" in yard.refused(409, "GET", f"{JOB}/placement")["state"]


def test_ended_job_still_shows_where_it_was(yard: Yard) -> None:
    before = placed(yard, parallelism={"tp": 8, "dp": 2})
    yard.report_all("running")
    yard.report_all("succeeded", 0)
    after = yard.ok("GET", f"{JOB}/placement")
    assert (after["pods"], after["groups"]) == (before["pods"], before["groups"])


def test_gang_that_restarts_has_no_place_until_it_is_bound_again(yard: Yard) -> None:
    placed(yard, parallelism={"tp": 8}, failure={"max_restarts": 3, "backoff_s": 60})
    yard.report_all("failed", 1)
    assert yard.ok("GET", JOB)["state"] == "bound"
    yard.report_all("failed", 1)
    job = yard.ok("GET", JOB)
    assert (job["state"], job["reason"]) == ("pending", "backoff")
    assert list(yard.refused(409, "GET", f"{JOB}/placement")) == ["state"]


def test_paused_scheduler_is_the_reason(yard: Yard) -> None:
    yard.load()
    assert yard.ok("POST", "/v1/scheduler/pause", {}) == {"paused": True}
    yard.submit()
    yard.cycle()
    assert yard.ok("GET", f"{JOB}/explain")["code"] == "paused"
    yard.ok("POST", "/v1/scheduler/resume", {})
    yard.cycle()
    assert yard.ok("GET", JOB)["state"] == "bound"


def test_events_of_a_job_tell_its_story_with_its_pods(yard: Yard) -> None:
    placed(yard, parallelism={"tp": 8})
    yard.report_all("running")
    kinds = [event["kind"] for event in yard.items(f"{JOB}/events")]
    assert kinds[:2] == ["job.submitted", "job.bound"]
    assert "job.running" in kinds


def test_events_of_a_job_come_in_pages(yard: Yard) -> None:
    placed(yard, parallelism={"tp": 8})
    first = f"{JOB}/events?limit=1"
    second = f"{first}&cursor={yard.ok('GET', first)['next']}"
    found = [*yard.items(first), *yard.items(second)]
    assert [event["kind"] for event in found] == ["job.submitted", "job.bound"]
