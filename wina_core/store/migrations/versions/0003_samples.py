"""Scores of single documents, and what a task's numbers were asked with."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """From the tables of latency."""
    op.add_column("metrics", sa.Column("version", sa.Text(), nullable=True))
    op.add_column("metrics", sa.Column("num_fewshot", INTEGER, nullable=True))
    op.add_column("metrics", sa.Column("prompt_hash", sa.Text(), nullable=True))
    op.add_column("metrics", sa.Column("truncated", INTEGER, nullable=True))
    op.create_table(
        "samples",
        sa.Column("id", INTEGER, nullable=False),
        sa.Column("unit_id", INTEGER, nullable=False),
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("doc", INTEGER, nullable=False),
        sa.Column("scores", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("response", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["unit_id"], ["units.id"], name=op.f("fk_samples_unit_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_samples")),
        sa.UniqueConstraint("unit_id", "task", "doc", name=op.f("uq_samples_unit_id_task_doc")),
    )
