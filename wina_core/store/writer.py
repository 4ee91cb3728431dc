"""Everything that is written to a database."""

import json
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import URL, Connection, Engine, and_, delete, func, insert, select, update

from wina_core.errors import WinaError
from wina_core.jobs import PendingRun, Submit
from wina_core.records import (
    ACTIVE,
    CalibrationRecord,
    DecodeRecord,
    Environment,
    ExpertRecord,
    LatencyRecord,
    LayerRecord,
    MetricRecord,
    ModelSummary,
    RotationReport,
    RunStatus,
    UnitRecord,
)
from wina_core.records.completions import CompletionRecord
from wina_core.records.imports import ImportedFile
from wina_core.specs import (
    CalibrationSpec,
    DivergenceSpec,
    MethodSpec,
    ModelSource,
    Quantization,
    RotationSpec,
    RunSpec,
)
from wina_core.specs.plans import SparsityPlan
from wina_core.specs.quantization import PlanPair
from wina_core.specs.studies import StudySpec
from wina_core.store import annotations as run_annotations
from wina_core.store import columns, completions
from wina_core.store import jobs as unfinished_jobs
from wina_core.store.annotations import Annotations, RunAnnotations
from wina_core.store.connection import explained, for_writing
from wina_core.store.reader import Reader, unknown_plan
from wina_core.store.reuse import copy_units, missing_of, reusable_units
from wina_core.store.sessions import program_identity
from wina_core.store.tables import (
    CalibrationTable,
    CompletionTable,
    DecodingTable,
    EnvironmentTable,
    ImportedFileTable,
    LatencyTable,
    LayerStatTable,
    MeasureTable,
    MetricTable,
    ModelTable,
    PlanTable,
    RotationTable,
    RunTable,
    SampleTable,
    StoreTable,
    StudyLabelTable,
    StudyRunTable,
    StudyTable,
    UnitTable,
    in_list,
    is_active,
    update_stopped_runs,
)
from wina_core.studies.run_labels import LabelledRun, RunLabel


