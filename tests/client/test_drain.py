"""`yardctl drain`, `undrain`, `fence` and `faults`: what is sent, said and shown."""

import json

import pytest

from client.cli import drain
from tests.client.fake_server import Answer, FakeServer, Request, problem
from tests.client.golden_text import Yardctl
from tests.client.sample import make_node

FAULT: dict[str, object] = {
    "id": 81,
    "node": "n001",
    "code": "xid_79",
    "action": "replace",
    "at": "2026-06-01T11:55:00.000Z",
    "message": "seen in the kernel log",
    "gpus": [3],
    "rail": None,
    "set": None,
    "reported_by": "",
    "reported_at": "2026-06-01T11:55:00.000Z",
    "cleared_at": None,
    "cleared_by": "",
}


def node(name: str = "n001", pods: int = 0, **more: object) -> dict[str, object]:
    return {**make_node(1), "name": name, "pods": pods, **more}


def drained(*names: str, pods: int = 1, **more: object) -> dict[str, object]:
    return {
        "dry_run": False,
        "deadline": None,
        "nodes": [node(name, pods) for name in names],
        "leaving": [
            {
                "job": "research/llama-70b",
                "pods": ["llama-70b-0"],
                "gpus": 8,
                "nodes": list(names),
                "saves_first": True,
            }
        ],
        "hidden": 0,
        "moves": [],
        "settled": True,
    } | more


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain, "POLL_S", 0.0)


def emptying(*pods: int) -> list[Answer]:
    """Answers of one node that loses its pods."""
    return [Answer(node(pods=number)) for number in pods]


def test_drain_shows_what_leaves_and_its_progress_until_the_node_is_empty(
    server: FakeServer, yardctl: Yardctl
) -> None:
    server.replies["POST", "/v1/nodes/n001/drain"] = Answer(drained("n001", pods=2))
    answers = emptying(2, 2, 1, 0)
    server.replies["GET", "/v1/nodes/n001"] = lambda _: answers.pop(0)
    result = yardctl("drain", "n001", "--deadline", "10m", "--reason", "fan 3")
    assert result.exit_code == 0, result.output
    sent = server.asked("POST", "/v1/nodes/n001/drain")[0].json()
    assert sent == {"deadline_s": 600.0, "reason": "fan 3"}
    lines = result.stdout.splitlines()
    assert lines[0] == "n001 draining"
    assert lines[1].split() == ["JOB", "PODS", "GPUS", "NODES", "SAVES", "FIRST"]
    assert lines[2].split() == ["research/llama-70b", "1", "8", "n001", "yes"]
    assert lines[-1] == "1 node empty"
    assert result.stderr.splitlines() == [
        "[..............................] 0 of 2 pods have left, left on n001",
        "[###############...............] 1 of 2 pods have left, left on n001",
        "[##############################] 2 of 2 pods have left",
    ]


def test_drain_of_a_set_goes_to_the_set_and_does_not_wait_when_told(
    server: FakeServer, yardctl: Yardctl
) -> None:
    server.replies["POST", "/v1/sets/rack/r01/drain"] = Answer(drained("n001", "n002"))
    result = yardctl("drain", "rack/r01", "--no-wait")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == "rack/r01 (2 nodes) draining"
    assert server.asked("POST", "/v1/sets/rack/r01/drain")[0].json() == {}
    assert [request.method for request in server.requests] == ["POST"]


def test_dry_run_of_a_drain_shows_what_would_move(server: FakeServer, yardctl: Yardctl) -> None:
    move = {
        "job": "research/llama-70b",
        "effect": "moved",
        "state": "bound",
        "message": "",
        "placement": {"pods": 2, "gpus": 16, "domains": {"rack": {"count": 1, "names": ["r02"]}}},
    }
    answer = Answer(drained("n001", dry_run=True, moves=[move]))
    server.replies["POST", "/v1/nodes/n001/drain"] = answer
    result = yardctl("drain", "node/n001", "--dry-run", "--deadline", "0")
    assert result.exit_code == 0
    assert server.requests[0].query == {"dry_run": "true"}
    assert server.requests[0].json() == {"deadline_s": 0.0}
    assert "n001 would be drained" in result.stdout
    assert "research/llama-70b   moved    2 pods: rack r02" in result.stdout
    assert result.stdout.splitlines()[-1] == "Nothing was changed."
    assert len(server.requests) == 1


