"""Hold, release, suspend, resume, requeue and checkpoints, as people ask for them."""

import pytest

from tests.api.http.yard import Json, Yard, only_sees

JOB = "/v1/namespaces/default/jobs/job"
VERBS = ("hold", "release", "suspend", "resume", "requeue")


def stop_all(yard: Yard) -> None:
    """Every pod that was told to stop has done so."""
    for pod in yard.items("/v1/pods"):
        if pod["state"] == "terminating":
            body = {"attempt": pod["attempt"], "state": "stopped"}
            yard.ok("POST", f"/v1/namespaces/default/pods/{pod['name']}/status", body)
    yard.cycle()


def events(yard: Yard) -> list[str]:
    return [str(event["kind"]) for event in yard.items("/v1/events?since=0")]


def running(yard: Yard) -> Json:
    yard.load()
    yard.submit()
    yard.cycle()
    yard.report_all("running")
    return yard.ok("GET", JOB)


def test_held_job_does_not_start_before_it_is_released(yard: Yard) -> None:
    yard.load()
    yard.submit()
    held = yard.ok("POST", f"{JOB}/hold")
    assert (held["held"], held["state"]) == (True, "pending")
    yard.cycle(2)
    job = yard.ok("GET", JOB)
    assert (job["held"], job["state"], job["message"]) == (
        True,
        "pending",
        "held until it is released",
    )
    released = yard.ok("POST", f"{JOB}/release", {})
    assert released["held"] is False
    yard.cycle(2)
    assert yard.ok("GET", JOB)["state"] == "bound"


def test_running_job_that_is_held_runs_on(yard: Yard) -> None:
    running(yard)
    yard.ok("POST", f"{JOB}/hold")
    yard.cycle()
    job = yard.ok("GET", JOB)
    assert (job["state"], job["held"], job["running"]) == ("running", True, 4)


def test_suspended_job_gives_its_nodes_back_and_resumes(yard: Yard) -> None:
    before = running(yard)
    yard.ok("POST", f"{JOB}/suspend")
    yard.cycle()
    job = yard.ok("GET", JOB)
    assert job["state"] == "evicting"
    evicting = job["evicting"]
    assert isinstance(evicting, dict)
    assert (evicting["then"], evicting["step"]) == ("suspended", "terminating")
    stop_all(yard)
    job = yard.ok("GET", JOB)
    assert (job["state"], job["evicting"], job["running"]) == ("suspended", None, 0)
    assert {pod["state"] for pod in yard.items("/v1/pods")} == {"stopped"}
    yard.cycle(2)
    assert yard.ok("GET", JOB)["state"] == "suspended"
    yard.ok("POST", f"{JOB}/resume")
    yard.cycle(2)
    job = yard.ok("GET", JOB)
    assert (job["state"], job["attempt"], job["uid"]) == ("bound", 2, before["uid"])


def test_requeued_job_starts_anew_in_its_old_place_of_the_line(yard: Yard) -> None:
    running(yard)
    yard.ok("POST", f"{JOB}/requeue")
    yard.cycle()
    assert yard.ok("GET", JOB)["state"] == "evicting"
    stop_all(yard)
    yard.cycle()
    job = yard.ok("GET", JOB)
    assert (job["state"], job["attempt"]) == ("bound", 2)


@pytest.mark.parametrize("verb", VERBS)
def test_asking_twice_is_asking_once(yard: Yard, verb: str) -> None:
    running(yard)
    first = yard.ok("POST", f"{JOB}/{verb}")
    count = len(events(yard))
    again = yard.ok("POST", f"{JOB}/{verb}")
    assert again == first
    assert len(events(yard)) == count
    yard.cycle()
    count = len(events(yard))
    yard.ok("POST", f"{JOB}/{verb}")
    assert len(events(yard)) == count


@pytest.mark.parametrize("verb", ["release", "resume", "requeue"])
def test_what_is_so_already_is_taken_and_does_nothing(yard: Yard, verb: str) -> None:
    yard.load()
    job = yard.submit()
    assert yard.ok("POST", f"{JOB}/{verb}") == job
    assert not any(kind.endswith("_asked") for kind in events(yard))


def test_of_opposite_wishes_the_later_holds(yard: Yard) -> None:
    yard.load()
    yard.submit()
    for verb, held in (("hold", True), ("release", False), ("hold", True)):
        assert yard.ok("POST", f"{JOB}/{verb}")["held"] is held
    yard.cycle()
    assert yard.ok("GET", JOB)["held"] is True


