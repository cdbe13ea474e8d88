"""Messages to hooks and checkpoints on the command line."""

from tests.client.fake_server import Answer, FakeServer
from tests.client.golden_text import Yardctl
from tests.client.sample import make_job

JOB_PATH = "/v1/namespaces/research/jobs/llama-70b"

SENT = {
    "id": "u-1",
    "kind": "job.finished",
    "namespace": "research",
    "job": "llama-70b",
    "uid": "u",
    "url": "https://trainer.example.com/hooks",
    "state": "dead",
    "attempts": 12,
    "created_at": "2026-06-01T12:00:00.000Z",
    "due_at": None,
    "asked_at": None,
    "done_at": "2026-06-01T14:00:00.000Z",
    "request_id": None,
    "status": 500,
    "error": "answered 500",
}
SAVED = {
    "step": 40,
    "uri": "s3://b/40",
    "tier": "local",
    "nodes": ["n1", "n2"],
    "lost_nodes": ["n1"],
    "exists": True,
    "request_id": None,
    "at": "2026-06-01T12:00:00.000Z",
    "revision": 7,
}


def test_messages_to_hooks_are_listed(server: FakeServer, yardctl: Yardctl) -> None:
    server.lists = {"/v1/hooks/deliveries": [SENT]}
    result = yardctl("get", "deliveries", "--job", "research/llama-70b", "--state", "dead")
    assert result.exit_code == 0, result.stderr
    words = result.stdout.splitlines()[1].split()
    assert words[:5] == ["u-1", "job.finished", "research/llama-70b", "dead", "12"]
    assert "answered 500" in result.stdout
    (asked,) = server.asked("GET", "/v1/hooks/deliveries")
    assert asked.query["job"] == "llama-70b"
    assert asked.query["state"] == "dead"


def test_a_message_is_sent_again(server: FakeServer, yardctl: Yardctl) -> None:
    server.replies["POST", "/v1/hooks/deliveries/u-1/retry"] = Answer(SENT | {"state": "pending"})
    result = yardctl("retry-delivery", "u-1", "none")
    assert (result.exit_code, result.stdout) == (1, "delivery/u-1 is sent again\n")


def test_a_job_is_described_with_its_checkpoints(server: FakeServer, yardctl: Yardctl) -> None:
    saved = {"step": 40, "uri": "s3://b/40", "at": "2026-06-01T12:00:00.000Z"}
    server.replies["GET", JOB_PATH] = Answer(make_job(saved=saved))
    lost = SAVED | {"step": 30, "nodes": ["n1"], "exists": False}
    away = SAVED | {"step": 20, "nodes": [], "lost_nodes": []}
    server.lists = {
        "/v1/pods": [],
        "/v1/events": [],
        f"{JOB_PATH}/checkpoints": [SAVED, lost, away],
    }
    shown = yardctl("describe", "job", "research/llama-70b").stdout
    assert "Checkpoints:" in shown
    assert "1 of 2 nodes" in shown
    assert "kept elsewhere" in shown
    assert " lost " in shown
