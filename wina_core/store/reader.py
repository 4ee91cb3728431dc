"""The queries behind every list and plot."""

import json
import math
import statistics
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, cast

from sqlalchemy import ColumnElement, Connection, Engine, and_, desc, func, select

from wina_core.engine.protocol import PendingRun
from wina_core.errors import WinaError
from wina_core.measurements import measurement_key
from wina_core.plan import SparsityPlan
from wina_core.records import CalibrationRecord, LayerRecord, ModelSummary, RotationReport, RunStatus, SampleRecord
from wina_core.run_labels import RunLabel
from wina_core.specs import CalibrationSpec, MethodSpec, ModelSource, RotationSpec, RunSpec
from wina_core.store.connection import explained
from wina_core.store.metrics import MetricRows, Query
from wina_core.store.reuse import missing_of, readable_spec, twins
from wina_core.store.rows import (
    Curve,
    DecodeRow,
    LatencyRow,
    LayerMap,
    MetricFilter,
    MetricRow,
    ModelRow,
    PlanRow,
    RotationRow,
    RunRow,
    StudyRow,
    UnitRow,
)
from wina_core.store.tables import (
    Calibration,
    Decoding,
    Environment,
    Latency,
    LayerStat,
    Model,
    Plan,
    Rotation,
    Run,
    Sample,
    Study,
    StudyLabel,
    StudyRun,
    Unit,
)
from wina_core.study_specs import StudySpec

EVERYTHING = MetricFilter()


