"""The real `kubectl` against a real service: both as processes, each test with its own."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

OLDEST = (1, 27)
PLACES = ("/usr/bin", "/usr/local/bin")
READY_S = 60.0

INVENTORY = """\
cluster: test
levels: [leaf, rack, node]
scale_up: node
node_types:
  small: {gpu: CARD, gpus: 8, rails: 8, power_kw: 10, cpus: 64, memory_gib: 512}
nodes:
  - {names: "a[1-4]", type: small, rack: r1, leaf: l1}
  - {names: "b[1-4]", type: small, rack: r2, leaf: l1, labels: {zone: east}}
"""


@lru_cache(maxsize=1)
def kubectls() -> dict[str, Path]:
    """Every version of `kubectl` on this machine from 1.27 up, as `1.32` -> its program."""
    named = shutil.which("kubectl")
    plain = [Path(named)] if named else []
    plain += [Path(place) / "kubectl" for place in PLACES]
    paths = {path.resolve() for path in plain if path.exists()}
    folders = {path.parent for path in (*plain, *paths)}
    paths |= {path.resolve() for folder in folders for path in folder.glob("kubectl.[0-9]*")}
    found: dict[tuple[int, int], Path] = {}
    for path in sorted(paths):
        version = _version(path)
        if version is not None and version >= OLDEST:
            # A program that is named for its version comes behind one that chooses among them.
            found[version] = path
    return {"{}.{}".format(*version): found[version] for version in sorted(found)}


def _version(path: Path) -> tuple[int, int] | None:
    """By its name if that has it, else by asking it."""
    match = re.search(r"kubectl\.(\d+)\.(\d+)", path.name)
    return (int(match[1]), int(match[2])) if match else _asked_version(path)


def _asked_version(path: Path) -> tuple[int, int] | None:
    command = [str(path), "version", "--client", "-o", "json"]
    try:
        told = subprocess.run(command, capture_output=True, timeout=30, check=False)
        git = json.loads(told.stdout)["clientVersion"]["gitVersion"]
    except (OSError, ValueError, KeyError, subprocess.SubprocessError):
        return None
    match = re.match(r"v(\d+)\.(\d+)\.", git)
    return (int(match[1]), int(match[2])) if match else None


@dataclass(frozen=True, slots=True)
class Result:
    """What a command printed."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err


class Kubectl:
    """One version of `kubectl`, with a home and so a cache of its own.

    Args:
        folder: For its home and for manifests.
    """

    def __init__(self, path: Path, url: str, folder: Path) -> None:
        self._path = path
        self._url = url
        self.folder = folder
        home = folder / "home"
        home.mkdir(exist_ok=True)
        self._env = {"HOME": str(home), "PATH": os.environ["PATH"], "KUBE_EDITOR": "true"}

    def __call__(
        self, *arguments: str, stdin: str | None = None, env: dict[str, str] | None = None
    ) -> Result:
        done = subprocess.run(
            self._command(arguments),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=self._env | (env or {}),
            cwd=self.folder,
        )
        return Result(done.returncode, done.stdout, done.stderr)

    @contextmanager
    def running(self, *arguments: str) -> Iterator["Running"]:
        """A command that goes on until it is stopped."""
        process = subprocess.Popen(
            self._command(arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self._env,
            cwd=self.folder,
        )
        try:
            yield Running(process)
        finally:
            process.kill()
            process.communicate()

    def _command(self, arguments: tuple[str, ...]) -> list[str]:
        return [str(self._path), "--server", self._url, *arguments]


class Running:
    """A command under way, its lines gathered as they come."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self._lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def text(self) -> str:
        return "".join(self._lines)

    def until(self, pattern: str) -> None:
        """Wait until something like this was printed."""
        until(lambda: re.search(pattern, self.text), f"{pattern!r} in {self.text!r}")

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.append(line)


class Served:
    """`podyard serve` in a process of its own, over a new SQLite file."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self._log = (folder / "service.log").open("wb")
        self._folder = folder
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        database = f"sqlite:///{self._folder / 'podyard.db'}"
        program = "from api.command import main; main()"
        arguments = ["serve", "--port", str(self.port), "--database-url", database]
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, *arguments, "--log-format", "json"],
            stdout=self._log,
            stderr=self._log,
        )
        until(lambda: self.call("GET", "/readyz")[0] == 200, "the service is ready")
        status, told = self.call(
            "POST", "/v1/inventory?format=podyard", INVENTORY.encode(), kind="application/yaml"
        )
        assert status == 200, told
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(30)
        self._log.close()

    def call(
        self, method: str, path: str, body: object = None, kind: str = "application/json"
    ) -> tuple[int, Any]:
        """Status and JSON of one request; 0 where there was no answer."""
        data = body if isinstance(body, bytes) else None if body is None else _json(body)
        request = urllib.request.Request(
            self.url + path, data, {"Content-Type": kind} if data is not None else {}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, _read(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, _read(error.read())
        except OSError:
            return 0, {}


class Hands:
    """What nodes do, in a thread: start pods that are bound, stop those that have to leave."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _work(self) -> None:
        says = {"bound": "running", "terminating": "stopped"}
        while not self._over.wait(0.1):
            for pod in self._served.call("GET", "/v1/pods")[1].get("items", ()):
                if pod["state"] in says:
                    path = f"/v1/namespaces/{pod['namespace']}/pods/{pod['name']}/status"
                    report = {"attempt": pod["attempt"], "state": says[pod["state"]]}
                    self._served.call("POST", path, report)


def until(done: Callable[[], object], what: str, patience_s: float = READY_S) -> None:
    """Wait for something that is about to be so."""
    deadline_s = time.monotonic() + patience_s
    while not done():
        assert time.monotonic() < deadline_s, f"waited in vain for {what}"
        threading.Event().wait(0.05)


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _read(text: bytes) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(text)
    except ValueError:
        return {"text": text.decode(errors="replace")}
    return found
