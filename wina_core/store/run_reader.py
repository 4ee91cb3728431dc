"""The queries on runs and the studies that they belong to; runs that were deleted are in none of the lists."""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from pydantic import BaseModel
from sqlalchemy import Connection, Engine, and_, desc, func, select

from wina_core.errors import WinaError
from wina_core.records import ACTIVE, EXPERT_METRICS, RunStatus
from wina_core.specs import AllocatedSparsity, MethodSpec, ModelSource, RotationSpec, RunSpec
from wina_core.specs.plans import PlanLayout, SparsityPlan
from wina_core.specs.quantization import PlanPair
from wina_core.specs.studies import StudySpec
from wina_core.store.connection import explained
from wina_core.store.metric_frames import Query, in_study
from wina_core.store.rows import CellStat, RunDetails, RunLayerMap, RunRow, StudyRow, UnitRow
from wina_core.store.tables import (
    CalibrationTable,
    CellError,
    EnvironmentTable,
    LayerStatTable,
    ModelTable,
    RotationTable,
    RunTable,
    SampleTable,
    StudyLabelTable,
    StudyRunTable,
    StudyTable,
    UnitTable,
)
from wina_core.studies.run_labels import RunLabel


def rotation_details(rotation: RotationSpec) -> str:
    """Describe a rotation with all its settings; empty for none. `RotationSpec.label` leaves out the usual ones."""
    if rotation.is_identity:
        return ""
    if rotation.is_auto:
        return rotation.label
    words: list[str] = [rotation.mode]
    if rotation.matrices:
        words.append(f"matrices of {rotation.matrices}")
    elif rotation.mode != "none":
        by_names = f"attention {'+'.join(rotation.attention_basis)}, mlp {'+'.join(rotation.mlp_basis)}"
        words.append("sites weighted by sensitivity" if rotation.weighting == "sensitivity" else by_names)
    if rotation.per_head:
        words.append("per head")
    if rotation.fold_norms != "none":
        words.append(f"norms folded ({rotation.fold_norms})")
    if not rotation.matrices and rotation.objective != "eigen":
        noise = f" and {rotation.noise_bits} bits" if rotation.noise_bits != 16 else ""
        words.append(f"refined on {rotation.objective}{noise}, {rotation.steps} steps")
    if rotation.reads_text:
        words.append(f"reads {rotation.text.tokens:,} tokens of {rotation.text.label}")
    return ", ".join(words)


def _studies(connection: Connection) -> dict[int, str]:
    """Return the names of each run's studies, in the order in which they were stored, by the run's id."""
    query = (
        select(StudyRunTable.run_id, StudyTable.name)
        .join(StudyTable, StudyTable.id == StudyRunTable.study_id)
        .order_by(StudyTable.id)
    )
    names: dict[int, str] = {}
    for run, name in connection.execute(query):
        before = names.get(run)
        names[run] = name if before is None else f"{before}, {name}"
    return names


# ---- readers ---------------------------------------------------------------------------------------------------------

S = TypeVar("S")
T = TypeVar("T", bound=BaseModel)


PRESENT = RunTable.deleted.is_(None)
_DONE = select(UnitTable.run_id, func.count().label("units")).group_by(UnitTable.run_id).subquery()
_RUNS: Query = (
    select(
        *(RunTable.hash, ModelTable.label, RunTable.configuration_label, RunTable.selection),
        *(RunTable.plan_provenance, RunTable.target_sparsity, RunTable.settings, RunTable.status),
        *(func.coalesce(_DONE.c.units, 0), RunTable.unit_count, RunTable.error, RunTable.created),
        *(RunTable.started, RunTable.finished, EnvironmentTable.device, EnvironmentTable.hardware, RunTable.deleted),
    )
    .join(ModelTable, ModelTable.id == RunTable.model_id)
    .outerjoin(_DONE, _DONE.c.run_id == RunTable.id)
    .outerjoin(EnvironmentTable, EnvironmentTable.id == RunTable.environment_id)
)
"""Columns of a RunRow."""


_STAT = (
    LayerStatTable.metric,
    LayerStatTable.layer,
    LayerStatTable.projection,
    LayerStatTable.x,
    LayerStatTable.value,
)
"""Columns of a CellStat."""
_MOST_LAYERS = 100_000
"""Far above any model: a larger number of a layer is damage, and would make a huge table."""


