"""The quick start, word for word: a newcomer's path with its commands alone."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from client.http import Client

PAGE = Path(__file__).parents[2] / "docs" / "quickstart.md"
PATIENCE_S = 60.0

_BLOCK = re.compile(r"^```(sh|yaml file=(\S+))\n(.*?)^```", re.MULTILINE | re.DOTALL)

NOT_HERE = ("make ", "export PATH=")
"""What sets up a clone; the tests run in one that is."""


def steps() -> Iterator[tuple[str, str]]:
    """Files to save and commands to type, in order: (name of the file or "", text)."""
    for kind, file, text in _BLOCK.findall(PAGE.read_text()):
        if kind != "sh":
            yield file, text
            continue
        for line in text.splitlines():
            if not line.startswith(NOT_HERE):
                yield "", line


@pytest.mark.slow
def test_quick_start_can_be_typed_as_it_stands(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    url = f"http://127.0.0.1:{port}"
    environment = {name: value for name, value in os.environ.items() if "PODYARD" not in name} | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PODYARD_PORT": str(port),
        "PODYARD_SERVER": url,
        "PODYARD_CONFIG": str(tmp_path / "config"),
        "PYTHONPATH": str(PAGE.parents[1]),
    }
    service: subprocess.Popen[bytes] | None = None
    said: dict[str, str] = {}
    try:
        for file, text in steps():
            if file:
                (tmp_path / file).write_text(text)
            elif text.endswith("&"):
                command = text.removesuffix("&").split()
                with (tmp_path / "log").open("wb") as log:
                    service = subprocess.Popen(
                        command, cwd=tmp_path, env=environment, stdout=log, stderr=log
                    )
                _until_ready(url, tmp_path / "log")
            else:
                done = subprocess.run(
                    text.split(),
                    cwd=tmp_path,
                    env=environment,
                    capture_output=True,
                    text=True,
                    timeout=PATIENCE_S,
                )
                said[text] = done.stdout + done.stderr
                assert done.returncode == 0, f"{text}: {said[text]}"
    finally:
        if service is not None:
            service.send_signal(signal.SIGTERM)
            service.wait(PATIENCE_S)
    assert "train" in said["yardctl get jobs"]
    assert "when 'default/train' ends (32 GPUs)" in said["yardctl explain big"]
    assert "raining" in said["yardctl get nodes"]


def _until_ready(url: str, log: Path) -> None:
    ends_s = time.monotonic() + PATIENCE_S
    with Client(url) as client:
        while not client.is_ready():
            assert time.monotonic() < ends_s, log.read_text()
            threading.Event().wait(0.05)


def test_page_has_every_step_that_newcomers_ask_for() -> None:
    typed = " ".join(text for _, text in steps())
    for word in ("podyard serve", "yardctl apply", "yardctl create", "explain", "drain", "top"):
        assert word in typed
