"""Answers about who calls, and who did what."""

from typing import TypedDict


class WhoAmI(TypedDict, total=False):
    """The caller, as the service knows them; `namespaces` and `nodes` null = all."""

    asked: bool
    name: str
    role: str
    namespaces: list[str] | None
    nodes: list[str] | None


class AuditEntry(TypedDict, total=False):
    """A write that somebody was let do, or was refused."""

    id: int
    at: str
    actor: str
    role: str
    method: str
    path: str
    status: int
    request_id: str
    address: str
