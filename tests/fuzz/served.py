"""A service in a process of its own, with something in every corner; and how much memory it has."""

import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.api.http.yard import RACKS
from tests.fuzz.request import Sent

READY_S = 60.0
PAUSE = threading.Event()
"""Never set; to be waited for between two looks."""

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
JSON = {"Content-Type": "application/json"}
ENDED = {"succeeded", "failed", "cancelled"}

LARGE_GANGS = 50
"""Of half a million ranks and more, each with tables of some ten megabytes."""

LINE_CHARS = 3_000
"""Of a line of the log that is shown."""

NAMES = (
    *("default", "research", "ring", "waits", "ended", "a1", "b2", "c3", "lab", "team", "r1", "l1"),
    *("rack", "leaf", "cdu-1", "cdu", "ring-w-0", "ring-w-1", "window", "missing", "all", "none"),
)
"""Names of things that are there, and of some that are not."""

STAGED: tuple[dict[str, object], ...] = (
    {"name": "ring", "roles": [{"name": "w", "replicas": 4, "min": 2, "gpus": 8}]},
    {"name": "waits", "parallelism": {"tp": 8, "pp": 16, "dp": 16}, "if_never_fits": "wait"},
    {"name": "ended", "roles": [{"name": "w", "replicas": 1, "gpus": 1}]},
    {"name": "kept", "namespace": "research", "queue": "team", "parallelism": {"tp": 8, "dp": 2}},
)