class RunReader:
    """Queries on runs and studies, which are named by their hashes; may be called from any thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._rotations: dict[str, str] = {}
        """Descriptions of the runs' rotations by the runs' hashes. A run's spec never changes, so it is read once."""

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with explained(self._engine.url), self._engine.connect() as connection:
            yield connection

    def _parsed(self, query: Query, kind: type[T]) -> T | None:
        """Return the JSON in the query's one cell as a `kind`; None without a row."""
        with self._reading() as connection:
            text: str | None = connection.execute(query).scalar()
            return None if text is None else kind.model_validate_json(text)

    def _rows(self, query: Query, make: Callable[[Iterable[Any]], S]) -> list[S]:
        with self._reading() as connection:
            return list(map(make, connection.execute(query)))

    def _scalar(self, query: Query) -> str | None:
        with self._reading() as connection:
            text: str | None = connection.execute(query).scalar()
        return text

    def runs(self, study: str = "") -> list[RunRow]:
        """Return all runs, or those of the study with this hash in its order."""
        if study:
            return self._rows(in_study(_RUNS.where(PRESENT), study).order_by(StudyRunTable.position), RunRow._make)
        return self._rows(_RUNS.where(PRESENT).order_by(RunTable.id), RunRow._make)

    def deleted_runs(self) -> list[RunRow]:
        """Return the runs that can be restored, the last deleted first."""
        return self._rows(_RUNS.where(~PRESENT).order_by(desc(RunTable.deleted), RunTable.id), RunRow._make)

    def planned_runs(self, model: ModelSource, limit: int = 30) -> list[RunRow]:
        """Return a model's latest sparse runs that are not superseded, one for each configuration, plan and budget."""
        sparse = PRESENT & (RunTable.target_sparsity > 0) & (RunTable.superseded == "")
        latest = (
            select(func.max(RunTable.id))
            .join(ModelTable, and_(ModelTable.id == RunTable.model_id, ModelTable.hash == model.content_hash()))
            .where(sparse)
            .group_by(RunTable.configuration_label, RunTable.plan_provenance, RunTable.target_sparsity)
        )
        return self._rows(_RUNS.where(RunTable.id.in_(latest)).order_by(desc(RunTable.id)).limit(limit), RunRow._make)

    def run_labels(self, study: str) -> list[RunLabel]:
        """Return the labels of the runs of the study with this hash, in its order; empty if none were stored."""
        query = (
            select(RunTable.hash, StudyLabelTable.model, StudyLabelTable.configuration, StudyLabelTable.allocation)
            .join(RunTable, RunTable.id == StudyLabelTable.run_id)
            .join(StudyTable, StudyTable.id == StudyLabelTable.study_id)
            .where(StudyTable.hash == study, PRESENT)
            .order_by(StudyLabelTable.id)
        )
        return self._rows(query, RunLabel._make)

    def has_samples(self, study: str) -> bool:
        """Return whether single documents' scores are stored of any run of the study with this hash."""
        query = (
            select(SampleTable.id)
            .join(UnitTable, UnitTable.id == SampleTable.unit_id)
            .join(RunTable, RunTable.id == UnitTable.run_id)
            .where(PRESENT)
            .limit(1)
        )
        with self._reading() as connection:
            return connection.execute(in_study(query, study)).first() is not None

    def units(self, study: str) -> list[UnitRow]:
        """Return the finished units of the runs of the study with this hash, in the order of their ends."""
        query = (
            select(
                *(RunTable.hash, UnitTable.unit, UnitTable.seconds, UnitTable.finished),
                *(UnitTable.gated_sparsity, UnitTable.net_sparsity),
                *(EnvironmentTable.device, EnvironmentTable.hardware, EnvironmentTable.versions),
            )
            .join(RunTable, RunTable.id == UnitTable.run_id)
            .outerjoin(EnvironmentTable, EnvironmentTable.id == UnitTable.environment_id)
            .where(PRESENT)
            .order_by(UnitTable.finished, UnitTable.id)
        )
        with self._reading() as connection:
            rows = connection.execute(in_study(query, study))
            return [UnitRow._make((*row[:-1], json.loads(row.versions or "{}"))) for row in rows]

    def run_spec(self, run: str) -> RunSpec | None:
        return self._parsed(select(RunTable.spec).where(RunTable.hash == run), RunSpec)

    def run_specs(self, study: str) -> dict[str, RunSpec]:
        """Return the specs of the runs of the study with this hash, in its order, by hash."""
        query = in_study(select(RunTable.hash, RunTable.spec).where(PRESENT), study)
        with self._reading() as connection:
            rows = connection.execute(query.order_by(StudyRunTable.position))
            return {run: RunSpec.model_validate_json(spec) for run, spec in rows}

    def superseded_runs(self, study: str) -> frozenset[str]:
        """Return the hashes of those runs of the study with this hash whose numbers are superseded."""
        query = select(RunTable.hash).where(RunTable.superseded != "")
        with self._reading() as connection:
            return frozenset(connection.scalars(in_study(query, study)))

    def run_status(self, run: str) -> RunStatus | None:
        return cast(RunStatus | None, self._scalar(select(RunTable.status).where(RunTable.hash == run)))

    def owned_runs(self, owner: str) -> frozenset[str]:
        """Return the hashes of the queued and running runs of an owner."""
        query = select(RunTable.hash).where(RunTable.owner == owner, RunTable.status.in_(ACTIVE))
        with self._reading() as connection:
            return frozenset(connection.scalars(query))

    def failed_runs(self) -> dict[str, str]:
        """Return the errors of the runs that failed last time, by hash."""
        query = select(RunTable.hash, RunTable.error).where(PRESENT, RunTable.status == "failed")
        with self._reading() as connection:
            return {run: error or "" for run, error in connection.execute(query)}

    def studies(self) -> list[StudyRow]:
        """Return all studies, the last launched first."""
        query = (
            select(
                StudyTable.hash,
                StudyTable.name,
                StudyTable.saved,
                func.count(RunTable.id).filter(RunTable.status == "done"),
                func.count(RunTable.id),
            )
            .outerjoin(StudyRunTable, StudyRunTable.study_id == StudyTable.id)
            .outerjoin(RunTable, and_(RunTable.id == StudyRunTable.run_id, PRESENT))
            .group_by(StudyTable.id)
            .order_by(desc(StudyTable.saved), desc(StudyTable.id))
        )
        return self._rows(query, StudyRow._make)

    def study_spec(self, study: str) -> StudySpec | None:
        return self._parsed(select(StudyTable.spec).where(StudyTable.hash == study), StudySpec)

    def run_details(self) -> dict[str, RunDetails]:
        """Return the details of all runs that are not deleted, by hash."""
        query = (
            select(
                *(RunTable.id, RunTable.hash, RunTable.tags, RunTable.note, RunTable.pinned, RunTable.seed),
                *(EnvironmentTable.hardware, RunTable.user, RunTable.host, RunTable.chosen_rotation),
            )
            .outerjoin(EnvironmentTable, EnvironmentTable.id == RunTable.environment_id)
            .where(PRESENT)
        )
        with self._reading() as connection:
            rows = connection.execute(query).all()
            self._describe_rotations(connection, {row.hash: row.id for row in rows})
            studies = _studies(connection)
            return {
                row.hash: RunDetails(
                    tags=row.tags,
                    note=row.note,
                    pinned=row.pinned,
                    seed=row.seed,
                    hardware=row.hardware or "",
                    studies=studies.get(row.id, ""),
                    rotation=row.chosen_rotation or self._rotations[row.hash],
                    user=row.user,
                    host=row.host,
                )
                for row in rows
            }

    def _describe_rotations(self, connection: Connection, runs: Mapping[str, int]) -> None:
        """Describe the rotations of the runs that are new among these, which have their ids by hash."""
        unknown = [number for run, number in runs.items() if run not in self._rotations]
        if not unknown:
            return
        described: dict[str, str] = {}
        # Ids grow, so these are usually the new runs alone, and the query needs no list of ids.
        for run, spec in connection.execute(select(RunTable.hash, RunTable.spec).where(RunTable.id >= min(unknown))):
            if run not in self._rotations:
                if not isinstance(spec, str):
                    raise CellError("a spec that is no text")
                # Thousands of runs share the part before the plan, which contains the rotation.
                head = spec.partition('"plan":')[0]
                if head not in described:
                    content = json.loads(spec)
                    if not isinstance(content, dict):
                        raise CellError(f"the spec {spec[:40]!r}")
                    described[head] = rotation_details(RotationSpec.model_validate(content.get("rotation")))
                self._rotations[run] = described[head]

    # ---- cells and plans ------------------------------------------------------------------------------------------

    def layer_map(self, run: str, metric: str = "sparsity", unit: str = "") -> RunLayerMap | None:
        """Return a metric of a run over layers x projections, as measured during `unit` or else its first unit."""
        query = (
            select(UnitTable.unit, LayerStatTable.layer, LayerStatTable.projection, LayerStatTable.value)
            .join(UnitTable, UnitTable.id == LayerStatTable.unit_id)
            .join(RunTable, RunTable.id == UnitTable.run_id)
            .where(RunTable.hash == run, LayerStatTable.metric == metric)
            .order_by(UnitTable.id, LayerStatTable.id)
        )
        if unit:
            query = query.where(UnitTable.unit == unit)
        with self._reading() as connection:
            rows = connection.execute(query).all()
            if not all(0 <= row.layer < _MOST_LAYERS for row in rows):
                raise CellError("the number of a layer")
        if not rows:
            return None
        first = rows[0][0]
        cells = {(layer, projection): value for name, layer, projection, value in rows if name == first}
        projections = tuple(dict.fromkeys(projection for _, projection in cells))
        layers = 1 + max(layer for layer, _ in cells)
        table = tuple(tuple(cells.get((row, column), math.nan) for column in projections) for row in range(layers))
        return RunLayerMap(first, projections, table)

    def cells_stamp(self, model: ModelSource, rotation: RotationSpec, method: MethodSpec) -> tuple[float, ...]:
        """Return a value that changes whenever `cell_stats` does, and is read faster."""
        with self._reading() as connection:
            owners = _calibrations(model, rotation, method), _rotation(model, rotation)
            return tuple(row.recorded for query in owners for row in connection.execute(query))

    def cell_stats(self, model: ModelSource, rotation: RotationSpec, method: MethodSpec) -> list[CellStat]:
        """Return each metric of the latest calibration with it, else of the rotation, in the order of measurement."""
        stats: list[CellStat] = []
        with self._reading() as connection:
            calibrations = connection.execute(_calibrations(model, rotation, method))
            owners = [LayerStatTable.calibration_id == row.id for row in calibrations]
            owners += [LayerStatTable.rotation_id == row.id for row in connection.execute(_rotation(model, rotation))]
            for owner in owners:
                query = select(*_STAT).where(owner, LayerStatTable.metric.not_in({row.metric for row in stats}))
                stats += [CellStat._make(row) for row in connection.execute(query.order_by(LayerStatTable.id))]
        return stats

    def expert_stats(self, run: str) -> list[CellStat]:
        """Return EXPERT_METRICS of a run, with the expert as x, as measured during its first unit that has some."""
        query = (
            select(UnitTable.id, *_STAT)
            .join(UnitTable, UnitTable.id == LayerStatTable.unit_id)
            .join(RunTable, RunTable.id == UnitTable.run_id)
            .where(RunTable.hash == run, LayerStatTable.metric.in_(EXPERT_METRICS))
            .order_by(UnitTable.id, LayerStatTable.id)
        )
        with self._reading() as connection:
            rows = connection.execute(query).all()
        return [CellStat._make(row[1:]) for row in rows if row[0] == rows[0][0]]

    def run_plan(self, run: str, layout: PlanLayout) -> PlanPair:
        """Return the plan of the run with this hash, and its model's quantization. Raises WinaError for an unknown run,
        a plan of another layout, and one that is to be allocated and not stored yet."""
        spec = self.run_spec(run)
        if spec is None:
            raise WinaError(f"No run {run} is stored; choose one of the stored runs.")
        if isinstance(spec.plan, AllocatedSparsity):
            plan = _allocated_plan(self.layer_map(run, "target"), self.layer_map(run, "rho"), layout)
        else:
            plan = spec.plan.for_layout(layout)
        return PlanPair(plan=plan, quantization=spec.model.quantization)


