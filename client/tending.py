"""Calls about nodes that fail, are drained, or are kept spare."""

from typing import cast

from client.calls import Calls, Pages, items_of, json_body, path_of
from client.fault_shapes import Breaker, Drained, Fault, Spares
from client.security_shapes import AuditEntry, WhoAmI
from client.shapes import Body, Node
from client.transport import Call

Set = tuple[str, str]
"""Kind and name of a set of nodes: `("rack", "r01")`."""


def _set_path(which: Set, verb: str) -> str:
    return path_of("v1", "sets", *which, verb)


class Tending(Calls):
    """Faults, drains and fences; who one is, and who did what."""

    def whoami(self) -> WhoAmI:
        """Who the service takes the caller for."""
        return cast(WhoAmI, self._get("/v1/whoami"))

    def audit(
        self,
        *,
        actor: str | None = None,
        since: str | None = None,
        path: str | None = None,
        outcome: str | None = None,
    ) -> Pages[AuditEntry]:
        """The audit log, newest first.

        Args:
            since: A time, as in `2026-12-01T10:00:00Z`.
            path: What paths begin with.
            outcome: `done` or `refused`.
        """
        wanted = {"actor": actor, "since": since, "path": path, "outcome": outcome}
        return self._list("/v1/audit", wanted)

    def drain(self, name: str, body: Body, *, dry_run: bool = False) -> Drained:
        """Have the pods of a node leave: `deadline_s`, `reason`."""
        return self._drain(path_of("v1", "nodes", name, "drain"), body, dry_run=dry_run)

    def drain_set(self, which: Set, body: Body, *, dry_run: bool = False) -> Drained:
        """The same of every node of a set."""
        return self._drain(_set_path(which, "drain"), body, dry_run=dry_run)

    def undrain(self, name: str) -> Node:
        """Let pods stay on a node, and come to it."""
        return cast(Node, self._send("POST", path_of("v1", "nodes", name, "undrain"), {}))

    def undrain_set(self, which: Set) -> list[Node]:
        """The same of every node of a set."""
        found = self._send("POST", _set_path(which, "undrain"), {})
        return cast(list[Node], found.get("nodes") or [])

    def fence(self, name: str, reason: str = "") -> Node:
        """Say that nothing runs on a node any more."""
        path = path_of("v1", "nodes", name, "fence")
        return cast(Node, self._send("POST", path, {"reason": reason} if reason else {}))

    def report_fault(self, name: str, body: Body) -> Fault:
        """Report a fault of a node: `code` or `xid`, and more if known."""
        return cast(Fault, self._send("POST", path_of("v1", "nodes", name, "faults"), body))

    def report_set_fault(self, which: Set, body: Body) -> list[Fault]:
        """The same of every node of a set."""
        path = _set_path(which, "faults")
        return cast(list[Fault], items_of(self._send("POST", path, body), f"POST {path}"))

    def faults(
        self, *, node: str | None = None, code: str | None = None, is_open: bool | None = None
    ) -> Pages[Fault]:
        """Faults, oldest first."""
        open_ = None if is_open is None else str(is_open).lower()
        return self._list("/v1/faults", {"node": node, "code": code, "open": open_})

    def clear_fault(self, name: str, fault: int) -> Fault:
        """Say that a fault is over."""
        path = path_of("v1", "nodes", name, "faults", str(fault))
        return cast(Fault, self._object(Call("DELETE", path, repeatable=True)))

    def spares(self) -> Spares:
        """What is kept for recovery, and what would be enough."""
        return cast(Spares, self._get("/v1/spares"))

    def breaker(self) -> Breaker:
        """Whether lost members are moved."""
        return cast(Breaker, self._get("/v1/scheduler/breaker"))

    def reset_breaker(self) -> str:
        """Let failures until now count no more; from when on they do."""
        found = self._send("POST", "/v1/scheduler/breaker/reset", {})
        return str(found.get("reset_at") or "")

    def _drain(self, path: str, body: Body, *, dry_run: bool) -> Drained:
        if not dry_run:
            return cast(Drained, self._send("POST", path, body))
        query = {"dry_run": "true"}
        call = Call("POST", path, query, content=json_body(body), repeatable=True)
        return cast(Drained, self._object(call))
