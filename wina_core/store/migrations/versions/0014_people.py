"""Add who computes a run and on which computer; on PostgreSQL, give 64 bits to the whole numbers of 0013."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Upgrade from the tables with repetitions; nobody knows who computed earlier runs."""
    for name in ("user", "host"):
        op.add_column("runs", sa.Column(name, sa.Text(), server_default="", nullable=False))
    if op.get_bind().dialect.name == "postgresql":
        for name in ("turns", "timed_tokens"):
            op.alter_column("decoding", name, type_=sa.BigInteger())
