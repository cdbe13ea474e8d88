"""What plugins put into the environment of pods, as their nodes are told when they start."""

import json
from typing import Any

import pytest

from tests.api.k8s.reviews import job, task
from tests.api.k8s.volcano.yards import VolcanoYard


def launches(volcano: VolcanoYard) -> dict[str, dict[str, Any]]:
    """How each pod is started, by its name."""
    found: dict[str, dict[str, Any]] = {}
    for node in sorted({str(pod["node"]) for pod in volcano.pods("train")}):
        beat = {"session": node, "boot_id": node, "pods": []}
        answer: dict[str, Any] = volcano.yard.ok("POST", f"/v1/nodes/{node}/heartbeat", beat)
        found |= {pod["name"]: pod["launch"] for pod in answer["desired"]}
    return found


def started(
    volcano: VolcanoYard, tasks: list[dict[str, Any]], plugins: dict[str, list[str]]
) -> dict[str, dict[str, Any]]:
    count = sum(item["replicas"] for item in tasks)
    volcano.apply(job(*tasks, minAvailable=count, plugins=plugins))
    volcano.turn()
    return launches(volcano)


def nodes(volcano: VolcanoYard, role: str) -> list[str]:
    pods = sorted(volcano.pods("train"), key=lambda pod: pod["index"])
    return [pod["node"] for pod in pods if pod["role"] == role]


TWO = pytest.mark.parametrize("database_kind", ["sqlite"], indirect=True)


@TWO
def test_pytorch_gets_its_ranks_and_master(volcano: VolcanoYard) -> None:
    found = started(volcano, [task("master", 1), task("worker", 2)], {"pytorch": ["--port=99"]})
    (master,) = nodes(volcano, "master")
    ranks = {}
    for name, launch in found.items():
        env = launch["env"]
        assert (env["MASTER_ADDR"], env["MASTER_PORT"], env["WORLD_SIZE"]) == (master, "99", "3")
        ranks[name] = env["RANK"]
    assert ranks == {"train-master-0": "0", "train-worker-0": "1", "train-worker-1": "2"}


@TWO
def test_tensorflow_gets_its_cluster(volcano: VolcanoYard) -> None:
    found = started(volcano, [task("ps", 1), task("worker", 2)], {"tensorflow": []})
    config = json.loads(found["train-worker-1"]["env"]["TF_CONFIG"])
    assert config["task"] == {"type": "worker", "index": 1}
    assert config["cluster"] == {
        role: [f"{node}:2222" for node in nodes(volcano, role)] for role in ("ps", "worker")
    }


@TWO
def test_mpi_master_knows_its_workers(volcano: VolcanoYard) -> None:
    found = started(volcano, [task("master", 1), task("worker", 2)], {"mpi": []})
    hosts = ",".join(nodes(volcano, "worker"))
    assert found["train-master-0"]["env"]["MPI_HOST"] == hosts
    assert "MPI_HOST" not in found["train-worker-0"]["env"]
    # The plugin svc comes with mpi.
    assert found["train-worker-0"]["env"]["VC_WORKER_HOSTS"] == hosts
    assert found["train-worker-0"]["env"]["VC_WORKER_NUM"] == "2"


@TWO
def test_task_runs_its_own_command_with_its_index(volcano: VolcanoYard) -> None:
    first, second = task("first", 1), task("second", 2)
    for item, word in ((first, "one"), (second, "two")):
        container = item["template"]["spec"]["containers"][0]
        container |= {"command": ["run", word], "args": ["--fast"]}
        container["env"] = [{"name": "SIDE", "value": word}, {"name": "IP", "valueFrom": {}}]
    found = started(volcano, [first, second], {"env": []})
    assert found["train-first-0"]["command"] == ["run", "one", "--fast"]
    assert found["train-second-1"]["command"] == ["run", "two", "--fast"]
    assert found["train-second-1"]["env"] == {
        "PODYARD_PROCESSES": "pod",
        "SIDE": "two",
        "VC_TASK_INDEX": "1",
        "VK_TASK_INDEX": "1",
    }


@TWO
def test_task_that_depends_on_another_starts_when_that_runs(volcano: VolcanoYard) -> None:
    late = task("late", 1, dependsOn={"name": ["first"]})
    found = started(volcano, [task("first", 2), late], {})
    assert sorted(found) == ["train-first-0", "train-first-1"]
    first, second = (pod for pod in volcano.pods("train") if pod["role"] == "first")
    volcano.report(first, "running")
    volcano.turn()
    assert "train-late-0" not in launches(volcano)
    volcano.report(second, "running")
    volcano.turn()
    assert launches(volcano)["train-late-0"]["world_size"] == 3


@TWO
def test_one_of_several_tasks_is_enough_if_any_is_asked_for(volcano: VolcanoYard) -> None:
    late = task("late", 1, dependsOn={"name": ["left", "right"], "iteration": "any"})
    found = started(volcano, [task("left", 1), task("right", 1), late], {})
    assert "train-late-0" not in found
    (left,) = (pod for pod in volcano.pods("train") if pod["role"] == "left")
    volcano.report(left, "running")
    volcano.turn()
    assert "train-late-0" in launches(volcano)
