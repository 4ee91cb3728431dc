"""The queries on runs and the studies that they belong to; runs that were deleted are in none of the lists."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar, cast

from pydantic import BaseModel
from sqlalchemy import Connection, Engine, and_, desc, func, select

from wina_core.records import RunStatus
from wina_core.specs import RotationSpec, RunSpec
from wina_core.specs.studies import StudySpec
from wina_core.store.connection import explained
from wina_core.store.metric_rows import RunDetails
from wina_core.store.metrics import Query
from wina_core.store.rows import DeletedRow, RunRow, StudyRow, UnitRow
from wina_core.store.tables import Environment, Model, Run, Sample, Study, StudyLabel, StudyRun, Unit
from wina_core.studies.run_labels import RunLabel

# ---- details beside the numbers: annotations, studies, seed, hardware and rotation -----------------------------------


class RunDetailRows:
    """Details of all runs. The spec of a run never changes, so it is read and described only once."""

    def __init__(self) -> None:
        self._rotations: dict[str, str] = {}
        """By the run's hash."""

    def read(self, connection: Connection) -> dict[str, RunDetails]:
        """Return the details of all runs that are not deleted, by hash."""
        query = (
            select(
                *(Run.id, Run.hash, Run.tags, Run.note, Run.pinned, Run.seed),
                *(Environment.hardware, Run.user, Run.host, Run.chosen_rotation),
            )
            .outerjoin(Environment, Environment.id == Run.environment_id)
            .where(Run.deleted.is_(None))
        )
        found = connection.execute(query).all()
        self._read_rotations(connection, {row.hash: row.id for row in found})
        studies = _studies(connection)
        return {
            run: RunDetails(
                tags,
                note,
                pinned,
                seed,
                hardware or "",
                studies.get(number, ""),
                chosen or self._rotations[run],
                user,
                host,
            )
            for number, run, tags, note, pinned, seed, hardware, user, host, chosen in found
        }

    def _read_rotations(self, connection: Connection, runs: Mapping[str, int]) -> None:
        unknown = [number for run, number in runs.items() if run not in self._rotations]
        if unknown:
            described: dict[str, str] = {}
            query = select(Run.hash, Run.spec).where(Run.id >= min(unknown))  # ids grow: the new ones, as a rule
            for run, spec in connection.execute(query):
                if run not in self._rotations:
                    head = spec.partition('"plan":')[0]  # with the rotation, as thousands of runs have it
                    if head not in described:
                        rotation = RotationSpec.model_validate_json(json.dumps(json.loads(spec).get("rotation")))
                        described[head] = rotation_details(rotation)
                    self._rotations[run] = described[head]


def rotation_details(rotation: RotationSpec) -> str:
    """Describe a rotation with all its settings; empty for none. `RotationSpec.label` leaves out the usual ones."""
    if rotation.is_identity:
        return ""
    if rotation.is_auto:
        return rotation.label
    parts: list[str] = [rotation.mode]
    if rotation.matrices:
        parts.append(f"matrices of {rotation.matrices}")
    elif rotation.mode != "none":
        by_names = f"attention {'+'.join(rotation.attention_basis)}, mlp {'+'.join(rotation.mlp_basis)}"
        parts.append("sites weighted by sensitivity" if rotation.weighting == "sensitivity" else by_names)
    if rotation.per_head:
        parts.append("per head")
    if rotation.fold_norms != "none":
        parts.append(f"norms folded ({rotation.fold_norms})")
    if not rotation.matrices and rotation.objective != "eigen":
        noise = f" and {rotation.noise_bits} bits" if rotation.noise_bits != 16 else ""
        parts.append(f"refined on {rotation.objective}{noise}, {rotation.steps} steps")
    if rotation.reads_text:
        parts.append(f"reads {rotation.text.tokens:,} tokens of {rotation.text.label}")
    return ", ".join(parts)


def _studies(connection: Connection) -> dict[int, str]:
    """Return the names of each run's studies, in the order in which they were stored, by the run's id."""
    query = select(StudyRun.run_id, Study.name).join(Study, Study.id == StudyRun.study_id).order_by(Study.id)
    found: dict[int, str] = {}
    for run, name in connection.execute(query):
        before = found.get(run)
        found[run] = name if before is None else f"{before}, {name}"
    return found


# ---- readers ---------------------------------------------------------------------------------------------------------

T = TypeVar("T", bound=BaseModel)


class Reading:
    """A database to read from, on any thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with explained(self._engine.url), self._engine.connect() as connection:
            yield connection

    def _parsed(self, query: Query, kind: type[T]) -> T | None:
        """Return the JSON in the query's one cell as a `kind`; None where there is no row."""
        with self._reading() as connection:
            found: str | None = connection.execute(query).scalar()
            return None if found is None else kind.model_validate_json(found)

    def _scalar(self, query: Query) -> str | None:
        with self._reading() as connection:
            found: str | None = connection.execute(query).scalar()
        return found


PRESENT = Run.deleted.is_(None)


