"""A service that asks who calls, in a test."""

from collections.abc import Mapping

import httpx2

from api.auth import Caller, Role
from api.http.gate import Gate
from api.store.tokens import add_token
from tests.api.http.yard import Yard


def gate_of(yard: Yard) -> Gate:
    found = yard.app.service.gate
    assert isinstance(found, Gate)
    return found


def token_for(
    yard: Yard,
    name: str,
    role: Role,
    *namespaces: str,
    nodes: frozenset[str] | None = None,
    expires_at: float | None = None,
) -> str:
    """A new token, which the service knows at once."""
    caller = Caller(name, role, frozenset(namespaces) if namespaces else None, nodes)
    made = add_token(yard.database, caller, now_s=yard.clock.now_s(), expires_at=expires_at)
    gate_of(yard).keyring.refresh()
    return made.text


def bearer(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}


def ask(
    yard: Yard,
    method: str,
    path: str,
    token: str,
    json: object = None,
    headers: Mapping[str, str] | None = None,
) -> httpx2.Response:
    """A request of somebody, its answer checked against the description."""
    return yard.call(method, path, json, headers=bearer(token) | dict(headers or {}))