class Served:
    """`podyard serve` on a new SQLite file, or on the database of a URL."""

    def __init__(self, folder: Path, url: str = "") -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self.log = folder / "service.log"
        self._log = self.log.open("wb")
        self._url = url or f"sqlite:///{folder / 'podyard.db'}"
        command = [sys.executable, "-m", "api.command", "serve", "--port", str(self.port)]
        self._process = subprocess.Popen(
            [*command, "--database-url", self._url, "--log-format", "json"],
            stdout=self._log,
            stderr=self._log,
        )
        self._connection = self._connect()
        self._policy: dict[str, object] = {}

    def __enter__(self) -> Self:
        until = time.monotonic() + READY_S
        while self.ask("GET", "/readyz")[0] != 200:
            if time.monotonic() > until or self._process.poll() is not None:
                self.__exit__(None, None, None)
                raise TimeoutError(self.log.read_text()[-2_000:])
            PAUSE.wait(0.05)
        self.stage()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.close()
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def rss_bytes(self) -> int:
        """Memory of the process that is in use."""
        statm = Path(f"/proc/{self._process.pid}/statm").read_text()
        return int(statm.split()[1]) * PAGE_BYTES

    def live_rows(self) -> int:
        """What the service has in memory on purpose: nodes, queues, jobs that have not ended."""
        jobs = [job for job in self.items("/v1/jobs?limit=1000") if job["state"] not in ENDED]
        others = (self.items(f"/v1/{kind}") for kind in ("nodes", "queues", "reservations"))
        return len(jobs) + sum(map(len, others))

    def fill(self) -> None:
        """Ask about gangs of very many ranks, until what is kept of layouts has all its room.

        It is bounded by its bytes; a run would come to that bound by and by, and seem to grow.
        """
        for number in range(LARGE_GANGS):
            sizes = {"tp": 8, "pp": 64 + number, "dp": 1_024}
            self.ask("POST", "/v1/jobs?dry_run=true", {"name": "large", "parallelism": sizes})

    def stage(self) -> None:
        """Put all back to where it began: a cluster, queues, jobs that run, wait and have ended."""
        if not self._policy:
            self._policy = self.ask("GET", "/v1/policy")[1]
        self.ask("PUT", "/v1/policy", self._policy)
        self.ask("POST", "/v1/scheduler/resume")
        self.ask("POST", "/v1/inventory?prune=true", RACKS, {"Content-Type": "application/yaml"})
        for job in self.items("/v1/jobs?limit=1000"):
            if job["state"] not in ENDED:
                self.ask("DELETE", f"/v1/namespaces/{job['namespace']}/jobs/{job['name']}")
        self.finish_pods("cancelled")
        for kind in ("reservations", "queues"):
            for item in self.items(f"/v1/{kind}"):
                self.ask("DELETE", f"/v1/{kind}/{item['name']}")
        for node in self.items("/v1/nodes"):
            self.ask("POST", f"/v1/nodes/{node['name']}/undrain")
            self.ask("POST", f"/v1/nodes/{node['name']}/uncordon")
            for fault in self.items(f"/v1/nodes/{node['name']}/faults"):
                self.ask("DELETE", f"/v1/nodes/{node['name']}/faults/{fault['id']}")
        self.ask("POST", "/v1/queues", {"name": "lab", "quota_gpus": 48})
        self.ask(
            "POST", "/v1/queues", {"name": "team", "parent": "lab", "namespaces": ["research"]}
        )
        for body in STAGED:
            self.ask("POST", "/v1/jobs?wait=bound&timeout_s=1", body)
        self.finish_pods("succeeded", of="ended")
        times = {"starts_at": "2050-01-01T00:00:00Z", "ends_at": "2050-01-02T00:00:00Z"}
        self.ask("POST", "/v1/reservations", {"name": "window", "nodes": ["c4"]} | times)
        self.ask("POST", "/v1/nodes/c3/faults", {"code": "ecc_sbe"})

    def finish_pods(self, state: str, of: str = "") -> None:
        """Report an end for pods: of one job, or of all that are to leave."""
        for pod in self.items("/v1/pods?limit=1000"):
            is_asked = pod["job"] == of if of else pod["state"] == "terminating"
            if is_asked and pod["state"] in {"bound", "running", "terminating", "lost"}:
                body = {"attempt": pod["attempt"], "state": state, "exit_code": 0}
                if state == "cancelled":
                    body = {"attempt": pod["attempt"], "state": "stopped"}
                path = f"/v1/namespaces/{pod['namespace']}/pods/{pod['name']}/status"
                self.ask("POST", path, body)

    def items(self, path: str) -> list[dict[str, object]]:
        found = self.ask("GET", path)[1].get("items", [])
        return found if isinstance(found, list) else []

    def ask(
        self,
        method: str,
        target: str,
        body: object = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, dict[str, object]]:
        """Status and JSON of a plain request; 0 where there was no answer."""
        content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        sent = Sent(method, target, content if body is not None else b"", headers or JSON)
        try:
            status, _, answer, _ = self.send(sent)
            told = json.loads(answer)
        except (OSError, ValueError, http.client.HTTPException):
            return 0, {}
        return status, told if isinstance(told, dict) else {}

    def send(self, sent: Sent) -> tuple[int, dict[str, str], bytes, float]:
        """Status, headers, body and seconds of any request; of a stream no more than its head."""
        begun = time.monotonic()
        try:
            answer = self._request_again(sent)
            kind = answer.headers.get("Content-Type", "")
            if "event-stream" in kind or answer.headers.get("Transfer-Encoding") == "chunked":
                # A stream has no end; the connection is of no use to others.
                self._connection.close()
                content = b""
            else:
                content = answer.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            raise
        headers = {name.lower(): value for name, value in answer.headers.items()}
        return answer.status, headers, content, time.monotonic() - begun

    def _request_again(self, sent: Sent) -> http.client.HTTPResponse:
        """A connection that nobody used for a while may have been closed; then there is another."""
        is_used = self._connection.sock is not None
        try:
            return self._request(sent)
        except (BrokenPipeError, ConnectionResetError, http.client.RemoteDisconnected):
            self._connection.close()
            if not is_used:
                raise
        return self._request(sent)

    def _request(self, sent: Sent) -> http.client.HTTPResponse:
        connection = self._connection
        connection.putrequest(sent.method, "/", skip_host=True, skip_accept_encoding=True)
        # The library refuses targets that a hostile client would send.
        line = f"{sent.method} {sent.target} HTTP/1.1".encode("latin-1", "replace")
        connection._buffer[0] = line  # type: ignore[attr-defined]  # there is no public way
        connection.putheader("Host", f"127.0.0.1:{self.port}")
        for name, value in sent.headers.items():
            connection.putheader(name, value.encode("latin-1", "replace"))
        if sent.content or sent.method not in {"GET", "HEAD", "DELETE"}:
            connection.putheader("Content-Length", str(len(sent.content)))
        connection.endheaders(sent.content or None)
        return connection.getresponse()

    def _connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)


def wrong_lines(log: Path) -> list[str]:
    """Lines of a service's log that tell of its own faults, or that a request has forged."""
    with closing(log.open(errors="replace", newline="\n")) as lines:
        return [_shortened(line) for line in lines if _is_wrong(line)]


def _shortened(line: str) -> str:
    """What a line begins with, and its end, where a traceback says what it was."""
    if len(line) <= LINE_CHARS:
        return line
    return f"{line[: LINE_CHARS // 4]} ... {line[-LINE_CHARS * 3 // 4 :]}"


def _is_wrong(line: str) -> bool:
    try:
        event = json.loads(line)
    except ValueError:
        return True
    return event.get("level") in {"error", "critical"} or event.get("event") == "forged"
