"""Runs of quantized models that counted BOS, or counted replaced inputs as read, marked as superseded."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"

BOS = (
    "Superseded: the position of BOS, which nothing predicts, was counted in the statistics of this quantized model; "
    "compute it again."
)
REPLACED = "Superseded: inputs that the method replaces were counted among the bits read; compute it again."


def upgrade() -> None:
    """Give such runs the warning, and a hash that no spec has."""
    connection = op.get_bind()
    for run, spec in connection.execute(sa.text("SELECT id, spec FROM runs WHERE superseded = ''")).all():
        try:
            content = json.loads(spec)
            model, method = content["model"], content["method"]
            quantized, bos = model.get("quantization", "none") != "none", model.get("bos", False)
            replaced = method["name"] == "scap" or method.get("correction", "none") == "mean"
        except (ValueError, KeyError, TypeError, AttributeError):  # it was never readable
            continue
        if quantized and (bos or replaced):
            # No spec has such a hash, so that nothing of the run is reused.
            values = {"id": run, "reason": BOS if bos else REPLACED, "hash": f"superseded {run}"}
            connection.execute(sa.text("UPDATE runs SET superseded = :reason, hash = :hash WHERE id = :id"), values)
