"""The queries behind every list and plot."""

import json
import statistics
from collections.abc import Collection, Iterable
from contextlib import suppress
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError
from sqlalchemy import Engine, desc, select

from wina_core.errors import WinaError
from wina_core.jobs import PendingRun
from wina_core.records import (
    DecodeRecord,
    LatencyRecord,
    ModelSummary,
    RotationReport,
    SampleRecord,
)
from wina_core.records.imports import ImportedFile, StoredImport
from wina_core.records.texts import moment
from wina_core.specs import ModelSource, RotationSpec, RunSpec
from wina_core.specs.quantization import PlanPair
from wina_core.specs.runs import measurement_key
from wina_core.store.columns import environment_of
from wina_core.store.completions import CompletionReader
from wina_core.store.metric_frames import Query, metric_rows
from wina_core.store.reuse import missing_of, readable_spec, reusable_units
from wina_core.store.rows import MetricFilter, MetricRow, PlanRow, RotationRow
from wina_core.store.tables import (
    DecodingTable,
    EnvironmentTable,
    ImportedFileTable,
    LatencyTable,
    ModelTable,
    PlanTable,
    RotationTable,
    RunTable,
    SampleTable,
    UnitTable,
)
from wina_core.store.timings import DecodeRow, LatencyRow, compare_timings

if TYPE_CHECKING:
    import pandas as pd

    from wina_core.store.metric_frames import MetricsCache

EVERYTHING = MetricFilter()
_Timing = TypeVar("_Timing", LatencyRecord, DecodeRecord)


