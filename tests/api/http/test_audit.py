"""The audit log: who changed what, and who wanted to."""

import pytest
from starlette.testclient import TestClient

from api.auth import Role
from api.http import audit_writer
from api.http.audit_writer import AuditBehind, AuditWriter
from api.store.audit_log import Entry, Wanted, add_entries, list_entries, prune_entries
from tests.api.http.guarded import ask, gate_of, token_for
from tests.api.http.yard import Json, Yard


@pytest.fixture
def database_kind() -> str:
    """One will do: what differs between databases is tested in `tests/api/store`."""
    return "sqlite"


@pytest.fixture
def root(yard: Yard) -> str:
    yard.load()
    return token_for(yard, "root", Role.ADMIN)


def entries(yard: Yard, root: str, query: str = "") -> list[Json]:
    gate_of(yard).audit.flush()
    answer = ask(yard, "GET", f"/v1/audit{query}", root)
    assert answer.status_code == 200, answer.text
    return list(answer.json()["items"])


def test_write_is_written_down_with_its_caller(yard: Yard, root: str) -> None:
    eve = token_for(yard, "eve", Role.SUBMITTER, "research")
    body = {"name": "j", "namespace": "research", "parallelism": {"tp": 8}}
    made = ask(yard, "POST", "/v1/jobs?dry_run=false", eve, body, {"X-Request-Id": "r-1"})
    assert made.status_code == 201
    assert made.headers["x-request-id"] == "r-1"
    ask(yard, "POST", "/v1/nodes/a1/cordon", eve, {})
    ask(yard, "GET", "/v1/jobs", eve)
    found = entries(yard, root)
    assert [(e["actor"], e["role"], e["method"], e["path"], e["status"]) for e in found] == [
        ("eve", "submitter", "POST", "/v1/nodes/a1/cordon", 403),
        ("eve", "submitter", "POST", "/v1/jobs?dry_run=false", 201),
    ]
    assert found[1]["request_id"] == "r-1"
    assert found[1]["at"] == "2026-01-01T00:00:00.000Z"


def test_body_that_is_wrong_is_written_down_with_its_status(yard: Yard, root: str) -> None:
    ask(yard, "POST", "/v1/jobs", root, {"name": 7})
    assert [entry["status"] for entry in entries(yard, root)] == [422]


def test_write_over_the_kubernetes_face_is_written_down(yard: Yard, root: str) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
    answer = yard.client.post(path, json=body, headers={"Authorization": f"Bearer {root}"})
    assert answer.status_code == 201
    assert [(e["path"], e["status"]) for e in entries(yard, root)] == [(path, 201)]


def test_reports_of_agents_and_requests_of_nobody_are_not_written_down(
    yard: Yard, root: str
) -> None:
    agent = token_for(yard, "a1", Role.AGENT, nodes=frozenset({"a1"}))
    body = {"session": "s", "boot_id": "b", "pods": []}
    ask(yard, "POST", "/v1/nodes/a1/heartbeat", agent, body)
    yard.call("POST", "/v1/jobs", {"name": "x"})
    ask(yard, "POST", "/v1/whatif", root, {"jobs": []})
    assert entries(yard, root) == []
    ask(yard, "POST", "/v1/nodes/a2/heartbeat", agent, body)
    assert [(e["actor"], e["status"]) for e in entries(yard, root)] == [("a1", 403)]


def test_login_is_written_down(yard: Yard, root: str) -> None:
    yard.call("POST", "/login", {"token": root})
    yard.client.cookies.clear()
    assert [(e["actor"], e["path"]) for e in entries(yard, root)] == [("root", "/login")]


def test_log_is_read_in_pages_and_by_what_is_asked(yard: Yard, root: str) -> None:
    eve = token_for(yard, "eve", Role.VIEWER)
    for index in range(3):
        ask(yard, "POST", f"/v1/nodes/a{index + 1}/cordon", root, {})
    ask(yard, "POST", "/v1/test/clock", root, {"advance_s": 60})
    ask(yard, "PUT", "/v1/policy", eve, {})
    assert len(entries(yard, root)) == 5
    paths = [e["path"] for e in entries(yard, root, "?path=/v1/nodes/")]
    assert paths == [f"/v1/nodes/a{n}/cordon" for n in (3, 2, 1)]
    assert [e["actor"] for e in entries(yard, root, "?actor=eve")] == ["eve"]
    assert [e["actor"] for e in entries(yard, root, "?outcome=refused")] == ["eve"]
    assert len(entries(yard, root, "?outcome=done")) == 4
    assert [e["path"] for e in entries(yard, root, "?since=2026-01-01T00:00:30Z")][-1] in {
        "/v1/policy",
        "/v1/test/clock",
    }
    first = ask(yard, "GET", "/v1/audit?limit=2&method=POST", root).json()
    second = ask(yard, "GET", f"/v1/audit?limit=2&method=POST&cursor={first['next']}", root).json()
    assert len(first["items"] + second["items"]) == 4
    assert second["next"] is None


def test_question_that_is_wrong_is_refused(yard: Yard, root: str) -> None:
    for query in ("since=yesterday", "since=2026-02-30T00:00:00Z", "outcome=x", "cursor=x", "a=b"):
        answer = ask(yard, "GET", f"/v1/audit?{query}", root)
        assert answer.status_code == 422, query


def test_path_cannot_forge_lines_of_a_log(yard: Yard, root: str) -> None:
    path = "/v1/nodes/a%0aadmin%00%1b/cordon"
    ask(yard, "POST", path, root, {})
    assert [entry["path"] for entry in entries(yard, root)] == [path]


def test_nothing_is_lost_when_the_service_stops(yard: Yard, root: str) -> None:
    with TestClient(yard.app, base_url="http://127.0.0.1:8080") as client:
        headers = {"Authorization": f"Bearer {root}"}
        for _ in range(5):
            client.post("/v1/scheduler/pause", json={}, headers=headers)
    assert len(list_entries(yard.database, Wanted(), 100).items) == 5


def made(at: float) -> Entry:
    return Entry(at, "anna", "admin", "POST", "/v1/jobs", 201, "r", "127.0.0.1")


def test_entries_are_pruned_by_age(yard: Yard) -> None:
    add_entries(yard.database, [made(10.0), made(20.0), made(30.0)])
    assert prune_entries(yard.database, 25.0) == 2
    assert prune_entries(yard.database, 25.0) == 0
    assert [e.at for e in list_entries(yard.database, Wanted(), 10).items] == [30.0]


def test_entries_wait_while_the_database_is_away_and_then_nothing_more_is_let_in(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_writer, "WAITING_MAX", 2)
    writer = AuditWriter(yard.database, yard.clock, 3_600.0)
    monkeypatch.setattr(audit_writer, "add_entries", _away)
    writer.add(made(1.0))
    writer.check_room()
    with pytest.raises(TimeoutError):
        writer.flush()
    writer.add(made(2.0))
    with pytest.raises(AuditBehind):
        writer.check_room()
    monkeypatch.setattr(audit_writer, "add_entries", add_entries)
    writer.flush()
    writer.check_room()
    assert [e.at for e in list_entries(yard.database, Wanted(), 10).items] == [2.0, 1.0]


def _away(*_: object) -> None:
    raise TimeoutError("away")
