"""Add results of other tools."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Upgrade from the tables with completions."""
    op.create_table(
        "imported_files",
        sa.Column("id", INTEGER, nullable=False),
        sa.Column("model_id", INTEGER, nullable=False),
        sa.Column("file", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("measured", sa.Double(), nullable=True),
        sa.Column("imported", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["model_id"], ["models.id"], name="fk_imported_files_model_id"),
        sa.PrimaryKeyConstraint("id", name="pk_imported_files"),
        sa.UniqueConstraint("digest", name="uq_imported_files_digest"),
    )
    op.create_table(
        "imported_points",
        sa.Column("id", INTEGER, nullable=False),
        sa.Column("file_id", INTEGER, nullable=False),
        sa.Column("point", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["file_id"], ["imported_files.id"], name="fk_imported_points_file_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_imported_points"),
    )
    op.create_index("ix_imported_points_file_id", "imported_points", ["file_id"])
