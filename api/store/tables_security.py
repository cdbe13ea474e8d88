"""Tables of who may call, and of what callers did.

On the same metadata as `tables.py`, so that both are migrated and compared together.
"""

import sqlalchemy as sa

from api.store.tables import Name, Revision, metadata

# Tokens, and the sessions of browsers that were opened with one. id: the part of a token that may
# be shown. digest: SHA-256 of the whole, in hexadecimal. namespaces, nodes: JSON lists; null = all.
# parent: the token that a session was opened with; it ends with that.
tokens = sa.Table(
    "tokens",
    metadata,
    sa.Column("id", Name, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("digest", sa.Text, nullable=False),
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("namespaces", sa.Text),
    sa.Column("nodes", sa.Text),
    sa.Column("parent", sa.Text),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("expires_at", sa.Double),
    sa.Column("used_at", sa.Double),
    sa.Column("revoked_at", sa.Double),
    sa.CheckConstraint("kind IN ('token', 'session')", name="kind"),
    sa.Index("ix_tokens_name", "name"),
)

# One row. version: grows with each change of tokens; above 0 there was one once, and from then on
# the service asks for them.
token_state = sa.Table(
    "token_state",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.CheckConstraint("id = 1", name="single"),
)

# What callers changed or wanted to change. path: with its query.
audit_log = sa.Table(
    "audit_log",
    metadata,
    sa.Column("id", Revision, primary_key=True, autoincrement=True),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("method", sa.Text, nullable=False),
    sa.Column("path", sa.Text, nullable=False),
    sa.Column("status", sa.Integer, nullable=False),
    sa.Column("request_id", sa.Text, nullable=False),
    sa.Column("address", sa.Text, nullable=False),
    sa.Index("ix_audit_log_at", "at"),
    sa.Index("ix_audit_log_actor", "actor", "id"),
)
