"""Pods over HTTP, and what their nodes report."""

import pytest

from tests.api.http.yard import Yard

STATUS = "/v1/namespaces/default/pods/job-0/status"


@pytest.fixture
def bound(yard: Yard) -> Yard:
    """A service with one bound job of two pods."""
    yard.load()
    yard.submit(parallelism={"tp": 8, "dp": 2})
    yard.cycle()
    return yard


def test_pod_shows_its_gpus_ranks_and_place(bound: Yard) -> None:
    pod = bound.items("/v1/pods")[1]
    uid = bound.ok("GET", "/v1/namespaces/default/jobs/job")["uid"]
    assert pod | {"revision": 0} == {
        "namespace": "default",
        "job": "default/job",
        "name": "job-1",
        "role": "rank",
        "index": 1,
        "node": "c2",
        "gpus": [0, 1, 2, 3, 4, 5, 6, 7],
        "ranks": [8, 9, 10, 11, 12, 13, 14, 15],
        "state": "bound",
        "uid": f"{uid}--1",
        "attempt": 1,
        "exit_code": None,
        "domains": {"leaf": "l2", "rack": "r3"},
        "revision": 0,
    }


def test_pods_are_filtered_and_paged(bound: Yard) -> None:
    bound.submit("other", namespace="ns", parallelism={"tp": 8})
    bound.cycle()
    assert len(bound.items("/v1/pods")) == 3
    assert len(bound.items("/v1/pods?namespace=ns")) == 1
    assert len(bound.items("/v1/pods?job=job")) == 2
    assert len(bound.items("/v1/pods?job=ns/other")) == 1
    assert bound.items("/v1/pods?job=ns/other&namespace=default") == []
    assert len(bound.items("/v1/pods?node=c1")) == 1
    first = bound.ok("GET", "/v1/pods?limit=2")
    second = bound.ok("GET", f"/v1/pods?limit=2&cursor={first['next']}")
    assert isinstance(second["items"], list)
    assert [pod["name"] for pod in second["items"]] == ["other-0"]


def test_report_moves_the_pod(bound: Yard) -> None:
    bound.ok("POST", STATUS, {"attempt": 1, "state": "running"})
    bound.cycle()
    assert [pod["state"] for pod in bound.items("/v1/pods")] == ["running", "bound"]


def test_repeated_report_does_nothing(bound: Yard) -> None:
    report = {"attempt": 1, "state": "succeeded", "exit_code": 0}
    for _ in range(2):
        bound.ok("POST", STATUS, report)
        bound.cycle()
    revision = bound.ok("GET", "/v1/overview")["revision"]
    bound.ok("POST", STATUS, report)
    assert bound.ok("GET", "/v1/overview")["revision"] == revision


@pytest.mark.parametrize("attempt", [2, 7])
def test_report_of_another_life_is_a_conflict(bound: Yard, attempt: int) -> None:
    bound.refused(409, "POST", STATUS, {"attempt": attempt, "state": "running"})


def test_failed_pod_fails_its_job_and_frees_all_gpus(bound: Yard) -> None:
    bound.ok("POST", STATUS, {"attempt": 1, "state": "failed", "exit_code": 1})
    bound.cycle()
    assert bound.ok("GET", "/v1/namespaces/default/jobs/job")["state"] == "failed"
    gpus = bound.ok("GET", "/v1/overview")["gpus"]
    assert isinstance(gpus, dict)
    assert gpus["used"] == 0


def test_report_of_an_unknown_pod_names_it(any_yard: Yard) -> None:
    body = {"attempt": 1, "state": "running"}
    assert "default/job-0" in any_yard.refused(404, "POST", STATUS, body)[""]
