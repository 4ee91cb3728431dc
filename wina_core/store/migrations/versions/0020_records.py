"""Reports on rotations and imported files as the JSON of their records, in place of columns and rows for their parts.

Stored reports on rotations go: rotating again, by bases that are cached, makes them.
"""

import json

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
FIELDS = ("file", "digest", "tool", "version", "measured")


def upgrade() -> None:
    """Empty the table of rotations, gather imported files, and drop the columns and the table of their parts."""
    op.execute("DELETE FROM layer_stats WHERE rotation_id IS NOT NULL")
    op.execute("DELETE FROM rotations")
    with op.batch_alter_table("rotations") as table:
        for column in ("logits_deviation", "shortcut_parameters", "seconds", "exported_to", "choice"):
            table.drop_column(column)
        table.add_column(sa.Column("report", sa.Text(), nullable=False))
    op.add_column("imported_files", sa.Column("content", sa.Text()))
    connection = op.get_bind()
    for row in connection.execute(sa.text(f"SELECT id, {', '.join(FIELDS)} FROM imported_files")).mappings().all():
        query = sa.text("SELECT point FROM imported_points WHERE file_id = :id ORDER BY id")
        points = [json.loads(point) for point in connection.execute(query, {"id": row["id"]}).scalars()]
        content = json.dumps({name: row[name] for name in FIELDS} | {"points": points}, ensure_ascii=False)
        values = {"id": row["id"], "content": content}
        connection.execute(sa.text("UPDATE imported_files SET content = :content WHERE id = :id"), values)
    op.drop_table("imported_points")
    with op.batch_alter_table("imported_files") as table:
        table.alter_column("content", nullable=False)
        for column in ("file", "tool", "version", "measured"):
            table.drop_column(column)
