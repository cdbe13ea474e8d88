"""Queues over HTTP."""

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
        "weight": 1.0,
        "max_priority": None,
        "namespaces": ["ns"],
        "used_gpus": 0,
        "pending": 0,
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
