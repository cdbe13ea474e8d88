"""Nodes that only pretend, and what a machine says of itself; without a service."""

from pathlib import Path

import pytest

from client import agent_node
from client.agent import places
from client.agent_node import Machine, inventory, read_gpus
from client.errors import InputError
from client.hollow import Fault, HollowNode, Script, chance_faults, read_script

WANTED = {"uid": "u--0", "attempt": 1, "job": "default/train", "launch": {}}


def states(node: HollowNode) -> list[tuple[object, object]]:
    body = node.body()["pods"]
    assert isinstance(body, list)
    return [(pod["state"], pod["exit_code"]) for pod in body]


def test_hollow_pod_runs_for_its_time_is_told_once_and_forgotten() -> None:
    node = HollowNode("h1", Script(run_s=5))
    node.heard([WANTED], 0)
    node.look(4.9)
    assert states(node) == [("running", None)]
    node.look(5)
    assert states(node) == [("succeeded", 0)]
    node.heard([], 5)
    assert states(node) == []


def test_hollow_pod_takes_its_time_to_stop() -> None:
    node = HollowNode("h1", Script(run_s=100, stop_s=3))
    node.heard([WANTED], 0)
    node.heard([], 10)
    node.look(12)
    assert states(node) == [("terminating", None)]
    node.heard([], 12)
    node.look(13)
    assert states(node) == [("stopped", None)]


def test_hollow_pod_that_never_came_is_told_to_have_stopped() -> None:
    node = HollowNode("h1", Script(run_s=100))
    node.heard([], 0, [{"uid": "u--0", "attempt": 1}])
    assert states(node) == [("stopped", None)]
    node.heard([], 1)
    assert states(node) == []


def test_hollow_pod_that_has_run_is_not_started_again() -> None:
    node = HollowNode("h1", Script(run_s=100))
    node.heard([WANTED | {"launch": None}], 0)
    assert states(node) == []


def test_script_gives_a_job_its_run_time_and_exit_code() -> None:
    node = HollowNode("h1", Script(jobs={"default/train": {"run_s": 1, "exit_code": 3}}))
    node.heard([WANTED], 0)
    node.look(1)
    assert states(node) == [("failed", 3)]


def test_crash_fails_all_pods_of_its_node_alone() -> None:
    script = Script(faults=(Fault("h1", "crash", 2),))
    hit, other = HollowNode("h1", script), HollowNode("h2", script)
    for node in (hit, other):
        node.heard([WANTED], 0)
        node.look(2)
    assert states(hit) == [("failed", 137)]
    assert states(other) == [("running", None)]


def test_silent_node_speaks_again_after_its_time() -> None:
    node = HollowNode("h1", Script(faults=(Fault("h1", "silent", 2, 30),)))
    assert node.next_s(0, 10) == 2
    node.look(2)
    assert node.silent_until == 32


def test_node_that_is_started_anew_has_another_session_and_no_pods() -> None:
    node = HollowNode("h1", Script(faults=(Fault("h1", "reboot", 2, 30),)))
    node.heard([WANTED], 0)
    before = node.body()
    node.look(2)
    assert node.silent_until == 32
    after = node.body()
    assert (after["pods"], after["boot_id"] == before["boot_id"]) == ([], False)


def test_report_is_what_the_service_takes() -> None:
    fault = Fault("h1", "report", 2, 30, "xid_79", (3,))
    node = HollowNode("h1", Script(faults=(fault,)))
    node.look(2)
    assert node.reports == [fault]
    assert fault.body() == {"code": "xid_79", "message": "played", "gpus": [3]}


def test_faults_by_chance_are_the_same_for_the_same_seed() -> None:
    names = [f"h{number}" for number in range(100)]
    found = chance_faults(names, 2.0, 60.0, seed=3)
    assert found == chance_faults(names, 2.0, 60.0, seed=3)
    assert found != chance_faults(names, 2.0, 60.0, seed=4)
    assert 140 < len(found) < 260


def test_script_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "script.yaml"
    path.write_text("run_s: 3\nfaults:\n  - {node: h1, do: silent, at_s: 20, for_s: 60}\n")
    script = read_script(path, run_s=60, stop_s=1)
    assert script == Script(3, 1, {}, (Fault("h1", "silent", 20, 60),))


@pytest.mark.parametrize(
    "text",
    [
        "run_s: soon",
        "[1]",
        "faults: [{node: h1, do: explode, at_s: 1}]",
        "faults: [{node: h1}]",
        "faults: [{node: h1, do: report, at_s: 1}]",
        "a: [",
    ],
)
def test_script_that_makes_no_sense_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "script.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=r"script\.yaml"):
        read_script(path, run_s=60, stop_s=1)


def test_machine_is_an_inventory_of_one_node_at_its_places() -> None:
    machine = Machine("n1", 2, "H100", places={"rack": "r1"})
    made = inventory(machine, ["leaf", "rack", "node"])
    assert made["levels"] == ["leaf", "rack", "node"]
    assert made["nodes"] == [{"names": "n1", "type": "agent-2x-H100", "leaf": None, "rack": "r1"}]
    with pytest.raises(InputError, match="the cluster has the levels leaf, node"):
        inventory(machine, ["leaf", "node"])


def test_machine_without_nvidia_smi_asks_for_its_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_node, "SMI", ("/no/such/nvidia-smi",))
    with pytest.raises(InputError, match="--gpus"):
        read_gpus()


def test_gpus_are_what_nvidia_smi_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = "NVIDIA H100 80GB HBM3\nNVIDIA H100 80GB HBM3\n"
    monkeypatch.setattr(agent_node, "SMI", ("printf", listed))
    assert read_gpus() == ["NVIDIA-H100-80GB-HBM3"] * 2


@pytest.mark.parametrize("word", ["rack", "=r1", "rack="])
def test_place_of_another_form_is_refused(word: str) -> None:
    with pytest.raises(InputError, match="LEVEL=NAME"):
        places([word])