def _allocated_plan(targets: RunLayerMap | None, rho: RunLayerMap | None, layout: PlanLayout) -> SparsityPlan:
    """Return the table that an allocator found for a run. Raises WinaError if none of this layout is stored."""
    if targets is None or targets.projections != layout.projections or len(targets.values) != layout.layers:
        raise WinaError("The table of this run's plan is not stored yet; evaluate it first, or choose another run.")
    return SparsityPlan(
        layout=layout, sparsity=targets.values, provenance="a stored run's", rho=None if rho is None else rho.values
    )


def _calibrations(model: ModelSource, rotation: RotationSpec, method: MethodSpec) -> Query:
    """Select calibrations, the latest first."""
    return (
        select(CalibrationTable.id, CalibrationTable.recorded)
        .join(ModelTable, ModelTable.id == CalibrationTable.model_id)
        .where(
            ModelTable.hash == model.content_hash(),
            CalibrationTable.rotation_hash == rotation.content_hash(),
            CalibrationTable.method_label == method.label,
        )
        .order_by(desc(CalibrationTable.recorded), desc(CalibrationTable.id))
    )


def _rotation(model: ModelSource, rotation: RotationSpec) -> Query:
    return (
        select(RotationTable.id, RotationTable.recorded)
        .join(ModelTable, ModelTable.id == RotationTable.model_id)
        .where(ModelTable.hash == model.content_hash(), RotationTable.hash == rotation.content_hash())
    )
