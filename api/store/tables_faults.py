"""Tables of faults: what was reported of nodes, open until it is cleared, and how often they went.

On the same metadata as `tables.py`, so that both are migrated and compared together.
"""

import sqlalchemy as sa

from api.store.tables import Name, Revision, metadata, only

# id: the revision of the event that reported it. gpu_mask: bit i = GPU i of the node; 0 = the node
# as a whole. set_kind, set_name: of the report that took in the whole set, else ''.
faults = sa.Table(
    "faults",
    metadata,
    sa.Column("id", Revision, primary_key=True, autoincrement=False),
    sa.Column("node", Name, sa.ForeignKey("nodes.name", ondelete="CASCADE"), nullable=False),
    sa.Column("code", sa.Text, nullable=False),
    sa.Column("action", sa.Text, nullable=False),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("message", sa.Text, nullable=False, server_default=""),
    sa.Column("gpu_mask", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("rail", sa.Integer),
    sa.Column("set_kind", sa.Text, nullable=False, server_default=""),
    sa.Column("set_name", sa.Text, nullable=False, server_default=""),
    sa.Column("reported_by", sa.Text, nullable=False, server_default=""),
    sa.Column("reported_at", sa.Double, nullable=False),
    sa.Column("cleared_at", sa.Double),
    sa.Column("cleared_by", sa.Text, nullable=False, server_default=""),
    sa.CheckConstraint("gpu_mask >= 0 AND (rail IS NULL OR rail >= 0)", name="sign"),
    sa.Index("ix_faults_node_id", "node", "id"),
    sa.Index("ix_faults_open", "node", **only("cleared_at IS NULL")),
)

# Times at which a node's agent had been silent for so long that what runs there counted as lost.
# quarantined: the node was kept out of use for coming and going.
losses = sa.Table(
    "losses",
    metadata,
    sa.Column("node", Name, sa.ForeignKey("nodes.name", ondelete="CASCADE"), primary_key=True),
    sa.Column("at", sa.Double, primary_key=True),
    sa.Column("quarantined", sa.Boolean, nullable=False, server_default=sa.false()),
)
