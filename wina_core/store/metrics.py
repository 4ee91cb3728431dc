"""Queries on stored metrics."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Select, case, func, select, type_coerce

from wina_core.records.intervals import FEWEST_ROWS
from wina_core.store.among import among
from wina_core.store.column_types import CellError, kinds_of
from wina_core.store.metric_rows import MetricRow
from wina_core.store.rows import MetricFilter
from wina_core.store.tables import Measure, Metric, Model, Run, Study, StudyRun, Unit

Query = Select[*tuple[Any, ...]]

OF_MODEL_AND_RUN = {
    "run": Run.hash, "model": Model.label, "rotation": func.coalesce(Run.chosen_rotation, Run.rotation_label),
    "method": Run.method_label, "selection": Run.selection, "plan": Run.plan_provenance,
    "target_sparsity": Run.target_sparsity, "settings": Run.settings, "status": Run.status, "model_hash": Model.hash,
    "chosen_on_evaluation": Run.chosen_on_evaluation, "superseded": Run.superseded,
}  # fmt: skip
OF_UNIT = {
    "gated_sparsity": Unit.gated_sparsity, "net_sparsity": Unit.net_sparsity, "finished": Unit.finished,
    "unit": Unit.unit, "seconds": Unit.seconds,
}  # fmt: skip
OF_MEASURE = {
    "task": Measure.task, "metric": Measure.metric, "n": Measure.n, "higher_is_better": Measure.higher_is_better,
    "version": Measure.version, "num_fewshot": Measure.num_fewshot, "prompt_hash": Measure.prompt_hash,
    "truncated": Measure.truncated,
}  # fmt: skip
_STDERR = type_coerce(case((Measure.n < FEWEST_ROWS, None), else_=Metric.stderr), Metric.stderr.type)
"""Standard errors of fewer values are hidden, not lost."""
_COLUMNS: dict[str, Any] = OF_MODEL_AND_RUN | OF_UNIT | OF_MEASURE | {"value": Metric.value, "stderr": _STDERR}


def metric_rows(wanted: MetricFilter, connection: Connection) -> list[MetricRow]:
    """Return the wanted metrics in the order in which they arrived: for few rows, without loading pandas."""
    query: Query = (
        select(*(_COLUMNS[name] for name in MetricRow._fields))
        .select_from(Metric)
        .join(Measure, Measure.id == Metric.measure_id)
        .join(Unit, Unit.id == Metric.unit_id)
        .join(Run, Run.id == Unit.run_id)
        .join(Model, Model.id == Run.model_id)
        .order_by(Unit.id, Metric.id)
    )
    query = _ofruns(query, wanted)
    query = query.where(Measure.task.in_(wanted.tasks)) if wanted.tasks else query
    query = query.where(Measure.metric.in_(wanted.metrics)) if wanted.metrics else query
    return [MetricRow._make(row) for row in connection.execute(query)]


def runs_query(wanted: MetricFilter) -> Query:
    query: Query = select(Run.id, *OF_MODEL_AND_RUN.values()).join(Model, Model.id == Run.model_id)
    return _ofruns(query, wanted).order_by(Run.id)


def units_query(wanted: MetricFilter) -> Query:
    query: Query = select(Unit.id, Unit.run_id, *OF_UNIT.values()).join(Run, Run.id == Unit.run_id)
    query = query.join(Model, Model.id == Run.model_id) if wanted.models else query
    return _ofruns(query, wanted).order_by(Unit.id)


def measures_query() -> Query:
    return select(Measure.id, *OF_MEASURE.values()).order_by(Measure.id)


def _ofruns(query: Query, wanted: MetricFilter) -> Query:
    """Leave out deleted runs and those that are not wanted."""
    query = query.where(Run.deleted.is_(None))
    if wanted.study:
        query = query.join(StudyRun, StudyRun.run_id == Run.id).join(Study, Study.id == StudyRun.study_id)
        query = query.where(Study.hash == wanted.study)
    for column, values in (
        (Run.hash, wanted.runs),
        (Model.hash, wanted.models),
        (Run.rotation_label, wanted.rotations),
        (Run.method_label, wanted.methods),
        (Run.selection, wanted.selections),
        (Run.status, wanted.statuses),
    ):
        query = query.where(among(column, values)) if values else query
    return query


def check_cells(rows: Sequence[Any], columns: Mapping[str, Any]) -> None:
    """Raise CellError for a cell of `driver_rows` that its column cannot hold; `columns` are the last of each row."""
    for place, (name, column) in enumerate(reversed(list(columns.items())), start=1):
        if not {type(row[-place]) for row in rows} <= kinds_of(column):
            raise CellError(name)


def driver_rows(connection: Connection, query: Query) -> Sequence[Any]:
    """Fetch rows as the driver has them: there are hundreds of thousands."""
    return connection.execute(query).cursor.fetchall()
