"""A service that is killed and started again on the same port, as often as a test likes."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

READY_S = 60.0


class Warm:
    """A process that begins commands with the imports behind them; see `warm.py`."""

    def __init__(self, log: Path) -> None:
        self._log = log.open("ab")
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "tests.crash.warm"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )

    def begin(self, arguments: Sequence[str]) -> int:
        """The process id of a command."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(arguments).encode() + b"\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()
        self._log.close()


class Service:
    """`podyard serve` in a process, begun by a warm one so that it is up in a moment.

    Args:
        log: Its standard error, all rounds one after the other.
        patience_s: Longest wait for an answer.
        warm: What begins it, if others share that; its own by default.
    """

    def __init__(
        self, database_url: str, log: Path, *, patience_s: float = 20.0, warm: Warm | None = None
    ) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self._url = database_url
        self._patience_s = patience_s
        self._process = 0
        self._owns_warm = warm is None
        self._warm = warm or Warm(log)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        if self._owns_warm:
            self._warm.close()

    @property
    def process(self) -> int:
        """Its process id; 0 while there is none."""
        return self._process

    def start(self) -> None:
        """Begin; returns at once."""
        arguments = ["serve", "--port", str(self.port), "--database-url", self._url]
        self._process = self._warm.begin([*arguments, "--log-format", "json"])

    def kill(self) -> None:
        """SIGKILL; returns when the process is gone."""
        if not self._process:
            return
        with suppress(ProcessLookupError):  # it may have ended by itself
            os.kill(self._process, signal.SIGKILL)
        until(lambda: not is_alive(self._process), "the process is gone")
        self._process = 0

    def until_ready(self) -> None:
        until(lambda: self.call("GET", "/readyz")[0] == 200, "the service is ready")

    def call(
        self, method: str, path: str, body: object = None, **headers: str
    ) -> tuple[int, dict[str, object]]:
        """Status and JSON of one request; status 0 where there was no answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self._patience_s)
        data = None if body is None else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(
                method, path, data, {"Content-Type": "application/json"} | named if data else named
            )
            answer = connection.getresponse()
            found = json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError):
            return 0, {}
        finally:
            connection.close()
        assert isinstance(found, dict)
        if retry := answer.getheader("Retry-After"):
            found["retry_after"] = retry
        return answer.status, found

    def items(self, path: str) -> list[dict[str, object]]:
        """The items of all pages of a list; as many as were answered."""
        found: list[dict[str, object]] = []
        cursor = ""
        while True:
            status, page = self.call("GET", f"{path}{'&' if '?' in path else '?'}{cursor}")
            items = page.get("items")
            if status != 200 or not isinstance(items, list):
                return found
            found += items
            if page["next"] is None:
                return found
            cursor = f"cursor={page['next']}"


def until(condition: Callable[[], bool], what: str, timeout_s: float = READY_S) -> None:
    """Look again every few milliseconds."""
    ends = time.monotonic() + timeout_s
    pause = threading.Event()
    while not condition():
        if time.monotonic() > ends:
            raise TimeoutError(f"not within {timeout_s:g} s: {what}")
        pause.wait(0.01)


def is_alive(process: int) -> bool:
    """Whether the system still knows it."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