def test_drain_that_takes_too_long_ends_with_its_own_exit_code(
    server: FakeServer, yardctl: Yardctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter(range(0, 10_000, 60))
    monkeypatch.setattr("client.cli.text.clock", lambda: float(next(times)))
    server.replies["POST", "/v1/nodes/n001/drain"] = Answer(drained("n001"))
    server.replies["GET", "/v1/nodes/n001"] = Answer(node(pods=1))
    result = yardctl("drain", "n001", "--timeout", "2m")
    assert result.exit_code == 4
    assert "not empty in time: n001" in result.stderr


def test_drain_goes_on_after_a_node_that_is_refused(server: FakeServer, yardctl: Yardctl) -> None:
    server.replies["POST", "/v1/nodes/n002/drain"] = Answer(drained("n002", pods=0, leaving=[]))
    server.replies["GET", "/v1/nodes/n002"] = Answer(node("n002"))
    result = yardctl("drain", "n001", "n002")
    assert result.exit_code == 1
    assert "there is nothing at /v1/nodes/n001/drain" in result.stderr
    assert result.stdout.splitlines() == ["n002 draining", "1 node empty"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("drain", "n001", "--deadline", "soon"), "--deadline: 'soon' is no length of time"),
        (("drain", "n001", "--timeout", "0"), "--timeout: '0' is no length of time"),
        (("drain", "rack/"), "neither a node nor KIND/NAME"),
        (("drain",), "Missing argument"),
        (("faults", "report", "n001"), "give one of --code and --xid"),
        (("faults", "report", "n001", "--code", "thermal", "--xid", "3"), "give one of"),
    ],
)
def test_wrong_call_is_told_before_anything_is_sent(
    server: FakeServer, yardctl: Yardctl, words: tuple[str, ...], says: str
) -> None:
    result = yardctl(*words)
    assert result.exit_code == 2
    assert says in result.stderr
    assert server.requests == []


def test_undrain_and_fence_name_the_nodes(server: FakeServer, yardctl: Yardctl) -> None:
    server.replies["POST", "/v1/nodes/n001/undrain"] = Answer(node())
    server.replies["POST", "/v1/sets/leaf/l1/undrain"] = Answer({"nodes": [node(), node("n002")]})
    result = yardctl("undrain", "n001", "leaf/l1")
    assert result.stdout.splitlines() == [
        "node/n001 undrained",
        "node/n001 undrained",
        "node/n002 undrained",
    ]
    server.replies["POST", "/v1/nodes/n003/fence"] = Answer(node("n003", fenced=True))
    server.replies["POST", "/v1/nodes/n001/fence"] = problem(409, "node 'n001' is healthy")
    result = yardctl("fence", "n001", "n003", "--reason", "its power was cut")
    assert result.exit_code == 1
    assert "node 'n001' is healthy" in result.stderr
    assert result.stdout == "node/n003 fenced\n"
    sent = server.asked("POST", "/v1/nodes/n003/fence")[0].json()
    assert sent == {"reason": "its power was cut"}


