"""Who is let in, and what those are told who are not."""

import asyncio
import base64
import logging
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.types import Message, Receive, Scope, Send

from api.auth import Role
from api.auth.buckets import Buckets
from api.auth.tokens import make_token
from api.http import authenticate
from api.http.rights import TABLE
from api.metrics import Metrics
from api.store.tokens import list_tokens, revoke, rotate
from tests.api.http.contract import Contract
from tests.api.http.guarded import ask, bearer, gate_of, token_for
from tests.api.http.yard import Yard

LETTERS = "abcXYZ019_"


@pytest.fixture
def database_kind() -> str:
    """One will do: what differs between databases is tested in `tests/api/store`."""
    return "sqlite"


@pytest.fixture
def root(yard: Yard) -> str:
    """The token of an admin; from here on the service asks who calls."""
    yard.load()
    return token_for(yard, "root", Role.ADMIN)


@pytest.fixture(scope="module")
def closed(any_yard: Yard) -> tuple[Yard, str]:
    return any_yard, token_for(any_yard, "closed", Role.ADMIN)


def test_service_without_tokens_asks_nobody(yard: Yard) -> None:
    assert yard.ok("GET", "/v1/whoami") == {
        "asked": False,
        "name": "",
        "role": "admin",
        "namespaces": None,
        "nodes": None,
    }


def test_service_asks_everybody_from_its_first_token_on(yard: Yard, root: str) -> None:
    answer = yard.call("GET", "/v1/jobs")
    assert answer.status_code == 401
    assert answer.headers.get_list("www-authenticate") == [
        'Bearer realm="podyard"',
        'Basic realm="podyard", charset="UTF-8"',
    ]
    assert "Bearer TOKEN" in answer.json()["detail"]
    assert ask(yard, "GET", "/v1/jobs", root).status_code == 200
    revoke(yard.database, "root", now_s=yard.clock.now_s())
    gate_of(yard).keyring.refresh()
    assert ask(yard, "GET", "/v1/jobs", root).status_code == 401
    assert yard.call("GET", "/v1/jobs").status_code == 401


@pytest.mark.parametrize(
    "path", ["/healthz", "/readyz", "/docs", "/openapi.json", "/", "/version", "/livez"]
)
def test_what_tells_nothing_of_the_cluster_is_open(closed: tuple[Yard, str], path: str) -> None:
    yard, _ = closed
    assert yard.client.get(path).status_code == 200


@pytest.mark.parametrize(
    "path", ["/v1/overview", "/metrics", "/v1/watch", "/nothing", "/v1/nodes/a1/heartbeat"]
)
def test_nobody_learns_whether_a_path_is_there(closed: tuple[Yard, str], path: str) -> None:
    yard, _ = closed
    assert yard.client.get(path).status_code == 401


def test_token_may_be_a_password(yard: Yard, root: str) -> None:
    word = base64.b64encode(f"anybody:{root}".encode()).decode()
    answer = yard.call("GET", "/v1/whoami", headers={"Authorization": f"Basic {word}"})
    assert answer.json()["name"] == "root"


def test_token_that_is_over_is_refused(yard: Yard, root: str) -> None:
    text = token_for(yard, "short", Role.VIEWER, expires_at=yard.clock.now_s() + 60)
    assert ask(yard, "GET", "/v1/jobs", text).status_code == 200
    ask(yard, "POST", "/v1/test/clock", root, {"advance_s": 61})
    assert ask(yard, "GET", "/v1/jobs", text).status_code == 401


def test_token_that_was_rotated_is_good_for_the_overlap(yard: Yard, root: str) -> None:
    now_s = yard.clock.now_s()
    new = rotate(yard.database, "root", now_s=now_s, overlap_s=30.0, expires_at=None)
    # Nobody has told the service: it looks for a token that it does not know.
    gate_of(yard).keyring._read_s -= 1
    assert ask(yard, "GET", "/v1/jobs", new.text).status_code == 200
    assert ask(yard, "GET", "/v1/jobs", root).status_code == 200
    ask(yard, "POST", "/v1/test/clock", new.text, {"advance_s": 31})
    assert ask(yard, "GET", "/v1/jobs", root).status_code == 401
    assert ask(yard, "GET", "/v1/jobs", new.text).status_code == 200


def test_process_that_has_not_looked_for_long_looks_before_it_answers(
    yard: Yard, root: str
) -> None:
    revoke(yard.database, "root", now_s=yard.clock.now_s())
    assert ask(yard, "GET", "/v1/jobs", root).status_code == 200
    gate_of(yard).keyring._read_s -= 6
    assert ask(yard, "GET", "/v1/jobs", root).status_code == 401


