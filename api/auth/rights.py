"""What a role may do, and the refusal that says what would be needed."""

from collections.abc import Mapping
from enum import StrEnum

from api.auth.caller import Caller, Role
from scheduler.errors import Problem, SchedulerError


class Right(StrEnum):
    """What a call asks for."""

    READ = "read"
    SUBMIT = "submit"
    """Write things of a namespace."""
    OPERATE = "operate"
    """Nodes, sets, faults, reservations, queues, the scheduler, other people's priorities."""
    ADMIN = "admin"
    """Tokens, policy, inventory, the audit log."""
    REPORT = "report"
    """What agents tell: heartbeats, states of pods, logs."""
    PUBLIC = "public"
    """What says nothing of the cluster: health, descriptions, the page's own files, login."""


HELD: Mapping[Role, frozenset[Right]] = {
    Role.VIEWER: frozenset({Right.READ}),
    Role.SUBMITTER: frozenset({Right.READ, Right.SUBMIT}),
    Role.OPERATOR: frozenset({Right.READ, Right.SUBMIT, Right.OPERATE}),
    Role.ADMIN: frozenset(Right) - {Right.PUBLIC},
    Role.AGENT: frozenset({Right.READ, Right.REPORT}),
}

CLUSTER_WIDE = frozenset({Right.OPERATE, Right.ADMIN, Right.REPORT})
"""Without a namespace these reach every tenant; who is bound to namespaces may not do that.

A node's reports are of everybody's pods there.
"""


class Forbidden(SchedulerError):
    """Somebody known asks for what they may not do."""


def check(
    caller: Caller, right: Right, *, namespace: str | None = None, node: str | None = None
) -> None:
    """Let a caller do something or refuse it.

    Args:
        namespace: Whose things are meant; None where the call names none.
        node: Which machine is meant; None where the call names none.

    Raises:
        Forbidden: With the role, the right and what would be needed.
    """
    if right is Right.PUBLIC:
        return
    if right not in HELD[caller.role]:
        raise _refusal(caller, f"this needs the right '{right}', which is of {_holders(right)}")
    if caller.role is Role.AGENT and right is Right.READ and node is None:
        raise _refusal(caller, "an agent reads about its own node and the pods on it alone")
    if caller.nodes is not None and node is not None and node not in caller.nodes:
        raise _refusal(
            caller, f"found node '{node[:80]}'; they are bound to {_named('node', caller.nodes)}"
        )
    if caller.namespaces is None:
        return
    bound = f"they are bound to {_named('namespace', caller.namespaces)}"
    if namespace is not None:
        if namespace not in caller.namespaces:
            raise _refusal(caller, f"found namespace '{namespace[:80]}'; {bound}")
    elif right in CLUSTER_WIDE:
        raise _refusal(caller, f"to {right} without a namespace reaches all of them; {bound}")


def check_everybody(caller: Caller) -> None:
    """Refuse what tells of all tenants, or reaches all, to those who are bound to some.

    Raises:
        Forbidden: If they are bound.
    """
    if caller.namespaces is not None:
        bound = _named("namespace", caller.namespaces)
        raise _refusal(caller, f"this reaches all namespaces; they are bound to {bound}")


def _refusal(caller: Caller, why: str) -> Forbidden:
    who = f"'{caller.name}'" if caller.name else "the caller"
    return Forbidden(Problem("", f"{who} has the role {caller.role}: {why}"))


def _holders(right: Right) -> str:
    return ", ".join(role for role in Role if right in HELD[role])


def _named(noun: str, names: frozenset[str]) -> str:
    shown = ", ".join(f"'{name}'" for name in sorted(names)[:5])
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"{noun}{'' if len(names) == 1 else 's'} {shown or '(none)'}{more}"
