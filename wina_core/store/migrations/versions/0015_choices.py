"""Add the comparison of a rotation with none, and of auto's candidates."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Upgrade from the tables with users and hosts."""
    op.add_column("rotations", sa.Column("choice", sa.Text(), nullable=True))
    op.add_column("runs", sa.Column("chosen_rotation", sa.Text(), nullable=True))
