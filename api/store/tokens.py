"""Tokens at rest: made, listed, revoked, replaced; and all that are good, for who checks them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import sqlalchemy as sa
from sqlalchemy import Connection

from api.auth import Caller, Role
from api.auth.tokens import SESSION, NewToken, make_token
from api.store.engine import Database
from api.store.errors import Conflict, NotFound
from api.store.rows import AnyRow
from api.store.tables_security import token_state, tokens

USED_S = 3_600.0
"""How exactly it is kept when a token was last used: ten thousand agents call every few seconds."""

SESSIONS_KEPT_S = 86_400.0
"""How long sessions of browsers stay that are over."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token, or a session that was opened with one; not the secret.

    Attributes:
        digest: SHA-256 of the whole token, in hexadecimal.
        parent: Id of the token that a session was opened with.
        expires_at: None = never. All times in seconds.
        used_at: To the hour.
    """

    id: str
    caller: Caller
    digest: str
    created_at: float
    expires_at: float | None = None
    used_at: float | None = None
    revoked_at: float | None = None
    parent: str | None = None

    def is_good(self, now_s: float) -> bool:
        """Whether it is neither revoked nor over."""
        return self.revoked_at is None and (self.expires_at is None or now_s < self.expires_at)


@dataclass(frozen=True, slots=True)
class Keys:
    """All tokens and sessions that are not revoked, as of one version.

    Attributes:
        version: 0 where there never was a token.
    """

    version: int = 0
    tokens: Mapping[str, Token] = field(default_factory=dict)


def add_token(
    db: Database, caller: Caller, *, now_s: float, expires_at: float | None = None
) -> NewToken:
    """Make a token.

    Raises:
        Conflict: If a good one has that name already.
    """
    with db.write_quietly() as connection:
        if any(token.is_good(now_s) for token in _named(connection, caller.name)):
            raise Conflict(
                "name",
                f"there is a token '{caller.name}' already; `podyard token rotate {caller.name}` "
                "replaces it, another NAME makes one beside it",
            )
        return _insert(connection, make_token(), "token", caller, now_s, expires_at)


def open_session(
    db: Database, caller: Caller, parent: str | None, *, now_s: float, expires_at: float
) -> NewToken:
    """Make what a browser keeps instead of a token.

    Args:
        parent: Id of the token it was opened with; None = it was no token of ours.
    """
    with db.write_quietly() as connection:
        old = (tokens.c.kind == "session") & (tokens.c.expires_at < now_s - SESSIONS_KEPT_S)
        connection.execute(sa.delete(tokens).where(old))
        made = make_token(SESSION)
        return _insert(connection, made, "session", caller, now_s, expires_at, parent)


def list_tokens(db: Database) -> list[Token]:
    """All tokens there ever were, by name and age; no sessions."""
    query = sa.select(tokens).where(tokens.c.kind == "token")
    with db.read() as connection:
        found = [_token(row) for row in connection.execute(query)]
    return sorted(found, key=lambda token: (token.caller.name, token.created_at, token.id))


def revoke(db: Database, name: str, *, now_s: float) -> list[str]:
    """Make all tokens of a name useless, or the one that has it for its id; their ids.

    Sessions that were opened with them end as well.

    Raises:
        NotFound: If none is left that could be revoked.
    """
    with db.write_quietly() as connection:
        found = (tokens.c.name == name) & (tokens.c.kind == "token") | (tokens.c.id == name)
        query = sa.select(tokens.c.id).where(found, tokens.c.revoked_at.is_(None))
        ids = sorted(connection.execute(query).scalars())
        if not ids:
            raise NotFound("token", name)
        _change(connection, tokens.c.id.in_(ids), revoked_at=now_s)
    return ids


def rotate(
    db: Database, name: str, *, now_s: float, overlap_s: float, expires_at: float | None
) -> NewToken:
    """Make a token like those of a name, which are good for `overlap_s` more at the longest.

    Raises:
        NotFound: If no good token has that name.
    """
    with db.write_quietly() as connection:
        good = [token for token in _named(connection, name) if token.is_good(now_s)]
        if not good:
            raise NotFound("token", name)
        for token in good:
            ends = now_s + overlap_s
            if token.expires_at is None or token.expires_at > ends:
                _change(connection, tokens.c.id == token.id, expires_at=ends)
        newest = max(good, key=lambda token: (token.created_at, token.id))
        return _insert(connection, make_token(), "token", newest.caller, now_s, expires_at)


def key_version(db: Database) -> int:
    """The version of the tokens; 0 where there never was one."""
    with db.read() as connection:
        return int(connection.execute(_VERSION).scalar_one())


def load_keys(db: Database, now_s: float) -> Keys:
    """All tokens and sessions that are good, or will be while time goes on."""
    not_over = tokens.c.expires_at.is_(None) | (tokens.c.expires_at > now_s)
    query = sa.select(tokens).where(tokens.c.revoked_at.is_(None), not_over)
    with db.read() as connection:
        version = int(connection.execute(_VERSION).scalar_one())
        found = (_token(row) for row in connection.execute(query))
        return Keys(version, {token.id: token for token in found})


def note_use(db: Database, used: Mapping[str, float]) -> None:
    """Write down when tokens were last used; no change of theirs that others have to hear of."""
    rows = [{"used_id": id, "at": at} for id, at in sorted(used.items())]
    statement = (
        sa.update(tokens)
        .where(tokens.c.id == sa.bindparam("used_id"))
        .values(used_at=sa.bindparam("at"))
    )
    with db.write_quietly() as connection:
        connection.execute(statement, rows)


def _named(connection: Connection, name: str) -> list[Token]:
    # Whoever changes tokens takes this lock first, so that no two make one of the same name.
    connection.execute(_VERSION.with_for_update())
    query = sa.select(tokens).where(tokens.c.name == name, tokens.c.kind == "token")
    return [_token(row) for row in connection.execute(query)]


def _insert(
    connection: Connection,
    made: NewToken,
    kind: str,
    caller: Caller,
    now_s: float,
    expires_at: float | None,
    parent: str | None = None,
) -> NewToken:
    row = {
        "id": made.id,
        "name": caller.name,
        "kind": kind,
        "digest": made.digest,
        "role": caller.role.value,
        "namespaces": _dump(caller.namespaces),
        "nodes": _dump(caller.nodes),
        "parent": parent,
        "created_at": now_s,
        "expires_at": expires_at,
    }
    connection.execute(sa.insert(tokens), row)
    connection.execute(_BUMP)
    return made


def _change(connection: Connection, which: sa.ColumnElement[bool], **values: float | None) -> None:
    connection.execute(sa.update(tokens).where(which).values(**values))
    connection.execute(_BUMP)


def _token(row: AnyRow) -> Token:
    namespaces, nodes = _load(row.namespaces), _load(row.nodes)
    return Token(
        row.id,
        Caller(row.name, Role(row.role), namespaces, nodes),
        row.digest,
        row.created_at,
        row.expires_at,
        row.used_at,
        row.revoked_at,
        row.parent,
    )


def _dump(names: frozenset[str] | None) -> str | None:
    return None if names is None else json.dumps(sorted(names))


def _load(text: str | None) -> frozenset[str] | None:
    return None if text is None else frozenset(map(str, json.loads(text)))


_VERSION = sa.select(token_state.c.version).where(token_state.c.id == 1)
_BUMP = (
    sa.update(token_state).where(token_state.c.id == 1).values(version=token_state.c.version + 1)
)
