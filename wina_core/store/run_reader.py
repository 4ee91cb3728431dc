"""The queries on runs and the studies that they belong to; runs that were deleted are in none of the lists."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar, cast

from pydantic import BaseModel
from sqlalchemy import Connection, Engine, and_, desc, func, select

from wina_core.records import RunStatus
from wina_core.specs import RunSpec
from wina_core.specs.studies import StudySpec
from wina_core.store.connection import explained
from wina_core.store.details import RunDetailRows
from wina_core.store.metric_rows import RunDetails
from wina_core.store.metrics import Query
from wina_core.store.rows import DeletedRow, RunRow, StudyRow, UnitRow
from wina_core.store.tables import Environment, Model, Run, Sample, Study, StudyLabel, StudyRun, Unit
from wina_core.studies.run_labels import RunLabel

# Base class of the database's readers.

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
