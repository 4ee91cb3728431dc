"""The tables of the results database, the types of their columns, and conditions that databases spell differently.

Times are seconds since the epoch (UTC). Specs are kept as their JSON, beside the few columns that lists filter by.
NaN has no portable form in SQL: the number columns that are never unknown hold NULL for it (see `Number`).
"""

import json
import math
import time
from collections.abc import Iterable
from typing import Any, TypeVar

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    ColumnElement,
    Connection,
    Dialect,
    Double,
    ForeignKey,
    Integer,
    MetaData,
    Text,
    UniqueConstraint,
    bindparam,
    false,
    func,
    select,
    update,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.sql.functions import GenericFunction
from sqlalchemy.types import TypeDecorator, TypeEngine

from wina_core.records import ACTIVE

# ---- types of columns ------------------------------------------------------------------------------------------------


class CellError(ValueError):
    """A stored value of another type than its column's: SQLite keeps whatever a foreign program writes."""


_T = TypeVar("_T")
_NUMBERS, _INTEGERS = frozenset({float, int}), frozenset({int})


def _checked(value: _T, kinds: frozenset[type]) -> _T:
    if value is not None and type(value) not in kinds:
        raise CellError(repr(value))
    return value


class Real(TypeDecorator[float]):
    """A float, checked when it is read. NaN is stored as NULL, as SQLite does by itself."""

    impl = Double
    cache_ok = True

    def process_bind_param(self, value: float | None, dialect: Dialect) -> float | None:  # noqa: ARG002
        # As SQLite does by itself; PostgreSQL would store NaN.
        return None if value is None or math.isnan(value) else value

    def process_result_value(self, value: float | None, dialect: Dialect) -> float | None:  # noqa: ARG002
        return _checked(value, _NUMBERS)


class Number(Real):
    """A float that is always known. SQLite turns NaN into NULL, so NULL is read back as NaN; infinities are kept."""

    cache_ok = True

    def process_result_value(self, value: float | None, dialect: Dialect) -> float:  # noqa: ARG002
        return math.nan if value is None else _checked(value, _NUMBERS)


class Whole(TypeDecorator[int]):
    """An integer of 64 bits, checked when it is read."""

    impl = BigInteger
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[int]:
        # SQLite numbers the rows of a key of just this type, which has 64 bits there.
        return dialect.type_descriptor(Integer() if dialect.name == "sqlite" else BigInteger())

    def process_result_value(self, value: int | None, dialect: Dialect) -> int | None:  # noqa: ARG002
        return _checked(value, _INTEGERS)


def kinds_of(column: Any) -> frozenset[type]:
    """Return the types of the values that a column can hold, as the drivers give them."""
    # SQLite has no booleans, only 0 and 1.
    kinds = {Number: _NUMBERS, Real: _NUMBERS, Whole: _INTEGERS, Boolean: _INTEGERS | {bool}}
    column_kinds = kinds.get(type(column.type), frozenset({str}))
    return column_kinds | {type(None)} if getattr(column, "nullable", False) else column_kinds  # an expression has none


# ---- tables ----------------------------------------------------------------------------------------------------------


NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "pk": "pk_%(table_name)s",
}
"""Every constraint is named, so that a later migration can change it."""

OWNERS = ("unit_id", "calibration_id", "rotation_id")
"""Columns of layer_stats, exactly one of which is set."""


class StoreTable(DeclarativeBase):
    """Base of all tables."""

    metadata = MetaData(naming_convention=NAMING)
    type_annotation_map = {str: Text, float: Real, int: Whole}  # noqa: RUF012 - SQLAlchemy's own declaration


class ModelTable(StoreTable):
    """A resolved ModelSource and, once it has been loaded, its summary."""

    __tablename__ = "models"
    id: Mapped[int] = mapped_column(primary_key=True)
    hash: Mapped[str] = mapped_column(unique=True)
    label: Mapped[str]
    location: Mapped[str]
    spec: Mapped[str]
    summary: Mapped[str | None]
    opened: Mapped[float | None] = mapped_column(index=True)
    """Time of the last loading, for its summary."""


class RotationTable(StoreTable):
    """A rotation of a model with its report; its off-diagonal energies are in layer_stats, too."""

    __tablename__ = "rotations"
    __table_args__ = (UniqueConstraint("model_id", "hash"),)
    id: Mapped[int] = mapped_column(primary_key=True)
    model_id: Mapped[int] = mapped_column(ForeignKey("models.id"))
    hash: Mapped[str]
    label: Mapped[str]
    spec: Mapped[str]
    report: Mapped[str]
    """RotationReport."""
    recorded: Mapped[float]


