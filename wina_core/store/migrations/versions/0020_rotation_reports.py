"""Reports on rotations as the JSON of their records, in place of columns and rows for their parts.

Stored reports go: rotating again, by bases that are cached, makes them.
"""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    """Empty the table of rotations and change its columns."""
    op.execute("DELETE FROM layer_stats WHERE rotation_id IS NOT NULL")
    op.execute("DELETE FROM rotations")
    with op.batch_alter_table("rotations") as table:
        for column in ("logits_deviation", "shortcut_parameters", "seconds", "exported_to", "choice"):
            table.drop_column(column)
        table.add_column(sa.Column("report", sa.Text(), nullable=False))
