"""The loop of an agent: tell what the pods do, hear what is to run, act, wait."""

import contextlib
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import TypedDict, cast

from client.agent_launch import Desired
from client.agent_pods import Pods
from client.calls import path_of
from client.errors import ApiError, ClientError
from client.http import Client

CONFLICT = 409
LOOK_S = 0.2
"""Between looks at the pods; what has changed is told at once."""

SOONEST_S = 0.2
"""Between two heartbeats, whatever changes."""

AWAY_S = 5.0
"""Between tries while the service does not answer; pods run on."""

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Beat(TypedDict):
    """The answer to a heartbeat, as far as it matters here."""

    desired: list[Desired]
    next_s: float


class Superseded(Exception):
    """Another agent speaks for the node."""


class AgentClient(Client):
    """The service as an agent sees it."""

    def heartbeat(
        self, node: str, session: str, boot_id: str, pods: list[dict[str, object]]
    ) -> Beat:
        body = {"session": session, "boot_id": boot_id, "pods": pods}
        return cast(Beat, self._send("POST", path_of("v1", "nodes", node, "heartbeat"), body))


class Agent:
    """One node's agent.

    Args:
        every_s: Longest time between heartbeats, if the service asks for less often.
    """

    def __init__(self, client: AgentClient, pods: Pods, node: str, every_s: float) -> None:
        self._client, self._pods, self._node, self._every_s = client, pods, node, every_s
        self._session = f"{node}-{uuid.uuid4().hex}"[:253]
        self._boot_id = read_boot_id()
        self._stopping = threading.Event()
        self._trouble = ""

    def stop(self) -> None:
        """End the loop; the pods run on, and the next agent finds them."""
        self._stopping.set()

    def run(self) -> None:
        """Until it is stopped.

        Raises:
            Superseded: If another agent speaks for the node; this one stops no pod.
        """
        while not self._stopping.is_set():
            told = self._pods.states()
            pause_s = self._turn(told)
            self._wait(told, pause_s)

    def _turn(self, told: list[dict[str, object]]) -> float:
        """One heartbeat; seconds until the next is due."""
        try:
            answer = self._client.heartbeat(self._node, self._session, self._boot_id, told)
        except ApiError as error:
            if error.status == CONFLICT:
                raise Superseded(str(error)) from None
            self._say(str(error))
            return min(AWAY_S, self._every_s)
        except ClientError as error:
            self._say(str(error))
            return min(AWAY_S, self._every_s)
        self._say("")
        self._pods.heard(told, answer["desired"])
        return min(float(answer["next_s"]), self._every_s)

    def _wait(self, told: list[dict[str, object]], pause_s: float) -> None:
        """Until the next heartbeat is due, or a pod has something new to tell."""
        due = time.monotonic() + pause_s
        if self._stopping.wait(min(SOONEST_S, pause_s)) or self._trouble:
            self._stopping.wait(max(0.0, due - time.monotonic()))
            return
        while (left_s := due - time.monotonic()) > 0 and self._pods.states() == told:
            if self._stopping.wait(min(LOOK_S, left_s)):
                return

    def _say(self, trouble: str) -> None:
        """Tell of trouble once, and of its end."""
        if trouble != self._trouble:
            text = trouble or "the service answers again"
            sys.stderr.write(f"podyard-agent: {text}\n")
            self._trouble = trouble


def read_boot_id() -> str:
    """Which life of the machine this is; "unknown" where the kernel does not tell."""
    with contextlib.suppress(OSError):
        return BOOT_ID.read_text(encoding="ascii").strip()
    return "unknown"
