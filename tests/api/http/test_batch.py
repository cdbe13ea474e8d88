"""Batches: each job by itself right or wrong, all of them in one transaction."""

from typing import Any

import pytest

from api.schemas.reading import INLINE_BYTES
from api.store.engine import Database
from api.store.events import current_revision
from tests.api.http.yard import Json, Yard, problems

BATCH = "/v1/jobs:batch"


def job(name: str, **fields: object) -> dict[str, object]:
    return {"name": name, "parallelism": {"tp": 8}} | fields


def send(
    yard: Yard, jobs: object = (), delete: object = (), key: str | None = None
) -> tuple[list[Json], list[Json]]:
    """Items and deleted of a batch that is answered."""
    headers = None if key is None else {"Idempotency-Key": key}
    body = {"jobs": list(jobs), "delete": list(delete)}  # type: ignore[call-overload]  # any of them
    answer = yard.call("POST", BATCH, body, headers=headers)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    return found["items"], found["deleted"]


def statuses(items: list[Json]) -> list[object]:
    return [item["status"] for item in items]


def names(yard: Yard) -> list[object]:
    return [found["name"] for found in yard.items("/v1/jobs")]


def paths(item: Json) -> list[str]:
    errors: Any = item["errors"]
    return [error["path"] for error in errors]


def test_batch_says_what_became_of_each(yard: Yard) -> None:
    yard.load()
    jobs = [
        job("a"),
        job("a"),
        job("b", parallelism={"tp": 8, "dp": 100}),
        job("c", queue="nope"),
        job("d"),
    ]
    items, _ = send(yard, jobs)
    assert statuses(items) == [201, 409, 422, 422, 201]
    assert [paths(item) for item in items[1:4]] == [["name"], ["parallelism"], ["queue"]]
    assert names(yard) == ["a", "d"]


def test_job_of_a_wrong_form_keeps_no_other_out(yard: Yard) -> None:
    yard.load()
    jobs = [job("a"), job("b", priority="high", colour="red"), 7, job("c"), {}]
    items, _ = send(yard, jobs)
    assert statuses(items) == [201, 422, 422, 201, 422]
    assert paths(items[1]) == ["priority", "colour"]
    assert paths(items[4]) == ["name"]
    assert names(yard) == ["a", "c"]


def test_job_of_a_batch_is_the_same_as_one_by_itself(yard: Yard) -> None:
    yard.load()
    (item,), _ = send(yard, [job("a")])
    assert item["job"] == yard.ok("GET", "/v1/namespaces/default/jobs/a")
    single = yard.submit("b", parallelism={"tp": 8})
    own = {"name", "uid", "revision", "spec"}
    shown: Any = item["job"]
    assert {k: v for k, v in shown.items() if k not in own} == {
        k: v for k, v in single.items() if k not in own
    }


def test_thousand_jobs_are_a_batch_and_one_more_is_too_many(yard: Yard, database: Database) -> None:
    yard.load()
    jobs = [job(f"j{index}") for index in range(1_000)]
    before = current_revision(database)
    items, _ = send(yard, jobs)
    assert statuses(items) == [201] * 1_000
    assert current_revision(database) == before + 1_000
    assert len(names(yard)) == 500
    more = [*jobs, job("more")]
    assert "1000" in yard.refused(422, "POST", BATCH, {"jobs": more})["jobs"]
    assert len(str(more)) > INLINE_BYTES


@pytest.mark.parametrize("body", [{}, {"jobs": []}, {"jobs": [], "delete": []}])
def test_empty_batch_is_refused(any_yard: Yard, body: object) -> None:
    assert "jobs" in any_yard.refused(422, "POST", BATCH, body)


@pytest.mark.parametrize("path", ["a", "a/", "/a", "a/b/c", 7, "a/\n"])
def test_name_of_a_job_to_end_has_a_namespace(any_yard: Yard, path: object) -> None:
    assert "delete[0]" in any_yard.refused(422, "POST", BATCH, {"delete": [path]})


def test_batch_ends_jobs_as_a_delete_does(yard: Yard) -> None:
    yard.load()
    send(yard, [job("runs"), job("ended"), job("waits", parallelism={"tp": 8, "dp": 12})])
    yard.cycle()
    yard.ok("DELETE", "/v1/namespaces/default/jobs/ended")
    yard.cycle()
    _, deleted = send(yard, delete=["default/runs", "default/ended", "default/waits", "other/runs"])
    assert statuses(deleted) == [200, 200, 200, 404]
    shown: list[Any] = [item.get("job") for item in deleted]
    assert [found and found["state"] for found in shown] == [
        "bound",
        "cancelled",
        "cancelled",
        None,
    ]
    assert shown[0]["message"] == "a cancel was asked for"
    yard.cycle()
    assert {found["name"]: found["state"] for found in yard.items("/v1/jobs")} == {
        "runs": "cancelled",
        "waits": "cancelled",
    }
    gpus: Any = yard.ok("GET", "/v1/overview")["gpus"]
    assert gpus["used"] == 0


