"""What the Kubernetes face keeps beside the facts: metadata of jobs, nodes and pods, whole objects.

Written in the transaction of the fact that it belongs to. It decides nothing: the scheduler reads
none of it.
"""

import sqlalchemy as sa

from api.store.tables import Name, metadata

# resource: `plural.group`, the plural alone of the core group. job_uid: of a job's own metadata
# and of its pods; gone with its record. body: what no other table has: a whole object without its
# metadata, or what of a job's manifest its row does not say. meta: metadata beside name, namespace,
# uid, labels and annotations. managed: managedFields. deleted_at: its deletion was asked for.
objects = sa.Table(
    "objects",
    metadata,
    sa.Column("uid", Name, primary_key=True),
    sa.Column("resource", Name, nullable=False),
    sa.Column("namespace", Name, nullable=False),
    sa.Column("name", Name, nullable=False),
    sa.Column("job_uid", sa.Text, sa.ForeignKey("jobs.uid", ondelete="CASCADE"), index=True),
    sa.Column("labels", sa.Text, nullable=False, server_default="{}"),
    sa.Column("annotations", sa.Text, nullable=False, server_default="{}"),
    sa.Column("meta", sa.Text, nullable=False, server_default="{}"),
    sa.Column("managed", sa.Text, nullable=False, server_default="[]"),
    sa.Column("body", sa.Text, nullable=False, server_default="{}"),
    sa.Column("generation", sa.BigInteger, nullable=False, server_default="1"),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("deleted_at", sa.Double),
    sa.Column("revision", sa.BigInteger, nullable=False, index=True),
    sa.Index("ix_objects_resource_namespace_name", "resource", "namespace", "name"),
)
