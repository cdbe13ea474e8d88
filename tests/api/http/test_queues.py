"""Queues over HTTP."""

from urllib.parse import quote

import pytest

from tests.api.http.yard import Yard


def test_queue_is_made_changed_and_deleted(yard: Yard) -> None:
    body = {"name": "team", "quota_gpus": 16, "namespaces": ["ns"]}
    answer = yard.call("POST", "/v1/queues", body)
    assert answer.status_code == 201
    assert answer.json() | {"revision": 0} == {
        "name": "team",
        "parent": None,
        "quota_gpus": 16,
        "limit_gpus": None,
        "quota_by_model": {},
        "limit_by_model": {},
        "weight": 1.0,
        "max_priority": None,
        "max_pending": None,
        "namespaces": ["ns"],
        "closed": False,
        "used_gpus": 0,
        "used_by_model": {},
        "borrowed_gpus": 0,
        "lent_gpus": 16,
        "share": 0.0,
        "pending": 0,
        "running": 0,
        "revision": 0,
    }
    changed = yard.ok("PATCH", "/v1/queues/team", {"limit_gpus": 32, "quota_gpus": None})
    assert (changed["limit_gpus"], changed["quota_gpus"]) == (32, None)
    assert changed["namespaces"] == ["ns"]
    assert yard.ok("GET", "/v1/queues/team") == changed
    yard.ok("DELETE", "/v1/queues/team")
    assert yard.call("GET", "/v1/queues/team").status_code == 404


def test_queues_are_listed_with_default_among_them(yard: Yard) -> None:
    yard.ok("POST", "/v1/queues", {"name": "b"})
    yard.ok("POST", "/v1/queues", {"name": "c", "parent": "b"})
    first = yard.ok("GET", "/v1/queues?limit=2")
    assert isinstance(first["items"], list)
    assert [queue["name"] for queue in first["items"]] == ["b", "c"]
    assert [q["name"] for q in yard.items(f"/v1/queues?cursor={first['next']}")] == ["default"]


def test_queue_shows_what_its_jobs_hold(yard: Yard) -> None:
    yard.load()
    yard.ok("POST", "/v1/queues", {"name": "team"})
    yard.ok("POST", "/v1/queues", {"name": "a", "parent": "team"})
    yard.submit("x", queue="a", parallelism={"tp": 8})
    yard.cycle()
    yard.submit("y", queue="a", parallelism={"tp": 8})
    found = yard.ok("GET", "/v1/queues/team")
    assert (found["used_gpus"], found["pending"]) == (8, 1)


def test_name_in_use_is_a_conflict(yard: Yard) -> None:
    assert list(yard.refused(409, "POST", "/v1/queues", {"name": "default"})) == ["name"]


def test_unknown_parent_is_named(yard: Yard) -> None:
    found = yard.call("POST", "/v1/queues", {"name": "a", "parent": "nope"})
    assert found.status_code in {404, 422}
    assert "nope" in found.text


def test_queue_cannot_be_its_own_ancestor(yard: Yard) -> None:
    yard.ok("POST", "/v1/queues", {"name": "a"})
    yard.ok("POST", "/v1/queues", {"name": "b", "parent": "a"})
    found = yard.call("PATCH", "/v1/queues/a", {"parent": "b"})
    assert found.status_code in {409, 422}
    assert "parent" in found.text


def test_queue_in_use_is_not_deleted(yard: Yard) -> None:
    yard.load()
    yard.ok("POST", "/v1/queues", {"name": "a"})
    yard.submit(queue="a", parallelism={"tp": 8})
    assert yard.call("DELETE", "/v1/queues/a").status_code == 409
    assert yard.call("DELETE", "/v1/queues/default").status_code == 409


def test_queue_that_does_not_exist_is_named(any_yard: Yard) -> None:
    for method, body in (("GET", None), ("DELETE", None), ("PATCH", {"weight": 2})):
        assert "nope" in any_yard.refused(404, method, "/v1/queues/nope", body)[""]