class CalibrationTable(StoreTable):
    """Thresholds and error curves, in layer_stats, of one model, rotation, method and calibration text."""

    __tablename__ = "calibrations"
    __table_args__ = (UniqueConstraint("model_id", "rotation_hash", "method_label", "hash"),)
    id: Mapped[int] = mapped_column(primary_key=True)
    model_id: Mapped[int] = mapped_column(ForeignKey("models.id"))
    rotation_hash: Mapped[str]
    method_label: Mapped[str]
    hash: Mapped[str]
    """Content hash of the CalibrationSpec."""
    spec: Mapped[str]
    key: Mapped[str]
    """Name of the safetensors file in the cache."""
    tokens: Mapped[int]
    seconds: Mapped[float]
    recorded: Mapped[float]


class PlanTable(StoreTable):
    """A sparsity plan that was given a name."""

    __tablename__ = "plans"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    plan: Mapped[str]
    provenance: Mapped[str]
    budget: Mapped[float]
    saved: Mapped[float]


class StudyTable(StoreTable):
    """A study as it was launched."""

    __tablename__ = "studies"
    id: Mapped[int] = mapped_column(primary_key=True)
    hash: Mapped[str] = mapped_column(unique=True)
    name: Mapped[str]
    spec: Mapped[str]
    saved: Mapped[float]


class EnvironmentTable(StoreTable):
    """A device, its hardware, and the versions of the libraries that computed numbers on it."""

    __tablename__ = "environments"
    id: Mapped[int] = mapped_column(primary_key=True)
    hash: Mapped[str] = mapped_column(unique=True)
    device: Mapped[str]
    hardware: Mapped[str]
    versions: Mapped[str]
    """JSON object of library: version."""


class RunTable(StoreTable):
    """One point of a study, shared by all studies that contain it."""

    __tablename__ = "runs"
    id: Mapped[int] = mapped_column(primary_key=True)
    hash: Mapped[str] = mapped_column(unique=True)
    model_id: Mapped[int] = mapped_column(ForeignKey("models.id"), index=True)
    spec: Mapped[str]
    rotation_label: Mapped[str]
    chosen_rotation: Mapped[str | None]
    """Label of `auto` with what it has chosen for the model; null until that is known, and for other rotations."""
    method_label: Mapped[str]
    configuration_label: Mapped[str]
    selection: Mapped[str]
    plan_provenance: Mapped[str]
    target_sparsity: Mapped[float]
    """The uniform target, or the plan's budget."""
    settings: Mapped[str]
    """Evaluation settings that differ from the defaults, in words; empty when none does."""
    chosen_on_evaluation: Mapped[str] = mapped_column(server_default="")
    """Parts of it that read the evaluated text (`columns.chosen_on_evaluation`)."""
    seed: Mapped[int]
    unit_count: Mapped[int]
    status: Mapped[str] = mapped_column(index=True)
    error: Mapped[str]
    owner: Mapped[str]
    """The session (see sessions.py) in which it was last queued or begun."""
    user: Mapped[str] = mapped_column(server_default="")
    """Name of the user who queued or began it last; empty if an older version did, likewise `host`."""
    host: Mapped[str] = mapped_column(server_default="")
    environment_id: Mapped[int | None] = mapped_column(ForeignKey("environments.id"))
    created: Mapped[float]
    started: Mapped[float | None]
    finished: Mapped[float | None]
    tags: Mapped[str] = mapped_column(server_default="")
    """The user's tags in alphabetical order, with commas between."""
    note: Mapped[str] = mapped_column(server_default="")
    pinned: Mapped[bool] = mapped_column(server_default=false())
    """Kept at the top of lists."""
    deleted: Mapped[float | None]
    """Time of its deletion; it is in no list, and nothing of it is reused, until it is restored."""
    superseded: Mapped[str] = mapped_column(server_default="")
    """A sentence on the error in its measurement, empty for others; no spec has the hash of a superseded run, and
    nothing of it is reused."""


class StudyRunTable(StoreTable):
    """A run of a study, at its position."""

    __tablename__ = "study_runs"
    study_id: Mapped[int] = mapped_column(ForeignKey("studies.id", ondelete="CASCADE"), primary_key=True)
    run_id: Mapped[int] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True, index=True)
    position: Mapped[int]


class StudyLabelTable(StoreTable):
    """A study's label of a run: model, configuration and allocation as in RunLabel, once for each role that the run
    has."""

    __tablename__ = "study_labels"
    id: Mapped[int] = mapped_column(primary_key=True)
    study_id: Mapped[int] = mapped_column(ForeignKey("studies.id", ondelete="CASCADE"), index=True)
    run_id: Mapped[int] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), index=True)
    model: Mapped[str]
    configuration: Mapped[str]
    allocation: Mapped[str]