class Reader:
    """All reading of a database; may be called from any thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._metrics = MetricRows()

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with explained(self._engine.url), self._engine.connect() as connection:
            yield connection

    # ---- metrics and runs ----------------------------------------------------------------------------------------

    def metric_rows(self, wanted: MetricFilter = EVERYTHING) -> list[MetricRow]:
        """One row per stored metric, in the order in which they arrived."""
        with self._reading() as connection:
            return self._metrics.list(wanted, connection)

    def runs(self, study: str = "") -> list[RunRow]:
        """All runs, or those of the study with this hash in its order."""
        done = select(Unit.run_id, func.count().label("units")).group_by(Unit.run_id).subquery()
        query = (
            select(
                Run.hash, Model.label, Run.arm_label, Run.selection, Run.plan_origin, Run.target_sparsity, Run.settings,
                Run.status, func.coalesce(done.c.units, 0), Run.unit_count, Run.error, Run.created, Run.started,
                Run.finished, Environment.device, Environment.hardware,
            )
            .join(Model, Model.id == Run.model_id)
            .outerjoin(done, done.c.run_id == Run.id)
            .outerjoin(Environment, Environment.id == Run.environment_id)
        )  # fmt: skip
        if study:
            query = query.join(StudyRun, StudyRun.run_id == Run.id).join(Study, Study.id == StudyRun.study_id)
            query = query.where(Study.hash == study).order_by(StudyRun.position)
        else:
            query = query.order_by(Run.id)
        with self._reading() as connection:
            return [RunRow._make(row) for row in connection.execute(query)]

    def run_labels(self, study: str) -> list[RunLabel]:
        """What the study with this hash calls its runs, in its order; empty where it was stored without."""
        query = (
            select(Run.hash, StudyLabel.model, StudyLabel.arm, StudyLabel.allocation)
            .join(Run, Run.id == StudyLabel.run_id)
            .join(Study, Study.id == StudyLabel.study_id)
            .where(Study.hash == study)
            .order_by(StudyLabel.id)
        )
        with self._reading() as connection:
            return [RunLabel._make(row) for row in connection.execute(query)]

    def has_samples(self, study: str) -> bool:
        """Whether single documents' scores are stored of any run of the study with this hash."""
        query = (
            select(Sample.id)
            .join(Unit, Unit.id == Sample.unit_id)
            .join(StudyRun, StudyRun.run_id == Unit.run_id)
            .join(Study, Study.id == StudyRun.study_id)
            .where(Study.hash == study)
            .limit(1)
        )
        with self._reading() as connection:
            return connection.execute(query).first() is not None

    def units(self, study: str) -> list[UnitRow]:
        """The finished units of the runs of the study with this hash, in the order in which they were finished."""
        query = (
            select(
                Run.hash, Unit.unit, Unit.seconds, Unit.finished, Unit.counted_sparsity, Unit.full_sparsity,
                Environment.device, Environment.hardware, Environment.versions,
            )
            .join(Run, Run.id == Unit.run_id)
            .join(StudyRun, StudyRun.run_id == Run.id)
            .join(Study, Study.id == StudyRun.study_id)
            .outerjoin(Environment, Environment.id == Unit.environment_id)
            .where(Study.hash == study)
            .order_by(Unit.finished, Unit.id)
        )  # fmt: skip
        with self._reading() as connection:
            return [UnitRow(*row[:-1], json.loads(row.versions or "{}")) for row in connection.execute(query)]

    def run_spec(self, run: str) -> RunSpec | None:
        """The spec of the run with this hash: all it takes to compute it again."""
        found = self._scalar(select(Run.spec).where(Run.hash == run))
        return None if found is None else RunSpec.model_validate_json(found)

    def run_specs(self, study: str) -> dict[str, RunSpec]:
        """Hash: spec of the runs of the study with this hash, in its order."""
        query = select(Run.hash, Run.spec).join(StudyRun, StudyRun.run_id == Run.id)
        query = query.join(Study, Study.id == StudyRun.study_id).where(Study.hash == study)
        with self._reading() as connection:
            rows = connection.execute(query.order_by(StudyRun.position))
            return {run: RunSpec.model_validate_json(spec) for run, spec in rows}

    def run_status(self, run: str) -> RunStatus | None:
        """Status of the run with this hash; None when it is unknown here."""
        return cast(RunStatus | None, self._scalar(select(Run.status).where(Run.hash == run)))

    def studies(self) -> list[StudyRow]:
        """All studies, the last launched first."""
        query = (
            select(
                Study.hash,
                Study.name,
                Study.saved,
                func.count(Run.id).filter(Run.status == "done"),
                func.count(Run.id),
            )
            .outerjoin(StudyRun, StudyRun.study_id == Study.id)
            .outerjoin(Run, Run.id == StudyRun.run_id)
            .group_by(Study.id)
            .order_by(desc(Study.saved), desc(Study.id))
        )
        with self._reading() as connection:
            return [StudyRow._make(row) for row in connection.execute(query)]

    def study_spec(self, study: str) -> StudySpec | None:
        """The study with this hash, to launch it again."""
        found = self._scalar(select(Study.spec).where(Study.hash == study))
        return None if found is None else StudySpec.model_validate_json(found)

    def pending(self, runs: Iterable[RunSpec], samples: bool = False) -> list[PendingRun]:
        """Those of the runs that miss units, with the units they miss: what an EvaluateJob is made of.

        What another run has measured alike is not missing: saving the study takes it over.
        """
        with self._reading() as connection:
            missing = missing_of({run.content_hash(): run for run in runs}, connection, samples)
            alike = twins(missing, connection)
        found: list[PendingRun] = []
        for name, run in missing.items():
            stored = {unit for unit in run.units if (name, unit) in alike and (alike[name, unit].suits or not samples)}
            if units := tuple(unit for unit in run.units if unit not in stored):
                found.append(PendingRun(spec=run.spec, units=units))
        return found

    def unit_seconds(self, runs: Iterable[RunSpec], hardware: str = "") -> dict[str, float]:
        """`measurement_key` of the runs' units: median seconds of the stored units that are alike, on all hardware or
        that of this name; those with none are left out."""
        runs = tuple(runs)
        wanted = {measurement_key(run, unit) for run in runs for unit in run.evaluation.units}
        models = {run.model.content_hash() for run in runs}
        units = {unit for run in runs for unit in run.evaluation.units}
        query = (
            select(Run.spec, Unit.unit, Unit.seconds)
            .join(Unit, Unit.run_id == Run.id)
            .join(Model, Model.id == Run.model_id)
            .outerjoin(Environment, Environment.id == Unit.environment_id)
            .where(Model.hash.in_(models), Unit.unit.in_(units))
        )
        if hardware:
            query = query.where(Environment.hardware == hardware)
        found: dict[str, list[float]] = {}
        parsed = cache(readable_spec)
        with self._reading() as connection:
            for text, unit, seconds in connection.execute(query):
                if (spec := parsed(text)) is not None:
                    found.setdefault(measurement_key(spec, unit), []).append(seconds)
        return {key: statistics.median(seconds) for key, seconds in found.items() if key in wanted}

    def samples(self, run: str, unit: str) -> list[SampleRecord]:
        """Every document of one unit of the run with this hash, in the order of task and number; empty where they were
        not asked for."""
        query = (
            select(Sample.task, Sample.doc, Sample.scores, Sample.target, Sample.response)
            .join(Unit, Unit.id == Sample.unit_id)
            .join(Run, Run.id == Unit.run_id)
            .where(Run.hash == run, Unit.unit == unit)
            .order_by(Sample.task, Sample.doc)
        )
        read = cache(json.loads)  # thousands of answers that are right or wrong have few different ones
        with self._reading() as connection:
            return [
                SampleRecord(
                    task=row.task, doc=row.doc, scores=read(row.scores), target=row.target, response=row.response
                )
                for row in connection.execute(query)
            ]

    # ---- layers --------------------------------------------------------------------------------------------------

    def layer_map(self, run: str, metric: str = "sparsity", unit: str = "") -> LayerMap | None:
        """A metric of a run over layers x projections, as measured during `unit` or, unless given, its first unit."""
        query = (
            select(Unit.unit, LayerStat.layer, LayerStat.projection, LayerStat.value)
            .join(Unit, Unit.id == LayerStat.unit_id)
            .join(Run, Run.id == Unit.run_id)
            .where(Run.hash == run, LayerStat.metric == metric)
            .order_by(Unit.id, LayerStat.id)
        )
        if unit:
            query = query.where(Unit.unit == unit)
        with self._reading() as connection:
            rows = connection.execute(query).all()
        if not rows:
            return None
        first = rows[0][0]
        cells = {(layer, projection): value for name, layer, projection, value in rows if name == first}
        projections = tuple(dict.fromkeys(projection for _, projection in cells))
        layers = 1 + max(layer for layer, _ in cells)
        table = tuple(tuple(cells.get((row, column), math.nan) for column in projections) for row in range(layers))
        return LayerMap(first, projections, table)

    def error_curves(
        self, model: ModelSource, rotation: RotationSpec, method: MethodSpec, metric: str = "relative_error"
    ) -> tuple[Curve, ...]:
        """The curves of the latest calibration, whatever its text; empty when there is none."""
        query = _calibrations(model, rotation, method).order_by(desc(Calibration.recorded), desc(Calibration.id))
        with self._reading() as connection:
            found = connection.execute(query.limit(1)).first()
            records = () if found is None else _layers(connection, LayerStat.calibration_id == found.id)
        chosen = [record for record in records if record.metric == metric and record.x is not None]
        chosen.sort(key=lambda record: record.layer)  # stable: projections keep their order
        curves: dict[tuple[int, str], list[tuple[float, float]]] = {}
        for record in chosen:
            curves.setdefault((record.layer, record.projection), []).append((record.x or 0.0, record.value))
        return tuple(
            Curve(layer, projection, *(tuple(axis) for axis in zip(*sorted(points), strict=True)))
            for (layer, projection), points in curves.items()
        )

    # ---- latency -------------------------------------------------------------------------------------------------

    def latency_rows(self, environment: str = "", points: Collection[str] | None = None) -> list[LatencyRow]:
        """Timed products in the order in which they were first measured: of all environments or the one with this
        key, and of all points or those with these hashes."""
        columns = [getattr(Latency, name) for name in LatencyRow._fields[:-3]]
        query = select(*columns, Environment.device, Environment.hardware, Latency.hash)
        query = query.join(Environment, Environment.id == Latency.environment_id).order_by(Latency.id)
        rows = (LatencyRow._make(row) for row in self._timed(query, environment))
        return [row for row in rows if points is None or row.point in points]

    def decode_rows(self, environment: str = "", points: Collection[str] | None = None) -> list[DecodeRow]:
        """Timed models; as `latency_rows`."""
        columns = [getattr(Decoding, name) for name in DecodeRow._fields[3:-3]]
        labels = Model.label, Decoding.rotation_label, Decoding.method_label
        query = select(*labels, *columns, Environment.device, Environment.hardware, Decoding.hash)
        query = query.join(Model, Model.id == Decoding.model_id)
        query = query.join(Environment, Environment.id == Decoding.environment_id).order_by(Decoding.id)
        rows = (DecodeRow._make(row) for row in self._timed(query, environment))
        return [row for row in rows if points is None or row.point in points]

    def measured_points(self, points: Collection[str]) -> dict[str, tuple[str, ...]]:
        """`Environment.key`: those of the points with these hashes that are stored for it."""
        found: dict[str, list[str]] = {}
        for table in (Latency, Decoding):
            query = select(Environment.hash, table.hash).join(Environment, Environment.id == table.environment_id)
            for environment, point in self._timed(query):
                if point in points:
                    found.setdefault(environment, []).append(point)
        return {environment: tuple(hashes) for environment, hashes in found.items()}

    def _timed(self, query: Query, environment: str = "") -> list[Any]:
        with self._reading() as connection:
            return list(connection.execute(query.where(Environment.hash == environment) if environment else query))

    # ---- what was prepared before --------------------------------------------------------------------------------

    def recent_models(self, limit: int = 20) -> list[ModelRow]:
        """The models that were opened last, each location once."""
        latest = select(Model.location, func.max(Model.opened).label("opened")).group_by(Model.location).subquery()
        query = (
            select(Model.spec, Model.summary, Model.opened)
            .join(latest, and_(latest.c.location == Model.location, latest.c.opened == Model.opened))
            .where(Model.summary.is_not(None))
            .order_by(desc(Model.opened), desc(Model.id))
            .limit(limit)
        )
        with self._reading() as connection:
            return [
                ModelRow(ModelSource.model_validate_json(spec), ModelSummary.model_validate_json(summary), opened)
                for spec, summary, opened in connection.execute(query)
                if summary is not None and opened is not None
            ]

    def rotations(self, model: ModelSource) -> list[RotationRow]:
        """The rotations that were computed of a model, the latest first."""
        query = (
            select(Rotation)
            .join(Model, Model.id == Rotation.model_id)
            .where(Model.hash == model.content_hash())
            .order_by(desc(Rotation.recorded), desc(Rotation.id))
        )
        with self._reading() as connection:
            return [
                RotationRow(
                    RotationSpec.model_validate_json(row.spec),
                    RotationReport(
                        rotation=row.hash,
                        logits_deviation=row.logits_deviation,
                        residuals=_layers(connection, LayerStat.rotation_id == row.id),
                        shortcut_parameters=row.shortcut_parameters,
                        seconds=row.seconds,
                        exported_to=row.exported_to,
                    ),
                    row.recorded,
                )
                for row in connection.execute(query).all()
            ]

    def find_calibration(
        self, model: ModelSource, rotation: RotationSpec, method: MethodSpec, spec: CalibrationSpec
    ) -> CalibrationRecord | None:
        """The stored calibration of exactly this, if there is one."""
        query = _calibrations(model, rotation, method).where(Calibration.hash == spec.content_hash())
        with self._reading() as connection:
            found = connection.execute(query).first()
            if found is None:
                return None
            layers = _layers(connection, LayerStat.calibration_id == found.id)
        return CalibrationRecord(key=found.key, tokens=found.tokens, layers=layers, seconds=found.seconds)

    def list_plans(self) -> list[PlanRow]:
        """The named plans, the last saved first."""
        query = select(Plan.name, Plan.origin, Plan.budget, Plan.saved).order_by(desc(Plan.saved), desc(Plan.id))
        with self._reading() as connection:
            return [PlanRow._make(row) for row in connection.execute(query)]

    def load_plan(self, name: str) -> SparsityPlan:
        """The plan of this name; WinaError when there is none. `plan.for_layout` tells whether it fits a model."""
        found = self._scalar(select(Plan.plan).where(Plan.name == name))
        if found is None:
            raise WinaError(f"There is no saved sparsity plan called {name!r}; choose one of the saved plans.")
        return SparsityPlan.model_validate_json(found)

    def _scalar(self, query: Query) -> str | None:
        with self._reading() as connection:
            found: str | None = connection.execute(query).scalar()
        return found


def _calibrations(model: ModelSource, rotation: RotationSpec, method: MethodSpec) -> Query:
    return (
        select(Calibration)
        .join(Model, Model.id == Calibration.model_id)
        .where(
            Model.hash == model.content_hash(),
            Calibration.rotation_hash == rotation.content_hash(),
            Calibration.method_label == method.label,
        )
    )


def _layers(connection: Connection, owner: ColumnElement[bool]) -> tuple[LayerRecord, ...]:
    query = select(LayerStat.layer, LayerStat.projection, LayerStat.metric, LayerStat.value, LayerStat.x)
    return tuple(
        LayerRecord(layer=layer, projection=projection, metric=metric, value=value, x=x)
        for layer, projection, metric, value, x in connection.execute(query.where(owner).order_by(LayerStat.id))
    )
