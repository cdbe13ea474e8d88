"""The health of a node: one function of its open faults and of what is heard of its agent.

| from -> to         | when                                                                        |
|--------------------|----------------------------------------------------------------------------|
| any -> lost        | an open fault says that the machine is gone: it is fenced by that. Or its   |
|                    | agent is silent for `lost_after_s`                                          |
| any -> out         | an open fault asks for replacement of a machine that is still there         |
| any -> testing     | an open fault asks for drain and reset, and the node is empty               |
| healthy -> suspect | its agent is silent for `suspect_after_s`                                   |
| suspect -> healthy | its agent is heard                                                          |
| lost -> healthy    | its agent is heard and no pod runs there that is not desired; without an    |
|                    | agent, when the fault is cleared. A fence alone gives its GPUs to nobody:   |
|                    | the machine has to be heard, or its faults cleared                          |
| out -> healthy     | the last such fault is cleared                                              |
| testing -> healthy | its agent reports a passed check; without an agent: the fault is cleared    |

While a fault that asks for drain and reset is open and pods are there, the node keeps the health
that its agent gives it and is drained (`Verdict.drain`).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from scheduler.model.node import Health
from scheduler.model.standing import FaultAction, NodeFault
from scheduler.recover.codes import CODES

SILENT = "its agent is silent"


class Heard(StrEnum):
    """What is known of a node's agent."""

    NONE = "none"
    """It has none; what is reported of it is all there is."""
    HEARD = "heard"
    SUSPECT = "suspect"
    """Silent for `suspect_after_s`."""
    LOST = "lost"
    """Silent for `lost_after_s`."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a node's health is to be.

    Attributes:
        why: In words; "" for a healthy node.
        fenced: Its pods are known to be gone.
        drain: It is to be drained for a fault.
        by_silence: It is lost for its agent's silence alone, so for some jobs it may not be yet.
    """

    health: Health
    why: str = ""
    fenced: bool = False
    drain: bool = False
    by_silence: bool = False


def health_of(
    faults: Iterable[NodeFault],
    heard: Heard,
    was: Health,
    *,
    fenced: bool = False,
    is_empty: bool = True,
    is_clean: bool = True,
    passed: bool = False,
) -> Verdict:
    """The health of a node by the table above.

    Args:
        faults: Open ones.
        was: Its health until now.
        fenced: It was fenced until now, or somebody says so now.
        is_empty: No live pod is on it.
        is_clean: Nothing runs there that is not desired, as far as its agent says.
        passed: Its agent reports that it passed its check since the fault.
    """
    these = sorted(faults, key=lambda f: f.id)
    gone = next((f for f in these if is_gone(f)), None)
    if gone is not None:
        return Verdict(Health.LOST, _why(gone), fenced=True)
    useless = next((f for f in these if f.action is FaultAction.REPLACE), None)
    if useless is not None:
        return Verdict(Health.OUT, _why(useless), fenced=fenced)
    if heard is Heard.LOST or (was is Health.LOST and heard is Heard.SUSPECT):
        return Verdict(Health.LOST, SILENT, fenced=fenced, by_silence=not fenced)
    if was is Health.LOST and heard is Heard.HEARD and not is_clean:
        why = "pods that were lost still run there"
        return Verdict(Health.LOST, why, fenced=fenced, by_silence=not fenced)
    reset = next((f for f in these if f.action is FaultAction.DRAIN_RESET), None)
    if reset is not None and not passed:
        if is_empty:
            return Verdict(Health.TESTING, _why(reset), drain=True)
        suspect = Health.SUSPECT if heard is Heard.SUSPECT else Health.HEALTHY
        return Verdict(suspect, _why(reset), drain=True)
    if heard is Heard.SUSPECT:
        return Verdict(Health.SUSPECT, SILENT)
    return Verdict(Health.HEALTHY)


def is_gone(fault: NodeFault) -> bool:
    """Whether a fault says that nothing runs on the machine any more."""
    code = CODES.get(fault.code)
    return fault.action is FaultAction.REPLACE and code is not None and code.machine_gone


def _why(fault: NodeFault) -> str:
    detail = f": {fault.detail}" if fault.detail else ""
    where = f" of {fault.set_kind} '{fault.set_name}'" if fault.set_kind else ""
    return f"fault {fault.code}{where}{detail}"
