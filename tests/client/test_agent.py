"""Agents as programs of their own against the real service, on loopback."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from client.agent_shim import ticks_of
from client.errors import ApiError
from client.http import Client
from tests.client.waiting import until

ROOT = Path(__file__).parents[2]
SHOW = "echo rank $RANK of $WORLD_SIZE at $MASTER_ADDR:$MASTER_PORT"


class Lab:
    """A service, and agents that each have a node of two GPUs."""

    def __init__(self, folder: Path) -> None:
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

    def close(self) -> None:
        """End all; pods first, so that none is left."""
        try:
            for job in self.client.jobs():
                with suppress(ApiError):
                    self.client.cancel(job["namespace"], job["name"])
            until(lambda: not self.alive())
        finally:
            for process in [*self.agents, self.service]:
                process.terminate()
                process.wait()
            for ranks in self.alive():
                os.killpg(json.loads(ranks.read_text())["group"], signal.SIGKILL)
            self.client.close()

    def program(self, log: str, *words: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{log}.log").open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-m", *words], cwd=ROOT, stdout=output, stderr=output
            )

    def agent(self, node: str, *words: str, state: str = "") -> subprocess.Popen[bytes]:
        """Start an agent, and wait until it has its node."""
        state = state or node
        made = self.program(
            state,
            *("client.agent", "--server", self.client.server, "--node", node, "--gpus", "2"),
            *("--state", str(self.folder / state), "--allow-root", "--every", "0.5"),
            *("--master-addr", "127.0.0.1", "--grace-s", "0.5", *words),
        )
        self.agents.append(made)
        until(lambda: "node '" in self.log(state))
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


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A service without nodes."""
    made = Lab(tmp_path)
    yield made
    made.close()


def test_gang_of_four_processes_on_two_nodes_runs_to_its_end(lab: Lab) -> None:
    lab.agent("n1")
    lab.agent("n2")
    lab.submit("train", "sh", "-c", SHOW, pods=2)
    until(lambda: lab.state("train") == "succeeded")
    logs = [path.read_text() for n in ("n1", "n2") for p in lab.pods(n) for path in p.glob("*.out")]
    expected = [f"rank {rank} of 4 at 127.0.0.1:29500\n" for rank in range(4)]
    assert sorted(logs) == expected


def test_exit_code_is_reported(lab: Lab) -> None:
    lab.agent("n1")
    lab.submit("train", "sh", "-c", "exit 7")
    until(lambda: lab.state("train") == "failed")
    assert [pod["exit_code"] for pod in lab.client.pods(job="train")] == [7]


def test_killed_agent_leaves_its_pods_and_the_next_adopts_and_stops_them(lab: Lab) -> None:
    first = lab.agent("n1")
    lab.submit("train", "sh", "-c", "echo up; exec sleep 120")
    until(lambda: lab.state("train") == "running")
    until(lab.alive)
    (before,) = [path.read_text() for path in lab.alive()]
    first.kill()
    first.wait()
    lab.agent("n1")
    until(lambda: lab.log("n1").count("node '") == 2)
    assert [path.read_text() for path in lab.alive()] == [before]
    assert len(lab.pods("n1")) == 1
    assert lab.state("train") == "running"
    lab.client.cancel("default", "train")
    until(lambda: not lab.alive())
    assert [path.read_text() for path in lab.pods("n1")[0].glob("*.out")] == ["up\n"] * 2


def test_older_of_two_agents_for_a_node_ends_and_stops_nothing(lab: Lab) -> None:
    older = lab.agent("n1")
    lab.submit("train", "sleep", "120")
    until(lambda: lab.state("train") == "running")
    until(lab.alive)
    held = lab.alive()
    lab.agent("n1", state="other")
    assert older.wait(30) == 1
    assert "another agent speaks for it" in lab.log("n1")
    assert lab.alive() == held
    assert lab.pods("other") == []
    lab.agent("n1")


@pytest.mark.slow
def test_second_agent_with_the_same_state_is_refused(lab: Lab) -> None:
    lab.agent("n1")
    second = lab.program(
        "second",
        *("client.agent", "--server", lab.client.server, "--node", "n1"),
        *("--state", str(lab.folder / "n1")),
    )
    assert second.wait(30) == 2
    assert "another agent runs there" in lab.log("second")


@pytest.mark.slow
def test_service_that_is_away_costs_no_pod(lab: Lab) -> None:
    lab.agent("n1")
    lab.submit("train", "sleep", "120")
    until(lambda: lab.state("train") == "running")
    until(lab.alive)
    held = lab.alive()
    os.kill(lab.service.pid, signal.SIGSTOP)
    try:
        until(lambda: "no answer" in lab.log("n1"))
        assert lab.alive() == held
    finally:
        os.kill(lab.service.pid, signal.SIGCONT)
    until(lambda: "answers again" in lab.log("n1"))
    assert lab.state("train") == "running"
    assert lab.alive() == held


@pytest.mark.slow
def test_fifty_hollow_nodes_run_twenty_gangs(lab: Lab) -> None:
    hollow = lab.program(
        "hollow",
        *("client.agent", "--server", lab.client.server, "--hollow", "50"),
        *("--run-s", "0.5", "--every", "1"),
    )
    lab.agents.append(hollow)
    until(lambda: len(list(lab.client.nodes())) == 50)
    for number in range(20):
        lab.client.submit({"name": f"gang-{number}", "parallelism": {"tp": 8, "dp": 4}})
    until(lambda: {job["state"] for job in lab.client.jobs()} == {"succeeded"})
    assert len(list(lab.client.jobs())) == 20
