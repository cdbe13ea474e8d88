"""Who calls, and what of it all they may see: asked in one place, for every face."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever sent a request.

    Attributes:
        name: "" while nobody says who they are.
        namespaces: Those whose jobs and pods they may see; None = all.
    """

    name: str = ""
    namespaces: frozenset[str] | None = None


ANYBODY = Caller()
"""The caller of a service without tokens: sees everything."""


class Owned(Protocol):
    """Something that belongs to a tenant: a job, its spec, a pod."""

    @property
    def namespace(self) -> str: ...


def visible(caller: Caller, thing: Owned) -> bool:
    """Whether a caller may see a thing by name. What they may not see they are told as numbers."""
    return caller.namespaces is None or thing.namespace in caller.namespaces
