"""Add batch, prompt speed, spread of the dense model and memory to timed decoding."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
SPEEDS = (
    *("dense_p10", "dense_p90", "prefill_tokens_per_second", "prefill_p10", "prefill_p90"),
    *("dense_prefill_tokens_per_second", "dense_prefill_p10", "dense_prefill_p90"),
)


def upgrade() -> None:
    """Upgrade from the tables with results of other tools; earlier timings have one sequence."""
    with op.batch_alter_table("decoding") as table:
        table.add_column(sa.Column("batch", INTEGER, nullable=False, server_default="1"))
        for name in SPEEDS:
            table.add_column(sa.Column(name, sa.Double(), nullable=True))
        for name in ("held_bytes", "dense_held_bytes", "peak_bytes"):
            table.add_column(sa.Column(name, INTEGER, nullable=True))