def test_suspend_and_resume_before_the_scheduler_saw_either_leave_a_job_in_line(
    yard: Yard,
) -> None:
    yard.load()
    yard.submit()
    yard.ok("POST", f"{JOB}/suspend")
    yard.ok("POST", f"{JOB}/resume")
    yard.cycle(2)
    assert yard.ok("GET", JOB)["state"] == "bound"


@pytest.mark.parametrize("verb", VERBS)
def test_job_that_has_ended_is_not_controlled(yard: Yard, verb: str) -> None:
    running(yard)
    yard.report_all("succeeded", 0)
    told = yard.refused(409, "POST", f"{JOB}/{verb}")
    assert told == {"state": f"cannot {verb} job 'default/job': it is succeeded; submit it anew"}


@pytest.mark.parametrize("verb", VERBS)
def test_job_that_is_being_cancelled_is_not_controlled(yard: Yard, verb: str) -> None:
    running(yard)
    yard.ok("DELETE", JOB)
    assert "it is being cancelled" in yard.refused(409, "POST", f"{JOB}/{verb}")["state"]


def test_suspended_job_is_resumed_not_requeued(yard: Yard) -> None:
    yard.load()
    yard.submit()
    yard.ok("POST", f"{JOB}/suspend")
    yard.cycle()
    assert yard.ok("GET", JOB)["state"] == "suspended"
    assert "resume it" in yard.refused(409, "POST", f"{JOB}/requeue")["state"]


@pytest.mark.parametrize("verb", VERBS)
def test_control_of_a_job_that_is_not_there_is_404(yard: Yard, verb: str) -> None:
    assert yard.call("POST", f"{JOB}/{verb}").status_code == 404


@pytest.mark.parametrize("verb", VERBS)
def test_control_takes_no_fields(yard: Yard, verb: str) -> None:
    yard.load()
    yard.submit()
    told = yard.refused(422, "POST", f"{JOB}/{verb}", {"force": True})
    assert "unknown field" in told["force"]


def test_cancel_of_a_suspended_job_ends_it(yard: Yard) -> None:
    yard.load()
    yard.submit()
    yard.ok("POST", f"{JOB}/suspend")
    yard.cycle()
    yard.ok("DELETE", JOB)
    yard.cycle()
    assert yard.ok("GET", JOB)["state"] == "cancelled"


def test_delete_of_a_job_whose_nodes_have_no_agent_frees_at_once(yard: Yard) -> None:
    running(yard)
    yard.ok("POST", f"{JOB}/suspend")
    yard.cycle()
    yard.ok("DELETE", JOB)
    yard.cycle()
    assert yard.ok("GET", JOB)["state"] == "cancelled"
    assert sum(int(str(node["gpus_free"])) for node in yard.items("/v1/nodes")) == 96


# -- changes of a job that waits for its place ----------------------------------------------------


def reserved(yard: Yard) -> Json:
    """A gang of roles whose victim has yet to leave."""
    yard.load()
    yard.submit("low", roles=[{"name": "m", "replicas": 12, "gpus": 8}])
    yard.cycle()
    yard.submit(roles=[{"name": "m", "replicas": 6, "min": 4, "gpus": 8}], priority=5)
    yard.cycle()
    job = yard.ok("GET", JOB)
    assert job["state"] == "reserved"
    return job


def test_claims_of_a_gang_that_waits_for_its_place_are_listed(yard: Yard) -> None:
    reserved(yard)
    claims = yard.items("/v1/claims?namespace=default&job=job")
    assert len(claims) >= 4
    assert {claim["why"] for claim in claims} == {"preemption"}
    assert {str(claim["job"]) for claim in claims} == {"default/job"}
    node = claims[0]["node"]
    assert [claim["node"] for claim in yard.items(f"/v1/claims?node={node}")] == [node]
    first = yard.ok("GET", "/v1/claims?limit=2")
    rest = yard.items(f"/v1/claims?cursor={first['next']}")
    assert [first["items"], rest] == [claims[:2], claims[2:]]


