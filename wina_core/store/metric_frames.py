"""Stored metrics: as rows, for few of them, and as a DataFrame with categorical columns, with a cache of it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Connection, Select, case, func, select, type_coerce

from wina_core.records.intervals import FEWEST_ROWS
from wina_core.store.rows import MetricFilter, MetricRow, RunDetails
from wina_core.store.tables import (
    CellError,
    MeasureTable,
    MetricTable,
    ModelTable,
    RunTable,
    StudyRunTable,
    StudyTable,
    UnitTable,
    in_list,
    kinds_of,
)

if TYPE_CHECKING:  # pandas takes seconds to import; the command line and the window's first paint do without
    import pandas as pd

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


# ---- frames ----------------------------------------------------------------------------------------------------------


_FLOATS = frozenset(("target_sparsity", "gated_sparsity", "net_sparsity", "finished", "seconds"))
_DTYPES = dict.fromkeys(MetricRow._fields, "category") | {"value": "float64", "stderr": "float64"}


def metrics_frame(rows: Iterable[MetricRow]) -> "pd.DataFrame":
    """Return one line per row, with MetricRow's fields as columns; absent cells are NaN, or have no category."""
    return table_frame(list(rows), MetricRow._fields)


def table_frame(rows: Sequence[Any], names: tuple[str, ...]) -> "pd.DataFrame":
    """Return rows of tuples as a DataFrame; columns named like a field of MetricRow get its dtype."""
    import pandas as pd

    cells = zip(*rows, strict=True) if rows else ((),) * len(names)
    return pd.DataFrame({name: _column(name, list(column)) for name, column in zip(names, cells, strict=True)})


def _column(name: str, cells: list[Any]) -> Any:
    import numpy as np
    import pandas as pd

    dtype = _DTYPES.get(name)
    if name == "higher_is_better":  # databases have 0 and 1
        cells = [None if cell is None else bool(cell) for cell in cells]
    if dtype == "category":
        codes, categories = pd.factorize(np.array(cells, np.float64 if name in _FLOATS else object))
        return pd.Categorical.from_codes(codes, pd.Index(categories, dtype=categories.dtype))
    return pd.Series(cells, dtype=dtype or "int64").array


def metric_rows_of(frame: "pd.DataFrame") -> list[MetricRow]:
    """Return the frame's lines as rows, absent values as None: the reverse of `metrics_frame`."""
    return list(map(MetricRow._make, zip(*(cells_of(frame[name]) for name in MetricRow._fields), strict=True)))


def cells_of(series: "pd.Series[Any]") -> list[Any]:
    """Return the cells of a column of `metrics_frame` as Python's own objects, absent ones as None."""
    import numpy as np

    if series.dtype == "category":
        if len(series) < len(series.cat.categories):  # a few rows of many
            series = series.cat.remove_unused_categories()
        categories = np.array([*series.cat.categories, None], object)
        return list(categories[series.array.codes])
    if series.dtype == "float64":
        cells: list[Any] = series.tolist()
        return [None if cell != cell else cell for cell in cells] if series.name == "stderr" else cells
    return list(series.array.to_numpy(dtype=object, na_value=None))


def details_frame(details: Mapping[str, RunDetails]) -> "pd.DataFrame":
    """Return one line per run, indexed by its hash, with RunDetails' fields as categorical columns."""
    import pandas as pd

    frame = pd.DataFrame.from_dict(dict(details), orient="index", columns=list(RunDetails._fields))
    return frame.astype("category")


# ---- cache: hundreds of thousands of metrics are listed repeatedly while a study is computed -------------------------


_AT_ONCE = 500
"""Ids in one query; databases limit the values of a query, old versions of SQLite to 999."""
_CHUNK = 5_000
"""Rows that are fetched at once."""
_NUMBERS = {"unit_id": "uint32", "measure_id": "uint32", "value": "float64", "stderr": "float64"}
"""Columns of the numbers, which are in the order of their ids."""


class _Listing(NamedTuple):
    metric_filter: MetricFilter
    heads: int
    """Hash of the rows of runs, units and measures, which are too large to keep for comparison."""
    frame: "pd.DataFrame"