class Writer(Reader):
    """A database to write to. Each method is one transaction; other processes may write in between."""

    _session: str
    """Name of this process's session, which owns the runs that it queues."""

    def __init__(self, url: URL, engine: Engine) -> None:
        super().__init__(engine)
        self.url = url

    # ---- studies and their runs ----------------------------------------------------------------------------------

    def save_study(self, study: StudySpec, runs: Sequence[RunSpec | LabelledRun]) -> str:
        """Store a study about to be launched and queue those of its `runs` that miss units; return its hash.

        Runs that other studies share are stored once; those that wait or are being computed already stay as they are.
        The labels of LabelledRuns are stored with the study.
        """
        with self._writing() as connection:
            return self._save_study(connection, study, runs)

    def _save_study(self, connection: Connection, study: StudySpec, runs: Sequence[RunSpec | LabelledRun]) -> str:
        labels = [run.label for run in runs if isinstance(run, LabelledRun)]
        specs = [run.spec if isinstance(run, LabelledRun) else run for run in runs]
        row: dict[str, Any] = {"hash": study.content_hash(), "name": study.name, "spec": study.model_dump_json()}
        row["saved"] = time.time()
        study_id = _upsert(connection, StudyTable, ("hash",), row)
        connection.execute(delete(StudyRunTable).where(StudyRunTable.study_id == study_id))
        connection.execute(delete(StudyLabelTable).where(StudyLabelTable.study_id == study_id))
        ids = self._queue(connection, specs, time.time())
        positions = [
            {"study_id": study_id, "run_id": run_id, "position": position}
            for position, run_id in enumerate(ids.values())
        ]
        if positions:
            connection.execute(insert(StudyRunTable), positions)
        if labels:
            named = [{"study_id": study_id, "run_id": ids[run], **names} for run, names in map(_names, labels)]
            connection.execute(insert(StudyLabelTable), named)
        return study.content_hash()

    def launch(self, study: StudySpec, runs: Sequence[RunSpec | LabelledRun], pending: Sequence[PendingRun]) -> str:
        """Save a study as `save_study` and queue its `pending` runs as `queue_runs`; return the study's hash."""
        with self._writing() as connection:
            name = self._save_study(connection, study, runs)
            self._queue_pending(connection, pending)
            return name

    def queue_runs(self, pending: Sequence[PendingRun]) -> None:
        """Queue stored runs that this program is about to compute, complete ones too; those that are queued or running
        stay as they are until this program begins them."""
        with self._writing() as connection:
            self._queue_pending(connection, pending)

    def _queue_pending(self, connection: Connection, pending: Sequence[PendingRun]) -> None:
        names = {run.spec.content_hash() for run in pending}
        idle = in_list(RunTable.hash, names) & RunTable.status.not_in(ACTIVE)
        connection.execute(update(RunTable).where(idle).values(self._queued()))

    def _queued(self) -> dict[str, Any]:
        return {"status": "queued", "owner": self._session, **program_identity(), "error": "", "finished": None}

    def begin_run(self, run: str, environment: Environment | None) -> None:
        """Record that the run with this hash is being computed on `environment`."""
        with self._writing() as connection:
            values = {"status": "running", "started": time.time(), "finished": None, "error": ""}
            if environment is not None:
                values["environment_id"] = _environment(connection, environment)
            self._update_run(connection, run, values | {"owner": self._session, **program_identity()})

    def record_unit(self, record: UnitRecord) -> None:
        """Store a finished unit as a whole, in place of an earlier one; its run is done once none is missing."""
        now = time.time()
        with self._writing() as connection:
            run = connection.execute(
                select(RunTable.id, RunTable.unit_count, RunTable.environment_id).where(RunTable.hash == record.run)
            ).first()
            if run is None:
                raise WinaError(_unknown_run(record.run))
            same = (UnitTable.run_id == run.id) & (UnitTable.unit == record.unit)
            # Its metrics, samples and layers go with it, by their foreign keys.
            connection.execute(delete(UnitTable).where(same))
            unit = {
                "run_id": run.id,
                "unit": record.unit,
                "seconds": record.seconds,
                "gated_sparsity": record.gated_sparsity,
                "net_sparsity": record.net_sparsity,
                "environment_id": run.environment_id,
                "finished": now,
            }
            unit_id = _insert(connection, UnitTable, unit)
            if record.metrics:
                measures = _measures(connection, record.metrics)
                metrics = [
                    {"unit_id": unit_id, "measure_id": measure, "value": metric.value, "stderr": metric.stderr}
                    for metric, measure in zip(record.metrics, measures, strict=True)
                ]
                connection.execute(insert(MetricTable), metrics)
            _insert_layers(connection, record.layers, record.experts, unit_id=unit_id)
            if record.samples:
                samples = [
                    sample.model_dump() | {"unit_id": unit_id, "scores": json.dumps(sample.scores)}
                    for sample in record.samples
                ]
                connection.execute(insert(SampleTable), samples)
            stored = connection.scalar(select(func.count(UnitTable.id)).where(UnitTable.run_id == run.id))
            if stored == run.unit_count:
                self._update_run(connection, record.run, {"status": "done", "finished": now, "error": ""})

    def finish_run(self, run: str, status: RunStatus, error: str = "") -> None:
        """Record the end of the run with this hash: with `status`, or done if all units had been stored before."""
        values = {"status": status, "finished": time.time(), "error": error}
        with self._writing() as connection:
            if not update_stopped_runs(connection, RunTable.hash == run, values):
                raise WinaError(_unknown_run(run))

    def end_runs(self, runs: Iterable[str], status: RunStatus, error: str = "", owner: str | None = None) -> None:
        """Record the end of the queued and running ones of the runs with these hashes, as `finish_run`; with an
        `owner`, only of that owner's."""
        runs_to_end = is_active(runs) if owner is None else is_active(runs) & (RunTable.owner == owner)
        with self._writing() as connection:
            update_stopped_runs(connection, runs_to_end, {"status": status, "finished": time.time(), "error": error})

    def hand_over(self, runs: Collection[str], owner: str) -> None:
        with self._writing() as connection:
            connection.execute(update(RunTable).where(is_active(runs)).values(owner=owner))

    # ---- jobs that have not ended --------------------------------------------------------------------------------

    def keep_jobs(self, jobs: Iterable[Submit]) -> None:
        """Keep jobs, with their runs, as this program's until `forget_jobs`."""
        with self._writing() as connection:
            for submit in jobs:
                unfinished_jobs.keep(connection, submit, self._session)

    def forget_jobs(self, jobs: Collection[str]) -> None:
        with self._writing() as connection:
            unfinished_jobs.forget(connection, jobs)

    # ---- what a user writes on runs ------------------------------------------------------------------------------

    def annotate_runs(
        self, annotations: Annotations, only: Collection[str] = RunAnnotations._fields, seen: Annotations | None = None
    ) -> None:
        """Replace tags, note and pin of these runs, or `only` these fields.

        Changes of their tags by another program or window since they were `seen` stay.
        """
        with self._writing() as connection:
            run_annotations.annotate(connection, annotations, only, seen)

    def delete_runs(self, runs: Sequence[str]) -> float:
        """Take the runs with these hashes out of all lists. Raises WinaError if one is queued or running.

        Returns the time of the deletion, by which `restore_runs` restores exactly these.
        """
        with self._writing() as connection:
            return run_annotations.hide(connection, runs)

    def restore_runs(self, runs: Sequence[str], deleted: float | None = None) -> None:
        """Restore deleted runs with their numbers: all of these, or those that were `deleted` at this time."""
        with self._writing() as connection:
            run_annotations.unhide(connection, runs, deleted)

    def purge_deleted(self) -> int:
        with self._writing() as connection:
            return run_annotations.erase(connection)

    # ---- models, rotations, calibrations, plans ------------------------------------------------------------------

    def record_model(self, source: ModelSource, summary: ModelSummary) -> None:
        """Record the summary of a model that was opened, and the time."""
        with self._writing() as connection:
            opened = time.time()
            row = columns.model_columns(source) | {"summary": summary.model_dump_json(), "opened": opened}
            _upsert(connection, ModelTable, ("hash",), row)

    def record_rotation(self, model: ModelSource, spec: RotationSpec, report: RotationReport) -> None:
        """Record a rotation that was computed, in place of an earlier report on it."""
        with self._writing() as connection:
            row = {
                "model_id": _model_id(connection, model),
                "hash": spec.content_hash(),
                "label": spec.label,
                "spec": spec.model_dump_json(),
                "report": report.model_dump_json(),
                "recorded": time.time(),
            }
            rotation_id = _upsert(connection, RotationTable, ("model_id", "hash"), row)
            connection.execute(delete(LayerStatTable).where(LayerStatTable.rotation_id == rotation_id))
            _insert_layers(connection, report.residuals, rotation_id=rotation_id)
            if spec.is_auto and report.choice is not None:
                name = report.choice.candidates[report.choice.chosen].name
                # Runs that were stored before `auto` had chosen lack its choice.
                runs = (RunTable.model_id == row["model_id"]) & (RunTable.rotation_label == spec.label)
                connection.execute(update(RunTable).where(runs).values(chosen_rotation=f"{spec.label}: {name}"))

    def record_calibration(
        self,
        model: ModelSource,
        rotation: RotationSpec,
        method: MethodSpec,
        spec: CalibrationSpec | DivergenceSpec,
        record: CalibrationRecord,
    ) -> None:
        """Record a calibration, or an allocator's curves, in place of an earlier one of the same spec."""
        with self._writing() as connection:
            row = {
                "model_id": _model_id(connection, model),
                "rotation_hash": rotation.content_hash(),
                "method_label": method.label,
                "hash": spec.content_hash(),
                "spec": spec.model_dump_json(),
                "key": record.key,
                "tokens": record.tokens,
                "seconds": record.seconds,
                "recorded": time.time(),
            }
            same = ("model_id", "rotation_hash", "method_label", "hash")
            calibration_id = _upsert(connection, CalibrationTable, same, row)
            connection.execute(delete(LayerStatTable).where(LayerStatTable.calibration_id == calibration_id))
            _insert_layers(connection, record.layers, record.experts, calibration_id=calibration_id)

    def save_plan(self, name: str, plan: SparsityPlan, quantization: Quantization | None = None) -> None:
        """Store a plan, and the bits that belong to it, under a name, in place of an earlier one of that name."""
        text = PlanPair(plan=plan, quantization=quantization).text(indent=None)
        with self._writing() as connection:
            row = {"name": name, "plan": text, "provenance": plan.provenance, "budget": plan.budget}
            _upsert(connection, PlanTable, ("name",), row | {"saved": time.time()})

    def delete_plan(self, name: str) -> None:
        """Delete the plan of this name. Raises WinaError if none is stored."""
        with self._writing() as connection:
            if connection.execute(delete(PlanTable).where(PlanTable.name == name)).rowcount == 0:
                raise WinaError(unknown_plan(name))

    # ---- latency -------------------------------------------------------------------------------------------------

    def record_latency(self, record: LatencyRecord) -> None:
        """Record a timed product, in place of an earlier timing on the same environment."""
        with self._writing() as connection:
            _upsert(connection, LatencyTable, ("hash", "environment_id"), self._timing(connection, record))

    def record_decoding(self, record: DecodeRecord) -> None:
        """Record a model's timed decoding, in place of an earlier timing on the same environment."""
        with self._writing() as connection:
            row = self._timing(connection, record) | {
                "model_id": _model_id(connection, record.point.model),
                "rotation_label": record.point.rotation.label,
                "method_label": record.point.method.label,
            }
            _upsert(connection, DecodingTable, ("hash", "environment_id"), row)

    def _timing(self, connection: Connection, record: LatencyRecord | DecodeRecord) -> dict[str, Any]:
        return {
            "hash": record.point.content_hash(),
            "environment_id": _environment(connection, record.environment),
            "record": record.model_dump_json(exclude={"environment"}),
            "recorded": time.time(),
        }

    # ---- completions ---------------------------------------------------------------------------------------------

    def record_completion(self, record: CompletionRecord) -> None:
        """Record a completion in place of an earlier one on its environment; a stopped one replaces no whole one."""
        with self._writing() as connection:
            environment = record.environment and _environment(connection, record.environment)
            row = completions.columns_of(record) | {"environment_id": environment}
            if not completions.is_superseded(connection, row):
                row["model_id"] = _model_id(connection, record.point.model)
                row["recorded"] = time.time()
                _upsert(connection, CompletionTable, ("hash", "environment_id"), row)

    def delete_completions(self, ids: Collection[int]) -> None:
        """Delete completions, as `completions.erase_completions`. Raises WinaError for an unknown id."""
        with self._writing() as connection:
            completions.erase_completions(connection, ids)

    # ---- results of other tools ----------------------------------------------------------------------------------

    def record_import(self, file: ImportedFile, model: ModelSource) -> int:
        """Store another tool's file, matched to a model, and return its id. Raises WinaError if it is stored."""
        self.check_new_import(file)
        with self._writing() as connection:
            row = {"model_id": _model_id(connection, model), "digest": file.digest, "content": file.model_dump_json()}
            return _insert(connection, ImportedFileTable, row | {"imported": time.time()})

    def remove_imports(self, ids: Collection[int]) -> None:
        """Remove imported files with their points. Raises WinaError, and removes none, for an unknown id."""
        with self._writing() as connection:
            stored_ids = set(connection.scalars(select(ImportedFileTable.id)))
            for unknown in set(ids) - stored_ids:
                stored = f"stored ones: {', '.join(map(str, sorted(stored_ids)))}" if stored_ids else "none is stored"
                raise WinaError(f"There is no import number {unknown}; {stored}.")
            connection.execute(delete(ImportedFileTable).where(ImportedFileTable.id.in_(ids)))

    # ---- inside --------------------------------------------------------------------------------------------------

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with explained(self.url), for_writing(self._engine).begin() as connection:
            yield connection

    def _queue(self, connection: Connection, runs: Iterable[RunSpec], now: float) -> dict[str, int]:
        """Store new runs, queue those that miss units, and return the ids of all by hash."""
        runs_by_hash: dict[str, RunSpec] = {}
        for run in runs:
            # Tables of different origin have one hash if they are equal; the first is stored.
            runs_by_hash.setdefault(run.content_hash(), run)
        ours = in_list(RunTable.hash, runs_by_hash)
        # Before the stored runs are read: deleted ones begin anew, without their numbers.
        run_annotations.begin_anew(connection, runs_by_hash)
        stored = set(connection.scalars(select(RunTable.hash).where(ours)))
        models = {model: _model_id(connection, model) for model in {run.model for run in runs_by_hash.values()}}
        new = [
            columns.run_columns(run)
            | {"model_id": models[run.model], **self._queued(), "created": now}
            | {"status": "queued" if run.evaluation.units else "done"}
            for name, run in runs_by_hash.items()
            if name not in stored
        ]
        if new:
            connection.execute(insert(RunTable), new)
        unfinished = ours & RunTable.status.in_(("failed", "cancelled", "interrupted"))
        update_stopped_runs(connection, unfinished, self._queued())
        ids = {row.hash: row.id for row in connection.execute(select(RunTable.hash, RunTable.id).where(ours))}
        self._copy_units(connection, runs_by_hash, ids)
        return {name: ids[name] for name in runs_by_hash}

    def _copy_units(self, connection: Connection, runs: Mapping[str, RunSpec], ids: Mapping[str, int]) -> None:
        """Copy equal units of other runs to the runs that miss them; complete runs become done."""
        reusable = reusable_units(missing_of(runs, connection), connection).values()
        copy_units(connection, ((unit.stored, ids[unit.run]) for unit in reusable))
        # Those that still miss units keep their status.
        update_stopped_runs(
            connection, in_list(RunTable.hash, {unit.run for unit in reusable}), {"status": RunTable.status}
        )

    def _update_run(self, connection: Connection, run: str, values: dict[str, Any]) -> None:
        done = connection.execute(update(RunTable).where(RunTable.hash == run).values(values))
        if done.rowcount == 0:
            raise WinaError(_unknown_run(run))


