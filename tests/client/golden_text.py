"""Outputs that are kept as files and read by people before they are."""

import os
from collections.abc import Callable
from pathlib import Path

from typer.testing import Result

GOLDEN = Path(__file__).parent / "golden"

Yardctl = Callable[..., Result]
"""Runs `yardctl` with these words, and a text on standard input if `stdin` is given."""


def assert_golden(name: str, text: str) -> None:
    """Compare with `golden/NAME`; with GOLDEN_WRITE=1 write it first."""
    path = GOLDEN / name
    if os.environ.get("GOLDEN_WRITE") == "1":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