class Reader(CompletionReader):
    """All reading of a database; may be called from any thread."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._metrics: MetricsCache | None = None

    # ---- metrics -------------------------------------------------------------------------------------------------

    def metric_rows(self, metric_filter: MetricFilter = EVERYTHING) -> list[MetricRow]:
        """Return one row per wanted metric, in the order in which they arrived, for at most a study."""
        with self._reading() as connection:
            return metric_rows(metric_filter, connection)

    def metrics(self, metric_filter: MetricFilter = EVERYTHING) -> "pd.DataFrame":
        """Return one line per wanted metric, in the order in which they arrived, with MetricRow's fields as columns:
        texts are categoricals, absent numbers NaN or <NA>. The frame is shared between calls: do not modify it."""
        from wina_core.store.metric_frames import MetricsCache  # which loads numpy

        self._metrics = self._metrics or MetricsCache()
        with self._reading() as connection:
            return self._metrics.list(metric_filter, connection)

    def pending(self, runs: Iterable[RunSpec], samples: bool = False) -> list[PendingRun]:
        """Return the runs that miss units, with these units, for an EvaluateJob.

        Units that another run has measured alike are not missing: saving the study copies them.
        """
        with self._reading() as connection:
            missing = missing_of({run.content_hash(): run for run in runs}, connection, samples)
            alike = reusable_units(missing, connection)
        pending: list[PendingRun] = []
        for name, run in missing.items():
            stored = {unit for unit in run.units if (name, unit) in alike and (alike[name, unit].suits or not samples)}
            if units := tuple(unit for unit in run.units if unit not in stored):
                pending.append(PendingRun(spec=run.spec, units=units))
        return pending

    def unit_seconds(self, runs: Iterable[RunSpec], hardware: str = "") -> dict[str, float]:
        """Return the median seconds of stored units that measured the same as the runs' units, by `measurement_key`.

        They are those on `hardware`, or on all if it is empty. Keys without any are left out.
        """
        runs = tuple(runs)
        keys = {measurement_key(run, unit) for run in runs for unit in run.evaluation.units}
        models = {run.model.content_hash() for run in runs}
        units = {unit for run in runs for unit in run.evaluation.units}
        query = (
            select(RunTable.spec, UnitTable.unit, UnitTable.seconds)
            .join(UnitTable, UnitTable.run_id == RunTable.id)
            .join(ModelTable, ModelTable.id == RunTable.model_id)
            .outerjoin(EnvironmentTable, EnvironmentTable.id == UnitTable.environment_id)
            .where(ModelTable.hash.in_(models), UnitTable.unit.in_(units))
        )
        if hardware:
            query = query.where(EnvironmentTable.hardware == hardware)
        seconds_by_key: dict[str, list[float]] = {}
        parsed = cache(readable_spec)
        with self._reading() as connection:
            for text, unit, seconds in connection.execute(query):
                if (spec := parsed(text)) is not None:
                    seconds_by_key.setdefault(measurement_key(spec, unit), []).append(seconds)
        return {key: statistics.median(seconds) for key, seconds in seconds_by_key.items() if key in keys}

    def samples(self, run: str, unit: str) -> list[SampleRecord]:
        """Return the documents of one unit of the run with this hash, by task and number; none if not stored."""
        query = (
            select(SampleTable.task, SampleTable.doc, SampleTable.scores, SampleTable.target, SampleTable.response)
            .join(UnitTable, UnitTable.id == SampleTable.unit_id)
            .join(RunTable, RunTable.id == UnitTable.run_id)
            .where(RunTable.hash == run, UnitTable.unit == unit)
        )
        read = cache(json.loads)  # thousands of documents have few different scores
        with self._reading() as connection:
            # Not by the query: databases differ in how they sort texts.
            rows = sorted(connection.execute(query), key=lambda row: (row.task, row.doc))
            return [SampleRecord(**row._asdict() | {"scores": read(row.scores)}) for row in rows]

    # ---- latency -------------------------------------------------------------------------------------------------

    def latency_rows(self, environment: str = "", points: Collection[str] | None = None) -> list[LatencyRow]:
        """Return timed products in the order of their first measurement.

        Args:
            environment: key of the environment; empty for all.
            points: hashes of the points; None for all.

        Records that this version cannot read are left out.
        """
        timed = self._timed(select(LatencyTable), LatencyTable, LatencyRecord, environment)
        rows = [LatencyRow(record=record, point=row.hash, recorded=row.recorded) for row, record in timed]
        # Compared before the choice of points: drift and best are over all points of the same work.
        judged = compare_timings(rows, attrgetter("dense_ms"))
        return [row for row in judged if points is None or row.point in points]

    def decode_rows(self, environment: str = "", points: Collection[str] | None = None) -> list[DecodeRow]:
        """Return timed models, as `latency_rows`."""
        query = select(DecodingTable, ModelTable.label).join(ModelTable, ModelTable.id == DecodingTable.model_id)
        rows = [
            DecodeRow(
                record=record,
                point=row.hash,
                recorded=row.recorded,
                model=row.label,
                rotation=row.rotation_label,
                method=row.method_label,
            )
            for row, record in self._timed(query, DecodingTable, DecodeRecord, environment)
        ]
        judged = compare_timings(rows, attrgetter("dense_tokens_per_second"))
        return [row for row in judged if points is None or row.point in points]

    def measured_points(self, points: Collection[str]) -> dict[str, tuple[str, ...]]:
        """Return the stored points among those with these hashes, by `Environment.key`."""
        measured: dict[str, list[str]] = {}
        timed: list[tuple[Any, LatencyRecord | DecodeRecord]] = [
            *self._timed(select(LatencyTable), LatencyTable, LatencyRecord, points=points),
            *self._timed(select(DecodingTable), DecodingTable, DecodeRecord, points=points),
        ]
        for row, record in timed:
            measured.setdefault(record.environment.key, []).append(row.hash)
        return {environment: tuple(hashes) for environment, hashes in measured.items()}

    def _timed(
        self,
        query: Query,
        table: type[LatencyTable | DecodingTable],
        kind: type[_Timing],
        environment: str = "",
        points: Collection[str] | None = None,
    ) -> list[tuple[Any, _Timing]]:
        """Return the rows of a query on a table of timings with their records; `points` as in `latency_rows`."""
        query = query.join(EnvironmentTable, EnvironmentTable.id == table.environment_id).order_by(table.id)
        query = query.add_columns(EnvironmentTable.device, EnvironmentTable.hardware, EnvironmentTable.versions)
        if environment:
            query = query.where(EnvironmentTable.hash == environment)
        timed: list[tuple[Any, _Timing]] = []
        environments = {}
        with self._reading() as connection:
            for row in connection.execute(query):
                if points is not None and row.hash not in points:
                    continue
                if row.environment_id not in environments:
                    environments[row.environment_id] = environment_of(row)
                content = json.loads(row.record) | {"environment": environments[row.environment_id]}
                with suppress(ValidationError):  # a record of another version
                    timed.append((row, kind.model_validate(content)))
        return timed

    # ---- results of other tools ----------------------------------------------------------------------------------

    def imports(self) -> list[StoredImport]:
        """Return all imported files with their points, the last imported first."""
        query = select(ImportedFileTable, ModelTable.label, ModelTable.location, ModelTable.hash, ModelTable.spec)
        query = query.join(ModelTable, ModelTable.id == ImportedFileTable.model_id)
        with self._reading() as connection:
            return [
                StoredImport(
                    id=row.id,
                    content=ImportedFile.model_validate_json(row.content),
                    model=row.label,
                    location=row.location,
                    model_hash=row.hash,
                    fingerprint=ModelSource.model_validate_json(row.spec).fingerprint,
                    imported=row.imported,
                )
                for row in connection.execute(query.order_by(ImportedFileTable.id.desc()))
            ]

    def check_new_import(self, file: ImportedFile) -> None:
        """Raise WinaError for a file whose content is stored."""
        for stored in self.imports():
            if stored.content.digest == file.digest:
                raise WinaError(
                    f"{file.file} was imported already, on {moment(stored.imported)} as number {stored.id} "
                    f'("{stored.content.file}") for the model "{stored.model}"; remove that import first to match the '
                    "file to another model."
                )

    def model_summary(self, model: ModelSource) -> ModelSummary | None:
        loaded = ModelTable.hash == model.content_hash(), ModelTable.summary.is_not(None)
        return self._parsed(select(ModelTable.summary).where(*loaded), ModelSummary)

    def model_sources(self) -> dict[str, ModelSource]:
        """Return the sources of all models that are stored, by their hashes, without those that are invalid by now."""
        sources = {}
        with self._reading() as connection:
            for row in connection.execute(select(ModelTable.hash, ModelTable.spec)):
                with suppress(ValidationError):
                    sources[row.hash] = ModelSource.model_validate_json(row.spec)
        return sources

    # ---- what was prepared before --------------------------------------------------------------------------------

    def rotations(self, model: ModelSource) -> list[RotationRow]:
        """Return a model's stored rotations, the latest first, without superseded ones, whose hash no spec has."""
        query = (
            select(RotationTable)
            .join(ModelTable, ModelTable.id == RotationTable.model_id)
            .where(ModelTable.hash == model.content_hash())
            .order_by(desc(RotationTable.recorded), desc(RotationTable.id))
        )
        with self._reading() as connection:
            rotations = ((RotationSpec.model_validate_json(row.spec), row) for row in connection.execute(query).all())
            return [
                RotationRow(spec, RotationReport.model_validate_json(row.report), row.recorded)
                for spec, row in rotations
                if spec.content_hash() == row.hash
            ]

    def list_plans(self) -> list[PlanRow]:
        """Return the named plans, the last saved first."""
        query = select(PlanTable.name, PlanTable.provenance, PlanTable.budget, PlanTable.saved).order_by(
            desc(PlanTable.saved), desc(PlanTable.id)
        )
        return self._rows(query, PlanRow._make)

    def load_plan(self, name: str) -> PlanPair:
        """Return the plan of this name. Raises WinaError if none is stored. `plan.for_layout` checks that it fits."""
        plan = self._scalar(select(PlanTable.plan).where(PlanTable.name == name))
        if plan is None:
            raise WinaError(unknown_plan(name))
        return PlanPair.parse(plan)


def unknown_plan(name: str) -> str:
    return f"There is no saved sparsity plan called {name!r}; choose one of the saved plans."
