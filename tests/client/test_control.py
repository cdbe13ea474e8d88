"""Job control and reservations on the command line: what is sent, what is said, what is shown."""

import json

import pytest

from client.http import Client
from client.shapes import Claim, Reservation
from tests.client.fake_server import DROP, Answer, FakeServer, problem
from tests.client.golden_text import Yardctl
from tests.client.sample import make_job, make_verdict, make_waiting_job

JOB_PATH = "/v1/namespaces/research/jobs/llama-70b"
DONE = {
    "hold": "held",
    "release": "released",
    "suspend": "to be suspended",
    "resume": "to be resumed",
    "requeue": "to be requeued",
}
WINDOW: Reservation = {
    "name": "cables",
    "nodes": ["n001", "n002"],
    "starts_at": "2026-06-01T12:00:00.000Z",
    "ends_at": "2026-06-01T16:00:00.000Z",
    "why": "new cables",
    "state": "active",
    "claimed": 1,
    "revision": 9,
}
CLAIM: Claim = {
    "uid": "c",
    "why": "preemption",
    "job": "research/llama-70b",
    "reservation": None,
    "node": "n003",
    "gpus": [0, 1, 2, 3],
    "starts_at": None,
    "until": None,
    "role": "rank",
    "index": 0,
    "revision": 9,
}


@pytest.mark.parametrize("verb", list(DONE))
def test_verb_is_asked_of_each_job_going_on_after_one_that_is_refused(
    server: FakeServer, yardctl: Yardctl, verb: str
) -> None:
    server.replies["POST", f"{JOB_PATH}/{verb}"] = Answer(make_job())
    server.replies["POST", f"/v1/namespaces/research/jobs/b/{verb}"] = problem(409, "it has ended")
    result = yardctl(verb, "research/b", "llama-70b", "-n", "research")
    assert result.exit_code == 1
    assert result.stdout == f"job/research/llama-70b {DONE[verb]}\n"
    assert "it has ended" in result.stderr
    assert server.asked("POST", f"{JOB_PATH}/{verb}")[0].json() == {}


def test_verb_writes_the_job_or_its_name_as_asked(server: FakeServer, yardctl: Yardctl) -> None:
    server.replies["POST", f"{JOB_PATH}/hold"] = Answer(make_job(held=True))
    assert yardctl("hold", "research/llama-70b", "-o", "name").stdout == "job/research/llama-70b\n"
    assert json.loads(yardctl("hold", "research/llama-70b", "-o", "json").stdout)["held"] is True


def test_requeue_is_not_sent_again_after_an_answer_that_was_lost(server: FakeServer) -> None:
    server.replies["POST", f"{JOB_PATH}/requeue"] = DROP
    server.replies["POST", f"{JOB_PATH}/hold"] = DROP
    with Client(server.url, sleep=lambda _: None) as client:
        for verb, times in (("requeue", 1), ("hold", 5)):
            with pytest.raises(Exception, match=r"."):
                client.control_job("research", "llama-70b", verb)  # type: ignore[arg-type]  # one of the verbs
            assert len(server.asked("POST", f"{JOB_PATH}/{verb}")) >= min(times, 2)
    assert len(server.asked("POST", f"{JOB_PATH}/requeue")) == 1


def test_client_speaks_of_checkpoints_claims_and_reservations(server: FakeServer) -> None:
    server.replies["POST", f"{JOB_PATH}/checkpoints"] = Answer(make_job())
    server.lists = {"/v1/claims": [CLAIM], "/v1/reservations": [WINDOW]}
    with Client(server.url) as client:
        client.save_checkpoint("research", "llama-70b", {"step": 5, "uri": "x"})
        assert list(client.claims(node="n003")) == [CLAIM]
        assert list(client.claims(node="n004")) == []
        assert list(client.reservations()) == [WINDOW]
    assert server.asked("POST", f"{JOB_PATH}/checkpoints")[0].json() == {"step": 5, "uri": "x"}