class UnitTable(StoreTable):
    """One finished unit of a run: an lm-eval task, or the fidelity to dense."""

    __tablename__ = "units"
    __table_args__ = (UniqueConstraint("run_id", "unit"),)
    id: Mapped[int] = mapped_column(primary_key=True)
    run_id: Mapped[int] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"))
    unit: Mapped[str]
    seconds: Mapped[float]
    gated_sparsity: Mapped[float | None]
    net_sparsity: Mapped[float | None]
    environment_id: Mapped[int | None] = mapped_column(ForeignKey("environments.id"))
    """Environment of this very unit: a resumed run may have moved to another machine."""
    finished: Mapped[float]


class MeasureTable(StoreTable):
    """A task's metric with its number of documents and its prompts. Thousands of runs share it, so that lists read its
    texts once."""

    __tablename__ = "measures"
    id: Mapped[int] = mapped_column(primary_key=True)
    hash: Mapped[str] = mapped_column(unique=True)
    """`columns.measure_columns`."""
    task: Mapped[str]
    metric: Mapped[str]
    n: Mapped[int | None]
    higher_is_better: Mapped[bool | None]
    version: Mapped[str | None]
    num_fewshot: Mapped[int | None]
    prompt_hash: Mapped[str | None]
    truncated: Mapped[int | None]


class MetricTable(StoreTable):
    """One number that a unit reported. A standard error that is NaN is stored as unknown."""

    __tablename__ = "metrics"
    __table_args__ = (UniqueConstraint("unit_id", "measure_id"),)
    id: Mapped[int] = mapped_column(primary_key=True)
    unit_id: Mapped[int] = mapped_column(ForeignKey("units.id", ondelete="CASCADE"))
    measure_id: Mapped[int] = mapped_column(ForeignKey("measures.id"))
    value: Mapped[float] = mapped_column(Number, nullable=True)
    stderr: Mapped[float | None]


class SampleTable(StoreTable):
    """One document of one task; columns as SampleRecord says, `scores` and `response` as JSON."""

    __tablename__ = "samples"
    __table_args__ = (UniqueConstraint("unit_id", "task", "doc"),)
    id: Mapped[int] = mapped_column(primary_key=True)
    unit_id: Mapped[int] = mapped_column(ForeignKey("units.id", ondelete="CASCADE"))
    task: Mapped[str]
    doc: Mapped[int]
    scores: Mapped[str]
    target: Mapped[str]
    response: Mapped[str]


class LayerStatTable(StoreTable):
    """One number about one projection of one decoder layer, owned by a unit, a calibration or a rotation."""

    __tablename__ = "layer_stats"
    __table_args__ = (
        CheckConstraint(
            " + ".join(f"(CASE WHEN {owner} IS NULL THEN 0 ELSE 1 END)" for owner in OWNERS) + " = 1",
            name="one_owner",
        ),
    )
    id: Mapped[int] = mapped_column(primary_key=True)
    unit_id: Mapped[int | None] = mapped_column(ForeignKey("units.id", ondelete="CASCADE"), index=True)
    calibration_id: Mapped[int | None] = mapped_column(ForeignKey("calibrations.id", ondelete="CASCADE"), index=True)
    rotation_id: Mapped[int | None] = mapped_column(ForeignKey("rotations.id", ondelete="CASCADE"), index=True)
    layer: Mapped[int]
    projection: Mapped[str]
    metric: Mapped[str]
    x: Mapped[float | None]
    value: Mapped[float] = mapped_column(Number, nullable=True)


class LatencyTable(StoreTable):
    """One timed product on one environment."""

    __tablename__ = "latency"
    __table_args__ = (UniqueConstraint("hash", "environment_id"),)
    id: Mapped[int] = mapped_column(primary_key=True)
    hash: Mapped[str]
    """Content hash of the LatencyPoint."""
    environment_id: Mapped[int] = mapped_column(ForeignKey("environments.id"))
    record: Mapped[str]
    """LatencyRecord without its environment."""
    recorded: Mapped[float]


class DecodingTable(StoreTable):
    """A timed model, gated and dense, on one environment."""

    __tablename__ = "decoding"
    __table_args__ = (UniqueConstraint("hash", "environment_id"),)
    id: Mapped[int] = mapped_column(primary_key=True)
    hash: Mapped[str]
    """Content hash of the DecodePoint."""
    environment_id: Mapped[int] = mapped_column(ForeignKey("environments.id"))
    model_id: Mapped[int] = mapped_column(ForeignKey("models.id"))
    rotation_label: Mapped[str]
    method_label: Mapped[str]
    record: Mapped[str]
    """DecodeRecord without its environment."""
    recorded: Mapped[float]


