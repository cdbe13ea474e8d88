"""From what the service says of a pod to the processes that it is: commands and environment."""

import os
from collections.abc import Mapping
from typing import NotRequired, TypedDict

from client.agent_users import Refused

PROCESSES = "PODYARD_PROCESSES"
"""Variable of a job: `pod` starts one process for a pod, for launchers such as torchrun."""

_INHERITED = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH")
"""Of the agent's own environment; nothing else of it is a pod's business."""


class Checkpoint(TypedDict):
    step: int
    uri: str


class Launch(TypedDict):
    """How to start a pod, as the service says."""

    command: list[str]
    env: dict[str, str]
    ranks: list[int]
    world_size: int
    node_rank: int
    nodes: int
    master_addr: str
    master_port: int
    ib_hca: str | None
    checkpoint: Checkpoint | None
    strict: bool
    fence_after_s: NotRequired[float | None]


class Desired(TypedDict):
    """A pod that is to run here."""

    uid: str
    attempt: int
    namespace: str
    job: str
    name: str
    role: str
    index: int
    gpus: list[int]
    launch: Launch | None


def processes(
    pod: Desired, launch: Launch, *, node: str, home: str, master_addr: str | None
) -> list[dict[str, object]]:
    """Command and environment of each process of a pod, by local rank.

    Args:
        master_addr: Instead of the name of the first rank's node, where names do not resolve.

    Raises:
        Refused: If the job has no command.
    """
    if not launch["command"]:
        raise Refused(
            f"job '{pod['job']}' has no run.command, or an image that the service has no launcher "
            "for any more; there is nothing to start"
        )
    base = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    base |= {"HOME": home} | launch["env"]
    base |= _of_pod(pod, launch, node)
    master = master_addr or launch["master_addr"]
    port = str(launch["master_port"])
    if launch["env"].get(PROCESSES) == "pod":
        return [{"command": launch["command"], "env": base | _for_torchrun(launch, master, port)}]
    return [
        {
            "command": launch["command"],
            "env": base | _of_rank(launch, local) | {"MASTER_ADDR": master, "MASTER_PORT": port},
        }
        for local in range(len(launch["ranks"]))
    ]


def _of_rank(launch: Launch, local: int) -> dict[str, str]:
    return {
        "RANK": str(launch["ranks"][local]),
        "WORLD_SIZE": str(launch["world_size"]),
        "LOCAL_RANK": str(local),
        "LOCAL_WORLD_SIZE": str(len(launch["ranks"])),
        "NODE_RANK": str(launch["node_rank"]),
    }


def _for_torchrun(launch: Launch, master: str, port: str) -> dict[str, str]:
    return {
        "PET_NNODES": str(launch["nodes"]),
        "PET_NPROC_PER_NODE": str(len(launch["ranks"])),
        "PET_NODE_RANK": str(launch["node_rank"]),
        "PET_MASTER_ADDR": master,
        "PET_MASTER_PORT": port,
    }


def _of_pod(pod: Desired, launch: Launch, node: str) -> dict[str, str]:
    env: Mapping[str, str] = {
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, pod["gpus"])),
        "PODYARD_NAMESPACE": pod["namespace"],
        "PODYARD_JOB": pod["job"].partition("/")[2],
        "PODYARD_POD": pod["name"],
        "PODYARD_POD_UID": pod["uid"],
        "PODYARD_ROLE": pod["role"],
        "PODYARD_INDEX": str(pod["index"]),
        "PODYARD_ATTEMPT": str(pod["attempt"]),
        "PODYARD_NODE": node,
    }
    found = dict(env)
    if launch["ib_hca"]:
        found["NCCL_IB_HCA"] = launch["ib_hca"]
    if (saved := launch["checkpoint"]) is not None:
        found |= {"PODYARD_CHECKPOINT_STEP": str(saved["step"])}
        found |= {"PODYARD_CHECKPOINT_URI": saved["uri"]}
    return found
