"""Scores of single documents, what a task's numbers were asked with, and what studies call their runs."""

import sqlalchemy as sa
from alembic import op
from pydantic import ValidationError

from wina_core.specs import RunSpec
from wina_core.store.columns import chosen_on_evaluation

revision = "0003"
down_revision = "0002"

INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """From the tables of latency."""
    op.add_column("metrics", sa.Column("version", sa.Text(), nullable=True))
    op.add_column("metrics", sa.Column("num_fewshot", INTEGER, nullable=True))
    op.add_column("metrics", sa.Column("prompt_hash", sa.Text(), nullable=True))
    op.add_column("metrics", sa.Column("truncated", INTEGER, nullable=True))
    op.add_column("runs", sa.Column("chosen_on_evaluation", sa.Text(), server_default="", nullable=False))
    runs = sa.table("runs", sa.column("id"), sa.column("spec"), sa.column("chosen_on_evaluation"))
    connection = op.get_bind()
    for run in connection.execute(sa.select(runs.c.id, runs.c.spec)).all():
        if chosen := _chosen_on_evaluation(run.spec):
            update = sa.update(runs).where(runs.c.id == run.id).values(chosen_on_evaluation=chosen)
            connection.execute(update)
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
    op.create_table(
        "study_labels",
        sa.Column("id", INTEGER, nullable=False),
        sa.Column("study_id", INTEGER, nullable=False),
        sa.Column("run_id", INTEGER, nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("arm", sa.Text(), nullable=False),
        sa.Column("allocation", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["study_id"], ["studies.id"], name=op.f("fk_study_labels_study_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_study_labels_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_study_labels")),
    )
    op.create_index(op.f("ix_study_labels_study_id"), "study_labels", ["study_id"])
    op.create_index(op.f("ix_study_labels_run_id"), "study_labels", ["run_id"])


def _chosen_on_evaluation(spec: str) -> str:
    """Empty for a spec of an older version that is refused by now."""
    try:
        return chosen_on_evaluation(RunSpec.model_validate_json(spec))
    except ValidationError:
        return ""
