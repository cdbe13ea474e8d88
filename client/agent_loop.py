"""The loop of an agent: tell what the pods do, hear what is to run, act, wait."""

import base64
import sys
import threading
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypedDict, cast

from client.agent_check import Check
from client.agent_faults import Faults
from client.agent_launch import Desired
from client.agent_pods import Pods
from client.agent_shim import boot_time_s, read_boot_id
from client.calls import path_of
from client.errors import ApiError, ClientError, InputError
from client.http import Client

CONFLICT = 409
LOOK_S = 0.2
"""Between looks at the pods; what has changed is told at once."""

SOONEST_S = 0.2
"""Between two heartbeats, whatever changes."""

AWAY_S = 5.0
"""Between tries while the service does not answer; pods run on."""

LOGS_AT_ONCE = 4
"""Logs sent between two heartbeats; others wait, so that the next is not late."""


class WantedLog(TypedDict):
    """The end of a log that somebody waits for."""

    id: int
    uid: str
    attempt: int
    process: int
    stream: str
    tail_bytes: int


class Stopping(TypedDict):
    """A pod that is to stop, of which the heartbeat said nothing."""

    uid: str
    attempt: int


class Beat(TypedDict):
    """The answer to a heartbeat, as far as it matters here."""

    desired: list[Desired]
    stopping: list[Stopping]
    logs: list[WantedLog]
    health: str
    next_s: float
    fence_after_s: float
    node_revision: int


class Superseded(Exception):
    """Another agent speaks for the node."""


class AgentClient(Client):
    """The service as an agent sees it."""

    def heartbeat(self, node: str, body: dict[str, object]) -> Beat:
        return cast(Beat, self._send("POST", path_of("v1", "nodes", node, "heartbeat"), body))

    def send_log(self, node: str, id: int, content: bytes, problem: str) -> None:
        """Answer one of the `logs` of a heartbeat's answer."""
        body = {"content": base64.b64encode(content).decode(), "problem": problem}
        self._send("POST", path_of("v1", "nodes", node, "logs", str(id)), body)


@dataclass(slots=True)
class Senses:
    """What an agent has to tell of its machine beside the pods."""

    faults: Faults = field(default_factory=lambda: Faults(None, None))
    check: Check = field(default_factory=lambda: Check(""))


class Ending:
    """That a loop is to end, told by a handler of signals.

    An `Event` does not do: a handler that interrupts the wait for it in the same thread may wait
    for a lock that the wait holds, for ever; nor does a `SimpleQueue`, whose interrupted `get` may
    wait for ever too. A bare lock is let go by whoever wants, whatever is interrupted.
    """

    def __init__(self) -> None:
        self.is_set = False
        self._closed = threading.Lock()
        self._closed.acquire()

    def set(self) -> None:
        """End it; from a handler of signals, or from another thread."""
        self.is_set = True
        with suppress(RuntimeError):  # it was set before
            self._closed.release()

    def wait(self, timeout_s: float) -> bool:
        """Until it is set, so long at most; whether it is."""
        if not self.is_set:
            self._closed.acquire(timeout=max(0.0, timeout_s))
        return self.is_set


class Agent:
    """One node's agent.

    Args:
        every_s: Longest time between heartbeats, if the service asks for less often.
    """

    def __init__(
        self,
        client: AgentClient,
        pods: Pods,
        node: str,
        every_s: float,
        senses: Senses | None = None,
    ) -> None:
        self._client, self._pods, self._node, self._every_s = client, pods, node, every_s
        self._senses = senses or Senses()
        self._session = f"{node}-{uuid.uuid4().hex}"[:253]
        self._boot_id = read_boot_id()
        self._acted_on = 0
        self._stopping = Ending()
        self._trouble = ""

    def stop(self) -> None:
        """End the loop; the pods run on, and the next agent finds them."""
        self._stopping.set()

    def run(self) -> None:
        """Until it is stopped.

        Raises:
            Superseded: If another agent speaks for the node; this one stops no pod.
        """
        while not self._stopping.is_set:
            told = self._pods.states()
            pause_s = self._turn(told)
            self._wait(told, pause_s)

    def _turn(self, told: list[dict[str, object]]) -> float:
        """One heartbeat; seconds until the next is due."""
        body: dict[str, object] = {
            "session": self._session,
            "boot_id": self._boot_id,
            "pods": told,
            "acted_on": self._acted_on,
        }
        if self._senses.check.passed:
            body["passed"] = True
        sent_s = boot_time_s()
        try:
            answer = self._client.heartbeat(self._node, body)
            self._pods.answered(sent_s, answer["fence_after_s"])
        except ApiError as error:
            if error.status == CONFLICT:
                raise Superseded(str(error)) from None
            self._say(str(error))
            return min(AWAY_S, self._every_s)
        except ClientError as error:
            self._say(str(error))
            return min(AWAY_S, self._every_s)
        self._say("")
        stopping = answer.get("stopping", [])  # a service of an earlier version says nothing
        self._pods.heard(
            told, answer["desired"], [(pod["uid"], pod["attempt"]) for pod in stopping]
        )
        self._acted_on = answer["node_revision"]
        self._send_logs(answer["logs"][:LOGS_AT_ONCE])
        self._check(answer["health"])
        self._tell_faults()
        return min(float(answer["next_s"]), self._every_s)

    def _check(self, health: str) -> None:
        check = self._senses.check
        check.go_on(health)
        if failure := check.take_failure():
            self._senses.faults.waiting.append({"code": "check_failed", "message": failure})

    def _tell_faults(self) -> None:
        faults = self._senses.faults
        faults.look()
        try:
            faults.report(lambda body: self._client.report_fault(self._node, body))
        except ClientError as error:
            self._say(str(error))  # they wait for the next heartbeat

    def _send_logs(self, wanted: list[WantedLog]) -> None:
        for log in wanted:
            content, problem = b"", ""
            try:
                run = (log["uid"], log["attempt"])
                content = self._pods.tail(run, log["process"], log["stream"], log["tail_bytes"])
            except InputError as error:
                problem = str(error)
            try:
                self._client.send_log(self._node, log["id"], content, problem)
            except ClientError as error:
                # Whoever asked may have gone; that is no trouble of this agent.
                sys.stderr.write(f"podyard-agent: log {log['id']}: {error}\n")

    def _wait(self, told: list[dict[str, object]], pause_s: float) -> None:
        """Until the next heartbeat is due, or a pod has something new to tell."""
        due = time.monotonic() + pause_s
        if self._stopping.wait(min(SOONEST_S, pause_s)) or self._trouble:
            self._stopping.wait(max(0.0, due - time.monotonic()))
            return
        while (left_s := due - time.monotonic()) > 0 and self._pods.states() == told:
            if self._stopping.wait(min(LOOK_S, left_s)):
                return
            if not self._trouble:
                self._tell_faults()

    def _say(self, trouble: str) -> None:
        """Tell of trouble once, and of its end."""
        if trouble != self._trouble:
            text = trouble or "the service answers again"
            sys.stderr.write(f"podyard-agent: {text}\n")
            self._trouble = trouble