class RunReader(Reading):
    """Queries on runs and studies."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._details = RunDetailRows()

    def runs(self, study: str = "") -> list[RunRow]:
        """Return all runs, or those of the study with this hash in its order."""
        done = select(Unit.run_id, func.count().label("units")).group_by(Unit.run_id).subquery()
        query = (
            select(
                Run.hash, Model.label, Run.configuration_label, Run.selection, Run.plan_provenance, Run.target_sparsity,
                Run.settings, Run.status, func.coalesce(done.c.units, 0), Run.unit_count, Run.error, Run.created,
                Run.started, Run.finished, Environment.device, Environment.hardware,
            )
            .join(Model, Model.id == Run.model_id)
            .outerjoin(done, done.c.run_id == Run.id)
            .outerjoin(Environment, Environment.id == Run.environment_id)
            .where(PRESENT)
        )  # fmt: skip
        if study:
            query = query.join(StudyRun, StudyRun.run_id == Run.id).join(Study, Study.id == StudyRun.study_id)
            query = query.where(Study.hash == study).order_by(StudyRun.position)
        else:
            query = query.order_by(Run.id)
        with self._reading() as connection:
            return [RunRow._make(row) for row in connection.execute(query)]

    def run_labels(self, study: str) -> list[RunLabel]:
        """Return the labels of the runs of the study with this hash, in its order; empty where none were stored."""
        query = (
            select(Run.hash, StudyLabel.model, StudyLabel.configuration, StudyLabel.allocation)
            .join(Run, Run.id == StudyLabel.run_id)
            .join(Study, Study.id == StudyLabel.study_id)
            .where(Study.hash == study, PRESENT)
            .order_by(StudyLabel.id)
        )
        with self._reading() as connection:
            return [RunLabel._make(row) for row in connection.execute(query)]

    def has_samples(self, study: str) -> bool:
        """Return whether single documents' scores are stored of any run of the study with this hash."""
        query = (
            select(Sample.id)
            .join(Unit, Unit.id == Sample.unit_id)
            .join(Run, Run.id == Unit.run_id)
            .join(StudyRun, StudyRun.run_id == Run.id)
            .join(Study, Study.id == StudyRun.study_id)
            .where(Study.hash == study, PRESENT)
            .limit(1)
        )
        with self._reading() as connection:
            return connection.execute(query).first() is not None

    def units(self, study: str) -> list[UnitRow]:
        """Return the finished units of the runs of the study with this hash, in the order of their ends."""
        query = (
            select(
                Run.hash, Unit.unit, Unit.seconds, Unit.finished, Unit.gated_sparsity, Unit.net_sparsity,
                Environment.device, Environment.hardware, Environment.versions,
            )
            .join(Run, Run.id == Unit.run_id)
            .join(StudyRun, StudyRun.run_id == Run.id)
            .join(Study, Study.id == StudyRun.study_id)
            .outerjoin(Environment, Environment.id == Unit.environment_id)
            .where(Study.hash == study, PRESENT)
            .order_by(Unit.finished, Unit.id)
        )  # fmt: skip
        with self._reading() as connection:
            return [UnitRow(*row[:-1], json.loads(row.versions or "{}")) for row in connection.execute(query)]

    def run_spec(self, run: str) -> RunSpec | None:
        """Return the spec of the run with this hash; None for an unknown run."""
        return self._parsed(select(Run.spec).where(Run.hash == run), RunSpec)

    def run_specs(self, study: str) -> dict[str, RunSpec]:
        """Return the specs of the runs of the study with this hash, in its order, by hash."""
        query = select(Run.hash, Run.spec).join(StudyRun, StudyRun.run_id == Run.id)
        query = query.join(Study, Study.id == StudyRun.study_id).where(Study.hash == study, PRESENT)
        with self._reading() as connection:
            rows = connection.execute(query.order_by(StudyRun.position))
            return {run: RunSpec.model_validate_json(spec) for run, spec in rows}

    def superseded_runs(self, study: str) -> frozenset[str]:
        """Return the hashes of those runs of the study with this hash whose numbers are superseded."""
        query = select(Run.hash).join(StudyRun, StudyRun.run_id == Run.id).join(Study, Study.id == StudyRun.study_id)
        with self._reading() as connection:
            return frozenset(connection.scalars(query.where(Study.hash == study, Run.superseded != "")))

    def run_status(self, run: str) -> RunStatus | None:
        """Return the status of the run with this hash; None for an unknown run."""
        return cast(RunStatus | None, self._scalar(select(Run.status).where(Run.hash == run)))

    def failed_runs(self) -> dict[str, str]:
        """Return the errors of the runs that failed last time, by hash."""
        query = select(Run.hash, Run.error).where(PRESENT, Run.status == "failed")
        with self._reading() as connection:
            return {run: error or "" for run, error in connection.execute(query)}

    def studies(self) -> list[StudyRow]:
        """Return all studies, the last launched first."""
        query = (
            select(
                Study.hash,
                Study.name,
                Study.saved,
                func.count(Run.id).filter(Run.status == "done"),
                func.count(Run.id),
            )
            .outerjoin(StudyRun, StudyRun.study_id == Study.id)
            .outerjoin(Run, and_(Run.id == StudyRun.run_id, PRESENT))
            .group_by(Study.id)
            .order_by(desc(Study.saved), desc(Study.id))
        )
        with self._reading() as connection:
            return [StudyRow._make(row) for row in connection.execute(query)]

    def study_spec(self, study: str) -> StudySpec | None:
        """Return the study with this hash; None for an unknown one."""
        return self._parsed(select(Study.spec).where(Study.hash == study), StudySpec)

    def run_details(self) -> dict[str, RunDetails]:
        """Return the details of all runs, by hash."""
        with self._reading() as connection:
            return self._details.read(connection)

    def deleted_runs(self) -> list[DeletedRow]:
        """Return the runs that can be restored, the last deleted first."""
        query = (
            select(
                Run.hash, Model.label, Run.configuration_label, Run.plan_provenance, Run.target_sparsity, Run.deleted
            )
            .join(Model, Model.id == Run.model_id)
            .where(~PRESENT)
            .order_by(desc(Run.deleted), Run.id)
        )
        with self._reading() as connection:
            return [DeletedRow._make(row) for row in connection.execute(query)]
