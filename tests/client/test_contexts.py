"""`yardctl context`: several services by name."""

from pathlib import Path

import pytest

from client.contexts import contexts_file
from tests.client.fake_server import FakeServer
from tests.client.golden_text import Yardctl


def test_first_context_is_used_at_once_and_another_when_told(
    yardctl: Yardctl, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PODYARD_SERVER")
    assert yardctl("context", "set", "lab", "-s", server.url, "-n", "research").exit_code == 0
    assert yardctl("context", "set", "gone", "-s", "http://127.0.0.1:9").exit_code == 0
    server.lists["/v1/jobs"] = []
    assert yardctl("get", "jobs").exit_code == 0
    assert server.asked("GET", "/v1/jobs")[-1].query["namespace"] == "research"
    assert yardctl("context", "use", "gone").exit_code == 0
    assert yardctl("get", "jobs").exit_code == 3
    monkeypatch.setenv("PODYARD_CONTEXT", "lab")
    assert yardctl("get", "jobs").exit_code == 0


def test_option_goes_before_the_context(yardctl: Yardctl, server: FakeServer) -> None:
    yardctl("context", "set", "gone", "-s", "http://127.0.0.1:9", "-n", "there")
    server.lists["/v1/jobs"] = []
    assert yardctl("get", "jobs", "-n", "here").exit_code == 0
    assert server.asked("GET", "/v1/jobs")[-1].query["namespace"] == "here"


def test_list_marks_the_one_in_use(yardctl: Yardctl) -> None:
    assert "No contexts yet" in yardctl("context", "list").output
    yardctl("context", "set", "a", "-s", "http://a")
    yardctl("context", "set", "b", "-s", "https://b")
    lines = yardctl("context", "list").output.splitlines()
    assert lines[1].split() == ["*", "a", "http://a", "-"]
    assert yardctl("context", "delete", "a").exit_code == 0
    assert yardctl("context", "list").output.splitlines()[1].split()[:2] == ["-", "b"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("use", "nope"), "there is no context 'nope'"),
        (("delete", "nope"), "there is no context 'nope'"),
        (("set", "new"), "give its --server"),
        (("set", "new", "-s", "ftp://x"), "http:// or https://"),
        (("set", "../x", "-s", "http://x"), "letters, digits"),
    ],
)
def test_bad_call_says_what_is_allowed(yardctl: Yardctl, words: tuple[str, ...], said: str) -> None:
    done = yardctl("context", *words)
    assert done.exit_code == 2
    assert said in " ".join(done.output.replace("│", " ").split())


@pytest.mark.parametrize(
    "text", ["contexts: [", "[]", "contexts: 3", "contexts: {a: 3}", "contexts: {a: {nope: x}}"]
)
def test_broken_file_is_named_and_not_overwritten(yardctl: Yardctl, text: str) -> None:
    path: Path = contexts_file()
    path.parent.mkdir(parents=True)
    path.write_text(text)
    done = yardctl("context", "set", "a", "-s", "http://a")
    assert done.exit_code == 2
    assert "contexts.yaml" in done.output
    assert path.read_text() == text
