"""Agents as programs of their own against the real service, on loopback."""

import os
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from client.errors import ApiError
from tests.client.lab import Lab
from tests.client.waiting import until

SHOW = "echo rank $RANK of $WORLD_SIZE at $MASTER_ADDR:$MASTER_PORT"


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A service without nodes."""
    with closing(Lab(tmp_path)) as made:
        yield made


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


@pytest.mark.slow
def test_hollow_node_reports_a_fault_and_that_it_is_over(lab: Lab, tmp_path: Path) -> None:
    script = tmp_path / "script.yaml"
    script.write_text(
        "faults:\n"
        "  - {node: hollow-2, do: report, at_s: 2, for_s: 3, code: xid_79, gpus: [3]}\n"
        "  - {node: hollow-3, do: reboot, at_s: 2, for_s: 1}\n"
    )
    hollow = lab.program(
        "hollow",
        *("client.agent", "--server", lab.client.server, "--hollow", "3"),
        *("--run-s", "300", "--every", "0.5", "--script", str(script)),
    )
    lab.agents.append(hollow)
    until(lambda: len(list(lab.client.nodes())) == 3)
    until(lambda: lab.client.node("hollow-2")["health"] == "out")
    (fault,) = lab.client.faults(node="hollow-2")
    assert (fault["code"], fault["gpus"]) == ("xid_79", [3])
    until(lambda: lab.client.node("hollow-2")["health"] == "healthy")
    assert list(lab.client.faults(is_open=True)) == []


def test_log_of_a_pod_is_read_from_its_agent(lab: Lab) -> None:
    lab.agent("n1")
    lab.submit("train", "sh", "-c", "echo out of $RANK; echo trouble >&2; exec sleep 120")
    until(lambda: lab.state("train") == "running")
    until(lambda: lab.client.pod_log("default", "train-0", {"process": 1})["text"])
    assert lab.client.pod_log("default", "train-0", {"process": 1})["text"] == "out of 1\n"
    err = lab.client.pod_log("default", "train-0", {"stream": "err"})
    assert (err["text"], err["node"]) == ("trouble\n", "n1")
    with pytest.raises(ApiError, match="processes of the pod: 0, 1"):
        lab.client.pod_log("default", "train-0", {"process": 7})


def test_fault_in_the_kernels_log_is_reported_at_once(lab: Lab, tmp_path: Path) -> None:
    kernel = tmp_path / "kernel"
    kernel.touch()
    lab.agent("n1", "--kernel-log", str(kernel))
    with kernel.open("a") as log:
        log.write("NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n")
    until(lambda: lab.client.node("n1")["health"] == "out")
    (fault,) = lab.client.faults(node="n1")
    assert fault["code"] == "xid_79"


def test_node_that_was_emptied_is_healthy_again_when_its_check_passes(
    lab: Lab, tmp_path: Path
) -> None:
    mended = tmp_path / "mended"
    lab.agent("n1", "--check", f"test -e {mended}")
    lab.client.report_fault("n1", {"code": "xid_48"})
    until(lambda: "check_failed" in {fault["code"] for fault in lab.client.faults(is_open=True)})
    assert lab.client.node("n1")["health"] == "testing"
    mended.touch()
    lab.agents[0].kill()
    lab.agents[0].wait()
    lab.agent("n1", "--check", f"test -e {mended}")
    until(lambda: lab.client.node("n1")["health"] == "healthy")
    assert list(lab.client.faults(is_open=True)) == []
