"""Clear standard errors that are hardly known: over tokens, which depend on each other, and over fewer than six rows.

Values and documents stay; nothing is superseded. Of tasks with fewer than six documents, errors are hidden when read.
"""

import json

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"

FEWEST = 6
AT_ONCE = 500
UNIT = ("id", "run_id", "unit")


def upgrade() -> None:
    """Upgrade from the tables with superseded references."""
    runs, units = sa.table("runs", sa.column("id"), sa.column("spec")), sa.table("units", *map(sa.column, UNIT))
    metrics = sa.table("metrics", sa.column("unit_id"), sa.column("stderr", sa.Double()))
    connection = op.get_bind()
    query = sa.select(units.c.id, units.c.unit, runs.c.spec).join(runs, runs.c.id == units.c.run_id)
    rows = connection.execute(query.where(units.c.unit.in_(("fidelity", "original"))))
    cleared = [row.id for row in rows if row.unit == "fidelity" or _rows(row.spec) < FEWEST]
    for start in range(0, len(cleared), AT_ONCE):
        chosen = metrics.c.unit_id.in_(cleared[start : start + AT_ONCE])
        connection.execute(sa.update(metrics).where(chosen).values(stderr=None))


def _rows(spec: str) -> int:
    """Return the rows of the text on which a run is compared with the original."""
    text = json.loads(spec)["evaluation"].get("original") or {}
    return int(text.get("tokens", 16_384)) // int(text.get("sequence", 512))