def test_open_faults_are_listed(server: FakeServer, yardctl: Yardctl) -> None:
    server.lists["/v1/faults"] = [FAULT]
    server.replies["GET", "/v1/faults"] = _page
    result = yardctl("faults", "list")
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[0] == ["ID", "NODE", "CODE", "ACTION", "GPUS", "RAIL", "AGE", "MESSAGE"]
    assert lines[1][:5] == ["81", "n001", "xid_79", "replace", "3"]
    assert server.requests[0].query["open"] == "true"
    yardctl("faults", "list", "--all", "--code", "xid_79")
    again = server.asked("GET", "/v1/faults")[1]
    assert "open" not in again.query
    assert again.query["code"] == "xid_79"
    found = json.loads(yardctl("faults", "list", "-o", "json").stdout)
    assert found["items"] == [FAULT]
    assert yardctl("faults", "list", "-o", "name").stdout == "fault/n001/81\n"


def _page(_: Request) -> Answer:
    return Answer({"items": [FAULT], "revision": 9, "next": None})


def test_fault_is_reported_of_a_node_and_of_a_set(server: FakeServer, yardctl: Yardctl) -> None:
    server.replies["POST", "/v1/nodes/n001/faults"] = Answer(FAULT, 201)
    server.replies["POST", "/v1/sets/leaf/l1/faults"] = Answer(
        {"items": [FAULT | {"code": "switch_down"}], "created": 1}, 201
    )
    result = yardctl("faults", "report", "n001", "--xid", "79", "--gpu", "3", "--gpu", "4")
    assert result.stdout == "fault/n001/81 xid_79: replace\n"
    assert server.requests[0].json() == {"xid": 79, "gpus": [3, 4]}
    result = yardctl("faults", "report", "leaf/l1", "--code", "switch_down", "--message", "hot")
    assert result.stdout == "fault/n001/81 switch_down: replace\n"
    assert server.requests[1].json() == {"code": "switch_down", "message": "hot"}


def test_all_open_faults_of_a_node_are_cleared_unless_some_are_named(
    server: FakeServer, yardctl: Yardctl
) -> None:
    server.replies["GET", "/v1/nodes/n001"] = Answer(node())
    server.replies["GET", "/v1/faults"] = _page
    server.replies["DELETE", "/v1/nodes/n001/faults/81"] = Answer(FAULT)
    assert yardctl("faults", "clear", "n001").stdout == "fault/n001/81 cleared\n"
    result = yardctl("faults", "clear", "node/n001", "81", "82")
    assert result.exit_code == 1
    assert result.stdout == "fault/n001/81 cleared\n"
    assert "/v1/nodes/n001/faults/82" in result.stderr


def test_node_is_described_with_what_keeps_it_out_of_use(
    server: FakeServer, yardctl: Yardctl
) -> None:
    server.replies["GET", "/v1/nodes/n001"] = Answer(
        node(
            health="lost",
            why="fault node_lost",
            since="2026-06-01T11:55:00.000Z",
            fenced=True,
            lemon=True,
            faults=[FAULT],
            draining={
                "deadline": None,
                "at": "2026-06-01T11:00:00.000Z",
                "reason": "fan 3",
                "by": "anna",
                "done": False,
            },
        )
    )
    server.lists["/v1/pods"] = []
    text = yardctl("describe", "node", "n001").stdout
    for line in (
        "Health:     lost,draining,lemon",
        "Since:      2026-06-01T11:55:00.000Z (5m ago): fault node_lost",
        "Fenced:     nothing runs there any more",
        "Draining:   60m ago by anna: fan 3; never by force",
        "Faults:     xid_79 of GPU 3 (id 81), 5m ago: seen in the kernel log",
    ):
        assert line in text