# -- reservations ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "sent"),
    [
        (
            "--nodes n[001-002] --nodes n9 --start 2026-06-02T12:00:00Z --end 2026-06-02T13:00:00Z",
            {
                "nodes": ["n[001-002]", "n9"],
                "starts_at": "2026-06-02T12:00:00.000Z",
                "ends_at": "2026-06-02T13:00:00.000Z",
            },
        ),
        (
            "--domain rack:r01 --for 4h",
            {
                "within": {"level": "rack", "domain": "r01"},
                "ends_at": "2026-06-01T16:00:00.000Z",
            },
        ),
        (
            "--set power:shelf-3 --start +2h --for 90m",
            {
                "set": {"kind": "power", "name": "shelf-3"},
                "starts_at": "2026-06-01T14:00:00.000Z",
                "ends_at": "2026-06-01T15:30:00.000Z",
            },
        ),
        (
            "--nodes n1 --start 2026-06-02T12:00:00+02:00 --end +2d",
            {
                "nodes": ["n1"],
                "starts_at": "2026-06-02T10:00:00.000Z",
                "ends_at": "2026-06-03T12:00:00.000Z",
            },
        ),
    ],
)
def test_reserve_sends_nodes_and_times(
    server: FakeServer, yardctl: Yardctl, words: str, sent: dict[str, object]
) -> None:
    server.replies["POST", "/v1/reservations"] = Answer(WINDOW, 201)
    result = yardctl("reserve", "cables", *words.split(), "--why", "new cables")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == (
        "reservation/cables made: 2 nodes, 2026-06-01T12:00:00.000Z to 2026-06-01T16:00:00.000Z\n"
    )
    (asked,) = server.asked("POST", "/v1/reservations")
    assert asked.json() == {"name": "cables", "why": "new cables"} | sent


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "give one of --nodes"),
        ("--nodes a --domain rack:r1 --for 1h", "give one of --nodes"),
        ("--nodes a", "give one of --end"),
        ("--nodes a --end +1h --for 1h", "give one of --end"),
        ("--domain r1 --for 1h", "two names with a colon"),
        ("--set power: --for 1h", "two names with a colon"),
        ("--nodes a --for soon", "is no length of time"),
        ("--nodes a --for 0h", "is no length of time"),
        ("--nodes a --for 999999999d", "end of all calendars"),
        ("--nodes a --start tomorrow --for 1h", "is no time"),
        ("--nodes a --start +1x --for 1h", "is no length of time"),
    ],
)
def test_reserve_refuses_what_makes_no_sense_before_it_asks(
    server: FakeServer, yardctl: Yardctl, words: str, said: str
) -> None:
    result = yardctl("reserve", "cables", *words.split())
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.replace("│", " ").split())
    assert server.requests == []


def test_reservations_are_shown_and_withdrawn(server: FakeServer, yardctl: Yardctl) -> None:
    server.lists = {"/v1/reservations": [WINDOW]}
    server.replies["GET", "/v1/reservations/cables"] = Answer(WINDOW)
    server.replies["DELETE", "/v1/reservations/cables"] = Answer(WINDOW)
    listed = yardctl("get", "reservations")
    assert [line.split(maxsplit=6) for line in listed.stdout.splitlines()] == [
        ["NAME", "STATE", "NODES", "KEPT", "STARTS", "ENDS", "WHY"],
        ["cables", "active", "2", "1", WINDOW["starts_at"], WINDOW["ends_at"], "new cables"],
    ]
    assert "n001,n002" in yardctl("get", "res", "cables", "-o", "wide").stdout
    result = yardctl("delete", "reservation", "cables", "none")
    assert (result.exit_code, result.stdout) == (1, "reservation/cables withdrawn\n")
    assert yardctl("delete", "res/none", "--ignore-not-found").exit_code == 0
    assert yardctl("delete", "res/cables", "-o", "name").stdout == "reservation/cables\n"


def test_reserve_writes_the_reservation_or_its_name_as_asked(
    server: FakeServer, yardctl: Yardctl
) -> None:
    server.replies["POST", "/v1/reservations"] = Answer(WINDOW, 201)
    words = ("reserve", "cables", "--nodes", "n1", "--for", "4h", "-o")
    assert yardctl(*words, "name").stdout == "reservation/cables\n"
    assert json.loads(yardctl(*words, "json").stdout) == WINDOW


