"""Runs of quantized models whose rows begin with BOS are superseded: statistics took its position, too."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"

REASON = (
    "Superseded: the position of BOS, which nothing predicts, was counted in the statistics of this quantized model; "
    "compute it again."
)


def upgrade() -> None:
    """Give such runs the warning, and a hash that no spec has."""
    connection = op.get_bind()
    for run, spec in connection.execute(sa.text("SELECT id, spec FROM runs WHERE superseded = ''")).all():
        try:
            model = json.loads(spec)["model"]
            wrong = model.get("bos", False) and model.get("quantization", "none") != "none"
        except (ValueError, KeyError, TypeError, AttributeError):  # it was never readable
            continue
        if wrong:
            values = {"id": run, "reason": REASON, "hash": f"superseded {run}"}
            connection.execute(sa.text("UPDATE runs SET superseded = :reason, hash = :hash WHERE id = :id"), values)