def test_spares_show_the_need_and_what_is_kept(server: FakeServer, yardctl: Yardctl) -> None:
    found = {
        "nodes": 2048,
        "faults": 122,
        "span_s": 2_592_000.0,
        "faults_per_node_day": 0.001986,
        "repairs": 118,
        "repair_s": 90_000.0,
        "is_assumed": False,
        "need": 9,
        "claimed": 1,
        "levels": [{"level": "leaf", "domains": 64, "nodes": 32, "need": 1}],
        "pools": [],
        "lent": 1,
        "revision": 9,
    }
    server.replies["GET", "/v1/spares"] = Answer(found)
    claim = {"uid": "c", "why": "spare", "job": "research/a", "node": "n003", "gpus": [0, 1]}
    server.lists["/v1/claims"] = [claim, claim | {"why": "recovery", "node": "n004"}]
    text = yardctl("spares").stdout
    for line in (
        "Faults:  122 in 30.0 days on 2048 nodes: 0.00199 a node and day",
        "Repair:  25h (mean of 118)",
        "Need:    9 nodes for the whole cluster (P99)",
        "  LEVEL   DOMAINS   NODES   NEED",
        "  leaf    64        32      1",
        "  none",
    ):
        assert line in text.splitlines(), text
    assert "n003" in text
    assert "n004" not in text
    assert json.loads(yardctl("spares", "-o", "json").stdout) == found


def test_breaker_is_reset(server: FakeServer, yardctl: Yardctl) -> None:
    answer = Answer({"reset_at": "2026-06-01T12:00:00.000Z"})
    server.replies["POST", "/v1/scheduler/breaker/reset"] = answer
    result = yardctl("faults", "reset-breaker")
    assert result.stdout == "failures count from 2026-06-01T12:00:00.000Z on\n"


@pytest.fixture
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain, "is_terminal", lambda: True)


def _plan_or_drain(request: Request) -> Answer:
    return Answer(drained("n001", pods=2, dry_run="dry_run" in request.query))


@pytest.mark.usefixtures("_terminal")
def test_on_a_terminal_a_drain_is_shown_and_asked_for_first(
    server: FakeServer, yardctl: Yardctl
) -> None:
    server.replies["POST", "/v1/nodes/n001/drain"] = _plan_or_drain
    server.replies["GET", "/v1/nodes/n001"] = Answer(node(pods=0))
    result = yardctl("drain", "n001", stdin="y\n")
    assert result.exit_code == 0, result.output
    assert [r.query for r in server.asked("POST", "/v1/nodes/n001/drain")] == [
        {"dry_run": "true"},
        {},
    ]
    lines = result.stdout.splitlines()
    assert lines[0] == "n001 would be drained"
    assert "Nothing was changed." not in lines
    assert lines[-2:] == ["n001 draining", "1 node empty"]
    assert "Drain 1 node with 2 pods?" in result.stderr
    assert "undo: yardctl undrain n001" in result.stderr


@pytest.mark.usefixtures("_terminal")
@pytest.mark.parametrize("answer", ["n\n", "\n"])
def test_a_drain_that_is_not_agreed_to_changes_nothing(
    server: FakeServer, yardctl: Yardctl, answer: str
) -> None:
    server.replies["POST", "/v1/nodes/n001/drain"] = _plan_or_drain
    result = yardctl("drain", "n001", stdin=answer)
    assert result.exit_code == 1
    assert "nothing was changed" in result.stderr
    assert [r.query for r in server.requests] == [{"dry_run": "true"}]


@pytest.mark.usefixtures("_terminal")
def test_yes_asks_nobody(server: FakeServer, yardctl: Yardctl) -> None:
    server.replies["POST", "/v1/nodes/n001/drain"] = _plan_or_drain
    result = yardctl("drain", "n001", "--yes", "--no-wait")
    assert result.exit_code == 0
    assert [r.query for r in server.requests] == [{}]


@pytest.mark.usefixtures("_terminal")
def test_a_node_that_is_not_there_is_told_before_anything_is_drained(
    server: FakeServer, yardctl: Yardctl
) -> None:
    server.replies["POST", "/v1/nodes/n001/drain"] = _plan_or_drain
    result = yardctl("drain", "n001", "n002", stdin="y\n")
    assert result.exit_code == 1
    assert "/v1/nodes/n002/drain" in result.stderr
    assert all(r.query == {"dry_run": "true"} for r in server.requests)
