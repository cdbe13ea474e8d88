"""Logs: one line an event, whatever is in it."""

import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from api.log import configure_logs, get_logger

EVIL = 'a\nlevel=info event="forged"\r\x1b[2J\u2028\u202e\x00'


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.mark.parametrize("log_format", ["text", "json"])
@pytest.mark.parametrize("evil", [EVIL, "\x1b[2J", "\u2028"])
def test_text_from_outside_begins_no_line_and_moves_no_cursor(
    capsys: pytest.CaptureFixture[str], log_format: str, evil: str
) -> None:
    configure_logs("text" if log_format == "text" else "json")
    get_logger("fresh").info("gang_bound", job=evil, words=[evil])
    logging.getLogger("some.library").warning("what it says: %s", evil)
    lines = capsys.readouterr().err.split("\n")
    assert len(lines) == 3
    assert all(line.isprintable() for line in lines)
    if log_format == "json":
        assert json.loads(lines[0])["job"] == evil


def test_traceback_on_a_terminal_tells_no_local_variables(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail() -> None:
        token = "pody_" + "secret" * 2
        raise ValueError(f"of {len(token)} letters")

    configure_logs("text")
    try:
        fail()
    except ValueError:
        get_logger("fresh").exception("it_failed")
    said = capsys.readouterr().err
    assert "of 17 letters" in said
    assert "secretsecret" not in said
