"""Latency of single products, and of decoding."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """From the first tables."""
    op.create_table(
        "latency",
        sa.Column("id", INTEGER, nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("environment_id", INTEGER, nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("op", sa.Text(), nullable=False),
        sa.Column("outputs", INTEGER, nullable=False),
        sa.Column("inputs", INTEGER, nullable=False),
        sa.Column("batch", INTEGER, nullable=False),
        sa.Column("dtype", sa.Text(), nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("selection", sa.Text(), nullable=False),
        sa.Column("sparsity", sa.Double(), nullable=False),
        sa.Column("backend", sa.Text(), nullable=False),
        sa.Column("repetitions", INTEGER, nullable=False),
        sa.Column("measured_sparsity", sa.Double(), nullable=False),
        sa.Column("read_bytes", sa.Double(), nullable=False),
        sa.Column("median_ms", sa.Double(), nullable=False),
        sa.Column("p10_ms", sa.Double(), nullable=False),
        sa.Column("p90_ms", sa.Double(), nullable=False),
        sa.Column("dense_ms", sa.Double(), nullable=False),
        sa.Column("speedup", sa.Double(), nullable=False),
        sa.Column("gigabytes_per_second", sa.Double(), nullable=False),
        sa.Column("bandwidth", sa.Double(), nullable=False),
        sa.Column("roofline", sa.Double(), nullable=False),
        sa.Column("recorded", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["environment_id"], ["environments.id"], name="fk_latency_environment_id"),
        sa.PrimaryKeyConstraint("id", name="pk_latency"),
        sa.UniqueConstraint("hash", "environment_id", name="uq_latency_hash_environment_id"),
    )
    op.create_table(
        "decoding",
        sa.Column("id", INTEGER, nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("environment_id", INTEGER, nullable=False),
        sa.Column("model_id", INTEGER, nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("rotation_label", sa.Text(), nullable=False),
        sa.Column("method_label", sa.Text(), nullable=False),
        sa.Column("selection", sa.Text(), nullable=False),
        sa.Column("sparsity", sa.Double(), nullable=False),
        sa.Column("measured_sparsity", sa.Double(), nullable=False),
        sa.Column("prompt_tokens", INTEGER, nullable=False),
        sa.Column("new_tokens", INTEGER, nullable=False),
        sa.Column("repetitions", INTEGER, nullable=False),
        sa.Column("tokens_per_second", sa.Double(), nullable=False),
        sa.Column("p10", sa.Double(), nullable=False),
        sa.Column("p90", sa.Double(), nullable=False),
        sa.Column("dense_tokens_per_second", sa.Double(), nullable=False),
        sa.Column("speedup", sa.Double(), nullable=False),
        sa.Column("recorded", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["environment_id"], ["environments.id"], name="fk_decoding_environment_id"),
        sa.ForeignKeyConstraint(["model_id"], ["models.id"], name="fk_decoding_model_id"),
        sa.PrimaryKeyConstraint("id", name="pk_decoding"),
        sa.UniqueConstraint("hash", "environment_id", name="uq_decoding_hash_environment_id"),
    )
