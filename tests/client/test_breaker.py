"""`yardctl breaker`: what is shown, and who is told that it is open."""

import json

from tests.client.fake_server import Answer, FakeServer
from tests.client.golden_text import Yardctl

CLOSED: dict[str, object] = {
    "state": "closed",
    "failing": 1,
    "nodes": 12,
    "share": 1 / 12,
    "limit": 0.2,
    "window_s": 600.0,
    "since": None,
    "closes_at": None,
    "reset_at": None,
    "failed": ["n001"],
    "held": {"jobs": 0, "gpus": 0},
    "revision": 8,
}
OPEN = CLOSED | {
    "state": "open",
    "failing": 10,
    "share": 10 / 12,
    "since": "2026-06-01T11:55:00.000Z",
    "closes_at": "2026-06-01T12:05:00.000Z",
    "failed": [f"n{number:03d}" for number in range(1, 11)],
    "held": {"jobs": 2, "gpus": 64},
}


def test_breaker_says_why_it_is_open_and_until_when(server: FakeServer, yardctl: Yardctl) -> None:
    server.replies["GET", "/v1/scheduler/breaker"] = Answer(OPEN)
    result = yardctl("breaker")
    lines = [line.split(":", 1) for line in result.stdout.splitlines()]
    found = {name: text.strip() for name, text in lines}
    assert found == {
        "Breaker": "open",
        "Since": "5m ago",
        "Failing": "10 of 12 nodes within 10m (83.3%; opens above 20.0%)",
        "Nodes": "n001 n002 n003 n004 n005 n006 n007 n008 +2",
        "Held": "2 gangs with 64 GPUs",
        "Closes": "by itself in 5m",
    }
    assert "`yardctl breaker --reset`" in result.stderr
    assert json.loads(yardctl("breaker", "-o", "json").stdout) == OPEN


def test_breaker_is_reset_and_shown(server: FakeServer, yardctl: Yardctl) -> None:
    reset = {"reset_at": "2026-06-01T12:00:00.000Z"}
    server.replies["POST", "/v1/scheduler/breaker/reset"] = Answer(reset)
    server.replies["GET", "/v1/scheduler/breaker"] = Answer(CLOSED | reset)
    result = yardctl("breaker", "--reset")
    assert result.stdout.splitlines()[0] == "failures count from 2026-06-01T12:00:00.000Z on"
    assert "Breaker:  closed" in result.stdout
    assert result.stderr == ""


def test_list_of_faults_says_that_the_breaker_is_open(server: FakeServer, yardctl: Yardctl) -> None:
    server.lists["/v1/faults"] = []
    server.replies["GET", "/v1/scheduler/breaker"] = Answer(OPEN)
    assert "the circuit breaker is open: 10 of 12 nodes" in yardctl("faults", "list").stderr
    server.replies["GET", "/v1/scheduler/breaker"] = Answer(CLOSED)
    assert "breaker" not in yardctl("faults", "list").stderr
