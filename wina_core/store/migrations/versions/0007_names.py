"""Rename columns, units and metrics: arm to configuration, origin to provenance, counted and full sparsity to gated and
net sparsity, and the unit deviation to fidelity. No number changes."""

import sqlalchemy as sa
from alembic import op

from wina_core.records import MetricRecord
from wina_core.store.columns import measure_columns

revision = "0007"
down_revision = "0006"

COLUMNS = (
    ("runs", "arm_label", "configuration_label"),
    ("runs", "plan_origin", "plan_provenance"),
    ("study_labels", "arm", "configuration"),
    ("plans", "origin", "provenance"),
    ("units", "counted_sparsity", "gated_sparsity"),
    ("units", "full_sparsity", "net_sparsity"),
)
PREFIXES = {"counted_": "gated_", "full_": "net_"}
"""Of the metrics of the unit that counts a token's cost."""


def upgrade() -> None:
    """Upgrade from the tables of superseded runs."""
    for table, old, new in COLUMNS:
        op.execute(f"ALTER TABLE {table} RENAME COLUMN {old} TO {new}")
    connection = op.get_bind()
    units, runs = sa.table("units", sa.column("unit")), sa.table("runs", sa.column("settings"))
    connection.execute(sa.update(units).where(units.c.unit == "deviation").values(unit="fidelity"))
    renamed = sa.func.replace(runs.c.settings, "deviation on ", "fidelity on ")
    connection.execute(sa.update(runs).where(runs.c.settings.contains("deviation on ")).values(settings=renamed))
    _rename_measures(connection)


def _rename_measures(connection: sa.Connection) -> None:
    names = ("n", "higher_is_better", "version", "num_fewshot", "prompt_hash", "truncated")
    measures = sa.table("measures", *map(sa.column, ("id", "hash", "task", "metric", *names)))
    own = sa.select(measures).where(measures.c.task.in_(("deviation", "cost")))
    for row in connection.execute(own).mappings().all():
        metric = row["metric"]
        for old, new in PREFIXES.items():
            if row["task"] == "cost" and metric.startswith(old):
                metric = new + metric.removeprefix(old)
        task = "fidelity" if row["task"] == "deviation" else row["task"]
        record = MetricRecord(task=task, metric=metric, value=0.0, **{name: row[name] for name in names})
        values = measure_columns(record)
        connection.execute(sa.update(measures).where(measures.c.id == row["id"]).values(values))
