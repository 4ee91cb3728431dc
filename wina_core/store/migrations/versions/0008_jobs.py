"""Add jobs that have not ended."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Upgrade from the tables with today's names."""
    op.create_table(
        "jobs",
        sa.Column("id", INTEGER, nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("priority", sa.Text(), nullable=True),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("submitted", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
        sa.UniqueConstraint("job_id", name="uq_jobs_job_id"),
    )
