"""`yardctl top`: the cluster at a glance."""

import json
from typing import Any

import pytest

from api.http.example_polling import OVERVIEW
from tests.client.fake_server import Answer, FakeServer
from tests.client.golden_text import Yardctl


@pytest.fixture
def seen(server: FakeServer) -> dict[str, Any]:
    """What the service answers, to be changed by a test."""
    found = json.loads(json.dumps(OVERVIEW))
    server.replies["GET", "/v1/overview"] = Answer(found)
    return dict(found)


def test_top_shows_use_waits_what_fits_and_queues(yardctl: Yardctl, seen: dict[str, Any]) -> None:
    done = yardctl("top")
    assert done.exit_code == 0, done.output
    text = done.output
    assert "75%   768 used, 248 free, 8 aside, of 1024, 64 kept for somebody" in text
    assert "Nodes  127 of 128 take new gangs, 32 are empty; 1 cordoned" in text
    assert "Gangs  6 running, 2 pending" in text
    assert "up to date, last cycle 2.5 ms" in text
    assert "research/llama-70b" in text
    assert "224 in l4" in text
    assert "default" in text


def test_top_as_json_is_what_the_service_says(yardctl: Yardctl, seen: dict[str, Any]) -> None:
    assert json.loads(yardctl("top", "-o", "json").output) == OVERVIEW


def test_top_of_an_empty_service_is_short(yardctl: Yardctl, server: FakeServer) -> None:
    empty = OVERVIEW | {
        "cluster": "",
        "waiting": [],
        "starts": [],
        "largest_gangs": [],
        "levels": [],
        "jobs": {},
        "scheduler": None,
        "gpus": {"total": 0, "used": 0, "free": 0, "aside": 0},
    }
    server.replies["GET", "/v1/overview"] = Answer(empty)
    done = yardctl("top")
    assert done.exit_code == 0
    assert "Gangs  none" in done.output
    assert "Largest" not in done.output


def test_hostile_names_do_not_move_the_cursor(yardctl: Yardctl, server: FakeServer) -> None:
    hostile = json.loads(json.dumps(OVERVIEW))
    hostile["cluster"] = "a\x1b[31m\u202e"
    hostile["waiting"][0]["message"] = "b\x1b[2J" + "x" * 300
    server.replies["GET", "/v1/overview"] = Answer(hostile)
    text = yardctl("top").output
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_top_kept_current_writes_when_something_changed(
    yardctl: Yardctl, seen: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = iter(range(3))

    def pause(_: float) -> None:
        if next(pauses) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("client.cli.top.time.sleep", pause)
    done = yardctl("top", "-w")
    assert done.exit_code == 130
    assert done.output.count("Cluster demo") == 1