@pytest.mark.parametrize(
    "value",
    [
        "Bearer",
        "Bearer x",
        "Bearer " + "x" * 9_000,
        "Bearer eyJhbGciOiJub25lIn0.e30.",
        "Basic x",
        "Negotiate YII",
        "Bearer pyd_00000000_00000000000000000000000000000000000000",
    ],
)
def test_header_that_is_no_token_is_refused(closed: tuple[Yard, str], value: str) -> None:
    yard, _ = closed
    answer = yard.call("GET", "/v1/jobs", headers={"Authorization": value})
    assert answer.status_code == 401
    assert (
        value.partition(" ")[2][:60] not in answer.text or value == "Bearer x" or " " not in value
    )


def test_token_of_another_service_is_refused(yard: Yard, root: str) -> None:
    assert ask(yard, "GET", "/v1/jobs", make_token().text).status_code == 401


@settings(max_examples=60, deadline=None)
@given(at=st.integers(0, 50), letter=st.sampled_from(["", *LETTERS]))
def test_changed_token_never_lets_anybody_in(
    closed: tuple[Yard, str], at: int, letter: str
) -> None:
    yard, good = closed
    changed = good[:at] + letter + good[at + 1 :]
    if changed == good:
        return
    answer = yard.client.get("/v1/whoami", headers=bearer(changed))
    assert answer.status_code == 401
    assert changed not in answer.text
    assert good not in answer.text


def test_refusal_names_role_and_right(yard: Yard, root: str) -> None:
    text = token_for(yard, "eve", Role.VIEWER)
    answer = ask(yard, "POST", "/v1/scheduler/pause", text, {})
    assert answer.status_code == 403
    assert answer.json()["detail"] == (
        "'eve' has the role viewer: this needs the right 'operate', which is of operator, admin"
    )


def test_namespace_of_another_is_refused_whether_the_job_is_there_or_not(
    yard: Yard, root: str
) -> None:
    text = token_for(yard, "eve", Role.SUBMITTER, "research")
    body = {"name": "secret", "namespace": "vision", "parallelism": {"tp": 8}}
    assert ask(yard, "POST", "/v1/jobs", root, body).status_code == 201
    answers = [
        ask(yard, "GET", f"/v1/namespaces/vision/jobs/{name}", text) for name in ("secret", "none")
    ]
    assert [answer.status_code for answer in answers] == [403, 403]
    assert answers[0].json() == answers[1].json()


def test_kubernetes_is_told_in_its_own_words(yard: Yard, root: str) -> None:
    answer = yard.client.get("/api/v1/nodes")
    assert answer.status_code == 401
    assert answer.json()["reason"] == "Unauthorized"
    assert answer.headers["www-authenticate"].startswith("Bearer")
    text = token_for(yard, "eve", Role.SUBMITTER, "research")
    refused = yard.client.get("/api/v1/namespaces/vision/pods", headers=bearer(text))
    assert refused.status_code == 403
    assert refused.json()["kind"] == "Status"
    assert refused.json()["reason"] == "Forbidden"
    assert yard.client.get("/api/v1/nodes", headers=bearer(text)).status_code == 200


def test_unknown_paths_and_methods_are_told_of_to_those_who_are_known(
    yard: Yard, root: str
) -> None:
    gone = yard.client.get("/v1/nothing", headers=bearer(root))
    assert gone.status_code == 404
    wrong = yard.client.put("/v1/jobs", headers=bearer(root))
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET, POST")


def test_agent_speaks_for_its_own_node_alone(yard: Yard, root: str) -> None:
    text = token_for(yard, "a1", Role.AGENT, nodes=frozenset({"a1"}))
    body = {"session": "s", "boot_id": "b", "pods": []}
    assert ask(yard, "POST", "/v1/nodes/a1/heartbeat", text, body).status_code == 200
    assert ask(yard, "POST", "/v1/nodes/a1/heartbeat", text, body).status_code == 200
    assert ask(yard, "POST", "/v1/nodes/a2/heartbeat", text, body).status_code == 403
    assert ask(yard, "GET", "/v1/nodes/a1", text).status_code == 200
    assert ask(yard, "GET", "/v1/overview", text).status_code == 403


def test_heartbeat_that_is_answered_from_memory_is_not_for_others(yard: Yard, root: str) -> None:
    """The echo knows words, not callers; who sends them is checked before."""
    body = {"session": "s", "boot_id": "b", "pods": []}
    mine = token_for(yard, "a1", Role.AGENT, nodes=frozenset({"a1"}))
    other = token_for(yard, "a2", Role.AGENT, nodes=frozenset({"a2"}))
    for _ in range(3):
        assert ask(yard, "POST", "/v1/nodes/a1/heartbeat", mine, body).status_code == 200
    assert ask(yard, "POST", "/v1/nodes/a1/heartbeat", other, body).status_code == 403


def test_overview_that_is_at_hand_is_not_for_nobody(yard: Yard, root: str) -> None:
    assert ask(yard, "GET", "/v1/overview", root).status_code == 200
    assert ask(yard, "GET", "/v1/overview", root).status_code == 200
    assert yard.call("GET", "/v1/overview").status_code == 401


