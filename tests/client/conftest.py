"""A fake service for each test, and `yardctl` run against it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from client.cli.main import app
from tests.client.fake_server import Answer, FakeServer
from tests.client.golden_text import Yardctl
from tests.client.sample import (
    NOW_S,
    make_events,
    make_jobs,
    make_nodes,
    make_pods,
    make_queues,
    make_topology,
)


@pytest.fixture
def server() -> Iterator[FakeServer]:
    """A service with nothing in it."""
    with FakeServer() as fake:
        yield fake


@pytest.fixture
def cluster(server: FakeServer) -> FakeServer:
    """A service with 200 nodes and some jobs."""
    server.lists = {
        "/v1/nodes": list(make_nodes()),
        "/v1/jobs": list(make_jobs()),
        "/v1/pods": list(make_pods()),
        "/v1/queues": list(make_queues()),
        "/v1/events": list(make_events()),
    }
    server.replies = {("GET", "/v1/topology"): Answer(make_topology())}
    for node in make_nodes():
        server.replies["GET", f"/v1/nodes/{node['name']}"] = Answer(node)
    for job in make_jobs():
        path = f"/v1/namespaces/research/jobs/{job['name']}"
        server.replies["GET", path] = Answer(job)
        server.lists[f"{path}/events"] = list(make_events()[:2])
    return server


@pytest.fixture
def yardctl(monkeypatch: pytest.MonkeyPatch, server: FakeServer, tmp_path: Path) -> Yardctl:
    """The command line, pointed at the fake service, at a fixed moment."""
    monkeypatch.setattr("client.cli.text.clock", lambda: NOW_S)
    monkeypatch.setenv("PODYARD_SERVER", server.url)
    monkeypatch.setenv("PODYARD_CONFIG", str(tmp_path / "config"))
    for name in ("PODYARD_NAMESPACE", "PODYARD_TOKEN", "PODYARD_CONTEXT", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)

    def run(*words: str, stdin: str | bytes | None = None) -> Result:
        return CliRunner().invoke(app, list(words), input=stdin, prog_name="yardctl")

    return run