class MetricsCache:
    """The numbers that were listed before: only those of new and changed units are read again. A unit is stored as a
    whole, and its time of storage changes whenever it is computed again."""

    def __init__(self) -> None:
        self._known: tuple[dict[int, float], pd.DataFrame] | None = None
        """Time at which each known unit was finished, by its id, and the numbers of these units."""
        self._last: _Listing | None = None

    def list(self, metric_filter: MetricFilter, connection: Connection) -> "pd.DataFrame":
        """Return the wanted metrics, in the order in which they arrived, with MetricRow's fields as columns.

        The frame of the last call is returned if nothing has changed since: do not modify it.
        """
        # Tasks and metrics are chosen in the frame, so that one frame serves all choices.
        of_runs = replace(metric_filter, tasks=(), metrics=())
        runs, units, measures = (
            driver_rows(connection, query) for query in (runs_query(of_runs), units_query(of_runs), measures_query())
        )
        last, heads = self._last, hash((tuple(runs), tuple(units), tuple(measures)))
        if last is None or last[:2] != (of_runs, heads):
            finished = {row[0]: row[4] for row in units}
            for rows, cells in ((units, OF_UNIT), (runs, OF_MODEL_AND_RUN), (measures, OF_MEASURE)):
                check_cells(rows, cells)
            tables = (
                table_frame(units, ("unit_id", "run_id", *OF_UNIT)),
                table_frame(runs, ("run_id", *OF_MODEL_AND_RUN)),
                table_frame(measures, ("measure_id", *OF_MEASURE)),
            )
            del runs, units, measures  # ten times as large as the tables
            last = self._last = _Listing(of_runs, heads, _joined(*tables, self._numbers_of(finished, connection)))
        frame = last.frame
        for column, values in (("task", metric_filter.tasks), ("metric", metric_filter.metrics)):
            frame = frame[frame[column].isin(values)].reset_index(drop=True) if values else frame
        return frame

    def _numbers_of(self, finished: dict[int, float], connection: Connection) -> "pd.DataFrame":
        """Return the numbers of these units, and of others; new and changed units are read.

        `finished` has the time at which each unit was finished, by its id.
        """
        import pandas as pd

        times, numbers = self._known or ({}, None)  # both in one assignment: other threads may be listing
        unknown = [unit for unit, when in finished.items() if times.get(unit) != when]
        if unknown or numbers is None:
            new = _read_numbers(unknown, len(finished), connection)
            if numbers is not None:
                new = pd.concat([numbers[~numbers["unit_id"].isin(unknown)], new], ignore_index=True)
            numbers = new
            self._known = times | {unit: finished[unit] for unit in unknown}, numbers
        return numbers


def _joined(
    units: "pd.DataFrame", runs: "pd.DataFrame", measures: "pd.DataFrame", numbers: "pd.DataFrame"
) -> "pd.DataFrame":
    """Return the numbers of the units, in their order, with what the tables have of them. Raises CellError for a unit
    whose run is missing."""
    measures["is_hidden"] = measures["n"].astype("float64") < FEWEST_ROWS
    of_units = units.merge(runs, on="run_id")
    if len(of_units) < len(units):
        raise CellError("a unit without its run")
    # The small tables first: there may be a million numbers.
    frame = numbers.sort_values("unit_id", kind="stable").merge(of_units, on="unit_id").merge(measures, on="measure_id")
    frame["stderr"] = frame["stderr"].mask(frame["is_hidden"])
    return frame[list(MetricRow._fields)]


def _read_numbers(units: Sequence[int], of: int, connection: Connection) -> "pd.DataFrame":
    """Read all metrics of these units, of `of` that are listed."""
    import numpy as np
    import pandas as pd

    query: Query = select(MetricTable.unit_id, MetricTable.measure_id, MetricTable.value, MetricTable.stderr).order_by(
        MetricTable.id
    )
    reads_all = 2 * len(units) > of > _AT_ONCE  # which is faster than selecting most of them by id
    portions = [] if reads_all else [units[start : start + _AT_ONCE] for start in range(0, len(units), _AT_ONCE)]
    queries = [query] if reads_all else [query.where(MetricTable.unit_id.in_(portion)) for portion in portions]
    chunks = [pd.DataFrame(np.empty((0, len(_NUMBERS))), columns=list(_NUMBERS)).astype(_NUMBERS)]
    for selected in queries:
        cursor = connection.execute(selected).cursor
        while rows := cursor.fetchmany(_CHUNK):
            try:
                table = np.array(rows, np.float64)  # None becomes NaN; ids stay exact up to 2**53
            except (ValueError, TypeError) as error:
                raise CellError(f"a metric's number ({error})") from error
            chunks.append(pd.DataFrame(table, columns=list(_NUMBERS)).astype(_NUMBERS))
    numbers = pd.concat(chunks, ignore_index=True)
    return numbers[numbers["unit_id"].isin(units)] if reads_all else numbers