class CompletionTable(StoreTable):
    """A completion of a prompt on one environment; columns as CompletionRecord says."""

    __tablename__ = "completions"
    __table_args__ = (UniqueConstraint("hash", "environment_id"),)
    id: Mapped[int] = mapped_column(primary_key=True)
    hash: Mapped[str]
    """Content hash of the CompletionPoint."""
    dense_hash: Mapped[str] = mapped_column(index=True)
    """The same of the dense completion of this prompt."""
    environment_id: Mapped[int | None] = mapped_column(ForeignKey("environments.id"))
    model_id: Mapped[int] = mapped_column(ForeignKey("models.id"))
    spec: Mapped[str]
    prompt: Mapped[str]
    text: Mapped[str]
    tokens: Mapped[str]
    """JSON list of CompletionToken."""
    token_count: Mapped[int]
    prompt_tokens: Mapped[int]
    end: Mapped[str]
    configuration_label: Mapped[str]
    """`CompletionSpec.label`: method, sparsity and rotation."""
    method: Mapped[str]
    sparsity: Mapped[float | None]
    first_token_seconds: Mapped[float | None]
    """Duration of the pass over the prompt."""
    tokens_per_second: Mapped[float | None]
    dense_tokens_per_second: Mapped[float | None]
    """Speed of the dense model over the same text."""
    speedup: Mapped[float | None]
    divergence: Mapped[float | None]
    """Mean over the tokens, in nats."""
    recorded: Mapped[float] = mapped_column(index=True)


class UnfinishedJobTable(StoreTable):
    """A job that has not ended, by which it is resumed if its program dies."""

    __tablename__ = "jobs"
    id: Mapped[int] = mapped_column(primary_key=True)
    job_id: Mapped[str] = mapped_column(unique=True)
    title: Mapped[str]
    job: Mapped[str]
    priority: Mapped[str | None]
    owner: Mapped[str]
    """Session of the program that holds it in its queue."""
    submitted: Mapped[float]


class ImportedFileTable(StoreTable):
    """A file of another tool with its points."""

    __tablename__ = "imported_files"
    id: Mapped[int] = mapped_column(primary_key=True)
    model_id: Mapped[int] = mapped_column(ForeignKey("models.id"))
    """The workbench's model that the user named."""
    digest: Mapped[str] = mapped_column(unique=True)
    content: Mapped[str]
    """JSON of `records.imports.ImportedFile`."""
    imported: Mapped[float]


# ---- membership in a list: databases bound the number of values in a statement ---------------------------------------


def in_list(column: Any, texts: Iterable[str]) -> ColumnElement[bool]:
    """Return the condition that a column of texts is among these; they are sent to the database as one value."""
    array = bindparam(None, json.dumps(list(texts)), Text(), unique=True)
    condition: ColumnElement[bool] = column.in_(select(_Texts(array).table_valued("value").c.value))
    return condition


class _Texts(GenericFunction[str]):
    """The texts of a JSON array, one a row."""

    type = Text()
    inherit_cache = True
    name = "wina_texts"


@compiles(_Texts, "sqlite")
def _on_sqlite(element: _Texts, compiler: Any, **options: Any) -> str:
    return f"json_each({compiler.process(element.clauses, **options)})"


@compiles(_Texts, "postgresql")
def _on_postgres(element: _Texts, compiler: Any, **options: Any) -> str:
    return f"json_array_elements_text(CAST({compiler.process(element.clauses, **options)} AS JSON))"


# ---- states of runs --------------------------------------------------------------------------------------------------


def is_active(runs: Iterable[str]) -> ColumnElement[bool]:
    return in_list(RunTable.hash, runs) & RunTable.status.in_(ACTIVE)


def update_stopped_runs(connection: Connection, condition: ColumnElement[bool], values: dict[str, Any]) -> int:
    """Give these values to runs that nobody computes any more, and return their number; complete ones become done."""
    stored = select(func.count(UnitTable.id)).where(UnitTable.run_id == RunTable.id).correlate(RunTable)
    complete = stored.scalar_subquery() == RunTable.unit_count
    now = values.get("finished") or time.time()
    done = {"status": "done", "finished": func.coalesce(RunTable.finished, now), "error": ""}
    changes = (condition & ~complete, values), (condition & complete, done)
    return sum(connection.execute(update(RunTable).where(runs).values(new)).rowcount for runs, new in changes)
