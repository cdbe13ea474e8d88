"""Heartbeats: what an agent says of its node's pods, and which pods are to be there."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from api.schemas.common import LINE_PATTERN, Strict
from api.schemas.node import HealthName

HeartbeatStateName = Literal["bound", "running", "terminating", "stopped", "succeeded", "failed"]

Word = Annotated[str, StringConstraints(pattern=LINE_PATTERN, min_length=1, max_length=253)]
Attempt = Annotated[int, Field(ge=1, le=2**31 - 1)]

PODS_MAX = 4_096
"""Pods of one heartbeat; a node has a few dozen."""


class HeartbeatPod(Strict):
    """One pod that the agent has: `bound` is about to start, `terminating` was told to stop.

    `exit_code` belongs to `succeeded` (0) and `failed`.
    """

    uid: Word
    attempt: Attempt
    state: HeartbeatStateName
    exit_code: Annotated[int, Field(ge=-(2**31), le=2**31 - 1)] | None = None


class HeartbeatBody(Strict):
    """A sign of life: which life of the agent (`session`) and of the machine, and all its pods.

    `passed` says that the machine has just passed its check; it matters while the node is
    `testing`, and ends that. `acted_on` is the `node_revision` of the last answer that this session
    had acted on when it spoke, 0 before the first; so one that comes late is known to be. Without
    it a heartbeat is believed to speak of now.
    """

    session: Word
    boot_id: Word
    pods: Annotated[list[HeartbeatPod], Field(max_length=PODS_MAX)] = []
    passed: bool = False
    acted_on: Annotated[int, Field(ge=0, le=2**63 - 1)] | None = None


class LaunchCheckpoint(Strict):
    """What a pod restores: the newest checkpoint of its job of which a copy is left."""

    step: int
    uri: str


class Launch(Strict):
    """How to start a pod.

    One process for each of `ranks`, the k-th on the k-th of the pod's GPUs; a pod without GPUs has
    one rank. `nodes` counts the pods of the gang, `node_rank` is this one's place among them.
    `ib_hca` names the adapters in the order of rails, where the node's label tells. A pod that is
    `strict` is ended by its guard `fence_after_s` after the last answered heartbeat; null = as the
    answer to the heartbeat says.
    """

    command: list[str]
    env: dict[str, str]
    ranks: list[int]
    world_size: int
    node_rank: int
    nodes: int
    master_addr: str
    master_port: int
    ib_hca: str | None
    checkpoint: LaunchCheckpoint | None
    strict: bool
    fence_after_s: float | None


class DesiredPod(Strict):
    """A pod that is to run on the node.

    `launch` is null for one that the heartbeat named, and for one that has run already: it is not
    started a second time under the same attempt.
    """

    uid: str
    attempt: int
    namespace: str
    job: str
    name: str
    role: str
    index: int
    gpus: list[int]
    launch: Launch | None


class StoppingPod(Strict):
    """A pod that was told to stop and that the heartbeat did not name."""

    uid: str
    attempt: int


class IgnoredPod(Strict):
    """A pod of the heartbeat that was not taken as told, and why."""

    uid: str
    attempt: int
    message: str


class WantedLog(Strict):
    """The end of a log that somebody waits for; sent to `POST /v1/nodes/{name}/logs/{id}`."""

    id: int
    uid: str
    attempt: int
    process: int
    stream: Literal["out", "err"]
    tail_bytes: int


class HeartbeatAnswer(Strict):
    """What is to run on the node; an agent stops all else, and speaks again in `next_s`.

    `fence_after_s` is for the guards of strict pods: so long after this heartbeat was sent they
    end them, unless a later one is answered. `health` is the node's; while it is `testing` the
    agent is to check the machine. Of those in `stopping` that it does not have, it says `stopped`
    in its next heartbeat: they were told to stop before it knew of them. `node_revision` is for
    `acted_on` of the next.
    """

    desired: list[DesiredPod]
    stopping: list[StoppingPod]
    ignored: list[IgnoredPod]
    logs: list[WantedLog]
    health: HealthName
    epoch: int
    node_revision: int
    next_s: float
    fence_after_s: float
