"""For how long the agent of a lost node was silent: not every job has lost its pods by then."""

import sqlalchemy as sa
from alembic import op

revision = "2026_12_02_0140"
down_revision = "2026_12_01_2250"


def upgrade() -> None:
    """A column; the old program leaves it empty, and takes all there for lost as it did before."""
    op.add_column("nodes", sa.Column("silent_s", sa.Double()))


def downgrade() -> None:
    """Without it."""
    op.drop_column("nodes", "silent_s")