def test_claims_are_shown_with_whose_they_are(server: FakeServer, yardctl: Yardctl) -> None:
    server.lists = {"/v1/claims": [CLAIM]}
    lines = [line.split() for line in yardctl("get", "claims").stdout.splitlines()]
    assert lines == [
        ["FOR", "WHY", "NODE", "GPUS", "ROLE", "INDEX", "FROM"],
        ["research/llama-70b", "preemption", "n003", "0-3", "rank", "0", "now"],
    ]
    assert yardctl("get", "claims", "--node", "n004").stdout == ""
    assert yardctl("get", "claims", "-o", "name").stdout == "claim/c\n"
    yardctl("get", "claims", "--job", "research/llama-70b")
    assert server.requests[-1].query["namespace"] == "research"
    assert yardctl("get", "claims", "x").exit_code == 2


# -- what is shown of a job -----------------------------------------------------------------------


def test_expected_start_has_a_column_where_it_is_known(
    server: FakeServer, yardctl: Yardctl
) -> None:
    waits = make_waiting_job("a", namespace="default", expected_start="2026-06-01T12:12:30.000Z")
    due = make_waiting_job("b", namespace="default", expected_start="2026-06-01T11:00:00.000Z")
    other = make_job("c", namespace="default")
    server.lists = {"/v1/jobs": [waits, due, other]}
    head, *rows = yardctl("get", "jobs").stdout.splitlines()
    start = head.index("START")
    assert [row[start:].strip() for row in rows] == ["in 12m", "now", "-"]
    server.lists = {"/v1/jobs": [other]}
    assert "START" not in yardctl("get", "jobs").stdout


def test_held_job_is_shown_as_held(server: FakeServer, yardctl: Yardctl) -> None:
    job = make_waiting_job("a", namespace="default", held=True, reason="paused")
    server.lists = {"/v1/jobs": [job]}
    assert "pending(held)" in yardctl("get", "jobs").stdout


def test_describe_shows_claims_forecast_and_hold(server: FakeServer, yardctl: Yardctl) -> None:
    job = make_job(
        state="reserved",
        reason="reservation",
        held=True,
        expected_start="2026-06-01T12:12:30.000Z",
        saved={"step": 7, "uri": "s3://b/7", "at": "2026-06-01T11:00:00.000Z"},
    )
    server.replies["GET", JOB_PATH] = Answer(job)
    server.replies["GET", f"{JOB_PATH}/explain"] = Answer(make_verdict())
    server.lists = {
        "/v1/pods": [],
        "/v1/claims": [{**CLAIM, "namespace": "research"} | {"job": "llama-70b"}],
        f"{JOB_PATH}/events": [],
    }
    text = yardctl("describe", "job", "research/llama-70b").stdout
    lines = [" ".join(line.split()) for line in text.splitlines()]
    for line in (
        "Held: until it is released",
        "Expected start: 2026-06-01T12:12:30.000Z (in 12m)",
        "Saved: step 7 at s3://b/7, 2026-06-01T11:00:00.000Z (60m ago)",
        "Kept for it:",
        "preemption n003 0-3 rank 0 now",
    ):
        assert line in lines


def test_describe_shows_how_a_job_leaves(server: FakeServer, yardctl: Yardctl) -> None:
    evicting = {
        "then": "pending",
        "step": "saving",
        "deadline": "2026-06-01T12:01:00.000Z",
        "why": "for job 'first'",
    }
    server.replies["GET", JOB_PATH] = Answer(make_job(state="evicting", evicting=evicting))
    server.lists = {"/v1/pods": [], f"{JOB_PATH}/events": []}
    text = " ".join(yardctl("describe", "job", "research/llama-70b").stdout.split())
    assert "Leaves: saving, until 2026-06-01T12:01:00.000Z, then pending: for job 'first'" in text
