"""`yardctl queue` and `yardctl usage`: what they send and what they say."""

import json

import pytest

from client.shapes import Usage
from tests.client.fake_server import Answer, FakeServer, problem
from tests.client.golden_text import Yardctl
from tests.client.sample import make_queues


@pytest.fixture
def taking(server: FakeServer) -> FakeServer:
    """A service that takes every queue."""
    queue = make_queues()[1]
    server.replies["POST", "/v1/queues"] = Answer(queue, 201)
    server.replies["PATCH", "/v1/queues/research"] = Answer(queue)
    server.replies["DELETE", "/v1/queues/research"] = Answer(queue)
    return server


def sent(server: FakeServer) -> object:
    """The body of the last request."""
    return json.loads(server.requests[-1].body)


def test_queue_is_created_from_options(taking: FakeServer, yardctl: Yardctl) -> None:
    result = yardctl(
        "queue", "create", "research", "--parent", "root", "--quota", "512", "--limit", "1024",
        "--limit-of", "H200-141GB=64", "--limit-of", "A100-80GB=8", "--weight", "2.5",
        "--max-priority", "1000", "--max-pending", "500", "--namespaces", "research, shared",
        "--closed",
    )  # fmt: skip
    assert (result.exit_code, result.stdout) == (0, "queue/research created\n")
    assert sent(taking) == {
        "name": "research",
        "parent": "root",
        "quota_gpus": 512,
        "limit_gpus": 1024,
        "limit_by_model": {"H200-141GB": 64, "A100-80GB": 8},
        "weight": 2.5,
        "max_priority": 1000,
        "max_pending": 500,
        "namespaces": ["research", "shared"],
        "closed": True,
    }


def test_queue_is_changed_only_where_it_is_said(taking: FakeServer, yardctl: Yardctl) -> None:
    result = yardctl(
        "queue", "set", "research", "--quota", "none", "--parent", "none", "--quota-of", "none",
        "--namespaces", "none", "--open",
    )  # fmt: skip
    assert (result.exit_code, result.stdout) == (0, "queue/research changed\n")
    assert sent(taking) == {
        "parent": None,
        "quota_gpus": None,
        "quota_by_model": {},
        "namespaces": [],
        "closed": False,
    }


def test_queue_is_told_as_data_or_by_name(taking: FakeServer, yardctl: Yardctl) -> None:
    result = yardctl("queue", "set", "research", "--limit", "8", "-o", "name")
    assert result.stdout == "queue/research\n"
    result = yardctl("queue", "set", "research", "--limit", "8", "-o", "json")
    assert json.loads(result.stdout) == make_queues()[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--quota many", "--quota: 'many' is no whole number"),
        ("--max-pending 1.5", "--max-pending: '1.5' is no whole number"),
        ("--limit-of 8", "--limit-of: '8' is not MODEL=GPUS"),
        ("--limit-of A100=x", "--limit-of: 'x' is no whole number"),
        ("", "say what to change"),
    ],
)
def test_wrong_options_are_told_before_anything_is_sent(
    taking: FakeServer, yardctl: Yardctl, words: str, message: str
) -> None:
    result = yardctl("queue", "set", "research", *words.split())
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert taking.requests == []


def test_queues_are_deleted_one_after_the_other(taking: FakeServer, yardctl: Yardctl) -> None:
    taking.replies["DELETE", "/v1/queues/used"] = problem(409, "queue 'used' has 1 jobs")
    result = yardctl("queue", "delete", "used", "research")
    assert (result.exit_code, result.stdout) == (1, "queue/research deleted\n")
    assert "has 1 jobs" in result.stderr


def row(**changes: object) -> Usage:
    usage: Usage = {
        "month": "2026-12",
        "queue": "research",
        "namespace": None,
        "job": None,
        "uid": None,
        "gpu": "H100-80GB",
        "gpu_seconds": 3_600.0,
        "gpu_hours": 1.0,
    }
    usage.update(changes)  # type: ignore[typeddict-item]  # a test names the fields
    return usage


def telling(server: FakeServer, *rows: Usage) -> FakeServer:
    body = {"items": list(rows), "revision": 9, "next": None}
    server.replies["GET", "/v1/usage"] = Answer(body)
    return server


def asked(server: FakeServer) -> dict[str, str]:
    """What the last request asked for."""
    return {key: value for key, value in server.requests[-1].query.items() if key != "limit"}


def test_usage_is_shown_with_most_of_it_first(server: FakeServer, yardctl: Yardctl) -> None:
    telling(server, row(), row(queue="other", gpu_seconds=9_000.0, gpu_hours=2.5))
    result = yardctl("usage", "--month", "2026-12")
    assert result.stdout.splitlines() == [
        "QUEUE      GPU         MONTH     GPU-HOURS",
        "other      H100-80GB   2026-12   2.50",
        "research   H100-80GB   2026-12   1.00",
    ]
    assert asked(server) == {"by": "queue", "month": "2026-12"}


def test_usage_by_job_names_the_job(server: FakeServer, yardctl: Yardctl) -> None:
    telling(server, row(namespace="vision", job="train", uid="x"))
    result = yardctl("usage", "--by", "job", "-n", "vision")
    assert result.stdout.splitlines()[1].split() == [
        "vision", "train", "research", "H100-80GB", "2026-12", "1.00",
    ]  # fmt: skip
    assert asked(server) == {"by": "job", "namespace": "vision"}


def test_usage_of_nothing_says_so(server: FakeServer, yardctl: Yardctl) -> None:
    telling(server)
    result = yardctl("usage")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "No usage" in result.stderr
