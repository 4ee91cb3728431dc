"""Runs are superseded that read rows of text without the BOS token that their model's tokenizer adds, or that were
compared with an original in 16 bits.

A superseded run keeps its numbers and its place in its studies, but no spec has its hash, so nothing of it is reused.
Whether a tokenizer adds BOS is read from the model's folder; of models that are not here, new runs have another hash.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from alembic import op
from pydantic import ValidationError

from wina_core.errors import WinaError
from wina_core.model_info.bos import adds_bos
from wina_core.model_info.resolve import files_of
from wina_core.specs import ORIGINAL, SYNTHETIC, AllocatedSparsity, ModelSource, QuantizationSpec, RunSpec

revision = "0016"
down_revision = "0015"

_SIXTEEN = ("bfloat16", "float16")
_WITHOUT_BOS = "its rows of text lacked the BOS token that the model's tokenizer adds"
_IN_16_BITS = "the original was computed in 16 bits"


def upgrade() -> None:
    """Upgrade from the tables with choices of rotations."""
    connection = op.get_bind()
    models = sa.table("models", *map(sa.column, ("id", "hash", "spec", "summary")))
    added: set[int] = set()
    dtypes: dict[int, str] = {}
    for row in connection.execute(sa.select(models)).mappings().all():
        source = _read(ModelSource, row["spec"])
        if source is None:
            continue
        dtypes[row["id"]] = _dtype(source, row["summary"])
        if not source.bos and _adds_bos(source):
            new = source.model_copy(update={"bos": True})
            added.add(row["id"])
            values = {"spec": new.model_dump_json(), "hash": new.content_hash()}
            connection.execute(sa.update(models).where(models.c.id == row["id"]).values(values))
    _supersede_runs(connection, added, dtypes)
    _supersede_products(connection, added)


def _supersede_runs(connection: sa.Connection, added: set[int], dtypes: Mapping[int, str]) -> None:
    runs = sa.table("runs", *map(sa.column, ("id", "hash", "model_id", "spec", "settings", "superseded")))
    units = sa.table("units", *map(sa.column, ("run_id", "unit")))
    finished: dict[int, set[str]] = {}
    for run, unit in connection.execute(sa.select(units)):
        finished.setdefault(run, set()).add(unit)
    for row in connection.execute(sa.select(runs).where(runs.c.superseded == "")).mappings().all():
        spec = _read(RunSpec, row["spec"])
        if spec is None:
            continue
        stored, reasons = finished.get(row["id"], set()), []
        if row["model_id"] in added and stored and _reads_text(spec):
            reasons.append(_WITHOUT_BOS)
        if ORIGINAL in stored and dtypes.get(row["model_id"]) in _SIXTEEN:
            reasons.append(_IN_16_BITS)
        values: dict[str, Any] = {}
        if reasons:
            values["superseded"] = f"Superseded: {' and '.join(reasons)}. Run its study again to measure it correctly."
            values["settings"] = ", ".join(filter(None, ("superseded", row["settings"])))
            values["hash"] = _no_hash(row["hash"])
        elif row["model_id"] in added:
            new = spec.model_copy(update={"model": spec.model.model_copy(update={"bos": True})})
            values = {"spec": new.model_dump_json(), "hash": new.content_hash()}
        if values:
            connection.execute(sa.update(runs).where(runs.c.id == row["id"]).values(values))


def _supersede_products(connection: sa.Connection, added: set[int]) -> None:
    """Put calibrations under a label that no method has, and rotations under a hash that no spec has."""
    for name, column in (("calibrations", "method_label"), ("rotations", "hash")):
        table = sa.table(name, *map(sa.column, ("id", "model_id", column)))
        for row in connection.execute(sa.select(table).where(table.c.model_id.in_(added))).mappings().all():
            value = _no_hash(row[column]) if column == "hash" else f"{row[column]} (superseded)"
            connection.execute(sa.update(table).where(table.c.id == row["id"]).values({column: value}))


def _reads_text(spec: RunSpec) -> bool:
    quantization = spec.model.quantization
    return (
        bool(spec.evaluation.texts)
        or spec.calibration is not None
        or spec.rotation.reads_text
        or isinstance(spec.plan, AllocatedSparsity)
        or (isinstance(quantization, QuantizationSpec) and quantization.reads_text)
    )


def _dtype(source: ModelSource, summary: str | None) -> str:
    """Return the data type of a model's weights; "auto" where it was never loaded."""
    if source.dtype != "auto":
        return source.dtype
    try:
        return str(json.loads(summary or "{}").get("dtype", "auto"))
    except (ValueError, AttributeError):
        return "auto"


def _adds_bos(source: ModelSource) -> bool:
    if source.location == SYNTHETIC:
        return False
    try:
        return adds_bos(files_of(source))
    except WinaError:
        return False


def _no_hash(old: str) -> str:
    """Return a hash that no spec has, 16 hex digits."""
    return hashlib.sha256(f"without BOS {old}".encode()).hexdigest()[:16]


def _read(kind: Any, text: str) -> Any:
    """Return the spec in a JSON text; None for one that is refused by now."""
    try:
        return kind.model_validate_json(text)
    except ValidationError:
        return None
