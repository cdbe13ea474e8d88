"""The training example on six agents: one dies with its pod, and the gang goes on without loss."""

import json
import os
import re
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.client.lab import ROOT, Lab
from tests.client.waiting import until

TRAIN = str(ROOT / "examples" / "training" / "train.py")
STEPS, SAVE_EVERY = 70, 10

Losses = dict[int, str]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """Six agents with a GPU each; one that is silent for eight seconds is lost."""
    with closing(Lab(tmp_path, suspect_after_s=3, lost_after_s=8)) as made:
        made.agent("n1", gpus=1)
        for number in range(2, 7):
            made.begin(f"n{number}", gpus=1)
        until(lambda: len(list(made.client.nodes())) == 6)
        yield made


def submit(lab: Lab, step_s: float) -> None:
    body = {
        "name": "train",
        "parallelism": {"dp": 4},
        "gpus_per_pod": 1,
        "failure": {"scope": "gang"},
        "checkpoint": {"uri": (lab.folder / "saved").as_uri()},
        "run": {
            "command": [sys.executable, TRAIN],
            "env": {
                "PODYARD_SERVER": lab.client.server,
                "SAVE_TO": str(lab.folder / "saved"),
                "STEPS": str(STEPS),
                "SAVE_EVERY": str(SAVE_EVERY),
                "STEP_S": str(step_s),
                "TRAIN_PORT": str(free_port()),
                "OMP_NUM_THREADS": "1",
                "OPENBLAS_NUM_THREADS": "1",
            },
        },
    }
    lab.client.submit(body)


def losses(lab: Lab, attempt: int) -> Losses:
    """Step -> loss, as rank 0 wrote them in one of its lives."""
    found = list(lab.folder.glob(f"n*/pods/*--0.{attempt}/0.out"))
    text = "".join(path.read_text() for path in found)
    return {int(step): loss for step, loss in re.findall(r"step (\d+) loss (\S+)\n", text)}


def places(lab: Lab) -> dict[str, tuple[str, tuple[int, ...]]]:
    pods = lab.client.pods(job="train")
    return {pod["name"]: (pod["node"], tuple(pod["gpus"])) for pod in pods}


def kill_with_pods(lab: Lab, node: str) -> None:
    """`kill -9` of an agent and all that runs on its node, as if the machine had died."""
    agent = next(a for a in lab.agents if f"/{node}" in " ".join(map(str, a.args)))  # type: ignore[arg-type]  # a list of words
    agent.kill()
    agent.wait()
    for path in lab.folder.glob(f"{node}/pods/*/*.json"):
        told = json.loads(path.read_text())
        with suppress(ProcessLookupError):
            if path.name == "shim.json":
                os.kill(told["pid"], signal.SIGKILL)
    for path in lab.folder.glob(f"{node}/pods/*/ranks.json"):
        with suppress(ProcessLookupError):
            os.killpg(json.loads(path.read_text())["group"], signal.SIGKILL)


def test_gang_goes_on_from_its_last_checkpoint_when_a_machine_dies(lab: Lab) -> None:
    submit(lab, 0.1)
    until(lambda: len(losses(lab, 1)) >= 2 * SAVE_EVERY + 3)
    before = places(lab)
    kill_with_pods(lab, before["train-2"][0])
    until(lambda: len(losses(lab, 2)) >= SAVE_EVERY)
    after = places(lab)
    assert after["train-2"][0] not in {node for node, _ in before.values()}
    assert {n: p for n, p in after.items() if n != "train-2"} == {
        n: p for n, p in before.items() if n != "train-2"
    }
    first, second = losses(lab, 1), losses(lab, 2)
    saved = min(second) - 1
    assert saved >= 2 * SAVE_EVERY
    assert saved % SAVE_EVERY == 0
    assert saved == max(first) // SAVE_EVERY * SAVE_EVERY
    both = first.keys() & second.keys()
    assert {step: first[step] for step in both} == {step: second[step] for step in both}
    until(lambda: lab.state("train") == "succeeded")
    whole = first | losses(lab, 2)
    assert sorted(whole) == list(range(1, STEPS + 1))
    assert float(whole[STEPS]) < float(whole[1]) / 10
