"""Add the decoder to timed decoding."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Upgrade from the tables with prompt speeds; earlier timings were decoded by transformers or a CUDA graph."""
    op.add_column("decoding", sa.Column("decoder", sa.Text(), nullable=True))
