"""Store the texts of measures once for all runs, not with each number."""

import hashlib
import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
WORDS: dict[str, sa.types.TypeEngine[Any]] = {
    "task": sa.Text(),
    "metric": sa.Text(),
    "n": INTEGER,
    "higher_is_better": sa.Boolean(),
    "version": sa.Text(),
    "num_fewshot": INTEGER,
    "prompt_hash": sa.Text(),
    "truncated": INTEGER,
}
ALWAYS_KNOWN = ("task", "metric")
NUMBERS = ["id", "unit_id", "measure_id", "value", "stderr"]


def upgrade() -> None:
    """From the tables of samples."""
    op.create_table(
        "measures",
        sa.Column("id", INTEGER, nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        *(sa.Column(name, kind, nullable=name not in ALWAYS_KNOWN) for name, kind in WORDS.items()),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_measures")),
        sa.UniqueConstraint("hash", name=op.f("uq_measures_hash")),
    )
    op.execute("CREATE TABLE metrics_before AS SELECT * FROM metrics")  # names of constraints can be had only once
    op.drop_table("metrics")
    op.create_table(
        "metrics",
        sa.Column("id", INTEGER, nullable=False),
        sa.Column("unit_id", INTEGER, nullable=False),
        sa.Column("measure_id", INTEGER, nullable=False),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("stderr", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["unit_id"], ["units.id"], name=op.f("fk_metrics_unit_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["measure_id"], ["measures.id"], name=op.f("fk_metrics_measure_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_metrics")),
        sa.UniqueConstraint("unit_id", "measure_id", name=op.f("uq_metrics_unit_id_measure_id")),
    )
    _move(op.get_bind())
    op.drop_table("metrics_before")


def _move(connection: sa.Connection) -> None:
    before = sa.table("metrics_before", *map(sa.column, ("id", "unit_id", "value", "stderr")), *_words())
    measures = sa.table("measures", sa.column("id"), sa.column("hash"), *_words())
    metrics = sa.table("metrics", *map(sa.column, NUMBERS))
    found = connection.execute(sa.select(*(before.c[name] for name in WORDS)).distinct())
    if new := [dict(row) | {"hash": _hash(dict(row))} for row in found.mappings()]:
        connection.execute(sa.insert(measures), new)
    # Null equals nothing in SQL, so not by equality.
    same = [before.c[name].is_not_distinct_from(measures.c[name]) for name in WORDS]
    numbers = sa.select(before.c.id, before.c.unit_id, measures.c.id, before.c.value, before.c.stderr)
    numbers = numbers.join_from(before, measures, sa.and_(*same))
    connection.execute(sa.insert(metrics).from_select(NUMBERS, numbers))
    if connection.dialect.name == "postgresql":  # the next id follows those that were moved
        next_id = "pg_get_serial_sequence('metrics', 'id')"
        connection.execute(sa.text(f"SELECT setval({next_id}, max(id)) FROM metrics HAVING max(id) IS NOT NULL"))


def _words() -> list[sa.ColumnClause[Any]]:
    return [sa.column(name, kind) for name, kind in WORDS.items()]


def _hash(words: dict[str, Any]) -> str:
    """As `wina_core.store.columns.measure_columns` has it."""
    return hashlib.sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()[:16]
