"""A service as people start it, for tests of what the documents tell them to type."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from client.http import Client

ROOT = Path(__file__).parents[2]
PATIENCE_S = 150.0
"""For a program to start, on a machine that is busy with other tests."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment_of(folder: Path, port: int) -> dict[str, str]:
    """What a newcomer's shell has: our programs, and nothing set."""
    return {name: value for name, value in os.environ.items() if "PODYARD" not in name} | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PODYARD_PORT": str(port),
        "PODYARD_SERVER": f"http://127.0.0.1:{port}",
        "PODYARD_CONFIG": str(folder / "config"),
        "PODYARD_DATABASE_URL": f"sqlite:///{folder / 'podyard.db'}",
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "120",
    }


@contextmanager
def service(folder: Path, port: int | None = None) -> Iterator[str]:
    """`podyard serve` in a folder; yields its address."""
    port = port or free_port()
    log = folder / "service.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            ["podyard", "serve"],
            executable=str(Path(sys.executable).parent / "podyard"),
            cwd=folder,
            env=environment_of(folder, port),
            stdout=out,
            stderr=out,
        )
    try:
        url = f"http://127.0.0.1:{port}"
        until_ready(url, log)
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_S)


def until_ready(url: str, log: Path) -> None:
    ends_s = time.monotonic() + PATIENCE_S
    with Client(url) as client:
        while not client.is_ready():
            assert time.monotonic() < ends_s, log.read_text(errors="replace")
            threading.Event().wait(0.05)