def test_job_needs_a_namespace_that_its_queue_serves(yard: Yard) -> None:
    yard.load()
    yard.ok("POST", "/v1/queues", {"name": "a", "namespaces": ["x"], "max_priority": 5})
    body = {"name": "j", "queue": "a", "priority": 6, "parallelism": {"tp": 8}}
    assert list(yard.refused(422, "POST", "/v1/jobs", body)) == ["queue", "priority"]
    yard.ok("POST", "/v1/jobs", body | {"namespace": "x", "priority": 5})


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"quota_gpus": -1}, "quota_gpus"),
        ({"quota_gpus": 1.5}, "quota_gpus"),
        ({"limit_gpus": 2**63}, "limit_gpus"),
        ({"limit_gpus": "8"}, "limit_gpus"),
        ({"quota_by_model": {"CARD": -8}}, "quota_by_model.CARD"),
        ({"limit_by_model": {"": 8}}, "limit_by_model"),
        ({"weight": 0}, "weight"),
        ({"weight": -1.0}, "weight"),
        ({"weight": 5e-324}, "weight"),
        ({"max_pending": -1}, "max_pending"),
        ({"max_priority": 10**10}, "max_priority"),
        ({"quota_gpus": 16, "limit_gpus": 8}, "limit_gpus"),
        ({"quota_by_model": {"CARD": 8}, "limit_by_model": {"CARD": 4}}, "limit_by_model.CARD"),
        ({"quota_gpus": 8, "quota_by_model": {"CARD": 16}}, "quota_by_model"),
        ({"parent": "nope"}, "parent"),
        ({"parent": "q"}, "parent"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_queue_that_makes_no_sense_is_refused_at_the_field(
    yard: Yard, body: dict[str, object], path: str
) -> None:
    found = yard.refused(422, "POST", "/v1/queues", {"name": "q"} | body)
    assert [name for name in found if name.startswith(path)]
    assert yard.call("GET", "/v1/queues/q").status_code == 404
    yard.ok("POST", "/v1/queues", {"name": "q"})
    for method in ("PUT", "PATCH"):
        assert yard.call(method, "/v1/queues/q", body).status_code == 422
    assert yard.ok("GET", "/v1/queues/q") | {"revision": 0} == NEW


NEW: dict[str, object] = {
    "name": "q",
    "parent": None,
    "quota_gpus": None,
    "limit_gpus": None,
    "quota_by_model": {},
    "limit_by_model": {},
    "weight": 1.0,
    "max_priority": None,
    "max_pending": None,
    "namespaces": [],
    "closed": False,
    "used_gpus": 0,
    "used_by_model": {},
    "borrowed_gpus": None,
    "lent_gpus": None,
    "share": 0.0,
    "pending": 0,
    "running": 0,
    "revision": 0,
}


def test_quotas_of_children_stay_within_their_parents(yard: Yard) -> None:
    yard.ok("POST", "/v1/queues", {"name": "team", "quota_gpus": 16, "limit_gpus": 32})
    yard.ok("POST", "/v1/queues", {"name": "a", "parent": "team", "quota_gpus": 8})
    yard.ok("POST", "/v1/queues", {"name": "between", "parent": "team"})
    body = {"name": "b", "parent": "between", "quota_gpus": 9}
    message = yard.refused(422, "POST", "/v1/queues", body)["quota_gpus"]
    assert message == (
        "the queues below queue 'team' would be guaranteed 17 GPUs together; its quota_gpus is 16"
    )
    yard.ok("POST", "/v1/queues", body | {"quota_gpus": 8})
    assert "quota_gpus" in yard.refused(422, "PATCH", "/v1/queues/b", {"quota_gpus": 9})
    assert "quota_gpus" in yard.refused(422, "PATCH", "/v1/queues/team", {"quota_gpus": 15})
    yard.ok("POST", "/v1/queues", {"name": "other", "quota_gpus": 8})
    assert "quota_gpus" in yard.refused(422, "PATCH", "/v1/queues/other", {"parent": "team"})
    yard.ok("PATCH", "/v1/queues/team", {"quota_gpus": None})
    found = yard.refused(422, "PATCH", "/v1/queues/team", {"limit_gpus": 15})
    assert "guaranteed 16 GPUs together" in found["limit_gpus"]


def test_queue_is_put_made_replaced_and_put_again(yard: Yard) -> None:
    body = {"quota_gpus": 8, "limit_by_model": {"CARD": 16}}
    made = yard.call("PUT", "/v1/queues/q", body)
    assert (made.status_code, made.json()["limit_by_model"]) == (201, {"CARD": 16})
    again = yard.call("PUT", "/v1/queues/q", body | {"name": "q"})
    assert (again.status_code, again.json()) == (200, made.json())
    other = yard.ok("PUT", "/v1/queues/q", {"weight": 2.0})
    assert (other["quota_gpus"], other["weight"]) == (None, 2.0)


def test_queue_is_not_renamed(yard: Yard) -> None:
    yard.ok("POST", "/v1/queues", {"name": "q"})
    for method in ("PUT", "PATCH"):
        found = yard.refused(422, method, "/v1/queues/q", {"name": "r"})
        assert "cannot be renamed" in found["name"]
    for name in ("-q", "q r", "x" * 64):
        assert yard.call("PUT", f"/v1/queues/{quote(name)}", {}).status_code == 422


def test_queue_with_jobs_gets_no_queues_below_it_and_the_other_way_round(yard: Yard) -> None:
    yard.load()
    yard.ok("POST", "/v1/queues", {"name": "team"})
    yard.submit("x", queue="team", parallelism={"tp": 8})
    message = yard.refused(409, "POST", "/v1/queues", {"name": "a", "parent": "team"})["parent"]
    assert "queue 'team' has 1 jobs of its own" in message
    yard.ok("POST", "/v1/queues", {"name": "a"})
    assert yard.call("PATCH", "/v1/queues/a", {"parent": "team"}).status_code == 409
    assert yard.call("PUT", "/v1/queues/a", {"parent": "team"}).status_code == 409
    yard.ok("DELETE", "/v1/namespaces/default/jobs/x")
    yard.ok("PATCH", "/v1/queues/a", {"parent": "team"})
    body = {"name": "y", "queue": "team", "parallelism": {"tp": 8}}
    message = yard.refused(422, "POST", "/v1/jobs", body)["queue"]
    assert "queue 'team' has queues below it, such as 'a'" in message


def test_closed_queue_and_one_below_it_take_no_jobs(yard: Yard) -> None:
    yard.load()
    yard.ok("POST", "/v1/queues", {"name": "team", "closed": True})
    yard.ok("POST", "/v1/queues", {"name": "a", "parent": "team"})
    body = {"name": "x", "queue": "a", "parallelism": {"tp": 8}}
    message = yard.refused(422, "POST", "/v1/jobs", body)["queue"]
    assert message == "queue 'team', above queue 'a', is closed and takes no jobs"
    yard.submit("y", parallelism={"tp": 8})
    moved = yard.refused(422, "PATCH", "/v1/namespaces/default/jobs/y", {"queue": "a"})
    assert "closed" in moved["queue"]


def test_rules_of_queues_above_hold_for_a_job_too(yard: Yard) -> None:
    yard.load()
    yard.ok("POST", "/v1/queues", {"name": "team", "namespaces": ["x"], "max_priority": 5})
    yard.ok("POST", "/v1/queues", {"name": "a", "parent": "team"})
    body = {"name": "j", "queue": "a", "priority": 6, "parallelism": {"tp": 8}}
    assert list(yard.refused(422, "POST", "/v1/jobs", body)) == ["queue", "priority"]
    yard.ok("POST", "/v1/jobs", body | {"namespace": "x", "priority": 5})
    found = yard.refused(422, "PATCH", "/v1/namespaces/x/jobs/j", {"priority": 6})
    assert "queue 'team', above queue 'a', allows at most 5" in found["priority"]


def test_job_that_no_limit_holds_is_refused_or_waits_and_says_so(yard: Yard) -> None:
    yard.load()
    yard.ok("POST", "/v1/queues", {"name": "team", "limit_gpus": 8})
    yard.ok("POST", "/v1/queues", {"name": "a", "parent": "team"})
    body = {"name": "x", "queue": "a", "parallelism": {"tp": 8, "dp": 2}}
    answer = yard.call("POST", "/v1/jobs", body)
    assert (answer.status_code, answer.json()["type"]) == (422, "urn:podyard:problem:never-fits")
    assert "'team', above queue 'a', has a limit_gpus of 8; the job wants 16" in answer.text
    yard.ok("POST", "/v1/jobs", body | {"if_never_fits": "wait"})


def test_queue_takes_so_many_jobs_that_wait_and_no_more(yard: Yard) -> None:
    yard.load()
    yard.ok("POST", "/v1/queues", {"name": "team", "max_pending": 2})
    for name in ("a", "b"):
        yard.ok("POST", "/v1/queues", {"name": name, "parent": "team"})
    yard.submit("x", queue="a", parallelism={"tp": 8})
    yard.submit("y", queue="b", parallelism={"tp": 8})
    body = {"name": "z", "queue": "b", "parallelism": {"tp": 8}}
    message = yard.refused(429, "POST", "/v1/jobs", body)["queue"]
    assert message == "queue 'team' has a max_pending of 2, and 2 jobs wait in it and below"
    yard.ok("PATCH", "/v1/namespaces/default/jobs/x", {"queue": "b"})
    yard.submit("elsewhere", parallelism={"tp": 8})
    path = "/v1/namespaces/default/jobs/elsewhere"
    assert "queue" in yard.refused(429, "PATCH", path, {"queue": "a"})
    yard.cycle()
    batch = {"jobs": [body, body | {"name": "z2"}, body | {"name": "z3"}]}
    results = yard.ok("POST", "/v1/jobs:batch", batch)["items"]
    assert isinstance(results, list)
    assert [result["status"] for result in results] == [201, 201, 429]


def test_queue_shows_what_it_borrows_and_lends(yard: Yard) -> None:
    yard.load()
    yard.ok("POST", "/v1/queues", {"name": "a", "quota_gpus": 8})
    yard.ok("POST", "/v1/queues", {"name": "b", "quota_gpus": 16})
    yard.submit("x", queue="a", parallelism={"tp": 8, "dp": 3})
    yard.cycle()
    a, b = (yard.ok("GET", f"/v1/queues/{name}") for name in "ab")
    assert (a["used_gpus"], a["borrowed_gpus"], a["lent_gpus"], a["running"]) == (24, 16, 0, 1)
    assert (a["used_by_model"], a["share"]) == ({"CARD": 24}, 0.25)
    assert (b["used_gpus"], b["borrowed_gpus"], b["lent_gpus"], b["running"]) == (0, 0, 16, 0)


def test_chain_of_queues_ends_with_a_word_on_its_depth(yard: Yard) -> None:
    parent = None
    for number in range(32):
        yard.ok("POST", "/v1/queues", {"name": f"q{number}", "parent": parent})
        parent = f"q{number}"
    found = yard.refused(422, "POST", "/v1/queues", {"name": "more", "parent": parent})
    assert found["parent"] == "queue 'more' would make a tree of 33 levels; at most 32"


def test_usage_of_a_month_is_told_by_queue_and_by_job(yard: Yard) -> None:
    yard.load()
    job = yard.submit("x", parallelism={"tp": 8})
    yard.cycle()
    yard.ok("POST", "/v1/test/clock", {"advance_s": 1800})
    (row,) = yard.items("/v1/usage")
    month = row["month"]
    assert row == {
        "month": month,
        "queue": "default",
        "namespace": None,
        "job": None,
        "uid": None,
        "gpu": "CARD",
        "gpu_seconds": 14_400.0,
        "gpu_hours": 4.0,
    }
    (of_job,) = yard.items(f"/v1/usage?by=job&month={month}")
    assert of_job == row | {"namespace": "default", "job": "x", "uid": job["uid"]}
    assert yard.items("/v1/usage?month=2000-01") == []
    assert yard.items("/v1/usage?queue=other") == []
    for query in ("month=2026-13", "month=now", "by=node", "colour=red", "cursor=x"):
        assert yard.call("GET", f"/v1/usage?{query}").status_code == 422


def test_queues_have_metrics(yard: Yard) -> None:
    yard.load()
    yard.ok("POST", "/v1/queues", {"name": "a", "quota_gpus": 8})
    yard.submit("x", queue="a", parallelism={"tp": 8})
    text = yard.call("GET", "/metrics").text
    assert 'podyard_queue_pending_jobs{queue="a"} 1.0' in text
    yard.cycle()
    text = yard.call("GET", "/metrics").text
    assert 'podyard_queue_gpus{kind="used",queue="a"} 8.0' in text
    assert 'podyard_queue_gpus{kind="quota",queue="a"} 8.0' in text
    assert 'kind="limit"' not in text


def test_job_may_name_a_priority_of_the_policy(yard: Yard) -> None:
    yard.load()
    policy = yard.ok("GET", "/v1/policy")
    yard.ok("PUT", "/v1/policy", policy | {"priorities": {"high": 1000, "low": -5}})
    body = {"name": "x", "parallelism": {"tp": 8}, "priority_class": "high"}
    for status in (201, 200):
        answer = yard.call("POST", "/v1/jobs", body, headers={"Idempotency-Key": "k"})
        made = answer.json()
        assert (answer.status_code, made["priority"]) == (status, 1000)
        assert made["spec"]["priority_class"] == "high"
        assert "priority" not in made["spec"]
    changed = yard.ok("PATCH", "/v1/namespaces/default/jobs/x", {"priority": 7})
    assert isinstance(changed["spec"], dict)
    assert (changed["spec"]["priority"], "priority_class" in changed["spec"]) == (7, False)
    unknown = yard.refused(422, "POST", "/v1/jobs", body | {"priority_class": "top"})
    assert unknown["priority_class"] == "there is no 'top'; allowed are high, low"
    both = yard.refused(422, "POST", "/v1/jobs", body | {"priority": 3})
    assert "not both" in both["priority_class"]


def test_jobs_of_a_class_that_never_preempts_make_nobody_leave(yard: Yard) -> None:
    yard.load()
    policy = yard.ok("GET", "/v1/policy")
    classes = {"priorities": {"high": 1000, "meek": 900}, "never_preempt": ["meek"]}
    assert yard.ok("PUT", "/v1/policy", policy | classes)["never_preempt"] == ["meek"]
    job = {"name": "x", "parallelism": {"tp": 8}}
    meek = yard.ok("POST", "/v1/jobs", job | {"priority_class": "meek", "preempts": True})
    high = yard.ok("POST", "/v1/jobs", job | {"name": "y", "priority_class": "high"})
    said = yard.ok("POST", "/v1/jobs", job | {"name": "z", "preempts": False})
    told = [made["spec"]["preempts"] for made in (meek, high, said)]  # type: ignore[index]  # parsed JSON
    assert told == [False, True, False]
    unknown = policy | {"never_preempt": ["low"]}
    assert yard.refused(422, "PUT", "/v1/policy", unknown) == {
        "never_preempt[0]": "there is no priority 'low'; allowed are none: priorities has no names"
    }


def test_priority_of_a_class_is_held_against_its_queue(yard: Yard) -> None:
    yard.load()
    policy = yard.ok("GET", "/v1/policy")
    yard.ok("PUT", "/v1/policy", policy | {"priorities": {"high": 1000}})
    yard.ok("POST", "/v1/queues", {"name": "q", "max_priority": 10})
    body = {"name": "x", "queue": "q", "parallelism": {"tp": 8}, "priority_class": "high"}
    assert "allows at most 10" in yard.refused(422, "POST", "/v1/jobs", body)["priority"]


@pytest.mark.parametrize("classes", [{"-": 1}, {"high": 10**10}, {"high": 1.5}, {"high": "1"}])
def test_priorities_that_make_no_sense_are_refused(yard: Yard, classes: object) -> None:
    policy = yard.ok("GET", "/v1/policy")
    found = yard.refused(422, "PUT", "/v1/policy", policy | {"priorities": classes})
    assert [path for path in found if path.startswith("priorities")]
    assert yard.ok("GET", "/v1/policy") == policy


def test_queue_takes_back_what_it_has_lent(yard: Yard) -> None:
    """96 GPUs; 'a' is promised 48 and uses 96, 'b' is promised 48 and wants 16 of them."""
    yard.load()
    for name in ("a", "b"):
        yard.ok("POST", "/v1/queues", {"name": name, "quota_gpus": 48})
    for index in range(12):
        yard.submit(f"a{index}", queue="a", parallelism={"tp": 8})
    yard.cycle()
    yard.report_all("running")
    assert yard.ok("GET", "/v1/queues/a")["borrowed_gpus"] == 48
    yard.submit("b0", queue="b", parallelism={"tp": 8, "dp": 2})
    yard.cycle()
    path = "/v1/namespaces/default/jobs/b0"
    assert yard.ok("GET", path)["state"] == "reserved"
    leaving = [job for job in yard.items("/v1/jobs") if job["state"] == "evicting"]
    assert len(leaving) == 2
    for pod in yard.items("/v1/pods"):
        if pod["state"] == "terminating":
            body = {"attempt": pod["attempt"], "state": "stopped"}
            yard.ok("POST", f"/v1/namespaces/default/pods/{pod['name']}/status", body)
    yard.cycle()
    assert yard.ok("GET", path)["state"] == "bound"
    a, b = (yard.ok("GET", f"/v1/queues/{name}") for name in "ab")
    assert (a["used_gpus"], a["pending"], b["used_gpus"], b["lent_gpus"]) == (80, 2, 16, 32)
