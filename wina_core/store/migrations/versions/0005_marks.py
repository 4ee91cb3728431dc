"""Add annotations of runs (tags, a note, a pin), and runs that are deleted but can be restored."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """From the table of measures."""
    op.add_column("runs", sa.Column("tags", sa.Text(), server_default="", nullable=False))
    op.add_column("runs", sa.Column("note", sa.Text(), server_default="", nullable=False))
    op.add_column("runs", sa.Column("pinned", sa.Boolean(), server_default=sa.false(), nullable=False))
    op.add_column("runs", sa.Column("deleted", sa.Double(), nullable=True))
