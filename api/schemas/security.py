"""Who a caller is, logging in, and the audit log."""

from typing import Annotated, Literal

from pydantic import StringConstraints

from api.schemas.common import LINE_PATTERN, Page, Strict, Time

RoleName = Literal["viewer", "submitter", "operator", "admin", "agent"]


class LoginBody(Strict):
    """A token, in exchange for a cookie that no script can read."""

    token: Annotated[str, StringConstraints(min_length=1, max_length=8_192, pattern=LINE_PATTERN)]


class WhoAmI(Strict):
    """The caller, as the service knows them.

    Attributes:
        asked: Whether the service asks callers who they are; where it does not, everybody may
            do everything.
        namespaces, nodes: Those that the caller is bound to; null = all.
    """

    asked: bool
    name: str
    role: RoleName
    namespaces: list[str] | None
    nodes: list[str] | None


class AuditEntry(Strict):
    """A write that somebody was let do, or was refused.

    Attributes:
        path: With its query.
        request_id: The `X-Request-Id` of the answer, which a request may choose.
    """

    id: int
    at: Time
    actor: str
    role: RoleName
    method: str
    path: str
    status: int
    request_id: str
    address: str


class AuditPage(Page[AuditEntry]):
    """Entries of the audit log, the newest first."""
