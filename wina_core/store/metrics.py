"""Queries on stored metrics."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Select, case, func, select, type_coerce

from wina_core.records.intervals import FEWEST_ROWS
from wina_core.store.rows import MetricFilter, MetricRow
from wina_core.store.sql import CellError, in_list, kinds_of
from wina_core.store.tables import MeasureTable, MetricTable, ModelTable, RunTable, StudyRunTable, StudyTable, UnitTable

Query = Select[*tuple[Any, ...]]


def in_study(query: Query, study: str) -> Query:
    query = query.join(StudyRunTable, StudyRunTable.run_id == RunTable.id)
    return query.join(StudyTable, StudyTable.id == StudyRunTable.study_id).where(StudyTable.hash == study)


OF_MODEL_AND_RUN = {
    "run": RunTable.hash,
    "model": ModelTable.label,
    "rotation": func.coalesce(RunTable.chosen_rotation, RunTable.rotation_label),
    "method": RunTable.method_label,
    "selection": RunTable.selection,
    "plan": RunTable.plan_provenance,
    "target_sparsity": RunTable.target_sparsity,
    "settings": RunTable.settings,
    "status": RunTable.status,
    "model_hash": ModelTable.hash,
    "chosen_on_evaluation": RunTable.chosen_on_evaluation,
    "superseded": RunTable.superseded,
}
OF_UNIT = {
    "gated_sparsity": UnitTable.gated_sparsity,
    "net_sparsity": UnitTable.net_sparsity,
    "finished": UnitTable.finished,
    "unit": UnitTable.unit,
    "seconds": UnitTable.seconds,
}
_MEASURE_NAMES = "task", "metric", "n", "higher_is_better", "version", "num_fewshot", "prompt_hash", "truncated"
OF_MEASURE = {name: getattr(MeasureTable, name) for name in _MEASURE_NAMES}
_STDERR = type_coerce(case((MeasureTable.n < FEWEST_ROWS, None), else_=MetricTable.stderr), MetricTable.stderr.type)
"""Standard errors of fewer values are hidden, not lost."""
_COLUMNS: dict[str, Any] = OF_MODEL_AND_RUN | OF_UNIT | OF_MEASURE | {"value": MetricTable.value, "stderr": _STDERR}


def metric_rows(metric_filter: MetricFilter, connection: Connection) -> list[MetricRow]:
    """Return the wanted metrics in the order in which they arrived: for few rows, without loading pandas."""
    query: Query = (
        select(*(_COLUMNS[name] for name in MetricRow._fields))
        .select_from(MetricTable)
        .join(MeasureTable, MeasureTable.id == MetricTable.measure_id)
        .join(UnitTable, UnitTable.id == MetricTable.unit_id)
        .join(RunTable, RunTable.id == UnitTable.run_id)
        .join(ModelTable, ModelTable.id == RunTable.model_id)
        .order_by(UnitTable.id, MetricTable.id)
    )
    query = _filter_runs(query, metric_filter)
    query = query.where(MeasureTable.task.in_(metric_filter.tasks)) if metric_filter.tasks else query
    query = query.where(MeasureTable.metric.in_(metric_filter.metrics)) if metric_filter.metrics else query
    return [MetricRow._make(row) for row in connection.execute(query)]


def runs_query(metric_filter: MetricFilter) -> Query:
    query: Query = select(RunTable.id, *OF_MODEL_AND_RUN.values()).join(ModelTable, ModelTable.id == RunTable.model_id)
    return _filter_runs(query, metric_filter).order_by(RunTable.id)


def units_query(metric_filter: MetricFilter) -> Query:
    query: Query = select(UnitTable.id, UnitTable.run_id, *OF_UNIT.values()).join(
        RunTable, RunTable.id == UnitTable.run_id
    )
    query = query.join(ModelTable, ModelTable.id == RunTable.model_id) if metric_filter.models else query
    return _filter_runs(query, metric_filter).order_by(UnitTable.id)


def measures_query() -> Query:
    return select(MeasureTable.id, *OF_MEASURE.values()).order_by(MeasureTable.id)


def _filter_runs(query: Query, metric_filter: MetricFilter) -> Query:
    """Leave out deleted runs and those that are not wanted."""
    query = query.where(RunTable.deleted.is_(None))
    if metric_filter.study:
        query = in_study(query, metric_filter.study)
    for column, values in (
        (RunTable.hash, metric_filter.runs),
        (ModelTable.hash, metric_filter.models),
        (RunTable.rotation_label, metric_filter.rotations),
        (RunTable.method_label, metric_filter.methods),
        (RunTable.selection, metric_filter.selections),
    ):
        query = query.where(in_list(column, values)) if values else query
    return query


def check_cells(rows: Sequence[Any], columns: Mapping[str, Any]) -> None:
    """Raise CellError for a cell of `driver_rows` that its column cannot hold; `columns` are the last of each row."""
    for position, (name, column) in enumerate(reversed(list(columns.items())), start=1):
        if not {type(row[-position]) for row in rows} <= kinds_of(column):
            raise CellError(f"the type of a {name}")


def driver_rows(connection: Connection, query: Query) -> Sequence[Any]:
    # SQLAlchemy's rows and types take too long for hundreds of thousands; `check_cells` checks the types instead.
    return connection.execute(query).cursor.fetchall()
