"""A service with a cluster and a browser in front of it."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import uvicorn

from api.clock import SystemClock
from api.http.serving import Server
from api.loop.runner import Runner
from api.main import create_app
from api.metrics import Metrics
from api.settings import Settings
from api.store.engine import Database

PATIENCE_S = 30.0

CLUSTER = """\
cluster: stage
levels: [block, leaf, rack, node]
scale_up: node
node_types:
  small: {gpu: CARD, gpus: 8, rails: 8, power_kw: 10}
nodes:
  - {names: "a[1-4]", type: small, rack: r1, leaf: l1, block: b1}
  - {names: "b[1-4]", type: small, rack: r2, leaf: l1, block: b1}
  - {names: "c[1-4]", type: small, rack: r3, leaf: l2, block: b1}
"""
"""12 nodes of 8 GPUs in 3 racks of 2 leaves."""


class Stage:
    """A service that decides, on a port of its own."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.client = httpx.Client(base_url=self.url, timeout=PATIENCE_S)

    def ok(self, method: str, path: str, json: object = None) -> Any:  # noqa: ANN401 - JSON of any shape
        """The answer of a request that must be served."""
        answer = self.client.request(method, path, json=json)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text[:300]}"
        return answer.json()

    def load(self, text: str) -> None:
        """Import an inventory."""
        headers = {"Content-Type": "application/yaml"}
        answer = self.client.post("/v1/inventory?prune=true", content=text, headers=headers)
        assert answer.is_success, answer.text

    def submit(self, name: str, *, wait: bool = True, **fields: object) -> None:
        """Submit a job, and wait until it has its place."""
        query = f"?wait=bound&timeout_s={PATIENCE_S:g}" if wait else ""
        self.ok("POST", f"/v1/jobs{query}", {"name": name, **fields})

    def run(self, job: str) -> None:
        """Report all pods of a job as running."""
        for pod in self.ok("GET", f"/v1/pods?job={job}")["items"]:
            path = f"/v1/namespaces/{pod['namespace']}/pods/{pod['name']}/status"
            self.ok("POST", path, {"attempt": pod["attempt"], "state": "running"})

    def until_message(self, job: str) -> None:
        """Wait until a cycle has said why a job waits."""
        ends_s = time.monotonic() + PATIENCE_S
        while not self.ok("GET", f"/v1/namespaces/default/jobs/{job}")["message"]:
            assert time.monotonic() < ends_s
            threading.Event().wait(0.02)


@contextmanager
def stage(database: Database) -> Iterator[Stage]:
    """Serve until the end of the block."""
    metrics, clock = Metrics(), SystemClock()
    settings = Settings(database_url=database.url)
    app = create_app(settings, database, clock, Runner(database, clock, metrics=metrics), metrics)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="on")
        server = Server(config, app.service)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        made = Stage(int(listener.getsockname()[1]))
        try:
            _until_ready(made)
            yield made
        finally:
            made.client.close()
            server.should_exit = True
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), "the service did not end"


def _until_ready(made: Stage) -> None:
    ends_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            if made.client.get("/readyz").is_success:
                return
        except httpx.TransportError:
            pass
        assert time.monotonic() < ends_s
        threading.Event().wait(0.05)
