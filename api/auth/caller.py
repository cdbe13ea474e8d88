"""Who calls, and what of it all they may see: asked in one place, for every face."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Role(StrEnum):
    """What somebody is here for; what each may do is in `rights.py`."""

    VIEWER = "viewer"
    SUBMITTER = "submitter"
    OPERATOR = "operator"
    ADMIN = "admin"
    AGENT = "agent"


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever sent a request.

    Attributes:
        name: Of a token, a certificate or a person; "" while nobody says who they are.
        namespaces: Those whose jobs and pods they may see and change; None = all.
        nodes: Of an agent: those that it may speak for; None = all.
    """

    name: str = ""
    role: Role = Role.ADMIN
    namespaces: frozenset[str] | None = None
    nodes: frozenset[str] | None = None


ANYBODY = Caller()
"""The caller of a service without tokens: sees everything, may do everything."""


class Owned(Protocol):
    """Something that belongs to a tenant: a job, its spec, a pod."""

    @property
    def namespace(self) -> str: ...


def visible(caller: Caller, thing: Owned) -> bool:
    """Whether a caller may see a thing by name. What they may not see they are told as numbers."""
    return caller.namespaces is None or thing.namespace in caller.namespaces
