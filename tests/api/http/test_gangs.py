"""One job more closely: placement, explain, events."""

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
    assert found["tp"]["spans"]["node"] == {"max": 1, "mean": 1.0, "one": 8}
    assert (found["pp"]["count"], found["pp"]["size"]) == (16, 4)
    assert found["pp"]["spans"]["rack"] == {"max": 1, "mean": 1.0, "one": 16}
    assert found["dp"]["spans"]["rack"] == {"max": 2, "mean": 2.0, "one": 0}
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


def test_hostfile_is_in_rank_order(yard: Yard) -> None:
    placed(yard, parallelism={"tp": 4, "dp": 2}, gpus_per_pod=4)
    answer = yard.call("GET", f"{JOB}/placement?format=hostfile")
    assert answer.headers["content-type"].startswith("text/plain")
    lines = answer.text.splitlines()
    assert len(lines) == 2
    assert all(line.endswith(" slots=4") for line in lines)


def test_torchrun_gives_every_rank_its_environment(yard: Yard) -> None:
    placed(yard, parallelism={"tp": 8, "dp": 2})
    found: dict[str, Any] = yard.ok("GET", f"{JOB}/placement?format=torchrun")
    assert (found["nnodes"], found["nproc_per_node"], found["master_addr"]) == (2, 8, "c1")
    last = found["ranks"][-1]
    assert last["rank"] == 15
    assert last["env"] == {
        "RANK": "15",
        "LOCAL_RANK": "7",
        "WORLD_SIZE": "16",
        "LOCAL_WORLD_SIZE": "8",
        "GROUP_RANK": "1",
        "MASTER_ADDR": "c1",
        "MASTER_PORT": "29500",
        "CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7",
    }


def test_torchrun_needs_equal_pods(yard: Yard) -> None:
    placed(
        yard,
        roles=[{"name": "a", "replicas": 1, "gpus": 8}, {"name": "b", "replicas": 1, "gpus": 4}],
    )
    assert "4, 8" in yard.refused(422, "GET", f"{JOB}/placement?format=torchrun")["format"]


def test_unknown_format_is_refused_with_the_known_ones(any_yard: Yard) -> None:
    found = any_yard.refused(422, "GET", f"{JOB}/placement?format=slurm2")
    assert "'json', 'hostfile' or 'torchrun'" in found["format"]


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
    placed(yard, parallelism={"tp": 8}, failure={"max_restarts": 1, "backoff_s": 60})
    for node in yard.items("/v1/nodes"):
        yard.ok("POST", f"/v1/nodes/{node['name']}/cordon", {})
    yard.report_all("failed", 1)
    assert yard.ok("GET", JOB)["state"] == "pending"
    assert list(yard.refused(409, "GET", f"{JOB}/placement")) == ["state"]


def test_explain_names_the_nearest_domain_and_what_it_lacks(yard: Yard) -> None:
    yard.load()
    for node in ("a1", "b1", "c1"):
        yard.ok("POST", f"/v1/nodes/{node}/cordon", {})
    yard.submit(
        parallelism={"tp": 8, "pp": 4},
        topology=[{"group": "pp", "within": "rack", "mode": "required"}],
    )
    yard.cycle()
    found: dict[str, Any] = yard.ok("GET", f"{JOB}/explain")
    assert (found["fits"], found["when"], found["code"]) == (False, "not_now", "rule")
    assert found["rule"] == {"group": "pp", "within": "rack", "mode": "required"}
    assert found["nearest"]["lacks"] == {"nodes": 1, "gpus": 8}
    assert found["set_aside"] == {"cordoned": 3}
    assert found["message"]


def test_explain_of_a_job_nobody_looked_at_says_so(yard: Yard) -> None:
    yard.load()
    yard.submit()
    found = yard.ok("GET", f"{JOB}/explain")
    assert found["fits"] is False
    assert "not been looked at" in str(found["message"])


def test_explain_of_a_placed_job_is_short(yard: Yard) -> None:
    placed(yard, parallelism={"tp": 8})
    found = yard.ok("GET", f"{JOB}/explain")
    assert (found["fits"], found["when"], found["message"]) == (
        True,
        "now",
        "the job is bound, in its place",
    )


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