def test_claims_of_another_tenant_are_on_the_map_alone_without_whose_they_are(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserved(yard)
    assert yard.items("/v1/claims")
    only_sees(monkeypatch, "vision")
    assert yard.items("/v1/claims") == []
    drawn = yard.ok("GET", "/v1/map")
    assert drawn["jobs"] == []
    assert isinstance(drawn["claims"], list)
    assert {(claim["job"], claim["why"]) for claim in drawn["claims"]} == {(0, "preemption")}


def test_queue_of_a_gang_with_its_place_kept_does_not_change(yard: Yard) -> None:
    reserved(yard)
    yard.ok("POST", "/v1/queues", {"name": "other"})
    assert "only a pending job" in yard.refused(409, "PATCH", JOB, {"queue": "other"})["queue"]


def test_members_of_a_gang_with_its_place_kept_are_planned_anew(yard: Yard) -> None:
    """Its claims were for other members than it is to have."""
    reserved(yard)
    yard.ok("PATCH", JOB, {"roles": [{"name": "m", "replicas": 3, "min": 3}]})
    yard.cycle()
    claims = yard.items("/v1/claims?namespace=default&job=job")
    assert len(claims) == 3


def test_priority_of_a_gang_with_its_place_kept_changes(yard: Yard) -> None:
    reserved(yard)
    assert yard.ok("PATCH", JOB, {"priority": 9})["priority"] == 9
    yard.cycle()
    assert yard.ok("GET", JOB)["state"] == "reserved"


@pytest.mark.parametrize("verb", ["hold", "suspend"])
def test_gang_that_is_held_gives_up_the_place_kept_for_it(yard: Yard, verb: str) -> None:
    reserved(yard)
    yard.ok("POST", f"{JOB}/{verb}")
    yard.cycle()
    assert yard.items("/v1/claims") == []
    assert yard.ok("GET", JOB)["state"] == {"hold": "pending", "suspend": "suspended"}[verb]


def test_cancelled_gang_gives_up_the_place_kept_for_it(yard: Yard) -> None:
    reserved(yard)
    yard.ok("DELETE", JOB)
    yard.cycle()
    assert yard.ok("GET", JOB)["state"] == "cancelled"
    assert yard.items("/v1/claims") == []


def test_gang_starts_where_its_claims_were(yard: Yard) -> None:
    reserved(yard)
    kept = {claim["node"] for claim in yard.items("/v1/claims?job=job&namespace=default")}
    stop_all(yard)
    yard.cycle()
    assert yard.ok("GET", JOB)["state"] == "bound"
    there = {p["node"] for p in yard.items("/v1/pods?job=job&namespace=default")}
    assert kept <= there
    assert yard.items("/v1/claims") == []


# -- checkpoints ----------------------------------------------------------------------------------


def test_checkpoint_is_shown_with_its_job(yard: Yard) -> None:
    assert running(yard)["saved"] is None
    body = {"step": 100, "uri": "s3://b/100", "tier": "local", "nodes": ["a1"], "request_id": "r"}
    job = yard.ok("POST", f"{JOB}/checkpoints", body)
    saved = job["saved"]
    assert isinstance(saved, dict)
    assert (saved["step"], saved["uri"]) == (100, "s3://b/100")
    (event,) = yard.items("/v1/events?since=0&kind=job.saved")
    assert event["message"] == "step 100 at s3://b/100"
    assert event["body"] == {
        "step": 100,
        "uri": "s3://b/100",
        "tier": "local",
        "request_id": "r",
        "nodes": ["a1"],
        "node_count": 1,
    }


def test_same_checkpoint_again_does_nothing(yard: Yard) -> None:
    running(yard)
    body = {"step": 100, "uri": "s3://b/100"}
    first = yard.ok("POST", f"{JOB}/checkpoints", body)
    assert yard.ok("POST", f"{JOB}/checkpoints", body) == first


def test_checkpoint_of_an_earlier_step_is_refused(yard: Yard) -> None:
    running(yard)
    yard.ok("POST", f"{JOB}/checkpoints", {"step": 100, "uri": "x"})
    told = yard.refused(409, "POST", f"{JOB}/checkpoints", {"step": 99, "uri": "y"})
    assert "has saved step 100 already" in told["step"]


def test_checkpoint_of_a_job_that_has_ended_is_refused(yard: Yard) -> None:
    running(yard)
    yard.report_all("succeeded", 0)
    told = yard.refused(409, "POST", f"{JOB}/checkpoints", {"step": 1, "uri": "x"})
    assert "is succeeded" in told["state"]


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"uri": "x"}, "step"),
        ({"step": 1}, "uri"),
        ({"step": -1, "uri": "x"}, "step"),
        ({"step": 1.5, "uri": "x"}, "step"),
        ({"step": 1, "uri": ""}, "uri"),
        ({"step": 1, "uri": "x", "nodes": [""]}, "nodes[0]"),
        ({"step": 1, "uri": "x", "more": 1}, "more"),
    ],
)
def test_checkpoint_that_makes_no_sense_is_refused(yard: Yard, body: Json, path: str) -> None:
    running(yard)
    assert path in yard.refused(422, "POST", f"{JOB}/checkpoints", body)
    assert yard.ok("GET", JOB)["saved"] is None