def test_job_named_twice_is_ended_once(yard: Yard) -> None:
    """The second would delete the record that the first is about."""
    yard.load()
    send(yard, [job("a")])
    _, deleted = send(yard, delete=["default/a", "default/a"])
    assert statuses(deleted) == [200, 409]
    assert names(yard) == ["a"]


def test_name_of_a_job_that_the_batch_ends_can_be_used_in_it(yard: Yard) -> None:
    yard.load()
    send(yard, [job("a")])
    items, deleted = send(yard, [job("a")], ["default/a"])
    assert statuses([*deleted, *items]) == [200, 201]
    assert [found["state"] for found in yard.items("/v1/jobs")] == ["cancelled", "pending"]


def test_batch_under_a_known_key_is_the_same_jobs(yard: Yard) -> None:
    yard.load()
    first, _ = send(yard, [job("a"), job("b", namespace="ns"), job("c", colour="red")], key="k")
    again, _ = send(yard, [job("a"), job("b", namespace="ns"), job("c", colour="red")], key="k")
    assert (statuses(first), statuses(again)) == ([201, 201, 422], [200, 200, 422])
    assert [item.get("job") for item in first] == [item.get("job") for item in again]
    assert names(yard) == ["a", "b"]


def test_other_job_in_a_place_of_a_known_key_is_a_conflict(yard: Yard) -> None:
    yard.load()
    send(yard, [job("a"), job("b")], key="k")
    items, _ = send(yard, [job("a"), job("c"), job("d")], key="k")
    assert statuses(items) == [200, 409, 201]
    assert paths(items[1]) == ["Idempotency-Key"]


def test_key_of_a_batch_is_not_that_of_a_single_job(yard: Yard) -> None:
    yard.load()
    send(yard, [job("a")], key="k")
    answer = yard.call("POST", "/v1/jobs", job("b"), headers={"Idempotency-Key": "k"})
    assert answer.status_code == 201


def test_ends_under_a_known_key_are_done_once(yard: Yard) -> None:
    """Else the retry of a cancel would delete the record."""
    yard.load()
    send(yard, [job("a")])
    for _ in range(2):
        _, deleted = send(yard, delete=["default/a"], key="k")
        shown: Any = deleted[0]["job"]
        assert (deleted[0]["status"], shown["state"]) == (200, "cancelled")
    yard.ok("DELETE", "/v1/namespaces/default/jobs/a")
    _, deleted = send(yard, delete=["default/a"], key="k")
    assert deleted == [{"status": 200}]
    _, deleted = send(yard, delete=["default/other"], key="k")
    assert paths(deleted[0]) == ["Idempotency-Key"]


def test_retried_batch_finds_its_jobs_though_they_would_be_refused_by_now(yard: Yard) -> None:
    yard.load()
    yard.ok("POST", "/v1/queues", {"name": "q"})
    jobs = [job("a", queue="q", priority=7), job("b")]
    send(yard, jobs, key="k")
    yard.ok("PATCH", "/v1/queues/q", {"max_priority": 5})
    items, _ = send(yard, jobs, key="k")
    assert statuses(items) == [200, 200]
    items, _ = send(yard, jobs, key="other")
    assert statuses(items) == [422, 409]
    items, _ = send(yard, [job("a", queue="q", priority=8)], key="k")
    assert statuses(items) == [409]


def test_batch_of_nothing_but_wrong_jobs_writes_nothing(yard: Yard, database: Database) -> None:
    yard.load()
    before = current_revision(database)
    items, deleted = send(yard, [{}, job("a", queue="nope")], ["a/b"])
    assert statuses([*items, *deleted]) == [422, 422, 404]
    assert current_revision(database) == before


def test_key_twice_in_one_object_spoils_the_whole_batch(yard: Yard) -> None:
    """No entry can be told from another in such a body."""
    yard.load()
    content = b'{"jobs": [{"name": "a", "name": "b", "parallelism": {}}]}'
    headers = {"Content-Type": "application/json"}
    assert "name" in problems(yard.call("POST", BATCH, content=content, headers=headers), 400)
