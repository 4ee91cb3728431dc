"""The first tables: models, rotations, calibrations, plans, studies, runs, units, metrics, layer_stats."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """From an empty database."""
    op.create_table(
        "environments",
        sa.Column("id", INTEGER, nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("hardware", sa.Text(), nullable=False),
        sa.Column("versions", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_environments"),
        sa.UniqueConstraint("hash", name="uq_environments_hash"),
    )
    op.create_table(
        "models",
        sa.Column("id", INTEGER, nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("location", sa.Text(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=True),
        sa.Column("opened", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_models"),
        sa.UniqueConstraint("hash", name="uq_models_hash"),
    )
    op.create_index("ix_models_opened", "models", ["opened"])
    op.create_table(
        "plans",
        sa.Column("id", INTEGER, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("plan", sa.Text(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("budget", sa.Double(), nullable=False),
        sa.Column("saved", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_plans"),
        sa.UniqueConstraint("name", name="uq_plans_name"),
    )
    op.create_table(
        "studies",
        sa.Column("id", INTEGER, nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("saved", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_studies"),
        sa.UniqueConstraint("hash", name="uq_studies_hash"),
    )
    op.create_table(
        "calibrations",
        sa.Column("id", INTEGER, nullable=False),
        sa.Column("model_id", INTEGER, nullable=False),
        sa.Column("rotation_hash", sa.Text(), nullable=False),
        sa.Column("method_label", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("tokens", INTEGER, nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("recorded", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["model_id"], ["models.id"], name="fk_calibrations_model_id"),
        sa.PrimaryKeyConstraint("id", name="pk_calibrations"),
        sa.UniqueConstraint(
            "model_id",
            "rotation_hash",
            "method_label",
            "hash",
            name="uq_calibrations_model_id_rotation_hash_method_label_hash",
        ),
    )
    op.create_table(
        "rotations",
        sa.Column("id", INTEGER, nullable=False),
        sa.Column("model_id", INTEGER, nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("logits_deviation", sa.Double(), nullable=True),
        sa.Column("shortcut_parameters", INTEGER, nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("exported_to", sa.Text(), nullable=True),
        sa.Column("recorded", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["model_id"], ["models.id"], name="fk_rotations_model_id"),
        sa.PrimaryKeyConstraint("id", name="pk_rotations"),
        sa.UniqueConstraint("model_id", "hash", name="uq_rotations_model_id_hash"),
    )
    op.create_table(
        "runs",
        sa.Column("id", INTEGER, nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("model_id", INTEGER, nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("rotation_label", sa.Text(), nullable=False),
        sa.Column("method_label", sa.Text(), nullable=False),
        sa.Column("arm_label", sa.Text(), nullable=False),
        sa.Column("selection", sa.Text(), nullable=False),
        sa.Column("plan_origin", sa.Text(), nullable=False),
        sa.Column("target_sparsity", sa.Double(), nullable=False),
        sa.Column("settings", sa.Text(), nullable=False),
        sa.Column("seed", INTEGER, nullable=False),
        sa.Column("unit_count", INTEGER, nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("environment_id", INTEGER, nullable=True),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("started", sa.Double(), nullable=True),
        sa.Column("finished", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["environment_id"], ["environments.id"], name="fk_runs_environment_id"),
        sa.ForeignKeyConstraint(["model_id"], ["models.id"], name="fk_runs_model_id"),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
        sa.UniqueConstraint("hash", name="uq_runs_hash"),
    )
    op.create_index("ix_runs_model_id", "runs", ["model_id"])
    op.create_index("ix_runs_status", "runs", ["status"])
    op.create_table(
        "study_runs",
        sa.Column("study_id", INTEGER, nullable=False),
        sa.Column("run_id", INTEGER, nullable=False),
        sa.Column("position", INTEGER, nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_study_runs_run_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["study_id"], ["studies.id"], name="fk_study_runs_study_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("study_id", "run_id", name="pk_study_runs"),
    )
    op.create_index("ix_study_runs_run_id", "study_runs", ["run_id"])
    op.create_table(
        "units",
        sa.Column("id", INTEGER, nullable=False),
        sa.Column("run_id", INTEGER, nullable=False),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("counted_sparsity", sa.Double(), nullable=True),
        sa.Column("full_sparsity", sa.Double(), nullable=True),
        sa.Column("environment_id", INTEGER, nullable=True),
        sa.Column("finished", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["environment_id"], ["environments.id"], name="fk_units_environment_id"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_units_run_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_units"),
        sa.UniqueConstraint("run_id", "unit", name="uq_units_run_id_unit"),
    )
    op.create_table(
        "layer_stats",
        sa.Column("id", INTEGER, nullable=False),
        sa.Column("unit_id", INTEGER, nullable=True),
        sa.Column("calibration_id", INTEGER, nullable=True),
        sa.Column("rotation_id", INTEGER, nullable=True),
        sa.Column("layer", INTEGER, nullable=False),
        sa.Column("projection", sa.Text(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("x", sa.Double(), nullable=True),
        sa.Column("value", sa.Double(), nullable=True),
        sa.CheckConstraint(
            "(CASE WHEN unit_id IS NULL THEN 0 ELSE 1 END) + (CASE WHEN calibration_id IS NULL THEN 0 ELSE 1 END)"
            " + (CASE WHEN rotation_id IS NULL THEN 0 ELSE 1 END) = 1",
            name=op.f("ck_layer_stats_one_owner"),
        ),
        sa.ForeignKeyConstraint(
            ["calibration_id"], ["calibrations.id"], name="fk_layer_stats_calibration_id", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["rotation_id"], ["rotations.id"], name="fk_layer_stats_rotation_id", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["unit_id"], ["units.id"], name="fk_layer_stats_unit_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_layer_stats"),
    )
    op.create_index("ix_layer_stats_calibration_id", "layer_stats", ["calibration_id"])
    op.create_index("ix_layer_stats_rotation_id", "layer_stats", ["rotation_id"])
    op.create_index("ix_layer_stats_unit_id", "layer_stats", ["unit_id"])
    op.create_table(
        "metrics",
        sa.Column("id", INTEGER, nullable=False),
        sa.Column("unit_id", INTEGER, nullable=False),
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("stderr", sa.Double(), nullable=True),
        sa.Column("n", INTEGER, nullable=True),
        sa.Column("higher_is_better", sa.Boolean(), nullable=True),
        sa.ForeignKeyConstraint(["unit_id"], ["units.id"], name="fk_metrics_unit_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_metrics"),
        sa.UniqueConstraint("unit_id", "task", "metric", name="uq_metrics_unit_id_task_metric"),
    )
    op.create_index("ix_metrics_task_metric", "metrics", ["task", "metric"])
