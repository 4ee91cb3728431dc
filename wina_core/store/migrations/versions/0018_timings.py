"""Timings as the JSON of their records, in place of a column for each number."""

import json
import math
from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"

LATENCY = ("op", "measured_sparsity", "read_bytes", "median_ms", "p10_ms", "p90_ms", "dense_ms", "speedup", "bandwidth")
DECODING = (
    *("measured_sparsity", "tokens_per_second", "p10", "p90", "dense_tokens_per_second", "dense_p10", "dense_p90"),
    *("prefill_tokens_per_second", "prefill_p10", "prefill_p90"),
    *("dense_prefill_tokens_per_second", "dense_prefill_p10", "dense_prefill_p90"),
    *("held_bytes", "dense_held_bytes", "peak_bytes", "decoder", "turns", "timed_tokens"),
)
OF_POINTS = ("spec", "batch", "selection", "sparsity", "repetitions")
"""Columns of both tables that repeat the point, `spec`."""


def upgrade() -> None:
    """Move the fields of records into their JSON, and drop the columns that can be computed from them."""
    shape = ("outputs", "inputs", "dtype", "method", "backend")
    _convert("latency", LATENCY, (*OF_POINTS, *shape, "gigabytes_per_second", "roofline"))
    _convert("decoding", DECODING, (*OF_POINTS, "prompt_tokens", "new_tokens", "speedup"))


def _convert(name: str, fields: Sequence[str], dropped: Sequence[str]) -> None:
    op.add_column(name, sa.Column("record", sa.Text()))
    connection = op.get_bind()
    rows = connection.execute(sa.text(f"SELECT id, spec, {', '.join(fields)} FROM {name}")).mappings().all()
    for row in rows:
        try:
            record = {"point": json.loads(row["spec"]), **{field: _plain(row[field]) for field in fields}}
        except ValueError:  # it was never readable
            connection.execute(sa.text(f"DELETE FROM {name} WHERE id = :id"), {"id": row["id"]})
            continue
        values = {"id": row["id"], "record": json.dumps(record, ensure_ascii=False)}
        connection.execute(sa.text(f"UPDATE {name} SET record = :record WHERE id = :id"), values)
    with op.batch_alter_table(name) as table:
        table.alter_column("record", nullable=False)
        for column in (*fields, *dropped):
            table.drop_column(column)


def _plain(value: object) -> object:
    """Return a number as in the records' JSON, which has infinities and NaN as strings."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
