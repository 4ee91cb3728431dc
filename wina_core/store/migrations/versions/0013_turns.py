"""Add the repetitions and tokens behind the medians to timed decoding."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Upgrade from the tables with a decoder; earlier timings had all repetitions and tokens of their points."""
    op.add_column("decoding", sa.Column("turns", sa.Integer(), nullable=True))
    op.add_column("decoding", sa.Column("timed_tokens", sa.Integer(), nullable=True))
