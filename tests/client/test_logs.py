"""Logs of pods on the command line."""

from tests.client.fake_server import Answer, FakeServer
from tests.client.golden_text import Yardctl

PATH = "/v1/namespaces/research/pods/llama-70b-3/logs"


def log(text: str) -> Answer:
    told = {"pod": "llama-70b-3", "node": "n1", "attempt": 1, "process": 0, "stream": "out"}
    return Answer(told | {"text": text})


def test_last_lines_of_a_pod_are_shown(server: FakeServer, yardctl: Yardctl) -> None:
    server.replies["GET", PATH] = log("one\ntwo\nthree\n")
    result = yardctl("logs", "research/llama-70b-3", "--tail", "2", "--stderr", "--process", "5")
    assert (result.exit_code, result.stdout) == (0, "two\nthree\n")
    (asked,) = server.asked("GET", PATH)
    assert (asked.query["stream"], asked.query["process"]) == ("err", "5")


def test_line_that_begins_in_the_middle_is_left_out(server: FakeServer, yardctl: Yardctl) -> None:
    server.replies["GET", PATH] = log("x" * 600 + "\nlast\n")
    assert yardctl("logs", "research/llama-70b-3", "--tail", "1").stdout == "last\n"


def test_log_cannot_steer_the_terminal(server: FakeServer, yardctl: Yardctl) -> None:
    server.replies["GET", PATH] = log("a\tb \x1b[2J\n")
    assert yardctl("logs", "research/llama-70b-3").stdout == "a\tb \\x1b[2J\n"


def test_rank_of_a_job_is_found_in_its_pods(server: FakeServer, yardctl: Yardctl) -> None:
    pod = {"namespace": "research", "name": "llama-70b-3", "ranks": [24, 25, 26, 27]}
    server.lists = {"/v1/pods": [pod]}
    server.replies["GET", PATH] = log("here\n")
    result = yardctl("logs", "research/llama-70b", "--rank", "26")
    assert result.stdout == "here\n"
    (asked,) = server.asked("GET", PATH)
    assert asked.query["process"] == "2"
    missing = yardctl("logs", "research/llama-70b", "--rank", "99")
    assert missing.exit_code == 2
    assert "has rank 99" in missing.stderr
