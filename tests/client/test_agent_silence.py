"""Agents that fall silent while their pods run on: nothing runs twice on the same GPUs."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.client.lab import Lab
from tests.client.waiting import until


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """Three nodes of two GPUs; one that is silent for eight seconds is lost."""
    with closing(Lab(tmp_path, suspect_after_s=3, lost_after_s=8, breaker_share=1.0)) as made:
        yield made
        for agent in made.agents:
            if agent.poll() is None:
                agent.send_signal(signal.SIGCONT)


def submit(lab: Lab, name: str, fence: str = "none") -> None:
    body = {
        "name": name,
        "parallelism": {"tp": 2},
        "failure": {"scope": "pod", "fence": fence},
        "run": {"command": ["sleep", "300"]},
    }
    lab.client.submit(body)


def health(lab: Lab, node: str) -> str:
    return str(lab.client.node(node)["health"])


def where(lab: Lab, job: str) -> tuple[str, int, str]:
    """Node, attempt and state of the only pod of a job."""
    (pod,) = lab.client.pods(job=job)
    return pod["node"], pod["attempt"], pod["state"]


def alive_on(lab: Lab, node: str) -> int:
    return sum(path.parts[-4] == node for path in lab.alive())


def pause_with(lab: Lab, job: str) -> tuple[str, subprocess.Popen[bytes]]:
    """Stop the agent of a job's node, once the job runs there."""
    until(lambda: lab.state(job) == "running")
    node = where(lab, job)[0]
    until(lambda: alive_on(lab, node) == 1)
    agent = lab.agents[int(node[1:]) - 1]
    agent.send_signal(signal.SIGSTOP)
    return node, agent


def test_pods_of_a_paused_agent_run_elsewhere_and_its_gpus_return_when_it_has_stopped_the_old(
    lab: Lab,
) -> None:
    for number in (1, 2, 3):
        lab.agent(f"n{number}")
    submit(lab, "train")
    node, agent = pause_with(lab, "train")
    until(lambda: health(lab, node) == "suspect")
    assert where(lab, "train")[:2] == (node, 1)
    until(lambda: health(lab, node) == "lost")
    until(lambda: where(lab, "train")[1:] == (2, "running"))
    assert where(lab, "train")[0] != node
    # The old one runs on, as nobody could stop it: its GPUs are offered to no one.
    assert alive_on(lab, node) == 1
    submit(lab, "next")
    submit(lab, "last")
    until(lambda: lab.state("next") == "running")
    assert where(lab, "next")[0] not in {node, where(lab, "train")[0]}
    assert lab.state("last") == "pending"
    agent.send_signal(signal.SIGCONT)
    until(lambda: lab.state("last") == "running")
    assert where(lab, "last")[0] == node
    assert health(lab, node) == "healthy"
    assert alive_on(lab, node) == 1
    assert where(lab, "train")[1:] == (2, "running")


def test_strict_pod_has_ended_before_its_node_is_lost_though_the_agent_is_paused(
    lab: Lab,
) -> None:
    lab.agent("n1")
    lab.agent("n2")
    submit(lab, "train", fence="strict")
    node, agent = pause_with(lab, "train")
    until(lambda: alive_on(lab, node) == 0)
    assert health(lab, node) != "lost"
    until(lambda: where(lab, "train")[1:] == (2, "running"))
    assert where(lab, "train")[0] != node
    agent.send_signal(signal.SIGCONT)
    until(lambda: health(lab, node) == "healthy")
    assert len(lab.alive()) == 1


def test_agent_that_starts_anew_while_its_node_is_lost_finds_its_pod_and_keeps_it(
    lab: Lab,
) -> None:
    lab.agent("n1")
    submit(lab, "train")
    until(lambda: lab.state("train") == "running")
    until(lab.alive)
    (before,) = [path.read_text() for path in lab.alive()]
    lab.agents[0].kill()
    lab.agents[0].wait()
    until(lambda: health(lab, "n1") == "lost")
    until(lambda: where(lab, "train")[2] == "lost")
    lab.agent("n1")
    until(lambda: where(lab, "train") == ("n1", 1, "running"))
    assert [path.read_text() for path in lab.alive()] == [before]
    assert health(lab, "n1") == "healthy"
