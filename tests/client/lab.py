"""A service and agents as programs of their own, on loopback."""

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from client.agent_shim import ticks_of
from client.errors import ApiError
from client.http import Client
from tests.client.waiting import PATIENCE_S, until

ROOT = Path(__file__).parents[2]


class Lab:
    """A service, and agents that each have a node of two GPUs."""

    def __init__(self, folder: Path, **policy: float) -> None:
        self.folder = folder
        self.agents: list[subprocess.Popen[bytes]] = []
        self.service = self.program(
            "service",
            *("api.command", "serve", "--port", "0", "--log-format", "json"),
            *("--database-url", f"sqlite:///{folder / 'podyard.db'}"),
        )
        until(lambda: self._address())
        self.client = Client(self._address())
        until(self.client.is_ready)
        if policy:
            self.client.set_policy(self.client.policy() | policy)

    def close(self) -> None:
        """End all; pods first, so that none is left."""
        try:
            for job in self.client.jobs():
                with suppress(ApiError):
                    self.client.cancel(job["namespace"], job["name"])
            until(lambda: not self.alive())
        finally:
            # Shown with a test that failed: programs of their own tell nobody else why.
            sys.stdout.write(self.log("service")[-4_000:])
            for process in [*self.agents, self.service]:
                process.terminate()
            stuck = [_outlives(process) for process in [*self.agents, self.service]]
            for ranks in self.alive():
                os.killpg(json.loads(ranks.read_text())["group"], signal.SIGKILL)
            self.client.close()
        assert not any(stuck), "a program did not end at SIGTERM"

    def program(self, log: str, *words: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{log}.log").open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-m", *words], cwd=ROOT, stdout=output, stderr=output
            )

    def agent(
        self, node: str, *words: str, state: str = "", gpus: int = 2
    ) -> subprocess.Popen[bytes]:
        """Start an agent, and wait until it has its node."""
        made = self.begin(node, *words, state=state, gpus=gpus)
        until(lambda: "node '" in self.log(state or node))
        return made

    def begin(
        self, node: str, *words: str, state: str = "", gpus: int = 2
    ) -> subprocess.Popen[bytes]:
        """Start an agent without waiting for it."""
        state = state or node
        made = self.program(
            state,
            *("client.agent", "--server", self.client.server, "--node", node, "--gpus", f"{gpus}"),
            *("--state", str(self.folder / state), "--allow-root", "--every", "0.5"),
            *("--kernel-log", "none"),
            *("--master-addr", "127.0.0.1", "--grace-s", "0.5", *words),
        )
        self.agents.append(made)
        return made

    def log(self, name: str) -> str:
        path = self.folder / f"{name}.log"
        return path.read_text() if path.exists() else ""

    def submit(self, name: str, *command: str, pods: int = 1) -> None:
        body = {
            "name": name,
            "parallelism": {"tp": 2, "dp": pods},
            "run": {"command": list(command)},
        }
        self.client.submit(body)

    def state(self, name: str) -> str:
        return self.client.job("default", name)["state"]

    def pods(self, node: str) -> list[Path]:
        return sorted((self.folder / node / "pods").glob("*"))

    def alive(self) -> list[Path]:
        """Folders of pods whose ranks are there."""
        found = self.folder.glob("*/pods/*/ranks.json")
        told = {path: json.loads(path.read_text()) for path in found}
        return [path for path, of in told.items() if of["group"] and ticks_of(of["group"])]

    def _address(self) -> str:
        found = re.search(r'"url": *"(http://[^"]+)"', self.log("service"))
        return found[1] if found else ""


def _outlives(process: subprocess.Popen[bytes]) -> bool:
    """Whether a program that was told to end did not; it is gone then all the same."""
    try:
        process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return True
    return False
