"""Tables of what people ask agents for.

On the same metadata as `tables.py`, so that both are migrated and compared together.
"""

import sqlalchemy as sa

from api.store.tables import Name, Revision, metadata

# A tail of a log that somebody waits for; the agent of the node answers with its next heartbeats.
# Rows are short-lived: whoever waits deletes its own, and all go after a while.
log_requests = sa.Table(
    "log_requests",
    metadata,
    sa.Column("id", Revision, primary_key=True, autoincrement=False),
    sa.Column("node", Name, sa.ForeignKey("nodes.name", ondelete="CASCADE"), nullable=False),
    sa.Column("pod_uid", sa.Text, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("process", sa.Integer, nullable=False),
    sa.Column("stream", sa.Text, nullable=False),
    sa.Column("tail_bytes", sa.Integer, nullable=False),
    sa.Column("asked_at", sa.Double, nullable=False),
    sa.Column("answered_at", sa.Double),
    sa.Column("problem", sa.Text, nullable=False, server_default=""),
    sa.Column("content", sa.LargeBinary),
    sa.Index("ix_log_requests_node", "node"),
)
