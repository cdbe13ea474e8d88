"""Logs of pods on the command line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.cli import logs
from tests.client.fake_server import Answer, FakeServer, problem
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


@pytest.fixture
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "FOLLOW_S", 0.0)


def at(text: str, state: str = "running", attempt: int = 1) -> Answer:
    told = {"pod": "llama-70b-3", "node": "n1", "process": 0, "stream": "out"}
    return Answer(told | {"text": text, "state": state, "attempt": attempt})


@pytest.mark.usefixtures("_no_pause")
def test_log_is_followed_until_its_pod_has_ended(server: FakeServer, yardctl: Yardctl) -> None:
    answers = [
        at("step 1\nstep 2\nste"),
        at("step 1\nstep 2\nstep 3\n"),
        at("step 1\nstep 2\nstep 3\n"),
        at("step 1\n", attempt=2),
        at("step 1\nbye", "succeeded", attempt=2),
    ]
    server.replies["GET", PATH] = lambda _: answers.pop(0)
    result = yardctl("logs", "research/llama-70b-3", "-f", "--tail", "1")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == ["step 2", "step 3", "step 1", "bye"]
    assert result.stderr == "-- attempt 2 --\n"


@pytest.mark.usefixtures("_no_pause")
def test_agent_that_is_silent_for_a_while_does_not_end_what_is_followed(
    server: FakeServer, yardctl: Yardctl
) -> None:
    silent = problem(409, "the agent of node 'n1' is silent; it keeps the logs")
    answers = [at("one\n"), silent, at("one\ntwo\n", "failed")]
    server.replies["GET", PATH] = lambda _: answers.pop(0)
    result = yardctl("logs", "research/llama-70b-3", "--follow")
    assert result.stdout == "one\ntwo\n"
    assert "is silent" in result.stderr


def test_what_is_followed_has_no_other_output(server: FakeServer, yardctl: Yardctl) -> None:
    assert yardctl("logs", "research/llama-70b-3", "-f", "-o", "json").exit_code == 2
    assert not server.requests


@given(st.lists(st.sampled_from(["a\n", "bb\n", "ccc\n"]), max_size=30), st.data())
def test_news_come_after_what_was_shown_however_far_the_log_has_moved(
    lines: list[str], data: st.DataObject
) -> None:
    """Of lines that are all different the news are exact: whatever window slides over them."""
    numbered = [f"{number} {line}" for number, line in enumerate(lines)]
    shown_from, shown_to, text_from = (
        data.draw(st.integers(0, len(lines)), label=name) for name in ("from", "to", "text")
    )
    shown = numbered[shown_from : max(shown_from, shown_to)]
    text = numbered[text_from:]
    found = logs.news_of("".join(shown), "".join(text))
    to = max(shown_from, shown_to)
    is_joined = shown and shown_from <= text_from < to
    assert found == "".join(numbered[max(text_from, to) :] if is_joined else text)
