"""Add completions of prompts."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Upgrade from the tables with jobs that have not ended."""
    op.create_table(
        "completions",
        sa.Column("id", INTEGER, nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("dense_hash", sa.Text(), nullable=False),
        sa.Column("environment_id", INTEGER, nullable=True),
        sa.Column("model_id", INTEGER, nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("prompt", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("tokens", sa.Text(), nullable=False),
        sa.Column("token_count", INTEGER, nullable=False),
        sa.Column("prompt_tokens", INTEGER, nullable=False),
        sa.Column("end", sa.Text(), nullable=False),
        sa.Column("configuration_label", sa.Text(), nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("sparsity", sa.Double(), nullable=True),
        sa.Column("first_token_seconds", sa.Double(), nullable=True),
        sa.Column("tokens_per_second", sa.Double(), nullable=True),
        sa.Column("dense_tokens_per_second", sa.Double(), nullable=True),
        sa.Column("speedup", sa.Double(), nullable=True),
        sa.Column("divergence", sa.Double(), nullable=True),
        sa.Column("recorded", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["environment_id"], ["environments.id"], name="fk_completions_environment_id"),
        sa.ForeignKeyConstraint(["model_id"], ["models.id"], name="fk_completions_model_id"),
        sa.PrimaryKeyConstraint("id", name="pk_completions"),
        sa.UniqueConstraint("hash", "environment_id", name="uq_completions_hash_environment_id"),
    )
    for column in ("dense_hash", "recorded"):
        op.create_index(f"ix_completions_{column}", "completions", [column])