def _names(label: RunLabel) -> tuple[str, dict[str, str]]:
    return label.run, {"model": label.model, "configuration": label.configuration, "allocation": label.allocation}


def _unknown_run(run: str) -> str:
    return f"The results database has no run {run}; save its study before computing it."


def _insert(connection: Connection, table: type[StoreTable], row: dict[str, Any]) -> int:
    key = connection.execute(insert(table).values(row)).inserted_primary_key
    assert key is not None
    return int(key[0])


def _insert_layers(
    connection: Connection, layers: Sequence[LayerRecord], experts: Sequence[ExpertRecord] = (), **owner: int
) -> None:
    """Store a row for each record, and one for each expert that has a value, with the expert's number as x."""
    rows = [record.model_dump() | owner for record in layers] + [
        expert.model_dump(exclude={"values"}) | {"value": value, "x": float(number)} | owner
        for expert in experts
        for number, value in enumerate(expert.values)
        if value is not None
    ]
    if rows:
        connection.execute(insert(LayerStatTable), rows)


def _upsert(connection: Connection, table: type[StoreTable], same: tuple[str, ...], row: dict[str, Any]) -> int:
    """Insert `row`, or update the one that agrees with it in the columns `same`; return its id."""
    where = and_(*(getattr(table, name) == row[name] for name in same))
    # One transaction writes at a time, so that no other one inserts between these two statements. ON CONFLICT would
    # insert a completion without an environment again, since NULL equals no NULL in a unique constraint.
    row_id = connection.execute(select(table.__table__.c.id).where(where)).scalar()
    if row_id is None:
        return _insert(connection, table, row)
    connection.execute(update(table).where(where).values(row))
    return int(row_id)


def _model_id(connection: Connection, source: ModelSource) -> int:
    return _upsert(connection, ModelTable, ("hash",), columns.model_columns(source))


def _environment(connection: Connection, environment: Environment) -> int:
    row = {
        "hash": environment.key,
        "device": environment.device,
        "hardware": environment.hardware,
        "versions": json.dumps(environment.versions, sort_keys=True),
    }
    return _upsert(connection, EnvironmentTable, ("hash",), row)


def _measures(connection: Connection, metrics: Sequence[MetricRecord]) -> list[int]:
    """Store new measures and return the id of each metric's."""
    rows = [columns.measure_columns(metric) for metric in metrics]
    rows_by_hash = {row["hash"]: row for row in rows}
    query = select(MeasureTable.hash, MeasureTable.id).where(MeasureTable.hash.in_(rows_by_hash))
    stored = {row.hash for row in connection.execute(query)}
    if new := [row for name, row in rows_by_hash.items() if name not in stored]:
        connection.execute(insert(MeasureTable), new)
    ids = {row.hash: row.id for row in connection.execute(query)}
    return [ids[row["hash"]] for row in rows]
