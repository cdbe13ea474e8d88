"""Metadata and objects of the Kubernetes face."""

import sqlalchemy as sa
from alembic import op

revision = "2026_12_01_2010"
down_revision = "2026_12_01_2000"

Name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """A table that the program of the old schema does not know."""
    op.create_table(
        "objects",
        sa.Column("uid", Name, nullable=False),
        sa.Column("resource", Name, nullable=False),
        sa.Column("namespace", Name, nullable=False),
        sa.Column("name", Name, nullable=False),
        sa.Column("job_uid", sa.Text(), nullable=True),
        sa.Column("labels", sa.Text(), server_default="{}", nullable=False),
        sa.Column("annotations", sa.Text(), server_default="{}", nullable=False),
        sa.Column("meta", sa.Text(), server_default="{}", nullable=False),
        sa.Column("managed", sa.Text(), server_default="[]", nullable=False),
        sa.Column("body", sa.Text(), server_default="{}", nullable=False),
        sa.Column("generation", sa.BigInteger(), server_default="1", nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("deleted_at", sa.Double(), nullable=True),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_uid"], ["jobs.uid"], name=op.f("fk_objects_job_uid_jobs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("uid", name=op.f("pk_objects")),
    )
    op.create_index(op.f("ix_objects_job_uid"), "objects", ["job_uid"])
    op.create_index(op.f("ix_objects_revision"), "objects", ["revision"])
    op.create_index(
        "ix_objects_resource_namespace_name", "objects", ["resource", "namespace", "name"]
    )


def downgrade() -> None:
    op.drop_table("objects")
