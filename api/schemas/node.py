"""Nodes: what they have, what of it is free, and whether they may be used."""

from typing import Literal

from api.schemas.common import Page, Sentence, Strict, Time
from api.schemas.job import EffectName

HealthName = Literal["healthy", "suspect", "lost", "out", "testing"]


class Cordon(Strict):
    """Why, by whom and since when a node takes no new pods."""

    reason: str
    by: str
    at: Time


class Draining(Strict):
    """Until when the pods on a node have time to leave it, null = until there is a place for them.

    By whom and why; `done`: none is left.
    """

    deadline: Time | None
    at: Time
    reason: str
    by: str
    done: bool


class OpenFault(Strict):
    """A fault of the node that is open; `gpus`: those that it is about, none = the node."""

    id: int
    code: str
    at: Time
    message: str
    gpus: list[int]
    rail: int | None


class Taint(Strict):
    key: str
    value: str
    effect: EffectName


class Node(Strict):
    """A node as it stands.

    `gpus_free` are held by no pod, whether or not the node may be used. `cpus` and `memory_gib` are
    what it has; 0 = not known. `domains` are its places, null where it has none. `why` and `since`
    are of its health. `fenced`: its pods are known to be gone. `lemon`: it fails far more often
    than others; large gangs keep off it. `quarantined_until`: it takes no pods until then.
    `mismatch`: what the audit found wrong with its books; "" = nothing, else it takes no pods.
    """

    name: str
    type: str
    gpu: str | None
    gpus: int
    gpus_free: int
    cpus: float
    memory_gib: float
    health: HealthName
    why: str
    since: Time | None
    fenced: bool
    has_agent: bool
    faults: list[OpenFault]
    lemon: bool
    quarantined_until: Time | None
    mismatch: str
    cordoned: Cordon | None
    draining: Draining | None
    domains: dict[str, str | None]
    labels: dict[str, str]
    taints: list[Taint]
    pods: int
    revision: int


class NodePage(Page[Node]):
    """Nodes by name."""


class CordonBody(Strict):
    """Why the node is to take no new pods."""

    reason: Sentence = ""


class Nothing(Strict):
    """An empty object; a body may also be left out."""
