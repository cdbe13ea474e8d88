"""Why a job waits, who holds what it lacks, and what would make it fit."""

from typing import Any

import pytest

from tests.api.http.yard import Yard, only_sees

JOB = "/v1/namespaces/default/jobs/job"
RULE = [{"group": "pp", "within": "rack", "mode": "required"}]


def explained(yard: Yard, path: str = JOB) -> dict[str, Any]:
    return yard.ok("GET", f"{path}/explain")


def full(yard: Yard) -> None:
    """Three jobs of a rack each; the first two have said how long they run."""
    yard.load()
    for number, hours in enumerate((2, 1, None)):
        more: dict[str, object] = {} if hours is None else {"duration_s": 3600.0 * hours}
        yard.submit(f"old-{number}", parallelism={"tp": 8, "pp": 4}, topology=RULE, **more)
        yard.cycle()
    yard.report_all("running")


def changes(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {change["kind"]: change for change in reversed(found["changes"])}


def test_explain_names_the_nearest_domain_and_what_it_lacks(yard: Yard) -> None:
    yard.load()
    for node in ("a1", "b1", "c1"):
        yard.ok("POST", f"/v1/nodes/{node}/cordon", {})
    yard.submit(parallelism={"tp": 8, "pp": 4}, topology=RULE)
    yard.cycle()
    found = explained(yard)
    assert (found["fits"], found["when"], found["code"]) == (False, "not_now", "rule")
    assert found["rule"] == {"group": "pp", "within": "rack", "mode": "required"}
    assert found["nearest"]["lacks"] == {"nodes": 1, "gpus": 8}
    assert found["set_aside"] == {"cordoned": 3}
    assert found["message"]


def test_cordoned_nodes_are_proposed_and_a_rule_to_relax(yard: Yard) -> None:
    yard.load()
    for node in ("a1", "b1", "c1"):
        yard.ok("POST", f"/v1/nodes/{node}/cordon", {})
    yard.submit(parallelism={"tp": 8, "pp": 4}, topology=RULE)
    yard.cycle()
    found = changes(explained(yard))
    assert len(found["uncordon"]["nodes"]) == 1
    assert found["relax"]["rules"] == [
        {"role": None, "before": RULE[0], "after": RULE[0] | {"within": "leaf"}}
    ]
    assert found["relax"]["message"] == "relax the rule 'pp within rack, required' to leaf"
    yard.ok("POST", f"/v1/nodes/{found['uncordon']['nodes'][0]}/uncordon", {})
    yard.cycle()
    assert yard.ok("GET", JOB)["state"] == "bound"


def asked(yard: Yard, **fields: object) -> dict[str, Any]:
    """What a dry run says."""
    return yard.ok("POST", "/v1/jobs?dry_run=true", {"name": "job"} | fields)


def test_holders_are_named_with_their_gpus_and_expected_end(yard: Yard) -> None:
    full(yard)
    found = asked(yard, parallelism={"tp": 8, "dp": 4})
    assert found["nearest"]["domain"] == ""
    names = ["default/old-1", "default/old-0", "default/old-2"]
    assert [h["job"] for h in found["holders"]] == names
    assert [h["gpus"] for h in found["holders"]] == [32, 32, 32]
    ends = [h["expected_end"] for h in found["holders"]]
    assert ends[0] < ends[1]
    assert ends[2] is None
    assert found["expected_start"] == ends[0]


def test_gang_with_a_place_to_come_is_told_who_is_in_the_way_and_until_when(yard: Yard) -> None:
    full(yard)
    yard.submit(parallelism={"tp": 8, "dp": 4})
    yard.cycle()
    assert yard.ok("GET", JOB)["state"] == "reserved"
    found = explained(yard)
    assert (found["fits"], found["code"]) == (False, "reservation")
    (holder,) = found["holders"]
    assert (holder["job"], holder["gpus"]) == ("default/old-1", 32)
    assert found["expected_start"] == holder["expected_end"]
    assert changes(found)["finish"]["jobs"] == ["default/old-1"]


def test_gangs_before_it_in_line_are_counted(yard: Yard) -> None:
    full(yard)
    for name in ("first", "second", "job"):
        yard.submit(name, parallelism={"tp": 8, "dp": 4})
    yard.cycle()
    assert explained(yard)["ahead"] == 2
    assert asked(yard, parallelism={"tp": 8, "dp": 4}, priority=1)["ahead"] == 0


def test_only_holders_in_the_nearest_domain_are_named(yard: Yard) -> None:
    full(yard)
    yard.submit(parallelism={"tp": 8, "pp": 4}, topology=RULE)
    yard.cycle()
    found = explained(yard)
    assert found["nearest"]["level"] == "rack"
    assert len(found["holders"]) == 1


def test_the_job_that_ends_first_is_proposed_and_makes_room_when_it_does(yard: Yard) -> None:
    full(yard)
    yard.submit(parallelism={"tp": 8, "pp": 4}, topology=RULE)
    yard.cycle()
    found = explained(yard)
    first = found["changes"][0]
    assert (first["kind"], first["job"], first["verified"]) == ("finish", "default/old-1", True)
    assert first["message"] == "when 'default/old-1' ends (32 GPUs)"
    assert first["expected_end"] == found["expected_start"]
    yard.ok("DELETE", "/v1/namespaces/default/jobs/old-1")
    yard.cycle()
    for pod in yard.items("/v1/pods?job=old-1"):
        if pod["state"] == "terminating":
            path = f"/v1/namespaces/default/pods/{pod['name']}/status"
            yard.ok("POST", path, {"attempt": pod["attempt"], "state": "stopped"})
    yard.cycle(2)
    assert yard.ok("GET", JOB)["state"] == "bound"


def test_jobs_of_other_tenants_are_told_as_numbers(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    full(yard)
    only_sees(monkeypatch, "mine")
    found = asked(yard, parallelism={"tp": 8, "pp": 4}, namespace="mine")
    assert found["holders"] == [
        {"job": None, "gpus": 96, "expected_end": None, "hidden": 3, "more": 0}
    ]
    finish = changes(found)["finish"]
    assert (finish["job"], finish["jobs"], finish["hidden"]) == (None, [], 1)
    assert "old-" not in str(found)


def test_explain_of_a_job_that_the_caller_may_not_see_is_not_found(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    yard.load()
    yard.submit()
    only_sees(monkeypatch, "mine")
    yard.refused(404, "GET", f"{JOB}/explain")


def test_explain_of_a_job_nobody_looked_at_says_so(yard: Yard) -> None:
    yard.load()
    yard.submit()
    found = explained(yard)
    assert found["fits"] is False
    assert "not been looked at" in str(found["message"])


def test_explain_of_a_placed_job_says_where_and_what_holds(yard: Yard) -> None:
    yard.load()
    yard.submit(parallelism={"tp": 8, "pp": 4}, topology=RULE)
    yard.cycle()
    found = explained(yard)
    assert (found["fits"], found["when"]) == (True, "now")
    assert found["message"] == (
        "the job is bound, in its place: 4 pods on 4 nodes in rack 'r3', leaf 'l2';"
        " what holds: pp within rack, required"
    )
    assert found["domains"] == {"rack": 1, "leaf": 1, "node": 4}
    assert found["rules_broken"] == []


def test_explain_of_a_placed_job_names_the_preference_that_does_not_hold(yard: Yard) -> None:
    yard.load()
    yard.submit(
        parallelism={"tp": 8, "pp": 6},
        topology=[{"group": "pp", "within": "rack", "mode": "preferred"}],
    )
    yard.cycle()
    found = explained(yard)
    assert found["rules_broken"] == [{"group": "pp", "within": "rack"}]
    assert "what does not hold: pp within rack, preferred" in found["message"]


def test_explain_of_an_ended_job_says_how_it_ended(yard: Yard) -> None:
    yard.load()
    yard.submit(parallelism={"tp": 8})
    yard.cycle()
    yard.report_all("running")
    yard.report_all("succeeded", 0)
    found = explained(yard)
    assert (found["fits"], found["changes"]) == (True, [])
    assert "succeeded" in found["message"]


def test_paused_scheduler_is_what_a_job_waits_for(yard: Yard) -> None:
    yard.load()
    yard.ok("POST", "/v1/scheduler/pause", {})
    yard.submit()
    yard.cycle()
    found = explained(yard)
    assert (found["code"], found["changes"]) == ("paused", [])
    assert "paused" in found["message"]


def test_room_that_came_since_the_last_cycle_is_told(yard: Yard) -> None:
    yard.load()
    for node in ("a1", "b1", "c1"):
        yard.ok("POST", f"/v1/nodes/{node}/cordon", {})
    yard.submit(parallelism={"tp": 8, "pp": 4}, topology=RULE)
    yard.cycle()
    yard.ok("POST", "/v1/nodes/a1/uncordon", {})
    found = explained(yard)
    assert (found["fits"], found["when"], found["changes"]) == (True, "now", [])
    assert "there is room for it now" in found["message"]


def test_held_and_suspended_jobs_wait_for_people(yard: Yard) -> None:
    yard.load()
    yard.submit()
    yard.ok("POST", f"{JOB}/hold", {})
    yard.cycle()
    found = explained(yard)
    assert (found["fits"], found["changes"]) == (False, [])
    assert "held" in found["message"]
    yard.ok("POST", f"{JOB}/suspend", {})
    yard.cycle()
    found = explained(yard)
    assert (found["fits"], found["changes"]) == (False, [])
    assert "suspend" in found["message"]


def test_patient_job_is_told_until_when_it_waits_for_a_better_place(yard: Yard) -> None:
    yard.load()
    for node in ("a1", "b1", "c1"):
        yard.ok("POST", f"/v1/nodes/{node}/cordon", {})
    yard.submit(
        parallelism={"tp": 8, "pp": 4},
        topology=[{"group": "pp", "within": "rack", "mode": "preferred"}],
        patience_s=600.0,
    )
    yard.cycle()
    found = explained(yard)
    assert (found["code"], found["changes"]) == ("patience", [])
    assert found["expected_start"] is not None
    assert found["message"]


def test_dry_run_that_does_not_fit_gives_the_full_answer(yard: Yard) -> None:
    full(yard)
    body = {"name": "job", "parallelism": {"tp": 8, "pp": 2, "dp": 2}, "priority": 5}
    found: dict[str, Any] = yard.ok("POST", "/v1/jobs?dry_run=true", body)
    assert found["fits"] is False
    assert found["holders"][0]["job"] == "default/old-1"
    assert set(changes(found)) == {"finish", "preempt"}
    assert yard.items("/v1/jobs?state=pending") == []


def test_gang_that_never_fits_is_told_to_shrink(yard: Yard) -> None:
    yard.load()
    body = {"name": "job", "parallelism": {"tp": 8, "dp": 20}}
    found: dict[str, Any] = yard.ok("POST", "/v1/jobs?dry_run=true", body)
    assert (found["when"], found["holders"]) == ("never", [])
    assert changes(found)["shrink"]["dp"] == 12


def test_limit_of_a_queue_is_named_and_what_it_would_have_to_be(yard: Yard) -> None:
    yard.load()
    yard.ok("POST", "/v1/queues", {"name": "small", "limit_gpus": 16})
    body = {"name": "job", "queue": "small", "parallelism": {"tp": 8, "pp": 4}}
    found: dict[str, Any] = yard.ok("POST", "/v1/jobs?dry_run=true", body)
    assert found["code"] == "limit"
    assert changes(found)["limit"]["queues"] == [
        {"queue": "small", "limit_gpus": 32, "model": None}
    ]


@pytest.mark.parametrize("path", ["nosuch", "a%00b", "x" * 300])
def test_explain_of_no_job_is_not_found(any_yard: Yard, path: str) -> None:
    answer = any_yard.call("GET", f"/v1/namespaces/default/jobs/{path}/explain")
    assert answer.status_code == 404
