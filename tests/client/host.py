"""A node's pods as real processes in a folder, for tests of the agent."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from client.agent_launch import Desired, Launch
from client.agent_pods import Pods, Running
from client.agent_users import Users
from tests.client.waiting import until

RUN = ("u--0", 1)


def make_pod(*command: str, attempt: int = 1, uid: str = "u--0", gpus: int = 1) -> Desired:
    launch: Launch = {
        "command": list(command),
        "env": {"COLOUR": "blue"},
        "ranks": list(range(4, 4 + gpus)),
        "world_size": 8,
        "node_rank": 2,
        "nodes": 4,
        "master_addr": "n1",
        "master_port": 29503,
        "ib_hca": "=mlx5_3,mlx5_0",
        "checkpoint": {"step": 200, "uri": "file:///ckpt/200"},
        "strict": False,
    }
    return {
        "uid": uid,
        "attempt": attempt,
        "namespace": "research",
        "job": "research/train",
        "name": "train-2",
        "role": "rank",
        "index": 2,
        "gpus": list(range(gpus)),
        "launch": launch,
    }


class Host:
    """Pods of a node in a folder; `again` is what the next agent would have."""

    def __init__(self, folder: Path) -> None:
        users = Users({}, allow_root=True)
        self.folder = folder
        self.how = Running("n3", users, grace_s=0.3, log_bytes=1_000, log_files=2)
        self.pods = Pods(folder, self.how)
        self.before: list[Pods] = []

    def again(self) -> None:
        self.before.append(self.pods)
        self.pods = Pods(self.folder, self.how)

    def state(self) -> object:
        (found,) = self.pods.states()
        return found["state"]

    def word(self) -> tuple[object, object]:
        (found,) = self.pods.states()
        return found["state"], found.get("exit_code")

    def run(self, pod: Desired) -> None:
        """Start a pod, and wait until its ranks run or it has ended."""
        self.pods.heard([], [pod])
        run = (pod["uid"], pod["attempt"])
        until(lambda: (self.pods.folder(run) / "ranks.json").exists())

    def shim(self) -> int:
        return int(json.loads((self.pods.folder(RUN) / "shim.json").read_text())["pid"])

    def group(self) -> int:
        return int(json.loads((self.pods.folder(RUN) / "ranks.json").read_text())["group"])

    def log(self, name: str = "0.out") -> str:
        path = self.pods.folder(RUN) / name
        return path.read_text() if path.exists() else ""


@contextmanager
def a_host(folder: Path) -> Iterator[Host]:
    """A node whose pods all stop at the end."""
    made = Host(folder)
    yield made
    made.again()
    made.pods.heard([], [])
    ended = {"stopped", "succeeded", "failed"}
    until(lambda: all(found["state"] in ended for found in made.pods.states()))
    made.pods.heard(made.pods.states(), [])
    for pods in made.before:
        for child in pods._children.values():
            child.wait()