def test_caller_who_asks_too_often_is_told_when_to_come_back(yard: Yard, root: str) -> None:
    gate = gate_of(yard)
    object.__setattr__(gate, "buckets", Buckets(rate_per_s=0.5, burst=2))
    found = [ask(yard, "GET", "/v1/jobs", root) for _ in range(3)]
    assert [answer.status_code for answer in found] == [200, 200, 429]
    assert found[2].headers["retry-after"] == "2"
    agent = token_for(yard, "a1", Role.AGENT, nodes=frozenset({"a1"}))
    body = {"session": "s", "boot_id": "b", "pods": []}
    for _ in range(4):
        assert ask(yard, "POST", "/v1/nodes/a1/heartbeat", agent, body).status_code == 200


async def _nothing() -> Message:
    return {"type": "http.disconnect"}


def test_watch_of_somebody_who_is_known_no_more_ends(
    yard: Yard, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authenticate, "AGAIN_S", 0.0)
    told: list[Message] = []

    async def watch(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"1", "more_body": True})
        revoke(yard.database, "root", now_s=yard.clock.now_s())
        gate_of(yard).keyring.refresh()
        await send({"type": "http.response.body", "body": b"2", "more_body": True})
        await send({"type": "http.response.body", "body": b"3", "more_body": True})

    async def send(message: Message) -> None:
        told.append(message)

    app = authenticate.Authenticate(
        watch, gate=gate_of(yard), table=TABLE, clock=yard.clock, metrics=Metrics()
    )
    headers = [(b"authorization", f"Bearer {root}".encode())]
    scope = {"type": "http", "method": "GET", "path": "/v1/watch", "headers": headers}
    asyncio.run(app(scope | {"query_string": b""}, _nothing, send))
    assert [(m.get("body"), m.get("more_body")) for m in told[1:]] == [(b"1", True), (b"", False)]


def test_refusals_are_counted(yard: Yard, root: str) -> None:
    yard.client.get("/v1/jobs")
    text = token_for(yard, "eve", Role.VIEWER)
    ask(yard, "POST", "/v1/scheduler/pause", text, {})
    told = ask(yard, "GET", "/metrics", root).text
    assert 'podyard_requests_refused_total{why="unauthenticated"} 1.0' in told
    assert 'podyard_requests_refused_total{why="forbidden"} 1.0' in told


def test_use_of_a_token_is_noted_to_the_hour(yard: Yard, root: str) -> None:
    def used() -> float | None:
        return list_tokens(yard.database)[0].used_at

    keyring = gate_of(yard).keyring
    assert used() is None
    ask(yard, "GET", "/v1/jobs", root)
    keyring.note()
    first = used()
    assert first == yard.clock.now_s()
    ask(yard, "POST", "/v1/test/clock", root, {"advance_s": 1_800})
    keyring.note()
    assert used() == first
    ask(yard, "POST", "/v1/test/clock", root, {"advance_s": 1_800})
    ask(yard, "GET", "/v1/jobs", root)
    keyring.note()
    assert used() == first + 3_600


def test_use_of_a_token_that_is_gone_is_forgotten(yard: Yard, root: str) -> None:
    keyring = gate_of(yard).keyring
    ask(yard, "GET", "/v1/jobs", root)
    keyring.note()
    assert keyring.noted == 1
    revoke(yard.database, "root", now_s=yard.clock.now_s())
    keyring.refresh()
    keyring.note()
    assert keyring.noted == 0


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.DEBUG):
        yield caplog


def test_no_token_is_in_a_log_an_answer_or_the_database(
    yard: Yard, root: str, logged: pytest.LogCaptureFixture
) -> None:
    guess = make_token().text
    answers = [
        ask(yard, "GET", "/v1/whoami", root),
        ask(yard, "GET", "/v1/whoami", guess),
        ask(yard, "POST", "/v1/scheduler/pause", root, {}),
        yard.call("POST", "/login", {"token": guess}),
        yard.call("POST", "/login", {"token": root}),
    ]
    gate_of(yard).audit.flush()
    entries = ask(yard, "GET", "/v1/audit", root).text
    kept = repr(list_tokens(yard.database))
    for secret in (root, guess, root[13:], guess[13:]):
        assert all(secret not in answer.text for answer in answers)
        assert secret not in logged.text
        assert secret not in entries
        assert secret not in kept


def test_description_says_how_callers_are_known(contract: Contract) -> None:
    told = contract.described
    assert set(told["components"]["securitySchemes"]) == {"token", "password", "session"}
    assert told["paths"]["/healthz"]["get"]["security"] == []
    assert {"401", "403", "429"} <= told["paths"]["/v1/jobs"]["post"]["responses"].keys()
